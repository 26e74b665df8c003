//! `cargo peers`: the same work on ours and on published rivals, as ratios against demands.

mod machine;
mod measure;
mod report;
mod slot;

use std::process::ExitCode;

use clap::Parser;
use clap::Subcommand;

/// The same work on ours and on published rivals, timed side by side in one process.
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
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Slot(options) => slot::run(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
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
