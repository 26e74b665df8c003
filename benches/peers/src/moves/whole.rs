//! Goals M1 and M2: a whole slot by a handover, against the same slot key by key, and against a
//! slot of one key.
//!
//! Either way includes what goes with a change of owner: the epoch, the record of the move, and the
//! claim, which a third node hears.
//! A slot goes to and fro; the figures are for each move of it.
//! One slot only, whose keys stay in the processor's caches: what moves keys one by one gains by
//! that, a handover does not look at them.

use crate::measure::Plan;
use crate::measure::Rounds;
use crate::measure::contest;
use crate::moves::stage::Stage;
use crate::report::Bound::AtLeast;
use crate::report::Bound::AtMost;
use crate::report::Goal;
use crate::report::Line;

/// The slot that the demand is about.
const KEYS: usize = 64;

/// The slots that are measured beside it.
const OTHERS: [(&str, usize); 3] = [("M1c", 1), ("M1d", 1000), ("M1e", MANY)];

/// A slot that holds as much as a whole cluster might.
const MANY: usize = 100_000;

/// Two equal sides: what differs here is noise.
pub fn noise(plan: Plan) -> Vec<Line> {
    let [ours, again] = [stage(KEYS), stage(KEYS)];
    let rounds = contest(plan, vec![ours.handover("ours"), again.handover("ours again")]);
    vec![judge(&rounds, 1, Goal::free("A/A", "a slot's handover: the floor of the noise"))]
}

/// Goal M1: against keys in batches, and one key a call.
pub fn against_classic(plan: Plan) -> Vec<Line> {
    let stages = [stage(KEYS), stage(KEYS), stage(KEYS)];
    let [ours, batches, single] = &stages;
    let rounds = contest(plan, vec![ours.handover("ours"), batches.classic(), single.key_by_key()]);
    let mut lines = vec![
        judge(&rounds, 1, handover_of("M1", KEYS).demand(AtLeast(20.0))),
        judge(&rounds, 2, handover_of("M1b", KEYS)),
    ];
    lines.extend(OTHERS.map(|(id, keys)| {
        let [ours, batches] = [stage(keys), stage(keys)];
        let rounds = contest(plan, vec![ours.handover("ours"), batches.classic()]);
        judge(&rounds, 1, handover_of(id, keys))
    }));
    lines
}

/// Goal M2: the same short time whatever the slot holds.
pub fn flat(plan: Plan) -> Vec<Line> {
    let [many, one] = [stage(MANY), stage(1)];
    let rounds = contest(plan, vec![many.handover("ours"), one.handover("a slot of 1 key")]);
    vec![judge(&rounds, 1, handover_of("M2", MANY).demand(AtMost(1.5)))]
}

fn stage(keys: usize) -> Stage {
    Stage::of(keys).expect("a cluster with keys")
}

fn handover_of(id: &'static str, keys: usize) -> Goal {
    let plural = if keys == 1 { "" } else { "s" };
    Goal::free(id, format!("handover of a slot of {keys} key{plural}"))
}

fn judge(rounds: &Rounds, rival: usize, goal: Goal) -> Line {
    goal.judge(rounds.of(0), rounds.name(rival), rounds.of(rival))
}
