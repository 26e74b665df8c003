//! Goal E7: the tail of single operations when there are four times as many clients as cores.

use crate::clients::Figure;
use crate::clients::Way;
use crate::clients::contest;
use crate::engine::lab::Lab;
use crate::engine::lab::names;
use crate::engine::table::LATENCIES;
use crate::engine::table::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::report::Bound;
use crate::report::Bound::AtLeast;
use crate::report::Bound::AtMost;
use crate::report::Entry;
use crate::report::Goal;

const CLIENTS: usize = 8;

/// What the goal is about.
const TAIL: Figure = Figure::Latency(999);

/// The workloads, with the numbers of their lines.
const CELLS: [(&str, [&str; 2], Picks, usize); 4] = [
    ("95/5, uniform", ["E7a", "E7b"], Picks::Uniform, 5),
    ("50/50, uniform", ["E7c", "E7d"], Picks::Uniform, 50),
    ("95/5, zipf", ["E7e", "E7f"], Picks::Zipf, 5),
    ("50/50, zipf", ["E7g", "E7h"], Picks::Zipf, 50),
];

/// The lines of all workloads.
pub fn entries(lab: &Lab) -> Vec<Entry> {
    CELLS
        .iter()
        .flat_map(|&(title, ids, picks, sets)| cell(lab, title, ids, (picks, sets)))
        .collect()
}

fn cell(lab: &Lab, title: &str, ids: [&'static str; 2], work: (Picks, usize)) -> Vec<Entry> {
    let scripts = lab.scripts(CLIENTS, work.0, Mix::writes(work.1));
    let contestants = lab.maps().contestants(&scripts, Way::Watched);
    let results = contest(lab.pace, CLIENTS, false, &contestants);
    let line = |id, (demand, aim): (Bound, Bound), rival: &str| {
        let goal = Goal::free(id, format!("p99.9, {CLIENTS} clients, {title}"));
        let goal = goal.demand(demand).aim(aim);
        let line = goal.judge(&results.of(names::OURS, TAIL), rival, &results.of(rival, TAIL));
        Entry::Line(Box::new(line))
    };
    let best = results.best(&names::MAPS, TAIL);
    vec![
        table("E7", format!("{title}, {CLIENTS} clients"), &results, &LATENCIES),
        line(ids[0], (AtLeast(20.0), AtLeast(100.0)), names::DASH),
        line(ids[1], (AtMost(1.2), AtMost(1.0)), best),
    ]
}
