//! The line A/A: ours against ours, to see how much two equal things differ here.

use crate::clients::Figure;
use crate::clients::Way;
use crate::clients::contest;
use crate::clients::singles;
use crate::engine::lab::Lab;
use crate::engine::lab::names;
use crate::load::Mix;
use crate::load::Picks;
use crate::report::Entry;
use crate::report::Goal;
use crate::report::Unit;

const AGAIN: &str = "ours again";

/// The same store twice, with the same script.
pub fn entries(lab: &Lab) -> Vec<Entry> {
    let scripts = lab.scripts(2, Picks::Uniform, Mix::writes(5));
    let ours = &lab.maps().ours;
    let one = |name| singles(name, ours, &scripts, Way::Ready);
    let results = contest(lab.pace, 2, false, &[one(names::OURS), one(AGAIN)]);
    let line = |measure: &str, figure| {
        let goal = Goal::free("A/A", measure).unit(Unit::Rate);
        let line = goal.judge(&results.of(names::OURS, figure), AGAIN, &results.of(AGAIN, figure));
        Entry::Line(Box::new(line))
    };
    vec![line("95/5, uniform", Figure::Wall), line("95/5, uniform, a CPU-second", Figure::Cpu)]
}
