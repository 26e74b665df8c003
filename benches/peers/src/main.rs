//! `cargo peers`: the same work in several ways, ours and published rivals', as ratios against
//! demands.

mod command;
mod machine;
mod measure;
mod moves;
mod random;
mod report;
mod slot;

use std::process::ExitCode;

use clap::Parser;
use clap::Subcommand;

/// The same work in several ways, ours and those of published rivals, timed side by side.
#[derive(Debug, Parser)]
#[command(name = "cargo peers", bin_name = "cargo peers")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Key to slot, and the checksum behind it, against published crates.
    Slot(slot::Options),
    /// Moves of whole slots against the same slot key by key, and what callers feel of both.
    Move(moves::Options),
}

/// What ends a run that could not be made; 1 is a goal that is SHORT.
const BROKEN: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Slot(options) => slot::run(&options),
        Command::Move(options) => moves::run(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(BROKEN)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
