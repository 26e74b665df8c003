//! `cargo peers slot`: key to slot, and the checksum behind it, against what is published.

mod floors;
mod goals;
mod keys;
mod pages;
mod places;
mod rivals;
mod table;
mod work;

use std::error::Error;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use slotkeep::crc16::Tier;

use crate::command::Flags;
use crate::machine;
use crate::measure::Plan;
use crate::random::SEED;
use crate::twice::again_by;

/// What `cargo peers slot` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,
    /// Print the table of ratios by key length, in Markdown, instead of the goals.
    #[arg(long, conflicts_with_all = ["check", "json", "goal"])]
    table: bool,
}

/// Measures and prints; fails where the machine or the file system does.
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let plan = options.flags.plan();
    let machine = Machine::here();
    machine.print(plan);
    if options.table {
        table::print(plan);
        return Ok(ExitCode::SUCCESS);
    }
    let goals = goals::all();
    let goals = goals
        .iter()
        .map(|goal| (goal.id, || again_by(|| goal.entries(plan), || goal.entries(plan.patient()))));
    options.flags.measure(&machine.to_json(), goals)
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
        println!("rounds     {} after a dropped one, seed {:#x}", plan.rounds, SEED);
        println!();
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "processor": self.processor,
            "core": self.core,
            "tier": Tier::active().name(),
            "tiers": self.tiers,
            "versions": self.versions,
            "seed": SEED,
        })
    }
}
