//! Goals 13 and 13b: every length, odd ones too, against whatever published crate is best at it.

use std::ops::RangeInclusive;

use slotkeep::crc16::crc16;

use crate::measure::Contestant;
use crate::measure::Plan;
use crate::report::Bound;
use crate::report::Bound::AtMost;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::keys::Run;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals::PUBLISHED;
use crate::slot::work::calls;
use crate::slot::work::chained_run;

/// The lengths of a quick sweep: steps and their neighbours.
const SOME: [usize; 26] = [
    1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 20, 23, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 127, 128,
    256,
];

/// Lays out keys of one length, for us and then for our rivals.
type Lay = fn(usize) -> Vec<Contestant<'static>>;

/// Lengths that share a demand.
struct Range {
    id: &'static str,
    lengths: RangeInclusive<usize>,
    demand: Option<Bound>,
    aim: Bound,
}

/// Goal 13: calls that may overlap.
pub fn throughput(plan: Plan) -> Vec<Line> {
    let ranges = [
        Range { id: "13a", lengths: 1..=3, demand: Some(AtMost(1.7)), aim: AtMost(1.0) },
        Range { id: "13", lengths: 4..=256, demand: Some(AtMost(1.0)), aim: AtMost(1.0) },
    ];
    let overlapping = |len| {
        let keys = laid(laid(Run::of(len)).views());
        let rivals = PUBLISHED.map(|rival| calls(rival.name, keys, rival.of));
        [calls("ours", keys, crc16)].into_iter().chain(rivals).collect()
    };
    ranges.map(|range| sweep(plan, &range, "throughput", overlapping)).into()
}

/// Goal 13b: each call waiting for the one before.
pub fn latency(plan: Plan) -> Vec<Line> {
    let ranges = [
        Range { id: "13c", lengths: 2..=3, demand: None, aim: AtMost(1.0) },
        Range { id: "13b", lengths: 4..=256, demand: Some(AtMost(1.1)), aim: AtMost(1.0) },
    ];
    let chained = |len| {
        let run = laid(Run::of(len));
        let rivals = PUBLISHED.map(|rival| chained_run(rival.name, run, rival.of));
        [chained_run("ours", run, crc16)].into_iter().chain(rivals).collect()
    };
    ranges.map(|range| sweep(plan, &range, "latency", chained)).into()
}

/// The length at which the best rival is furthest ahead, or comes closest.
fn sweep(plan: Plan, range: &Range, figure: &str, lay: Lay) -> Line {
    let (first, last) = (range.lengths.start(), range.lengths.end());
    let lengths = range.lengths.clone().filter(|len| !plan.quick || SOME.contains(len));
    let lines = lengths.map(|len| {
        let rounds = contest(plan.for_sweep(), || lay(len));
        let best = rounds.best_after(1);
        let text = format!("crc16 {figure}, {first} to {last} B, worst: {len} B");
        let goal = Goal { demand: range.demand, ..Goal::free(range.id, text).aim(range.aim) };
        goal.judge(rounds.of(0), rounds.name(best), rounds.of(best))
    });
    Line::worst(lines.collect())
}
