//! Pulls: a call on several keys of a moving slot is served, and no key gets a second home.

use std::time::Duration;

use slotkeep::{Answer, Asking, BatchResult, Client, Error, Hop, Redirect, Semantics, Steps};

use crate::rig::{A, B, C, K, L, Rig, check_way, id};

const TTL: Duration = Duration::from_secs(10);
/// What the source answers to a call whose keys have to be pulled.
fn pull() -> Answer {
    Answer::Pull { source: id(A), target: id(B) }
}

/// Writes both keys with one call; which nodes answered what.
#[track_caller]
fn write_both(client: &Client, value: &str) -> Vec<(usize, Answer)> {
    let (written, hops) = client.traced(|client| {
        let entries = [K, L].map(|key| (key, value.as_bytes()));
        client.mset(entries)
    });
    assert_eq!(written, Ok(()), "{hops:?}");
    answers(&hops)
}

fn answers(hops: &[Hop]) -> Vec<(usize, Answer)> {
    hops.iter().map(|hop| (hop.node.index(), hop.answer)).collect()
}

fn live(rig: &Rig) -> [usize; 2] {
    [A, B].map(|at| rig.live(at))
}

/// In Redis the source says ASK, the target TRYAGAIN, and so on until the move ends.
#[test]
fn mset_of_two_new_keys_is_served_at_once() {
    let rig = Rig::new(3);
    let move_id = rig.open(A, B);
    let client = rig.cluster.client();
    let as_redis = client.with_semantics(Semantics::Redis);
    let split = Error::TryAgain { slot: rig.slot() };
    let (refused, hops) = as_redis.traced(|client| client.mset([(K, &b"1"[..]), (L, b"2")]));
    assert_eq!(refused, Err(split));
    let asked: Vec<_> = hops.iter().map(|hop| (hop.node.index(), hop.asking)).collect();
    let round = [(A, None), (B, Some(move_id))];
    assert_eq!(asked, round.repeat(asked.len() / 2), "to and fro");
    assert_eq!(live(&rig), [0, 0]);
    assert_eq!(write_both(&client, "v"), [(A, pull()), (B, Answer::Served)]);
    assert_eq!(live(&rig), [0, 2], "a migrating source never gains a key");
    assert_eq!(rig.take(B), Ok(Some(move_id)));
    rig.check_settled(B);
}

/// A write of several keys, one of which is at the source, leaves none there.
#[test]
fn the_key_that_is_at_the_source_goes_along() {
    let rig = Rig::new(3);
    rig.write(K, "old");
    let move_id = rig.open(A, B);
    assert_eq!(write_both(&rig.cluster.client(), "new"), [(A, pull()), (B, Answer::Served)]);
    assert_eq!(live(&rig), [0, 2]);
    assert_eq!(rig.record(move_id).keys_moved, 1, "one key travelled, one was made");
    rig.check_read(K, Some("new"));
    rig.cluster.check_invariants();
}

/// Keys that are all at the source stay there, and one key that is named twice is one key.
#[test]
fn what_one_side_can_serve_is_not_pulled() {
    let rig = Rig::new(3);
    rig.write(K, "v");
    rig.write(L, "v");
    rig.open(A, B);
    let client = rig.cluster.client();
    assert_eq!(write_both(&client, "v"), [(A, Answer::Served)]);
    let absent: &[u8] = b"{b}:absent";
    let (found, hops) = client.traced(|client| client.mget(&[absent, absent]));
    assert!(found.unwrap().iter().all(Option::is_none));
    assert!(matches!(hops[0].answer, Answer::Ask { .. }), "{hops:?}");
    assert_eq!(live(&rig), [2, 0]);
    assert_eq!(rig.cluster.counters().pulls, 0);
}

/// The first step of a call on both keys, which A answers with a pull.
#[track_caller]
fn about_to_pull<T>(mut call: Steps<'_, T>) -> Steps<'_, T> {
    assert!(call.step().is_none(), "A says that the keys have to be pulled");
    call
}

/// Row 5: the target had flipped and given the slot on, and the keys were pulled there all the
/// same.
#[test]
fn nothing_is_pulled_to_a_target_that_has_given_the_slot_on() {
    let rig = Rig::held(3);
    let client = rig.cluster.client();
    let old = rig.open(A, B);
    let (answer, hops) = client.traced(|client| {
        let call = about_to_pull(client.step_mset(vec![(K, b"1"), (L, b"2")]));
        assert_eq!(rig.take(B), Ok(Some(old)));
        rig.complete(B, C);
        call.finish()
    });
    assert_eq!(answer, Ok(()));
    let ask = Answer::Ask { target: id(B), id: old };
    let moved = Answer::Moved { owner: id(C) };
    assert_eq!(answers(&hops), [(A, pull()), (A, ask), (B, moved), (C, Answer::Served)]);
    assert_eq!([A, B, C].map(|at| rig.stored(at)), [0, 0, 2]);
    rig.check_settled(C);
}

/// The same, but the target is still the owner: it serves what the source goes on to send it.
#[test]
fn a_source_that_has_not_heard_of_the_flip_goes_on_with_ask() {
    let rig = Rig::held(3);
    let stale = rig.cluster.client();
    let move_id = rig.open(A, B);
    assert_eq!(rig.take(B), Ok(Some(move_id)));
    let ask = Answer::Ask { target: id(B), id: move_id };
    assert_eq!(write_both(&stale, "v"), [(A, pull()), (A, ask), (B, Answer::Served)]);
    rig.check_settled(B);
}

/// An abort that comes between the answer and the pull turns the keys round.
#[test]
fn a_pull_that_meets_an_abort_runs_at_the_source() {
    let rig = Rig::new(3);
    rig.write(K, "1");
    rig.write(L, "2");
    let move_id = rig.open(A, B);
    assert_eq!(rig.batch(A, move_id, 1).unwrap().moved, 1);
    let client = rig.cluster.client();
    let call = about_to_pull(client.step_mget(&[K, L]));
    assert!(rig.abort(move_id, 1).is_ok());
    assert_eq!(call.finish().unwrap().iter().flatten().count(), 2);
    assert_eq!(live(&rig), [2, 0]);
    while rig.abort(move_id, 1) == Ok(slotkeep::AbortStep::More) {}
    rig.check_settled(A);
}

/// Row 9: a key that expired at the source was set anew through a pull, and a batch moved the dead
/// one over it.
#[test]
fn a_pull_leaves_no_dead_key_for_a_batch_to_move() {
    let rig = Rig::new(3);
    rig.write_for(K, "dead", TTL);
    let move_id = rig.open(A, B);
    rig.cluster.advance(TTL);
    assert_eq!(write_both(&rig.cluster.client(), "live"), [(A, pull()), (B, Answer::Served)]);
    assert_eq!(rig.stored(A), 0, "the dead one was dropped where it lay");
    assert_eq!(rig.batch(A, move_id, 8), Ok(BatchResult { moved: 0, bytes: 0, left: 0 }));
    rig.check_read(K, Some("live"));
    assert_eq!(rig.record(move_id).keys_moved, 0, "what has expired does not travel");
}

/// Row 9, the other way about: the pull itself meets a dead key at the source and a live one at
/// the target.
#[test]
fn a_pull_never_puts_a_dead_key_over_a_live_one() {
    let rig = Rig::new(3);
    rig.write_for(K, "dead", TTL);
    rig.write(L, "v");
    rig.open(A, B);
    rig.cluster.advance(TTL);
    rig.write(K, "live");
    assert_eq!([A, B].map(|at| rig.stored(at)), [2, 1], "K is at both, dead and live");
    let found = rig.cluster.client().mget(&[K, L]).unwrap();
    let found: Vec<_> = found.iter().map(|value| value.as_deref()).collect();
    assert_eq!(found, [Some(&b"live"[..]), Some(b"v")]);
    assert_eq!([A, B].map(|at| rig.stored(at)), [0, 2]);
    rig.cluster.check_invariants();
}

/// Row 15: a SET that had read the clock early ran on the dead entry that a pull had left.
#[test]
fn a_late_set_finds_the_key_where_a_pull_has_put_it() {
    for fault in [None, Some(slotkeep::Fault::NowBeforeToken)] {
        let rig = Rig::faulty(3, fault);
        rig.write_for(K, "dead", TTL);
        rig.open(A, B);
        let client = rig.cluster.client();
        let late = client.step_set(K, b"late", None);
        rig.cluster.advance(TTL);
        write_both(&client, "new");
        late.finish().unwrap();
        assert_eq!(live(&rig), [0, 2], "with {fault:?}");
        rig.check_read(K, Some("late"));
    }
}

/// Row 17: a pull that copied in one hold and removed in the next let a SET in between.
#[test]
fn a_pulled_key_has_one_home_for_every_other_call() {
    let rig = Rig::new(3);
    rig.write(K, "old");
    rig.write(L, "old");
    let move_id = rig.open(A, B);
    assert_eq!(rig.batch(A, move_id, 1).unwrap().moved, 1);
    let client = rig.cluster.client();
    let mut get = client.step_get(K);
    let call = about_to_pull(client.step_mget(&[K, L]));
    let early = get.step();
    assert_eq!(call.finish().unwrap().iter().flatten().count(), 2);
    rig.write(K, "new");
    rig.write(L, "new");
    assert_eq!(live(&rig), [0, 2]);
    assert!(early.unwrap_or_else(|| get.finish()).unwrap().is_some());
    for key in [K, L] {
        check_way(&client, key, Some("new"), &[A, B]);
    }
    rig.cluster.check_invariants();
}

/// A target that does not serve gets no keys: the call hears from it why.
#[test]
fn nothing_is_pulled_to_a_target_that_is_down() {
    let rig = Rig::unassigned(2);
    rig.node(A).add_slots(&[rig.slot()]).unwrap();
    rig.cluster.bus().release();
    rig.write(K, "v");
    rig.open(A, B);
    rig.node(B).set_full_coverage(true);
    let client = rig.cluster.client();
    let (written, hops) = client.traced(|client| client.mset([(K, &b"1"[..]), (L, b"2")]));
    assert!(matches!(written, Err(Error::ClusterDown { .. })), "{written:?} by way of {hops:?}");
    assert_eq!(live(&rig), [1, 0], "{hops:?}");
    // Reads pass when they are let.
    rig.node(B).set_reads_when_down(true);
    assert_eq!(client.mget(&[K, L]).unwrap().iter().flatten().count(), 1);
    assert_eq!(live(&rig), [0, 1]);
}

/// Row 10, as it comes over the wire: ASKING names no move, so the source decides, in the hold in
/// which the call runs.
#[test]
fn asking_without_an_id_is_judged_in_the_hold_that_serves() {
    let rig = Rig::new(3);
    let as_redis = rig.cluster.client().with_semantics(Semantics::Redis);
    let wire = as_redis.at(id(B), Asking::Any).unwrap();
    let moved = Error::Redirected(Redirect::Moved { slot: rig.slot(), owner: id(A) });
    let first = rig.open(A, B);
    let mut served = wire.step_set(K, b"1", None);
    assert!(served.step().is_none(), "B imports, and asks A");
    assert_eq!(served.finish(), Ok(()));
    assert_eq!(live(&rig), [0, 1]);
    // The move turns round between the two holds, and the next one opens.
    let mut late = wire.step_set(L, b"late", None);
    assert!(late.step().is_none());
    while rig.abort(first, 8) == Ok(slotkeep::AbortStep::More) {}
    rig.write(L, "v");
    let mut get = wire.step_get(L);
    let second = rig.open(A, B);
    assert_eq!(late.finish(), Err(moved), "the id is another one, and A has the key");
    assert!(get.step().is_none());
    assert_eq!(get.finish().map(|value| value.is_some()), Err(moved));
    assert_eq!(live(&rig), [2, 0]);
    rig.send_all(A, second);
    let mut get = wire.step_get(L);
    assert!(get.step().is_none());
    assert_eq!(get.finish().unwrap().as_deref(), Some(&b"v"[..]));
    rig.cluster.check_invariants();
}
