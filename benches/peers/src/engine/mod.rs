//! `cargo peers engine`: the engine against published maps and caches, and a Redis on loopback.
//!
//! A million keys of 20 bytes with values of 64 to 100; a read returns an owned value, which is
//! held against what was written. Clients are bound to cores, two unless said, and walk over
//! scripts that were written down before.
//! The lines that count have the keys ready in memory, as they are when a request came in. Tables
//! marked K compose each key byte by byte just before its call, which halves everybody's speed.

mod cells;
mod crowd;
mod hot;
mod lab;
mod latency;
mod mixes;
mod noise;
mod numbers;
mod strict;
mod table;
mod wire;

pub use lab::Lab;
pub use lab::names;
pub use table::RATES;
pub use table::table;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::command::Flags;
use crate::machine;
use crate::plot;
use crate::report::Entry;
use crate::stores::PACKAGES;
use crate::twice::twice;

/// What `cargo peers engine` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,
    /// Draw the tables to this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// How a goal is measured.
type Measure = fn(&Lab) -> Vec<Entry>;

/// The goals, by number, in the order in which they are printed.
const GOALS: [(&str, Measure); 14] = [
    ("A/A", noise::entries),
    ("E1", cells::reads),
    ("E2", cells::mostly_reads),
    ("E3", cells::half_writes),
    ("E4", cells::mostly_reads_zipf),
    ("E5", cells::half_writes_zipf),
    ("E6", hot::entries),
    ("E7", latency::entries),
    ("E8", crowd::entries),
    ("E9", mixes::removes),
    ("E10", mixes::sizes),
    ("E11", mixes::deadlines),
    ("E12", numbers::entries),
    ("E13", strict::entries),
];

/// The last goal, which needs a program that may be missing.
const WIRE: &str = "E14";

/// Measures and prints; fails where the file system does.
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let lab = Lab::new(options.flags.plan().quick);
    machine::print(&PACKAGES);
    println!("entries    {}, seed {:#x}", lab.keys, crate::random::SEED);
    println!("rounds     {} of {:?} after a dropped one", lab.pace.rounds, lab.pace.turn);
    println!();
    let goals = GOALS.into_iter().chain([(WIRE, wire::entries as Measure)]);
    let lab = &lab;
    let entries = options.flags.entries(goals.map(|(id, of)| (id, move || twice(|| of(lab)))))?;
    if let Some(path) = &options.plot {
        plot::draw(path, &entries)?;
    }
    println!("load       {} at the end", machine::load());
    options.flags.close(&machine::to_json(&PACKAGES), &entries)
}
