//! Keys: one home at every instant, whatever expires and whatever arrives late.

use std::time::Duration;

use slotkeep::{BatchResult, Fault};

use crate::rig::{A, B, K, L, Rig, check_way};

const TTL: Duration = Duration::from_secs(10);

/// Row 9: a batch moved a dead key over the live one that had been written at the target.
#[test]
fn a_batch_never_puts_a_dead_key_over_a_live_one() {
    let rig = Rig::new(3);
    rig.write_for(K, "dead", TTL);
    let id = rig.open(A, B);
    rig.cluster.advance(TTL);
    rig.write(K, "live");
    assert_eq!(rig.stored(B), 1, "by way of ASK");
    assert_eq!(rig.batch(A, id, 8), Ok(BatchResult { moved: 0, bytes: 0, left: 0 }));
    rig.check_read(K, Some("live"));
    assert_eq!(rig.take(B), Ok(Some(id)));
    rig.check_settled(B);
    rig.check_read(K, Some("live"));
}

/// Row 9, on the way back: an abort meets a key that died at the target.
#[test]
fn an_abort_never_brings_a_dead_key_back_over_a_live_one() {
    let rig = Rig::new(3);
    rig.write_for(K, "dead", TTL);
    rig.write(L, "v");
    let id = rig.open(A, B);
    rig.send_all(A, id);
    rig.abort(id, 1).unwrap();
    rig.cluster.advance(TTL);
    rig.write(K, "live");
    while rig.abort(id, 1) == Ok(slotkeep::AbortStep::More) {}
    rig.check_read(K, Some("live"));
    rig.check_read(L, Some("v"));
    assert_eq!(rig.record(id).keys_returned, 1, "what has expired does not travel");
    rig.check_settled(A);
}

/// A source that holds nothing but dead keys is empty: it flips, and both sides are clean.
#[test]
fn a_flip_drops_the_dead_keys_of_both_sides() {
    let rig = Rig::new(3);
    rig.write_for(K, "dead", TTL);
    let id = rig.open(A, B);
    rig.write_for(L, "dead", TTL);
    assert_eq!(rig.stored(B), 1, "a new key goes to the target");
    rig.cluster.advance(TTL);
    assert_eq!(rig.take(B), Ok(Some(id)));
    assert_eq!(rig.stored(A), 0);
    assert_eq!(rig.live(B), 0);
    rig.check_settled(B);
}

/// What a late ASKING of an ended move reads, once the same slot moves to the same node again.
fn late_ask(fault: Option<Fault>) -> (Rig, Option<Vec<u8>>) {
    let rig = Rig::faulty(3, fault);
    let first = rig.open(A, B);
    let client = rig.cluster.client();
    let mut late_get = client.step_get(K);
    let mut late_set = client.step_set(K, b"late", None);
    assert!(late_get.step().is_none() && late_set.step().is_none(), "A says ASK to both");
    assert_eq!(rig.stable(A), Ok(Some(first)));
    rig.write(K, "v");
    let second = rig.open(A, B);
    assert_ne!(first, second);
    let read = late_get.finish().unwrap().map(|value| value.to_vec());
    late_set.finish().unwrap();
    (rig, read)
}

/// Row 10: ASKING of an ended move was honoured by the importing mark of the next one.
#[test]
fn a_late_ask_names_a_move_that_has_ended_and_is_sent_back() {
    let (rig, read) = late_ask(None);
    assert_eq!(read.as_deref(), Some(&b"v"[..]));
    rig.check_read(K, Some("late"));
    assert_eq!(rig.stored(B), 0, "the key has one home");
    rig.cluster.check_invariants();
}

/// The same interleaving tells an engine that does not look at the id.
#[test]
fn without_the_id_the_late_ask_reads_nothing_and_makes_a_second_home() {
    let (rig, read) = late_ask(Some(Fault::AskWithoutId));
    assert_eq!(read, None);
    assert_eq!(rig.stored(B), 1);
    assert_eq!(rig.stored(A), 1);
}

/// How many live keys the sides hold after a SET that began before its key expired.
fn late_set(fault: Option<Fault>) -> (Rig, [usize; 2]) {
    let rig = Rig::faulty(3, fault);
    rig.write_for(K, "dead", TTL);
    rig.open(A, B);
    let client = rig.cluster.client();
    let late = client.step_set(K, b"late", None);
    rig.cluster.advance(TTL);
    rig.write(K, "new");
    late.finish().unwrap();
    let live = [A, B].map(|at| rig.live(at));
    (rig, live)
}

/// Row 15: a SET that read the clock before the token ran on a dead entry of the source, while the
/// key lived at the target.
#[test]
fn the_clock_is_read_under_the_token() {
    let (rig, live) = late_set(None);
    assert_eq!(live, [0, 1]);
    rig.check_read(K, Some("late"));
    rig.cluster.check_invariants();
}

/// The same interleaving tells an engine that reads the clock too early.
#[test]
fn a_clock_that_is_read_before_the_token_makes_a_second_home() {
    let (_rig, live) = late_set(Some(Fault::NowBeforeToken));
    assert_eq!(live, [1, 1]);
}

/// How many copies of a key there are after a batch and a SET.
fn batch_then_set(fault: Option<Fault>) -> (Rig, [usize; 2]) {
    let rig = Rig::faulty(3, fault);
    rig.write(K, "old");
    let id = rig.open(A, B);
    rig.batch(A, id, 8).unwrap();
    rig.write(K, "new");
    let live = [A, B].map(|at| rig.live(at));
    (rig, live)
}

/// Row 17: a batch that copied in one hold and removed in the next let a SET in between.
#[test]
fn a_batch_takes_a_key_out_in_the_hold_that_puts_it_in() {
    let (rig, live) = batch_then_set(None);
    assert_eq!(live, [0, 1]);
    check_way(&rig.cluster.client(), K, Some("new"), &[A, B]);
    rig.cluster.check_invariants();
}

/// The same interleaving tells an engine whose batches leave their keys behind.
#[test]
fn a_batch_that_only_copies_leaves_a_stale_copy() {
    let (_rig, live) = batch_then_set(Some(Fault::CopyWithoutDelete));
    assert_eq!(live, [1, 1]);
}
