//! Goals 14 and 15: the tiers of smaller machines, asked for by name.

use super::tier;
use crate::measure::Plan;
use crate::report::Bound::AtLeast;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::keys::Run;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals::CRC16;
use crate::slot::work::calls;

/// Goal 14: no SIMD.
pub fn portable(plan: Plan) -> Vec<Line> {
    let goals = [("14a", 16, 3.0), ("14b", 40, 4.5)];
    goals.map(|(id, len, demand)| line(plan, "portable", len, (id, demand))).into()
}

/// Goal 15: carry-less multiplication of 128 bits.
pub fn clmul(plan: Plan) -> Vec<Line> {
    let goals = [("15a", 16, 3.5), ("15b", 40, 9.0), ("15c", 64, 12.0)];
    goals.map(|(id, len, demand)| line(plan, "clmul", len, (id, demand))).into()
}

fn line(plan: Plan, name: &str, len: usize, (id, demand): (&'static str, f64)) -> Line {
    let tier = tier(name).expect("a goal that needs a tier is skipped without it");
    let rounds = contest(plan, || {
        let keys = laid(laid(Run::of(len)).views());
        vec![calls(name, keys, move |key| tier.crc16(key)), calls(CRC16.name, keys, CRC16.of)]
    });
    let goal = Goal::free(id, format!("crc16 of {len} B, tier {name}")).demand(AtLeast(demand));
    goal.judge(rounds.of(0), CRC16.name, rounds.of(1))
}
