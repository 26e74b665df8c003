//! Claims and ADDSLOTS: compared slot by slot, never by force, never at the price of a key.

use slotkeep::{AdminError, SlotState};

use crate::rig::{A, B, C, K, OF_B, Rig, check_way, id, redirects};

/// Row 1: with one epoch for all slots of a node, C refused the older of two true claims for ever.
#[test]
fn claims_are_compared_slot_by_slot_in_whatever_order_they_come() {
    let rig = Rig::held(3);
    let other = rig.about(OF_B);
    rig.complete(A, B);
    other.complete(B, A);
    let bus = rig.cluster.bus();
    assert_eq!(bus.held_count(), 4, "each flip tells two nodes");
    assert!(bus.deliver(3), "A's later claim arrives at C first");
    assert_eq!((rig.seen_by(C), other.seen_by(C)), (Some(A), Some(A)));
    assert!(bus.deliver(1), "then B's earlier one");
    assert_eq!((rig.seen_by(C), other.seen_by(C)), (Some(B), Some(A)));
    rig.check_settled(B);
    other.check_settled(A);
}

/// Row 1b: a source that had not heard of its own move claimed the slot again with the epoch of
/// another slot.
#[test]
fn an_epoch_won_with_one_slot_claims_no_other() {
    let rig = Rig::held(3);
    let other = rig.about(OF_B);
    rig.write(K, "v");
    let stale = rig.cluster.client();
    let old = rig.open(A, B);
    rig.send_all(A, old);
    assert_eq!(rig.take(B), Ok(Some(old)));
    rig.complete(B, C);
    other.complete(B, A);
    let config_epoch = |at| rig.node(at).config_epoch();
    assert!(config_epoch(A) > config_epoch(C), "A has the greatest epoch, and no claim by it");
    assert_eq!(rig.state(A), SlotState::Migrating { target: id(B), id: old });
    // What A has to say goes to B and C.
    let bus = rig.cluster.bus();
    assert!(bus.deliver(bus.held_count() - 2) && bus.deliver(bus.held_count() - 1));
    assert_eq!((rig.seen_by(B), rig.seen_by(C)), (Some(C), Some(C)));
    check_way(&stale, K, Some("v"), &[A, B, C]);
    check_way(&stale, K, Some("v"), &[C]);
    rig.check_settled(C);
    other.check_settled(A);
}

/// Row 12: two nodes that knew of no owner both took the slot.
#[test]
fn add_slots_asks_the_whole_cluster_and_not_the_nodes_view() {
    let rig = Rig::unassigned(3);
    let slot = rig.slot();
    rig.node(A).add_slots(&[slot]).unwrap();
    rig.write(K, "v");
    assert_eq!(rig.seen_by(B), None, "the claim is on its way");
    assert_eq!(rig.node(B).add_slots(&[slot]), Err(AdminError::SlotBusy { slot }));
    assert_eq!(rig.node(A).add_slots(&[slot]), Err(AdminError::SlotBusy { slot }));
    rig.check_read(K, Some("v"));
    rig.check_settled(A);
}

/// Row 12: keys were lost when a slot was given up with them and taken by another node.
#[test]
fn a_slot_changes_hands_by_del_and_add_only_without_keys_and_by_a_greater_epoch() {
    let rig = Rig::unassigned(3);
    let slot = rig.slot();
    let epoch = || rig.cluster.slot_map().get(slot).epoch;
    rig.node(A).add_slots(&[slot]).unwrap();
    let added = epoch();
    rig.write(K, "v");
    assert_eq!(rig.node(A).del_slots(&[slot]), Err(AdminError::SlotHoldsKeys { slot }));
    assert!(rig.cluster.client().remove(K).unwrap());
    rig.node(A).del_slots(&[slot]).unwrap();
    let deleted = epoch();
    assert_eq!(rig.cluster.slot_map().owner(slot), None);
    rig.node(B).add_slots(&[slot]).unwrap();
    assert!(added < deleted && deleted < epoch());
    // Whatever order the three claims arrive in, the last one wins.
    let bus = rig.cluster.bus();
    while bus.deliver(bus.held_count().wrapping_sub(1)) {}
    rig.check_settled(B);
}

/// Row 13: a claim that reached an importing node cleared its mark, and ASK looped.
#[test]
fn a_claim_never_clears_an_importing_mark() {
    let rig = Rig::held(3);
    let slot = rig.slot();
    let id_of_move = rig.importing(B, A).unwrap();
    // The owner gives the slot up and takes it again: two claims newer than what B knew.
    rig.node(A).del_slots(&[slot]).unwrap();
    rig.node(A).add_slots(&[slot]).unwrap();
    assert_eq!(rig.migrating(A, B), Ok(id_of_move));
    while rig.cluster.bus().deliver(0) {}
    assert_eq!(rig.state(B), SlotState::Importing { source: id(A), id: id_of_move });
    assert_eq!(rig.node(B).slot_owner(slot), rig.node(A).slot_owner(slot));
    check_way(&rig.cluster.client(), K, None, &[A, B]);
    assert_eq!(rig.take(B), Ok(Some(id_of_move)));
    rig.check_settled(B);
}

/// Row 13: the claim of one importer that took the slot reaches another one.
#[test]
fn an_importer_that_came_too_late_keeps_its_mark_until_it_is_told() {
    let rig = Rig::new(3);
    rig.write(K, "v");
    let late = rig.importing(C, A).unwrap();
    rig.complete(A, B);
    assert_eq!(rig.state(C), SlotState::Importing { source: id(A), id: late });
    assert_eq!(rig.seen_by(C), Some(B));
    let (read, hops) = rig.cluster.client().traced(|client| client.get(K));
    assert!(read.unwrap().is_some());
    assert_eq!(redirects(&hops), 0);
    assert_eq!(rig.stable(C), Ok(Some(late)));
    rig.check_settled(B);
}

/// Row 16: a claim that had been overtaken made its receiver delete keys.
#[test]
fn a_stale_claim_deletes_nothing_and_is_answered() {
    let rig = Rig::unassigned(3);
    rig.node(A).add_slots(&[rig.slot()]).unwrap();
    rig.write(K, "v");
    let bus = rig.cluster.bus();
    assert_eq!(bus.held_count(), 2, "A's claim, to B and to C");
    rig.complete(A, B);
    let held = bus.held_count();
    assert!(bus.deliver(0), "A's claim arrives at the node that owns the slot by now");
    assert_eq!(bus.held_count(), held, "one less, and the answer");
    assert_eq!(rig.stored(B), 1);
    assert!(rig.node(B).conflicts().is_empty(), "stale is no contradiction");
    rig.check_read(K, Some("v"));
    rig.check_settled(B);
}

/// A claim is lost; the next contact heals what the node believes.
#[test]
fn a_dropped_claim_heals_at_the_next_contact() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let stale = rig.cluster.client();
    rig.complete(A, B);
    while rig.cluster.bus().discard(0) {}
    assert_eq!(rig.seen_by(C), Some(A));
    check_way(&stale, K, Some("v"), &[A, B]);
    // C tells B what it believes, in the way of a contact, and is told better.
    assert_eq!(rig.tell(C, B), Ok(None));
    rig.check_settled(B);
}
