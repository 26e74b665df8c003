//! The checker against hand-made histories, recorded ones and the definition.

use fastrand::Rng;

use super::Outcome::{Count, Done, Flag, Value};
use super::Verb::{CompareReplace, Get, Incr, Remove, Set, SetIfAbsent, SetUntil, Take};
use super::*;

type Record = Event<Call, Outcome>;

fn event(invoked: u64, returned: u64, verb: Verb, output: Outcome) -> Record {
    Event { client: 0, op: verb.into(), output: Some(output), invoked, returned }
}

fn lost(invoked: u64, verb: Verb) -> Record {
    Event { client: 9, op: verb.into(), output: None, invoked, returned: NEVER }
}

#[track_caller]
fn accepted(history: &[Record]) -> Statistics {
    check(&Register, history).unwrap_or_else(|violation| panic!("{violation}"))
}

/// Checks that the event is the one that cannot be explained.
#[track_caller]
fn rejected(history: &[Record], event: usize) {
    match check(&Register, history) {
        Err(Violation::NotLinearizable(window)) => assert_eq!(window.event, event),
        other => panic!("{other:?}"),
    }
}

#[test]
fn overlapping_events_may_take_effect_in_any_order() {
    let (one, two) = (event(0, 9, Set(1), Done), event(1, 8, Set(2), Done));
    for last in [1, 2] {
        let last = event(10, 11, Get, Value(Some(last)));
        accepted(&[one.clone(), two.clone(), event(2, 3, Get, Value(None)), last.clone()]);
        accepted(&[last, event(2, 3, Get, Value(Some(2))), two.clone(), one.clone()]);
    }
    accepted(&[event(0, 5, Incr(1), Count(3)), event(0, 5, Incr(2), Count(2))]);
    accepted(&[event(0, 5, Take, Value(Some(7))), event(5, 6, SetIfAbsent(7), Flag(true))]);
}

#[test]
fn wrong_answers_are_found_where_they_return() {
    let set = |at, value| event(at, at + 1, Set(value), Done);
    let get = |at, value| event(at, at + 1, Get, Value(value));
    let replace = CompareReplace { expected: 1, new: 2 };
    // A stale read, a lost write, a value out of thin air.
    rejected(&[set(0, 1), set(2, 2), get(4, Some(1))], 2);
    rejected(&[set(0, 1), get(2, None)], 1);
    rejected(&[set(0, 1), get(2, Some(3))], 1);
    // An old value after a newer one was read, while the write of the newer is under way.
    rejected(&[set(0, 1), event(2, 9, Set(2), Done), get(3, Some(2)), get(5, Some(1))], 3);
    // An effect that happened twice.
    rejected(&[event(0, 5, Incr(1), Count(1)), event(1, 6, Incr(1), Count(1))], 1);
    rejected(
        &[event(0, 5, SetIfAbsent(1), Flag(true)), event(1, 6, SetIfAbsent(2), Flag(true))],
        1,
    );
    rejected(&[set(0, 1), event(2, 5, Remove, Flag(true)), event(3, 6, Take, Value(Some(1)))], 2);
    rejected(&[set(0, 1), event(2, 5, replace, Flag(true)), event(3, 6, replace, Flag(true))], 2);
    // An answer of the wrong kind.
    rejected(&[event(0, 1, Get, Count(0))], 0);
}

#[test]
fn a_lost_call_takes_effect_late_or_never_but_once() {
    let get = |at, value| event(at, at + 1, Get, Value(value));
    accepted(&[lost(0, Set(1)), get(1, None), get(3, Some(1))]);
    accepted(&[lost(0, Set(1)), get(1, None), get(3, None)]);
    rejected(&[lost(0, Set(1)), get(1, Some(1)), get(3, None)], 2);
    rejected(&[lost(2, Set(1)), get(0, Some(1))], 1);
    // Equal lost calls are counted, not told apart.
    let mut history: Vec<Record> = (0..40).map(|at| lost(at, Incr(1))).collect();
    history.push(get(50, Some(40)));
    assert!(accepted(&history).configuration_count < 100);
    history[40].output = Some(Value(Some(41)));
    rejected(&history, 40);
    // Without an answer a call that did return has taken effect.
    let returned = |verb| Event { output: None, ..event(0, 1, verb, Done) };
    rejected(&[returned(Set(1)), get(2, None)], 1);
}

#[test]
fn a_value_expires_at_its_deadline_and_stays_expired() {
    let timed = |at, verb, output, now_low, now_high| Event {
        op: Call { verb, now_low, now_high },
        ..event(at, at + 1, verb, output)
    };
    let set = timed(0, SetUntil { value: 7, deadline: 10 }, Done, 0, 0);
    let get = |at, value, low, high| timed(at, Get, Value(value), low, high);
    for (low, high, live, gone) in
        [(9, 9, true, false), (9, 10, true, true), (10, 10, false, true), (0, 99, true, true)]
    {
        for (value, fits) in [(Some(7), live), (None, gone)] {
            let verdict = check(&Register, &[set.clone(), get(2, value, low, high)]);
            assert_eq!(verdict.is_ok(), fits, "{value:?} in [{low}, {high}]");
        }
    }
    rejected(&[set.clone(), get(2, None, 9, 10), get(4, Some(7), 9, 10)], 2);
    // Time does not run back.
    rejected(&[set.clone(), get(2, None, 9, 10), timed(4, Incr(1), Count(1), 9, 9)], 2);
    // An increment of what is there keeps the deadline.
    rejected(&[set.clone(), timed(2, Incr(1), Count(8), 0, 0), get(4, Some(8), 10, 10)], 2);
    accepted(&[set, timed(2, Incr(1), Count(1), 9, 10), get(4, Some(1), 99, 99)]);
}

#[test]
fn an_eviction_is_an_allowed_removal_and_a_stale_value_is_not() {
    let set = |at, value| event(at, at + 1, Set(value), Done);
    let get = |at, value| event(at, at + 1, Get, Value(value));
    let explained = |history: &[Record]| match check(&BoundedRegister, history) {
        Ok(_) => Ok(()),
        Err(Violation::NotLinearizable(window)) => Err(window.event),
        Err(other) => panic!("{other}"),
    };
    let evicted = [set(0, 1), get(2, None)];
    assert_eq!(explained(&evicted), Ok(()));
    rejected(&evicted, 1);
    let replace = CompareReplace { expected: 1, new: 2 };
    for (verb, output) in [
        (Take, Value(None)),
        (Remove, Flag(false)),
        (SetIfAbsent(7), Flag(true)),
        (Incr(7), Count(7)),
        (replace, Flag(false)),
    ] {
        let found_gone = event(4, 5, verb, output);
        assert_eq!(explained(&[set(0, 1), found_gone.clone()]), Ok(()));
        assert_eq!(explained(&[set(0, 1), get(2, Some(1)), found_gone]), Ok(()));
        // Whatever made the value of a key that was gone, it is not the one from before.
        let back = event(6, 7, CompareReplace { expected: 1, new: 9 }, Flag(true));
        assert_eq!(explained(&[set(0, 1), event(4, 5, verb, output), back]), Err(2));
    }
    // What has vanished does not come back, nor does what was replaced, even while it is evicted.
    assert_eq!(explained(&[set(0, 1), get(2, None), get(4, Some(1))]), Err(2));
    assert_eq!(explained(&[set(0, 1), set(2, 2), get(4, Some(1))]), Err(2));
    assert_eq!(explained(&[set(0, 1), set(2, 2), get(4, None), get(6, Some(1))]), Err(3));
    let overlapping = event(2, 9, Set(2), Done);
    let history = [set(0, 1), overlapping, get(3, None), get(5, Some(1))];
    assert_eq!(explained(&history), Err(3));
    let history = [event(0, 9, Set(1), Done), get(1, None), get(3, Some(1)), get(5, None)];
    assert_eq!(explained(&history), Ok(()));
    // A deadline holds for what is there.
    let timed = |at, verb, output, now| Event {
        op: Call { verb, now_low: now, now_high: now },
        ..event(at, at + 1, verb, output)
    };
    let until = timed(0, SetUntil { value: 7, deadline: 10 }, Done, 0);
    assert_eq!(explained(&[until.clone(), timed(2, Get, Value(None), 9)]), Ok(()));
    assert_eq!(explained(&[until, timed(2, Get, Value(Some(7)), 10)]), Err(1));
}

#[test]
fn bounds_and_bad_recordings_are_told_apart_from_verdicts() {
    let mut history: Vec<Record> = (0..64).map(|at| lost(at, Set(at))).collect();
    history.push(lost(64, Get));
    assert_eq!(accepted(&history).overlap_max, PENDING_MAX);
    history.push(lost(65, Remove));
    assert_eq!(check(&Register, &history), Err(Violation::TooManyPending(65)));
    let bad = [event(2, 1, Get, Value(None))];
    assert_eq!(check(&Register, &bad), Err(Violation::Malformed(0)));
}

#[test]
fn a_violation_reads_well() {
    let history = [event(0, 1, Set(1), Done), lost(2, Incr(4)), event(3, 4, Get, Value(None))];
    let text = check(&Register, &history).unwrap_err().to_string();
    for part in [
        "returned before:\n  #0 client 0 [0, 1] Set(1)",
        "possible states then:\n  Some(1)\n",
        "under way:\n  #1 client 9 [2, never] Incr(4)",
        "cannot be explained:\n  #2 client 0 [3, 4] Get",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// A cache without overlaps: the value and its deadline.
fn run(cell: &mut Option<(u64, u64)>, verb: Verb, now: u64) -> Outcome {
    *cell = cell.filter(|&(_, deadline)| now < deadline);
    let held = cell.map(|(value, _)| value);
    let deadline = cell.map_or(NEVER, |(_, deadline)| deadline);
    match verb {
        Get => return Value(held),
        Set(value) => *cell = Some((value, NEVER)),
        SetUntil { value, deadline } => *cell = Some((value, deadline)),
        SetIfAbsent(value) => *cell = Some((held.unwrap_or(value), deadline)),
        Incr(by) => *cell = Some((held.unwrap_or(0) + by, deadline)),
        CompareReplace { expected, new } if held == Some(expected) => {
            *cell = Some((new, deadline));
        }
        CompareReplace { .. } => return Flag(false),
        Take | Remove => *cell = None,
    }
    match verb {
        Incr(_) => Count(cell.map_or(0, |(value, _)| value)),
        Take => Value(held),
        SetIfAbsent(_) => Flag(held.is_none()),
        Remove => Flag(held.is_some()),
        CompareReplace { .. } => Flag(true),
        Get | Set(_) | SetUntil { .. } => Done,
    }
}

/// A history that did happen: each call takes effect at one tick while it runs; up to
/// `lost_max` calls never return, and half of those take effect later.
fn recorded(
    rng: &mut Rng,
    clients: u8,
    length: usize,
    mut lost_max: usize,
    verb: fn(&mut Rng, u64) -> Verb,
) -> Vec<Record> {
    let (mut cell, mut now, mut tick) = (None, 0, 0);
    let mut history: Vec<Record> = Vec::new();
    let mut under_way = vec![None; usize::from(clients)];
    let mut late = Vec::new();
    while history.len() < length || under_way.iter().any(Option::is_some) {
        tick += 1;
        now += rng.u64(0..2);
        if rng.u8(..) < 32 {
            late.pop().map(|verb| run(&mut cell, verb, now));
        }
        let client = rng.u8(0..clients);
        let call = &mut under_way[usize::from(client)];
        match *call {
            None if history.len() < length => {
                *call = Some(history.len());
                let op = Call { verb: verb(rng, now), now_low: now, now_high: NEVER };
                history.push(Event { client, op, output: None, invoked: tick, returned: NEVER });
            }
            None => {}
            Some(index) if history[index].output.is_some() => {
                history[index].returned = tick;
                history[index].op.now_high = now;
                *call = None;
            }
            Some(index) if lost_max > 0 && rng.u8(..) < 64 => {
                lost_max -= 1;
                late.extend(rng.bool().then_some(history[index].op.verb));
                *call = None;
            }
            Some(index) => {
                history[index].output = Some(run(&mut cell, history[index].op.verb, now));
            }
        }
    }
    history
}

fn any_verb(rng: &mut Rng, now: u64) -> Verb {
    let value = rng.u64(0..3);
    match rng.u8(0..12) {
        0 | 1 => Set(value),
        2 => SetUntil { value, deadline: now + rng.u64(0..20) },
        3 => SetIfAbsent(value),
        4 => Incr(value),
        5 => CompareReplace { expected: rng.u64(0..3), new: value },
        6 => Take,
        7 => Remove,
        _ => Get,
    }
}

fn get_or_set(rng: &mut Rng, _now: u64) -> Verb {
    if rng.bool() { Get } else { Set(rng.u64(..)) }
}

#[test]
fn what_did_happen_is_accepted_and_a_wrong_answer_is_not() {
    for seed in 0..100 {
        println!("seed {seed}");
        let rng = &mut Rng::with_seed(seed);
        let mut history = recorded(rng, 6, 200, 5, any_verb);
        accepted(&history);
        let is_read =
            |&index: &usize| history[index].op.verb == Get && history[index].output.is_some();
        let reads: Vec<usize> = (0..200).filter(is_read).collect();
        let index = reads[rng.usize(..reads.len())];
        history[index].output = Some(Value(Some(1 << 60)));
        rejected(&history, index);

        let mut history = recorded(rng, 6, 200, 0, |_, _| Incr(1));
        accepted(&history);
        let index = rng.usize(1..200);
        history[index].output = history[index - 1].output;
        assert!(check(&Register, &history).is_err());

        // Stale: the write of the value read was over before another began that is over too.
        let mut history = recorded(rng, 6, 200, 0, get_or_set);
        accepted(&history);
        let sets: Vec<&Record> = history.iter().filter(|set| set.op.verb != Get).collect();
        let new = sets[rng.usize(50..60)];
        let old = sets.iter().find(|old| old.returned < new.invoked).expect("an older write");
        let Set(value) = old.op.verb else { panic!("{old:?}") };
        let get = |get: &Record| get.op.verb == Get && get.invoked > new.returned;
        let index = history.iter().position(get).expect("a later read");
        history[index].output = Some(Value(Some(value)));
        rejected(&history, index);
    }
}

/// The definition, without any of the checker's rules.
fn explains<M>(model: &M, history: &[Record], done: u64, state: &RegisterState) -> bool
where
    M: Model<State = RegisterState, Op = Call, Output = Outcome>,
{
    let left: Vec<usize> = (0..history.len()).filter(|at| done & 1 << at == 0).collect();
    let deadline = left.iter().map(|&at| history[at].returned).min().unwrap_or(NEVER);
    deadline == NEVER
        || left.iter().any(|&at| {
            let Event { op, output, invoked, .. } = &history[at];
            let lapsed = model.lapse(state, op);
            let after = |before| model.apply(before, op, output.as_ref());
            *invoked <= deadline
                && (lapsed.iter().chain([state]).filter_map(after))
                    .any(|after| explains(model, history, done | 1 << at, &after))
        })
}

#[test]
fn the_verdict_is_that_of_the_definition() {
    check_verdicts(&Register);
    check_verdicts(&BoundedRegister);
}

#[track_caller]
fn check_verdicts<M>(model: &M)
where
    M: Model<State = RegisterState, Op = Call, Output = Outcome>,
{
    let mut verdicts = [0; 2];
    for seed in 0..5_000 {
        let rng = &mut Rng::with_seed(seed);
        let length = rng.usize(2..9);
        let mut history = recorded(rng, 4, length, 3, any_verb);
        let changed = &mut history[rng.usize(..length)];
        if let Some(output) = &mut changed.output {
            *output = match output {
                Done => Done,
                Value(_) => Value(Some(rng.u64(0..4)).filter(|&value| value < 3)),
                Flag(_) => Flag(rng.bool()),
                Count(_) => Count(rng.u64(0..4)),
            };
        }
        let verdict = check(model, &history).is_ok();
        let expected = explains(model, &history, 0, &model.initial());
        assert_eq!(verdict, expected, "seed {seed}: {history:#?}");
        verdicts[usize::from(verdict)] += 1;
    }
    assert!(verdicts.iter().all(|&count| count > 500), "{verdicts:?}");
}

#[test]
fn long_histories_take_linear_work() {
    for (seed, clients, verb) in [(1, 4, any_verb as fn(&mut Rng, u64) -> Verb), (2, 6, get_or_set)]
    {
        println!("seed {seed}");
        let history = recorded(&mut Rng::with_seed(seed), clients, 200_000, 2, verb);
        let statistics = accepted(&history);
        println!("{statistics:?}");
        assert!(statistics.configuration_count < 30 * 200_000, "{statistics:?}");
    }
}
