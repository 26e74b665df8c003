//! Goal E6: two clients on one key, 95 reads to 5 writes: the worst case for a token a slot.

use crate::clients::Figure;
use crate::clients::Way;
use crate::clients::contest;
use crate::engine::lab::Lab;
use crate::engine::lab::names;
use crate::engine::table::RATES;
use crate::engine::table::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::report::Bound::AtLeast;
use crate::report::Entry;
use crate::report::Goal;
use crate::report::Unit;

/// The goal.
pub fn entries(lab: &Lab) -> Vec<Entry> {
    let scripts = lab.scripts(2, Picks::One, Mix::writes(5));
    let results = contest(lab.pace, 2, false, &lab.maps().contestants(&scripts, Way::Ready));
    let goal = Goal::free("E6", "one hot key, 95/5").unit(Unit::Rate);
    let goal = goal.demand(AtLeast(0.95)).aim(AtLeast(1.9));
    let of = |name| results.of(name, Figure::Wall);
    let line = goal.judge(&of(names::OURS), names::DASH, &of(names::DASH));
    vec![table("E6", "one hot key, 95/5", &results, &RATES), Entry::Line(Box::new(line))]
}
