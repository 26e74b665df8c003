//! Aborts and STABLE: both sides turn round at once, and never after the flip.

use slotkeep::{AbortStep, Answer, MovePhase, SetSlot, SetSlotError, Slot, SlotState};

use crate::rig::{A, B, C, K, L, Rig, check_way, id, read};

const KEYS: [&[u8]; 4] = [K, L, b"{b}:m", b"{b}:n"];

/// Row 4: after the flip an abort left two owners.
#[test]
fn an_abort_after_the_flip_is_refused() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let id = rig.open(A, B);
    rig.send_all(A, id);
    assert_eq!(rig.take(B), Ok(Some(id)));
    assert_eq!(rig.abort(id, 8), Err(SetSlotError::Flipped));
    let record = rig.record(id);
    assert_eq!(record.phase, MovePhase::Flipped);
    assert!(record.last_error.is_some());
    check_way(&rig.cluster.client(), K, Some("v"), &[B]);
    assert_eq!(rig.tell(A, B), Ok(Some(id)));
    assert_eq!(rig.record(id).phase, MovePhase::Completed);
    rig.check_settled(B);
}

/// Row 4: after the flip STABLE on the source left two owners.
#[test]
fn stable_on_a_source_whose_target_has_flipped_completes_the_move() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let id = rig.open(A, B);
    rig.send_all(A, id);
    assert_eq!(rig.take(B), Ok(Some(id)));
    assert_eq!(rig.stable(A), Ok(Some(id)));
    assert_eq!(rig.seen_by(A), Some(B));
    assert_eq!(rig.record(id).phase, MovePhase::Completed);
    rig.check_read(K, Some("v"));
    rig.check_settled(B);
}

/// Row 4, asked of the other side, whose mark is gone: the claim, should it be lost, is made again.
#[test]
fn stable_on_a_target_that_has_flipped_tells_the_source_once_more() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let id = rig.open(A, B);
    rig.send_all(A, id);
    assert_eq!(rig.take(B), Ok(Some(id)));
    while rig.cluster.bus().discard(0) {}
    assert_eq!(rig.stable(B), Ok(None));
    rig.cluster.bus().release();
    assert_eq!(rig.state(A), SlotState::Stable);
    assert_eq!(rig.record(id).phase, MovePhase::Completed);
    assert_eq!(rig.stable(B), Ok(None), "twice is harmless");
    rig.check_settled(B);
}

/// Row 7: a NODE that came late took the slot from its present owner.
#[test]
fn a_late_node_takes_nothing_from_the_present_owner() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    rig.complete(A, B);
    rig.complete(B, C);
    assert_eq!(rig.tell(C, A), Err(SetSlotError::WrongOrder));
    assert_eq!(rig.tell(C, B), Err(SetSlotError::WrongOrder));
    assert_eq!(rig.tell(B, A), Ok(None), "on any other node it is a contact");
    assert_eq!(rig.seen_by(B), Some(C));
    check_way(&rig.cluster.client(), K, Some("v"), &[C]);
    rig.check_settled(C);
}

/// Row 8, source first: a late ASK was served at the target, which no longer had the last value.
#[test]
fn a_late_ask_of_an_aborting_move_reads_what_was_written_since() {
    let rig = Rig::new(3);
    rig.write(K, "old");
    let move_id = rig.open(A, B);
    rig.send_all(A, move_id);
    let client = rig.cluster.client();
    let mut late = client.step_get(K);
    assert!(late.step().is_none(), "A says ASK");
    assert_eq!(rig.abort(move_id, 8), Ok(AbortStep::More));
    assert_eq!(rig.state(A), SlotState::Aborting { target: id(B), id: move_id });
    assert_eq!(rig.state(B), SlotState::Retired { source: id(A), id: move_id });
    rig.write(K, "new");
    assert_eq!(late.finish().unwrap().as_deref(), Some(&b"new"[..]));
    while rig.abort(move_id, 1) == Ok(AbortStep::More) {}
    rig.check_read(K, Some("new"));
    rig.check_settled(A);
}

/// Row 8, target first, and the driver dies: the source said ASK, the target MOVED, for ever.
#[test]
fn an_abort_whose_driver_dies_at_any_step_leaves_every_key_readable() {
    for steps in 0..=6 {
        let rig = Rig::new(3);
        for key in KEYS {
            rig.write(key, "v");
        }
        let id = rig.open(A, B);
        assert_eq!(rig.batch(A, id, 3).unwrap().moved, 3);
        let died = (0..steps).any(|_| rig.abort(id, 1) == Ok(AbortStep::Done));
        for key in KEYS {
            let (found, hops) = read(&rig.cluster.client(), key);
            assert_eq!(found.as_deref(), Some("v"), "after {steps} steps");
            assert!(hops.len() <= 2, "after {steps} steps: {hops:?}");
        }
        // Another driver takes the abort over.
        while !died && rig.abort(id, 1) == Ok(AbortStep::More) {}
        let record = rig.record(id);
        assert_eq!(record.phase, MovePhase::Aborted);
        assert_eq!((record.keys_moved, record.keys_returned), (3, 3));
        assert_eq!(rig.stored(A), KEYS.len());
        rig.check_settled(A);
    }
}

/// A call that names a key which is not at the source was asked again, for ever.
#[test]
fn an_abort_whose_target_lost_its_mark_by_hand_answers_every_call() {
    let rig = Rig::new(3);
    rig.write(K, "v");
    rig.write(L, "w");
    let move_id = rig.open(A, B);
    assert_eq!(rig.batch(A, move_id, 1).unwrap().moved, 1);
    assert_eq!(rig.abort(move_id, 8), Ok(AbortStep::More));
    let target = &rig.cluster.nodes()[B];
    target.as_redis().set_slot(Slot::of(K), SetSlot::Stable).unwrap();
    let client = rig.cluster.client();
    let found = KEYS.map(|key| client.get(key).expect("an answer").is_some());
    assert_eq!(found.iter().filter(|&&found| found).count(), 1, "one is out of reach");
    assert_eq!(client.mget(&KEYS).expect("an answer").iter().flatten().count(), 1);
    client.set(KEYS[2], b"x").expect("an answer");
    let fixed = rig.cluster.fix().unwrap();
    assert!(fixed.left.is_healthy(), "{fixed}");
    for (key, value) in [(K, "v"), (L, "w"), (KEYS[2], "x")] {
        rig.check_read(key, Some(value));
    }
    rig.check_settled(A);
}

/// While the keys travel back the source answers no ASK: not for what it lacks, not for new keys.
#[test]
fn an_aborting_source_pulls_back_what_a_call_names() {
    let rig = Rig::new(3);
    rig.write(K, "v");
    rig.write(L, "v");
    let move_id = rig.open(A, B);
    rig.send_all(A, move_id);
    assert_eq!(rig.abort(move_id, 8), Ok(AbortStep::More));
    let client = rig.cluster.client();
    let (both, hops) = client.traced(|client| client.mget(&[K, L, b"{b}:absent"]));
    let both = both.unwrap();
    assert_eq!(both.iter().filter(|value| value.is_some()).count(), 2);
    let answers: Vec<_> = hops.iter().map(|hop| (hop.node.index(), hop.answer)).collect();
    assert_eq!(answers, [(A, Answer::PullBack { target: id(B) }), (A, Answer::Served)]);
    rig.write(b"{b}:new", "v");
    assert_eq!(rig.stored(B), 0);
    while rig.abort(move_id, 1) == Ok(AbortStep::More) {}
    rig.check_settled(A);
}

/// A retired importer gives nothing but the way back.
#[test]
fn an_aborting_move_takes_no_batch_no_flip_and_no_stable_over_split_keys() {
    let rig = Rig::new(3);
    rig.write(K, "v");
    rig.write(L, "v");
    let id = rig.open(A, B);
    assert_eq!(rig.batch(A, id, 1).unwrap().moved, 1);
    assert_eq!(rig.stable(A), Err(SetSlotError::KeysSplit));
    assert_eq!(rig.stable(B), Err(SetSlotError::KeysSplit));
    assert_eq!(rig.abort(id, 1), Ok(AbortStep::More));
    assert_eq!(rig.batch(A, id, 1), Err(SetSlotError::NoSuchMove));
    assert_eq!(rig.take(B), Err(SetSlotError::WrongOrder));
    assert_eq!(rig.stable(A), Err(SetSlotError::KeysSplit));
    assert_eq!(rig.stable(B), Err(SetSlotError::KeysSplit));
    assert_eq!(rig.abort(id, 1), Ok(AbortStep::Done));
    rig.check_settled(A);
}
