//! `cargo peers move`: whole slots against the same slots key by key, and what callers feel of it.

mod stage;
mod traffic;
mod whole;

use std::error::Error;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::command::Flags;
use crate::machine;
use crate::measure::Plan;
use crate::random::SEED;
use crate::report::Entry;
use crate::report::Line;
use crate::twice::twice;

/// What `cargo peers move` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,
}

/// How a goal is measured.
type Measure = fn(Plan) -> Vec<Line>;

/// The goals, by number, in the order in which they are printed.
const GOALS: [(&str, Measure); 4] = [
    ("A/A", whole::noise),
    ("M1", whole::against_classic),
    ("M2", whole::flat),
    ("M3", traffic::lines),
];

/// Measures and prints; fails where the file system does.
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let plan = options.flags.plan();
    let (processor, versions) = (machine::processor(), machine::versions(&["slotkeep"]));
    println!("processor  {processor}");
    println!("versions   {}", versions.join(", "));
    println!("rounds     {} after a dropped one, of gets {}", plan.rounds, traffic::ROUNDS);
    println!();
    let machine = json!({ "processor": processor, "versions": versions, "seed": SEED });
    let entries = |measure: Measure| {
        measure(plan).into_iter().map(|line| Entry::Line(Box::new(line))).collect()
    };
    let goals = GOALS.iter().map(|&(id, measure)| (id, move || twice(|| entries(measure))));
    options.flags.measure(&machine, goals)
}
