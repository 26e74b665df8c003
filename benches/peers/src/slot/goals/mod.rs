//! The goals: what is measured against whom, and how much better it has to be.

mod batch;
mod cold;
mod edge;
mod lengths;
mod long;
mod noise;
mod realistic;
mod short;
mod tiers;

use slotkeep::crc16::Tier;

use crate::measure::Plan;
use crate::report::Entry;
use crate::report::Line;

/// A goal with one or more lines.
pub struct Goal {
    /// Its number.
    pub id: &'static str,
    /// The tier without which it says nothing.
    needs: Needs,
    measure: fn(Plan) -> Vec<Line>,
}

/// What a goal needs of the machine.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    /// The demands are those of AVX-512 with GFNI, and this tier is in use.
    Active(&'static str),
    /// The tier is asked for by name.
    Available(&'static str),
}

impl Goal {
    const fn new(id: &'static str, needs: Needs, measure: fn(Plan) -> Vec<Line>) -> Self {
        Self { id, needs, measure }
    }

    /// Measures the goal, or says why this machine cannot.
    pub fn entries(&self, plan: Plan) -> Vec<Entry> {
        if let Some(reason) = self.needs.unmet() {
            return vec![Entry::Skip { id: self.id, reason }];
        }
        (self.measure)(plan).into_iter().map(|line| Entry::Line(Box::new(line))).collect()
    }
}

impl Needs {
    /// Why the goal cannot be measured here.
    fn unmet(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Active(name) => {
                let active = Tier::active().name();
                (active != name).then(|| format!("needs the tier {name}, {active} is active"))
            }
            Self::Available(name) => {
                tier(name).is_none().then(|| format!("the tier {name} does not run here"))
            }
        }
    }
}

/// Every goal, in the order in which they are printed.
pub fn all() -> [Goal; 19] {
    const WIDE: Needs = Needs::Active("wide");
    [
        Goal::new("A/A", Needs::Nothing, noise::lines),
        Goal::new("1", WIDE, realistic::mixed),
        Goal::new("2", WIDE, realistic::without_tag),
        Goal::new("3", WIDE, realistic::with_tag),
        Goal::new("4", WIDE, realistic::latency),
        Goal::new("5", WIDE, short::lines),
        Goal::new("6", WIDE, batch::of_16_bytes),
        Goal::new("7", WIDE, batch::of_32_bytes),
        Goal::new("8", WIDE, batch::against_floor),
        Goal::new("9", WIDE, long::messages),
        Goal::new("10", WIDE, long::buffers),
        Goal::new("11", WIDE, long::against_floor),
        Goal::new("12", WIDE, cold::lines),
        Goal::new("13", Needs::Nothing, lengths::throughput),
        Goal::new("13b", Needs::Nothing, lengths::latency),
        Goal::new("14", Needs::Available("portable"), tiers::portable),
        Goal::new("15", Needs::Available("clmul"), tiers::clmul),
        Goal::new("16", Needs::Nothing, edge::brace_check),
        Goal::new("17", WIDE, edge::pages),
    ]
}

/// The tier of this name, if this machine runs it.
fn tier(name: &str) -> Option<Tier> {
    Tier::available().find(|tier| tier.name() == name)
}
