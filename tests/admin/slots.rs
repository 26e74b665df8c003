//! ADDSLOTS, DELSLOTS, their ranges, FLUSHSLOTS.

use std::time::Duration;

use slotkeep::{
    AdminError, ClusterState, Epoch, SetOptions, SetSlot, Slot, SlotError, SlotRange, SlotState,
};

use crate::setup::{
    KEY, assigned, check, is_open, one, open, range, slot, slots, three, two, unassigned,
};

#[test]
fn add_slots_makes_the_node_the_owner_everywhere() {
    let (cluster, nodes) = unassigned(3);
    nodes[1].add_slots(&slots([0, 7, 16_383])).unwrap();
    for node in &nodes {
        let owned: Vec<_> = node.slot_map().slots_of(two()).iter().map(Slot::number).collect();
        assert_eq!(owned, [0, 7, 16_383], "as {} sees it", node.id());
    }
    assert_eq!(nodes[1].slots().len(), 3);
    assert_eq!(cluster.slot_map().unowned().len(), 16_381);
}

#[test]
fn one_busy_slot_among_many_refuses_all() {
    let (cluster, nodes) = unassigned(2);
    nodes[0].add_slots(&slots([500])).unwrap();
    let before = cluster.slot_map().get(slot(500));
    for node in &nodes {
        let busy = AdminError::SlotBusy { slot: slot(500) };
        let text = "ERR Slot 500 is already busy";
        check(node.add_slots(&slots(100..=600)), busy, text);
        check(node.add_slot_ranges(&[range("0-499"), range("500-501")]), busy, text);
    }
    assert_eq!(cluster.slot_map().unowned().len(), 16_383, "nothing was added");
    assert_eq!(cluster.slot_map().get(slot(500)), before);
    for number in [100, 499, 501, 600] {
        assert_eq!(nodes[1].slot_state(slot(number)), Ok(SlotState::Stable));
    }
    nodes[1].add_slots(&slots((100..500).chain(501..=600))).unwrap();
    assert_eq!(nodes[1].slots().len(), 500, "what was let go can be taken");
}

#[test]
fn one_foreign_slot_among_many_refuses_all_of_a_del() {
    let (cluster, nodes) = unassigned(2);
    nodes[0].add_slot_ranges(&[range("0-99")]).unwrap();
    nodes[1].add_slots(&slots([100])).unwrap();
    for foreign in [100, 200] {
        let unassigned = AdminError::SlotUnassigned { slot: slot(foreign) };
        let text = format!("ERR Slot {foreign} is already unassigned");
        check(nodes[0].del_slots(&slots([98, foreign, 99])), unassigned, &text);
    }
    assert_eq!(nodes[0].slots().len(), 100);
    let client = cluster.client();
    assert!(client.get("{la2}").is_ok(), "slot 0 is served as before");
}

#[test]
fn a_slot_that_is_listed_twice_refuses_all() {
    let (_cluster, nodes) = unassigned(2);
    let twice = AdminError::SlotListedTwice { slot: slot(5) };
    let text = "ERR Slot 5 specified multiple times";
    check(nodes[0].add_slots(&slots([4, 5, 6, 5])), twice, text);
    check(nodes[0].add_slot_ranges(&[range("0-5"), range("5-9")]), twice, text);
    assert!(nodes[0].slots().is_empty());
    nodes[0].add_slot_ranges(&[range("0-9")]).unwrap();
    check(nodes[0].del_slots(&slots([5, 5])), twice, text);
    check(nodes[0].del_slot_ranges(&[range("0-9"), range("5")]), twice, text);
    assert_eq!(nodes[0].slots().len(), 10);
}

#[test]
fn no_slot_is_no_work() {
    let (cluster, nodes) = unassigned(1);
    assert_eq!(nodes[0].add_slots(&[]), Ok(()));
    assert_eq!(nodes[0].del_slots(&[]), Ok(()));
    assert_eq!(nodes[0].flush_slots(), Ok(()));
    assert_eq!(cluster.slot_map().unowned().len(), 16_384);
    assert_eq!(nodes[0].current_epoch(), Epoch::ZERO);
}

#[test]
fn del_slots_refuses_a_slot_with_live_keys_and_keeps_the_others() {
    let (cluster, nodes) = assigned(2);
    let client = cluster.client();
    client.set(KEY, b"v").unwrap();
    let all_but = slots([3299, 3300, 3301]);
    let held = AdminError::SlotHoldsKeys { slot: slot(3300) };
    assert_eq!(nodes[0].del_slots(&all_but), Err(held));
    assert_eq!(nodes[0].slots().len(), 8192);
    assert_eq!(nodes[0].cluster_state(), ClusterState::Ok);
    assert_eq!(client.get(KEY).unwrap().as_deref(), Some(&b"v"[..]));
    assert!(client.remove(KEY).unwrap());
    nodes[0].del_slots(&all_but).unwrap();
    assert_eq!(cluster.slot_map().unowned().len(), 3);
}

#[test]
fn a_slot_that_holds_only_a_dead_key_is_empty() {
    let (cluster, nodes) = assigned(1);
    let client = cluster.client();
    let dead = SetOptions::new().expire_in(Duration::ZERO);
    client.set_with(KEY, b"v", &dead).unwrap();
    nodes[0].del_slots(&slots([3300])).unwrap();
    assert_eq!(nodes[0].count_keys_in_slot(slot(3300)), Ok(0));
}

#[test]
fn flush_slots_is_refused_while_any_slot_holds_a_key() {
    let (cluster, nodes) = assigned(2);
    let client = cluster.client();
    client.set(KEY, b"v").unwrap();
    let held = AdminError::SlotHoldsKeys { slot: slot(3300) };
    let text = "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.";
    check(nodes[0].flush_slots(), held, text);
    assert_eq!(nodes[0].slots().len(), 8192);
    nodes[1].flush_slots().unwrap();
    assert!(nodes[1].slots().is_empty());
    assert!(client.remove(KEY).is_err(), "full coverage is gone");
    cluster.node(one()).unwrap().set_full_coverage(false);
    assert!(client.remove(KEY).unwrap());
    nodes[0].flush_slots().unwrap();
    assert_eq!(cluster.slot_map().unowned().len(), 16_384);
}

#[test]
fn a_marked_slot_is_neither_added_nor_deleted() {
    let (cluster, nodes) = assigned(3);
    let moving = slot(3300);
    let move_id = open(&nodes[0], &nodes[1], moving);
    assert_eq!(nodes[0].del_slots(&[moving]), Err(is_open(moving, one(), move_id)));
    assert_eq!(nodes[0].flush_slots(), Err(is_open(moving, one(), move_id)));
    assert_eq!(nodes[1].add_slots(&[moving]), Err(AdminError::SlotBusy { slot: moving }));
    assert_eq!(nodes[0].slots().len(), 5461, "all or nothing");
    // An importer whose owner gives the slot up is marked all the same.
    let alone = slot(77);
    let importing = SetSlot::Importing { source: one() };
    let id = nodes[2].set_slot(alone, importing).unwrap().unwrap();
    nodes[0].del_slots(&[alone]).unwrap();
    assert_eq!(nodes[2].add_slots(&[alone]), Err(is_open(alone, three(), id)));
    assert_eq!(cluster.slot_map().owner(alone), None);
    nodes[2].set_slot(alone, SetSlot::Stable).unwrap();
    assert_eq!(nodes[2].add_slots(&[alone]), Ok(()));
}

#[test]
fn a_slot_beyond_the_last_cannot_be_made() {
    assert_eq!(Slot::new(16_384), None);
    assert_eq!(Slot::new(u16::MAX), None);
    assert!(Slot::new(16_383).is_some());
    for text in ["16384", "-1", "01", "abc", "", "+1", " 1", "99999999999999999999"] {
        assert!(text.parse::<Slot>().is_err(), "{text:?}");
    }
    assert!("0-16384".parse::<SlotRange>().is_err());
    let reversed: Result<SlotRange, SlotError> = "5-3".parse();
    assert!(matches!(reversed, Err(SlotError::Reversed { .. })), "{reversed:?}");
}
