//! `cargo peers`: the same work in several ways, ours and published rivals', as ratios against
//! demands.

mod cache;
mod clients;
mod command;
mod engine;
mod gap;
mod heap;
mod load;
mod machine;
mod measure;
mod memory;
mod moves;
mod plot;
mod quiet;
mod random;
mod report;
mod slot;
mod stores;
mod twice;
mod ycsb;

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
    /// The engine against published maps and caches: throughput and latency.
    Engine(engine::Options),
    /// What an entry takes, against published maps and caches.
    Memory(memory::Options),
    /// The six mixes of YCSB, on ours and on published maps and caches.
    Ycsb(ycsb::Options),
    /// What bounded caches find, on traces of real systems and on generated ones; how fast they
    /// are.
    Cache(cache::Options),
}

/// What ends a run that could not be made; 1 is a goal that is SHORT.
const BROKEN: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Slot(options) => slot::run(&options),
        Command::Move(options) => moves::run(&options),
        Command::Engine(options) => engine::run(&options),
        Command::Memory(options) => memory::run(&options),
        Command::Ycsb(options) => ycsb::run(&options),
        Command::Cache(options) => cache::run(&options),
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
