//! Moves: interrupted, repeated, stalled, and under load.

use std::sync::atomic::{AtomicBool, Ordering};

use slotkeep::reshard::{Move, MoveKind, MoveStep, PlannedMove, Reshard, Resume, resume};
use slotkeep::{
    AbortStep, AdminError, ClusterState, MigrateOptions, MovePhase, SetSlot, SetSlotError, Slot,
    SlotSet, SlotState,
};

use crate::setup::{Moving, id, open, slot, three_nodes, traced, watched};

fn refused(slot: Slot, error: SetSlotError) -> AdminError {
    AdminError::SetSlot { slot, error }
}

/// Any key of a slot.
fn key_of(slot: Slot) -> String {
    let mut keys = (0..).map(|number: u32| format!("k{number}"));
    keys.find(|key| Slot::of(key) == slot).expect("every slot has keys")
}

/// apache/kvrocks-controller#207, socketry/async-redis#54, OpenAtomFoundation/pikiwidb#175: the
/// last slot of a range was refused or unowned, slot 0 was taken for none.
#[test]
fn the_first_and_the_last_slot_of_each_node_are_slots_like_others() {
    let cluster = three_nodes();
    let client = cluster.client();
    for number in [0, 5460, 5461, 5462, 10_921, 10_922, 10_923, 16_383] {
        let (slot, key) = (slot(number), key_of(slot(number)));
        client.set(&key, key.as_bytes()).unwrap();
        let owner = cluster.slot_map().owner(slot).expect("every slot has an owner");
        let target = id((owner.index() + 1) % 3);
        let slots: SlotSet = [slot].into_iter().collect();
        let moves = Reshard::of(&cluster).move_slots(&slots, owner, target).unwrap();
        assert_eq!(moves.run().unwrap().slots_moved, 1, "slot {number}");
        assert_eq!(cluster.slot_map().owner(slot), Some(target));
        assert_eq!(client.get(&key).unwrap().as_deref(), Some(key.as_bytes()));
    }
}

/// redis/redis#863: releasing a slot twice ran into an assertion.
#[test]
fn verbs_that_come_twice_do_no_harm() {
    let moving = Moving::new(3, 3);
    moving.finish();
    let owner = SetSlot::Node { owner: moving.target.id() };
    let settled = moving.cluster.slot_map();
    for node in moving.cluster.nodes() {
        for _ in 0..2 {
            assert_eq!(node.set_slot(moving.slot, owner), Ok(None), "{}", node.id());
            assert_eq!(node.set_slot(moving.slot, SetSlot::Stable), Ok(None));
        }
    }
    assert_eq!(moving.cluster.slot_map(), settled, "and draw no epoch");
    let lone = slot(42);
    moving.source.del_slots(&[lone]).unwrap();
    for node in moving.cluster.nodes() {
        let again = AdminError::SlotUnassigned { slot: lone };
        assert_eq!(node.del_slots(&[lone]), Err(again));
    }
    moving.source.add_slots(&[lone]).unwrap();
    assert_eq!(moving.source.add_slots(&[lone]), Err(AdminError::SlotBusy { slot: lone }));
    moving.check_all_visible();
}

/// microsoft/garnet#1560: while a move ran, fewer slots counted as owned.
#[test]
fn every_slot_has_one_owner_at_every_step_of_a_move() {
    let cluster = three_nodes();
    let client = cluster.client();
    (0..5).for_each(|number| client.set(format!("{{b}}:{number}"), b"v").unwrap());
    let planned = PlannedMove { slot: Slot::of("{b}"), source: id(0), target: id(2) };
    let mut driver = Move::new(&cluster, planned, 2).unwrap();
    loop {
        let step = driver.step().unwrap();
        let maps = cluster.nodes().into_iter().map(|node| node.slot_map());
        for map in maps.chain([cluster.slot_map()]) {
            let owned: usize =
                cluster.node_ids().into_iter().map(|node| map.slots_of(node).len()).sum();
            assert_eq!(owned, 16_384);
        }
        assert!(cluster.nodes().iter().all(|node| node.cluster_state() == ClusterState::Ok));
        if step == (MoveStep::Done { flipped: true }) {
            break;
        }
    }
}

/// redis/redis#4937, #4627: after an interrupted move the keys at the target were invisible, and
/// their memory stayed.
#[test]
fn an_interrupted_move_hides_no_key() {
    for moved in 0..=4 {
        let moving = Moving::new(4, moved);
        for node in [&moving.source, &moving.target] {
            if moved > 0 {
                let split = refused(moving.slot, SetSlotError::KeysSplit);
                assert_eq!(node.set_slot(moving.slot, SetSlot::Stable), Err(split));
            }
            moving.check_all_visible();
        }
        while moving.cluster.abort_step(moving.id, 1) == Ok(AbortStep::More) {
            // What lies on both sides is what a pass over the whole cluster sees.
            assert_eq!(moving.client.len(), Ok(4));
            assert_eq!(moving.client.iter().count(), 4);
        }
        moving.check_all_visible();
        assert_eq!(moving.target.count_keys_in_slot(moving.slot), Ok(0));
        assert_eq!(moving.source.slot_state(moving.slot), Ok(SlotState::Stable));
    }
}

/// redis/redis#2969: a script flipped the owner after a batch that had failed.
#[test]
fn no_flip_follows_a_batch_that_failed() {
    let moving = Moving::new(6, 2);
    let batch = moving.source.migrate_batch(moving.slot, moving.id, 0);
    assert_eq!(batch, Err(AdminError::BatchSize { keys: 0 }));
    let named = ["{b}:4", "of another slot"];
    let keys = moving.source.migrate_keys(&named, id(1), MigrateOptions::default());
    assert_eq!(keys, Err(AdminError::CrossSlot));
    let owner = SetSlot::Node { owner: id(1) };
    let held = refused(moving.slot, SetSlotError::SourceHoldsKeys { source_node: id(0) });
    assert_eq!(moving.target.set_slot(moving.slot, owner), Err(held));
    let order = refused(moving.slot, SetSlotError::WrongOrder);
    assert_eq!(moving.source.set_slot(moving.slot, owner), Err(order));
    moving.check_all_visible();
    moving.finish();
    moving.check_all_visible();
}

/// microsoft/garnet#354: writes to keys that had not moved yet were refused.
#[test]
fn writes_to_a_key_that_has_not_moved_run_on_the_source() {
    let moving = Moving::new(1, 0);
    let name = &moving.names[0];
    let (done, asked, _) = traced(&moving.client, |client| -> Result<(), slotkeep::Error> {
        client.set(name, b"1")?;
        client.incr(name, 1)?;
        client.append(name, b"0")?;
        assert!(client.expire(name, std::time::Duration::from_secs(5000))?);
        assert!(client.persist(name)?);
        client.mset([(name, &b"2"[..])])?;
        client.update(name, |value| value.push(b'!'))?;
        assert!(client.remove(name)?);
        Ok(())
    });
    done.unwrap();
    assert_eq!(asked, [0; 8]);
    let (done, asked, _) = traced(&moving.client, |client| client.set(name, b"new"));
    done.unwrap();
    assert_eq!(asked, [0, 1], "a key that is not there is made at the target");
}

/// microsoft/garnet#494: the node that imported went away, and the slot pointed nowhere. Here nodes
/// stay; it is the driver that goes, and whoever comes finishes the move or takes it back.
#[test]
fn a_move_whose_driver_went_away_can_be_finished_or_taken_back() {
    for how in [Resume::Abort, Resume::Finish] {
        for steps in 0..=8 {
            let cluster = three_nodes();
            let client = cluster.client();
            let names: Vec<_> = (0..3).map(|number| format!("{{b}}:{number}")).collect();
            for name in &names {
                client.set(name, b"v").unwrap();
            }
            let slot = Slot::of("{b}");
            let planned = PlannedMove { slot, source: id(0), target: id(1) };
            let mut driver = Move::new(&cluster, planned, 1).unwrap();
            for _ in 0..steps {
                driver.step().unwrap();
            }
            drop(driver);
            for name in &names {
                assert!(client.get(name).unwrap().is_some(), "{how:?} after {steps} steps");
            }
            resume(&cluster, how).unwrap();
            let owner = cluster.slot_map().owner(slot).expect("an owner");
            for node in cluster.nodes() {
                assert_eq!(node.slot_state(slot), Ok(SlotState::Stable));
                assert_eq!(node.slot_owner(slot).owner, Some(owner));
                let keys = if node.id() == owner { 3 } else { 0 };
                assert_eq!(node.count_keys_in_slot(slot), Ok(keys), "{how:?} after {steps}");
            }
            assert!(cluster.moves().iter().all(|record| record.phase.is_ended()));
        }
    }
}

/// dragonflydb/dragonfly#3183: a copy that was broken off and restarted kept keys that had been
/// deleted at the source meanwhile.
#[test]
fn a_copy_that_is_begun_again_starts_from_nothing() {
    let cluster = three_nodes();
    let client = cluster.client();
    let (source, target) = (cluster.nodes()[0].clone(), cluster.nodes()[1].clone());
    let slot = Slot::of("{b}");
    let names = ["{b}:stays", "{b}:goes"];
    for name in names {
        client.set(name, b"v").unwrap();
    }
    let importing = SetSlot::Importing { source: id(0) };
    target.set_slot(slot, importing).unwrap();
    assert_eq!(source.copy_keys(&names, id(1), MigrateOptions::default()), Ok(2));
    assert!(client.remove("{b}:goes").unwrap());
    let migrating = SetSlot::Migrating { target: id(1) };
    let holds = refused(slot, SetSlotError::TargetHoldsKeys { target: id(1) });
    assert_eq!(source.set_slot(slot, migrating), Err(holds), "not over what may be stale");
    target.set_slot(slot, SetSlot::Stable).unwrap();
    assert_eq!(target.count_keys_in_slot(slot), Ok(0));
    let move_id = open(&source, &target, slot);
    while source.migrate_batch(slot, move_id, 1).unwrap().left > 0 {}
    target.set_slot(slot, SetSlot::Node { owner: id(1) }).unwrap();
    assert!(client.get("{b}:goes").unwrap().is_none());
    assert!(client.get("{b}:stays").unwrap().is_some());
    assert_eq!(client.len(), Ok(1));
}

/// dragonflydb/dragonfly#4080: a migration had failed, and nothing said why.
#[test]
fn a_stalled_move_says_how_far_it_is_and_why_it_does_not_go_on() {
    let moving = Moving::new(5, 2);
    let owner = SetSlot::Node { owner: id(1) };
    assert!(moving.target.set_slot_step(moving.slot, owner, moving.id).is_err());
    let record = moving.cluster.move_record(moving.id).expect("an open move");
    assert_eq!((record.source, record.target, record.slot), (id(0), id(1), moving.slot));
    assert_eq!((record.phase, record.keys_moved), (MovePhase::Migrating, 2));
    assert_eq!(record.ended, None);
    let why = record.last_error.expect("a reason").to_string();
    assert_eq!(why, "slot 3300: node 0 still holds keys of the slot");
    for node in [&moving.source, &moving.target] {
        assert_eq!(node.moves(), std::slice::from_ref(&record), "both sides show it");
    }
    moving.finish();
    let record = moving.cluster.move_record(moving.id).expect("an ended move");
    assert_eq!((record.phase, record.keys_moved), (MovePhase::Completed, 5));
    assert!(record.ended.is_some());
}

/// valkey-io/valkey#4545: under writers at full speed the move never came to its end.
#[test]
fn a_move_under_writers_at_full_speed_ends_after_one_pass_over_the_keys() {
    const KEYS: usize = 512;
    watched(|| {
        let cluster = three_nodes();
        let stop = AtomicBool::new(false);
        let slots: SlotSet = [Slot::of("{b}")].into_iter().collect();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (client, stop) = (cluster.client(), &stop);
                scope.spawn(move || {
                    let mut number = writer;
                    while !stop.load(Ordering::Relaxed) {
                        client.set(format!("{{b}}:{}", number % KEYS), b"v").unwrap();
                        number += 1;
                    }
                });
            }
            for (source, target) in [(0, 1), (1, 2), (2, 0), (0, 2)] {
                let moves = Reshard::of(&cluster).by(MoveKind::Classic).batch_keys(16);
                let moves = moves.move_slots(&slots, id(source), id(target)).unwrap();
                let report = moves.run().unwrap();
                assert_eq!(report.slots_moved, 1);
                // A migrating source never gains a key.
                assert!(report.keys_moved <= KEYS as u64, "{report:?}");
            }
            stop.store(true, Ordering::Relaxed);
        });
        let client = cluster.client();
        assert_eq!(client.iter().count(), client.len().unwrap());
        assert_eq!(cluster.slot_map().owner(Slot::of("{b}")), Some(id(2)));
    });
}

/// Seen on redis 7.0: SETSLOT MIGRATING to the node itself was accepted, and answered nil.
#[test]
fn a_move_to_oneself_is_refused_by_every_way_in() {
    let cluster = three_nodes();
    let slot = Slot::of("{b}");
    let itself = Err(refused(slot, SetSlotError::MoveToSelf { node: id(0) }));
    let owner = cluster.nodes()[0].clone();
    assert_eq!(owner.set_slot(slot, SetSlot::Migrating { target: id(0) }), itself);
    let importing = owner.set_slot(slot, SetSlot::Importing { source: id(0) });
    assert_eq!(importing, itself);
    let slots: SlotSet = [slot].into_iter().collect();
    assert!(Reshard::of(&cluster).move_slots(&slots, id(0), id(0)).is_err());
    assert_eq!(owner.slot_state(slot), Ok(SlotState::Stable));
    assert!(cluster.client().get("{b}").unwrap().is_none());
}
