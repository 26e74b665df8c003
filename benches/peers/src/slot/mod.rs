//! `cargo peers slot`: key to slot, and the checksum behind it, against what is published.

mod floors;
mod goals;
mod keys;
mod pages;
mod rivals;
mod table;
mod work;

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use slotkeep::crc16::Tier;

use crate::machine;
use crate::measure::Plan;
use crate::report;

/// What `cargo peers slot` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    /// Exit with 1 if a goal is SHORT.
    #[arg(long)]
    check: bool,
    /// Fewer and shorter rounds, and sweeps over fewer lengths: enough to warn.
    #[arg(long)]
    quick: bool,
    /// Write everything to this file as JSON too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the table of ratios by key length, in Markdown, instead of the goals.
    #[arg(long, conflicts_with_all = ["check", "json", "goal"])]
    table: bool,
    /// Measure only these goals, by number: `--goal 3,13b`.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    goal: Vec<String>,
}

/// Measures and prints; fails where the machine or the file system does.
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    let machine = Machine::here();
    machine.print(plan);
    if options.table {
        table::print(plan);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", report::heading());
    let mut entries = Vec::new();
    for goal in goals::all().iter().filter(|goal| options.asks_for(goal.id)) {
        for entry in goal.entries(plan) {
            println!("{entry}");
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        return Err("no goal has such a number".into());
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report::to_json(&machine.to_json(), &entries))?;
        fs::write(path, text + "\n")?;
    }
    let short = entries.iter().filter(|entry| entry.is_short()).count();
    println!("{short} SHORT of {} lines", entries.len());
    let failed = options.check && short > 0;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Options {
    fn asks_for(&self, id: &str) -> bool {
        self.goal.is_empty() || self.goal.iter().any(|goal| goal == id)
    }
}

/// What the figures depend on.
struct Machine {
    processor: String,
    core: Option<usize>,
    tiers: Vec<&'static str>,
    versions: Vec<String>,
}

impl Machine {
    /// This machine, with this thread bound to one core of it.
    fn here() -> Self {
        let packages: Vec<_> = ["slotkeep"].into_iter().chain(rivals::PACKAGES).collect();
        Self {
            processor: machine::processor(),
            core: machine::pin(),
            tiers: Tier::available().map(Tier::name).collect(),
            versions: machine::versions(&packages),
        }
    }

    fn print(&self, plan: Plan) {
        let core =
            self.core.map_or("not bound to a core".to_owned(), |core| format!("core {core}"));
        println!("processor  {}, {core}", self.processor);
        println!("tier       {} of {}", Tier::active().name(), self.tiers.join(", "));
        println!("versions   {}", self.versions.join(", "));
        println!("rounds     {} after a dropped one, seed {:#x}", plan.rounds, keys::SEED);
        println!();
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "processor": self.processor,
            "core": self.core,
            "tier": Tier::active().name(),
            "tiers": self.tiers,
            "versions": self.versions,
            "seed": keys::SEED,
        })
    }
}
