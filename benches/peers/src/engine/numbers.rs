//! Goal E12: values of eight bytes, which maps hold in their tables and ours in an entry.

use crate::clients::Figure;
use crate::clients::Way;
use crate::clients::contest;
use crate::engine::lab::Lab;
use crate::engine::lab::Stage;
use crate::engine::lab::names;
use crate::engine::table::RATES;
use crate::engine::table::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::report::Bound::AtLeast;
use crate::report::Entry;
use crate::report::Goal;
use crate::report::Unit;

const CLIENTS: usize = 2;

/// The workloads.
const CELLS: [(&str, usize); 3] = [("reads", 0), ("95/5", 5), ("50/50", 50)];

/// Tables, and a line against `DashMap` of which nothing is demanded.
pub fn entries(lab: &Lab) -> Vec<Entry> {
    let stage = Stage::<u64, u64>::filled(lab.keys);
    CELLS.iter().flat_map(|&(title, sets)| cell(lab, &stage, title, sets)).collect()
}

fn cell(lab: &Lab, stage: &Stage<u64, u64>, title: &str, sets: usize) -> [Entry; 2] {
    let scripts = lab.scripts(CLIENTS, Picks::Uniform, Mix::writes(sets));
    let results = contest(lab.pace, CLIENTS, false, &stage.contestants(&scripts, Way::Ready));
    let title = format!("u64 values, {title}, uniform");
    let goal = Goal::free("E12", title.as_str()).unit(Unit::Rate).aim(AtLeast(1.0));
    let of = |name| results.of(name, Figure::Wall);
    let line = goal.judge(&of(names::OURS), names::DASH, &of(names::DASH));
    [table("E12", title, &results, &RATES), Entry::Line(Box::new(line))]
}
