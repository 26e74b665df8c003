//! Goal 5: the checksum of 16 bytes, call by call.

use slotkeep::crc16::crc16;

use crate::measure::Plan;
use crate::report::Bound::AtLeast;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::keys::Run;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals;
use crate::slot::work::calls;

/// One contest, a goal for each rival.
pub fn lines(plan: Plan) -> Vec<Line> {
    let goal =
        |id, demand, aim| Goal::free(id, "crc16 of 16 B").demand(AtLeast(demand)).aim(AtLeast(aim));
    let goals = [
        (goal("5a", 1.8, 3.0), rivals::CRC_TABLE_16),
        (goal("5b", 6.0, 10.0), rivals::CRC16),
        (goal("5c", 6.0, 10.0), rivals::CRC_FAST),
    ];
    let rounds = contest(plan, || {
        let keys = laid(laid(Run::of(16)).views());
        let mut contestants = vec![calls("ours", keys, crc16)];
        contestants.extend(goals.iter().map(|(_, rival)| calls(rival.name, keys, rival.of)));
        contestants
    });
    let judge = |(at, (goal, rival)): (usize, (Goal, rivals::Rival))| {
        goal.judge(rounds.of(0), rival.name, rounds.of(at))
    };
    (1..).zip(goals).map(judge).collect()
}
