//! Goal 12: what a key costs when everything else has passed through the first-level cache.
//!
//! Between two keys a walk over 64 KiB evicts the cache; the cost of the walk alone is measured
//! beside, and subtracted from both sides.

use slotkeep::crc16::crc16;

use crate::measure::Plan;
use crate::report::Bound::AtLeast;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::keys::Run;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals::CRC16;
use crate::slot::work::Evictor;
use crate::slot::work::cold;

/// A cost below this cannot be told from nothing beside a walk of hundreds of nanoseconds.
const LEAST_NS: f64 = 0.25;

/// A line for each of three lengths.
pub fn lines(plan: Plan) -> Vec<Line> {
    let lengths = [("12a", 16), ("12b", 24), ("12c", 36)];
    lengths.map(|(id, len)| line(plan, id, len)).into()
}

fn line(plan: Plan, id: &'static str, len: usize) -> Line {
    let rounds = contest(patient(plan), || {
        // A handful of keys: a pass of a few walks is still a short sample.
        let keys = &laid(laid(Run::of(len)).views())[..32];
        let evictor = laid(Evictor::new());
        vec![
            cold("the walk", keys, evictor, |_| 0),
            cold("ours", keys, evictor, crc16),
            cold(CRC16.name, keys, evictor, CRC16.of),
        ]
    });
    let walk = rounds.of(0);
    let above = |costs: &[f64]| -> Vec<f64> {
        costs.iter().zip(walk).map(|(cost, walk)| (cost - walk).max(LEAST_NS)).collect()
    };
    let goal = Goal::free(id, format!("crc16 of {len} B, first-level cache evicted"));
    let goal = goal.demand(AtLeast(8.0));
    goal.judge(&above(rounds.of(1)), CRC16.name, &above(rounds.of(2)))
}

/// A key costs half a percent of the walk: it takes more samples to see it.
fn patient(plan: Plan) -> Plan {
    Plan { rounds: 2 * plan.rounds, samples: 2 * plan.samples, ..plan }
}
