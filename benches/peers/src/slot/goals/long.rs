//! Goals 9 to 11: long messages and buffers, against folding and against the bandwidth of loads.

use slotkeep::crc16::crc16;

use crate::measure::Plan;
use crate::report::Bound::AtLeast;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::floors;
use crate::slot::keys::Run;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals::CRC_FAST;
use crate::slot::rivals::Rival;
use crate::slot::work::calls;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Goal 9: 128 bytes and 1 KiB at every alignment; and, since folding gains by it, aligned ones.
pub fn messages(plan: Plan) -> Vec<Line> {
    let anywhere = [(128, "9a", 6.0), (KIB, "9b", 4.0)].map(|(len, id, demand)| {
        let goal = Goal::free(id, format!("crc16 of {len} B")).demand(AtLeast(demand));
        against(plan, || Run::of(len), CRC_FAST, goal)
    });
    let aligned = [(128, "9c"), (KIB, "9d")].map(|(len, id)| {
        let goal = Goal::free(id, format!("crc16 of {len} B, aligned to 64"));
        against(plan, || Run::aligned(len), CRC_FAST, goal)
    });
    anywhere.into_iter().chain(aligned).collect()
}

/// Goal 10: buffers.
pub fn buffers(plan: Plan) -> Vec<Line> {
    let goals = [
        (4 * KIB, Goal::free("10a", "crc16 of 4 KiB").demand(AtLeast(2.5))),
        (64 * KIB, Goal::free("10b", "crc16 of 64 KiB").demand(AtLeast(2.0))),
        (MIB, Goal::free("10c", "crc16 of 1 MiB").demand(AtLeast(2.0))),
    ];
    let line = |(len, goal)| against(plan, || Run::of(len), CRC_FAST, goal);
    goals.map(line).into()
}

/// Goal 11: the checksum at the speed of loads.
pub fn against_floor(plan: Plan) -> Vec<Line> {
    let of = floors::xor_sum().expect("the wide tier needs AVX-512 itself");
    let loads = Rival { name: "XOR of the words", of };
    let goals = [
        (16 * KIB, Goal::free("11a", "crc16 of 16 KiB").aim(AtLeast(0.9))),
        (64 * KIB, Goal::free("11b", "crc16 of 64 KiB").demand(AtLeast(0.95))),
        (MIB, Goal::free("11c", "crc16 of 1 MiB").demand(AtLeast(0.95))),
    ];
    let line = |(len, goal)| against(plan, || Run::of(len), loads, goal);
    goals.map(line).into()
}

/// One contest over a run.
fn against(plan: Plan, run: impl Fn() -> Run, rival: Rival, goal: Goal) -> Line {
    let rounds = contest(plan, || {
        let keys = laid(laid(run()).views());
        vec![calls("ours", keys, crc16), calls(rival.name, keys, rival.of)]
    });
    goal.judge(rounds.of(0), rival.name, rounds.of(1))
}
