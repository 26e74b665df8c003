//! A/A: ours against ours. What differs here is noise, and so is as much anywhere else.

use slotkeep::Slot;

use crate::measure::Plan;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::keys::KeySet;
use crate::slot::keys::Kind;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::work::calls;

/// One contest of two equal sides.
pub fn lines(plan: Plan) -> Vec<Line> {
    let rounds = contest(plan, || {
        let keys = laid(laid(KeySet::of(Kind::Uuid)).views());
        let ours = |name| calls(name, keys, |key| Slot::of(key).number());
        vec![ours("ours"), ours("ours again")]
    });
    let goal = Goal::free("A/A", "slot, UUIDs: the floor of the noise");
    vec![goal.judge(rounds.of(0), rounds.name(1), rounds.of(1))]
}
