//! Goals 6 to 8: many keys in one call, against a call a key and against loading alone.

use slotkeep::Slot;
use slotkeep::crc16::Tier;
use slotkeep::slots_of;

use crate::measure::Contestant;
use crate::measure::Plan;
use crate::measure::Rounds;
use crate::report::Bound;
use crate::report::Bound::AtLeast;
use crate::report::Bound::AtMost;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::floors;
use crate::slot::keys::Run;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals;
use crate::slot::work::batch;
use crate::slot::work::calls;

/// Goal 6: 16 bytes, against `crc16` and the byte loop.
pub fn of_16_bytes(plan: Plan) -> Vec<Line> {
    let rounds = contest(plan, || {
        let keys = laid(laid(Run::of(16)).views());
        let mut contestants = ours(keys);
        contestants.push(calls(rivals::CRC16.name, keys, rivals::CRC16.of));
        contestants.push(calls(rivals::BYTE_TABLE.name, keys, rivals::BYTE_TABLE.of));
        contestants
    });
    let ids = [["6a", "6b"], ["6c", "6d"]];
    let bounds = (AtLeast(18.0), AtLeast(30.0));
    [2, 3].iter().zip(ids).flat_map(|(&rival, ids)| both(&rounds, rival, ids, 16, bounds)).collect()
}

/// Goal 7: 32 bytes, against `crc16`.
pub fn of_32_bytes(plan: Plan) -> Vec<Line> {
    let rounds = contest(plan, || {
        let keys = laid(laid(Run::of(32)).views());
        let mut contestants = ours(keys);
        contestants.push(calls(rivals::CRC16.name, keys, rivals::CRC16.of));
        contestants
    });
    both(&rounds, 2, ["7a", "7b"], 32, (AtLeast(25.0), AtLeast(40.0))).into()
}

/// Goal 8: 16 bytes, against a loop that loads and stores and computes nothing.
pub fn against_floor(plan: Plan) -> Vec<Line> {
    let rounds = contest(plan, || {
        let keys = laid(laid(Run::of(16)).views());
        let mut contestants = ours(keys);
        contestants.push(batch("load-only loop", keys, 0, floors::load_only));
        contestants
    });
    both(&rounds, 2, ["8a", "8b"], 16, (AtMost(1.5), AtMost(1.2))).into()
}

/// Our two batch calls: the tier's checksums, and the slots that the engine asks for.
fn ours(keys: &'static [&[u8]]) -> Vec<Contestant<'static>> {
    let tier = Tier::active();
    vec![
        batch("crc16_of_tags", keys, 0, move |keys, crcs| {
            tier.crc16_of_tags(keys, crcs);
        }),
        batch("slots_of", keys, Slot::MIN, |keys, slots| {
            slots_of(keys, slots).expect("as many slots as keys");
        }),
    ]
}

/// A line for each of our two batch calls.
fn both(
    rounds: &Rounds,
    rival: usize,
    ids: [&'static str; 2],
    len: usize,
    (demand, aim): (Bound, Bound),
) -> [Line; 2] {
    [0, 1].map(|at| {
        let measure = format!("batch of {len} B, {}", rounds.name(at));
        let goal = Goal::free(ids[at], measure).demand(demand).aim(aim);
        goal.judge(rounds.of(at), rounds.name(rival), rounds.of(rival))
    })
}
