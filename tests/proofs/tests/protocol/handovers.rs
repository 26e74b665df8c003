//! Handovers: the same counterexamples with slots that change hands in one hold, and reservations.

use std::time::Duration;

use slotkeep::reshard::{Handover, MoveStep, PlannedMove, Resume, resume};
use slotkeep::{AdminError, Answer, HandoverStep, MovePhase, SetSlotError, SlotState, WorkerError};

use crate::rig::{A, B, C, D, K, L, OF_B, Rig, check_way, id, is_open, redirects};

/// Two keys whose slots, 12739 and 15495, the last of four nodes owns at the start.
const OF_D: [&[u8]; 2] = [b"123456789", b"{a}"];

const TTL: Duration = Duration::from_secs(10);

/// Row 1: with one epoch for all slots of a node, C refused the older of two true claims for ever.
#[test]
fn claims_of_handovers_are_compared_slot_by_slot() {
    let rig = Rig::held(3);
    let other = rig.about(OF_B);
    rig.hand_over(A, B).unwrap();
    other.hand_over(B, A).unwrap();
    let bus = rig.cluster.bus();
    assert_eq!(bus.held_count(), 4, "each handover tells two nodes");
    assert!(bus.deliver(3), "A's later claim arrives at C first");
    assert_eq!((rig.seen_by(C), other.seen_by(C)), (Some(A), Some(A)));
    assert!(bus.deliver(1), "then B's earlier one");
    assert_eq!((rig.seen_by(C), other.seen_by(C)), (Some(B), Some(A)));
    rig.check_settled(B);
    other.check_settled(A);
}

/// Row 1b: a source that had not heard of its own move claimed the slot again with the epoch of
/// another slot, which had been handed over to it.
#[test]
fn an_epoch_won_by_the_handover_of_one_slot_claims_no_other() {
    let rig = Rig::held(3);
    let other = rig.about(OF_B);
    rig.write(K, "v");
    let stale = rig.cluster.client();
    let old = rig.open(A, B);
    rig.send_all(A, old);
    assert_eq!(rig.take(B), Ok(Some(old)));
    rig.hand_over(B, C).unwrap();
    other.hand_over(B, A).unwrap();
    assert!(rig.node(A).config_epoch() > rig.node(C).config_epoch());
    assert_eq!(rig.state(A), SlotState::Migrating { target: id(B), id: old });
    let bus = rig.cluster.bus();
    assert!(bus.deliver(bus.held_count() - 2) && bus.deliver(bus.held_count() - 1));
    assert_eq!((rig.seen_by(B), rig.seen_by(C)), (Some(C), Some(C)));
    check_way(&stale, K, Some("v"), &[A, B, C]);
    rig.check_settled(C);
    other.check_settled(A);
}

/// Row 2c: the source was handed over to C under an open mark, and B flipped after that.
#[test]
fn a_source_with_an_open_move_is_handed_over_to_nobody_else() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let open = rig.open(A, B);
    assert_eq!(rig.hand_over(A, C), Err(is_open(A, open)));
    rig.send_all(A, open);
    assert_eq!(rig.hand_over(A, C), Err(is_open(A, open)));
    assert_eq!(rig.take(B), Ok(Some(open)));
    assert_eq!(rig.hand_over(A, C), Err(is_open(A, open)));
    rig.check_read(K, Some("v"));
    rig.check_settled(B);
}

/// Row 2c, as far as only the target is marked: a lone importer loses nothing, and flips nothing.
#[test]
fn a_lone_importer_of_a_slot_that_was_handed_over_never_flips() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let lone = rig.importing(B, A).unwrap();
    assert_eq!(rig.hand_over(A, B), Err(is_open(B, lone)));
    rig.hand_over(A, C).unwrap();
    assert_eq!(rig.migrating(A, B), Err(SetSlotError::NotOwner { node: id(A) }));
    assert_eq!(rig.take(B), Err(SetSlotError::WrongOrder));
    assert_eq!(rig.stable(B), Ok(Some(lone)));
    rig.check_read(K, Some("v"));
    rig.check_settled(C);
}

/// Row 2d: the mark of a move whose driver died after the flip stood while the slot was handed on
/// and back.
#[test]
fn a_slot_is_not_handed_back_over_a_mark_that_outlived_its_driver() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let old = rig.open(A, B);
    rig.send_all(A, old);
    assert_eq!(rig.take(B), Ok(Some(old)));
    rig.hand_over(B, C).unwrap();
    assert_eq!(rig.hand_over(C, A), Err(is_open(A, old)));
    assert_eq!(rig.tell(A, B), Ok(Some(old)));
    assert_eq!(rig.seen_by(A), Some(C), "the target's present view is adopted, not its flip");
    rig.hand_over(C, A).unwrap();
    assert_eq!(rig.record(old).phase, MovePhase::Completed);
    check_way(&rig.cluster.client(), K, Some("v"), &[A]);
    rig.check_settled(A);
}

/// Row 5, as far as a call of several keys follows ASK: the target has handed the slot on.
#[test]
fn keys_of_a_call_end_at_the_owner_when_the_target_has_handed_the_slot_on() {
    let rig = Rig::held(3);
    let stale = rig.cluster.client();
    let old = rig.open(A, B);
    assert_eq!(rig.take(B), Ok(Some(old)));
    rig.hand_over(B, C).unwrap();
    stale.mset([(K, &b"1"[..]), (L, b"2")]).unwrap();
    assert_eq!(rig.stored(C), 2);
    rig.check_settled(C);
}

/// Row 10, with the handover that ends the move: an ASKING that comes late names an ended id.
#[test]
fn a_late_ask_of_a_move_that_ended_by_a_handover_is_sent_on() {
    let rig = Rig::new(3);
    let open = rig.open(A, B);
    let client = rig.cluster.client();
    let mut late = client.step_set(K, b"late", None);
    assert!(late.step().is_none(), "A says ASK");
    assert_eq!(rig.hand_over(A, B).unwrap().id, open);
    rig.hand_over(B, C).unwrap();
    let second = rig.open(C, B);
    assert_ne!(open, second);
    late.finish().unwrap();
    assert_eq!((rig.stored(B), rig.stored(C)), (1, 0), "by way of C's own ASK");
    rig.send_all(C, second);
    rig.hand_over(C, B).unwrap();
    rig.check_read(K, Some("late"));
    rig.check_settled(B);
}

/// Row 11: a client that took a whole map from a node which had not heard went in a circle.
#[test]
fn a_map_from_a_node_that_has_not_heard_of_handovers_changes_nothing_that_is_newer() {
    let rig = Rig::held(4);
    rig.write(K, "v");
    let client = rig.cluster.client();
    rig.hand_over(A, B).unwrap();
    rig.hand_over(B, C).unwrap();
    for key in OF_D {
        rig.about(key).hand_over(D, A).unwrap();
    }
    assert_eq!(rig.seen_by(D), Some(A), "D has not heard of either handover");
    check_way(&client, K, Some("v"), &[A, B, C]);
    // The second of these MOVED makes the client take D's whole map.
    check_way(&client, OF_D[0], None, &[D, A]);
    check_way(&client, OF_D[1], None, &[D, A]);
    check_way(&client, K, Some("v"), &[C]);
    rig.check_settled(C);
}

/// Row 16: a claim that had been overtaken made its receiver delete keys.
#[test]
fn a_claim_that_a_handover_has_overtaken_deletes_nothing_and_is_answered() {
    let rig = Rig::unassigned(3);
    rig.node(A).add_slots(&[rig.slot()]).unwrap();
    rig.write(K, "v");
    let bus = rig.cluster.bus();
    assert_eq!(bus.held_count(), 2, "A's claim, to B and to C");
    rig.hand_over(A, B).unwrap();
    let held = bus.held_count();
    assert!(bus.deliver(0), "A's claim arrives at the node that owns the slot by now");
    assert_eq!(bus.held_count(), held, "one less, and the answer");
    assert_eq!(rig.stored(B), 1);
    assert!(rig.node(B).conflicts().is_empty(), "stale is no contradiction");
    rig.check_read(K, Some("v"));
    rig.check_settled(B);
}

/// A target that knows of no owner yet is handed the slot all the same: both views are the new one.
#[test]
fn a_target_that_is_behind_learns_by_the_handover_itself() {
    let rig = Rig::unassigned(3);
    rig.node(A).add_slots(&[rig.slot()]).unwrap();
    rig.write(K, "v");
    assert_eq!(rig.seen_by(B), None);
    rig.hand_over(A, B).unwrap();
    assert_eq!((rig.seen_by(A), rig.seen_by(B)), (Some(B), Some(B)));
    while rig.cluster.bus().discard(0) {}
    check_way(&rig.cluster.client(), K, Some("v"), &[B]);
}

/// Keys that expired at the target before it was handed the slot are gone, and count as absent.
#[test]
fn dead_keys_of_a_target_are_dropped_and_no_obstacle() {
    let rig = Rig::new(3);
    rig.write_for(K, "dead", TTL);
    rig.write(L, "v");
    let open = rig.open(A, B);
    assert_eq!(rig.batch(A, open, 8).unwrap().moved, 2);
    rig.cluster.advance(TTL);
    rig.write(K, "live");
    assert!(rig.cluster.client().remove(L).unwrap() && rig.cluster.client().remove(K).unwrap());
    rig.write_for(K, "dead too", TTL);
    rig.cluster.advance(TTL);
    assert_eq!((rig.stored(B), rig.live(B)), (1, 0));
    assert_eq!(rig.hand_over(A, B).unwrap().keys, 0);
    assert_eq!((rig.stored(A), rig.stored(B)), (0, 0));
    rig.check_settled(B);
}

/// The same at a source whose live keys have all been sent: nothing but dead ones is left there.
#[test]
fn dead_keys_of_a_source_that_has_sent_the_others_are_dropped() {
    let rig = Rig::new(3);
    rig.write_for(K, "dead", TTL);
    let open = rig.open(A, B);
    rig.write(L, "v");
    rig.cluster.advance(TTL);
    assert_eq!((rig.stored(A), rig.live(A), rig.live(B)), (1, 0, 1));
    let handed = rig.hand_over(A, B).unwrap();
    assert_eq!((handed.id, handed.keys), (open, 0));
    assert_eq!((rig.stored(A), rig.stored(B)), (0, 1));
    rig.check_read(L, Some("v"));
    rig.check_settled(B);
}

/// A flip of a committed set waits for a call in the gate, and does not fail for it.
#[test]
fn a_call_in_the_gate_delays_a_committed_flip_and_does_not_fail_it() {
    let rig = Rig::new(3);
    rig.write(K, "v");
    let client = rig.cluster.client();
    let (answer, hops) = client.traced(|client| {
        let mut call = client.step_get(K);
        // The slot is away before each of five steps.
        for (source, target) in [(A, B), (B, C), (C, A), (A, B), (B, C)] {
            rig.hand_over(source, target).unwrap();
            assert!(call.step().is_none());
        }
        let busy = AdminError::Worker(WorkerError::Busy);
        assert_eq!(rig.node(C).hand_over(rig.slot(), id(A)), Err(busy));
        assert_eq!(rig.node(C).as_redis().del_slots(&[rig.slot()]), Err(busy));
        let planned = PlannedMove { slot: rig.slot(), source: id(C), target: id(A) };
        let mut driver = Handover::new(&rig.cluster, &[planned]);
        assert_eq!(driver.step(), Ok(MoveStep::More), "the set is open");
        assert_eq!(driver.step(), Ok(MoveStep::More), "reserved: no call sees that");
        assert_eq!(driver.step(), Ok(MoveStep::Busy));
        assert_eq!(driver.step(), Ok(MoveStep::Busy));
        let answer = call.finish();
        assert_eq!(driver.step(), Ok(MoveStep::More), "the call has left the gate");
        assert_eq!(driver.step(), Ok(MoveStep::Done { flipped: true }));
        let record = rig.cluster.moves().remove(0);
        assert_eq!((record.phase, record.retries), (MovePhase::Completed, 2));
        assert_eq!(record.last_error, None, "a slot that was held still is no reason");
        answer
    });
    assert_eq!(answer.unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(redirects(&hops), 5, "{hops:?}");
    assert!(hops[..5].iter().all(|hop| matches!(hop.answer, Answer::Moved { .. })), "{hops:?}");
    rig.check_settled(A);
}

/// A set whose driver died after the last flip has told nobody; whoever goes on tells.
#[test]
fn the_claims_of_a_set_are_made_known_by_whoever_finishes_it() {
    let rig = Rig::held(3);
    let planned = PlannedMove { slot: rig.slot(), source: id(A), target: id(B) };
    let set = rig.cluster.begin_handover(&[planned]).unwrap();
    let slot = rig.slot();
    assert_eq!(rig.cluster.handover_step(set), Ok(HandoverStep::Reserved { slot }));
    assert_eq!(rig.cluster.handover_step(set), Ok(HandoverStep::Flipped { slot, keys: 0 }));
    assert_eq!((rig.seen_by(A), rig.seen_by(B), rig.seen_by(C)), (Some(B), Some(B), Some(A)));
    assert_eq!(rig.cluster.bus().held_count(), 0);
    resume(&rig.cluster, Resume::Abort).unwrap();
    assert_eq!(rig.cluster.bus().held_count(), 2, "one message for each other node");
    rig.check_settled(B);
}
