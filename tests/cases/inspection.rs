//! Passes over keys and counts of them, while keys come and go and slots move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use slotkeep::reshard::{MoveKind, Reshard, plan_moves};
use slotkeep::{Client, CommandError, Handle, Slot, SlotSet};

use crate::setup::{Moving, id, slot, three_nodes, watched};

/// How often a pass over the whole cluster sees each key.
fn pass(client: &Client) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for entry in client {
        let entry = entry.expect("an open cluster");
        let key = String::from_utf8_lossy(Handle::key(&entry)).into_owned();
        *seen.entry(key).or_default() += 1;
    }
    seen
}

/// valkey-io/valkey#3456, redis/redis#14414: keys of slots that had left were listed, and keys that
/// were half imported.
///
/// The calls of a client see each key once, wherever it lies; those of a node see what lies there.
#[test]
fn a_pass_sees_each_key_once_before_during_and_after_a_move() {
    for moved in [0, 4, 10] {
        let moving = Moving::new(10, moved);
        let check = || {
            let seen = pass(&moving.client);
            assert_eq!(seen.len(), 10, "{moved} keys have moved");
            assert!(seen.values().all(|&times| times == 1), "{seen:?}");
            assert_eq!(moving.client.counts(), Ok(vec![(moving.slot, 10)]));
            assert_eq!(moving.client.entries_of_slot(moving.slot).unwrap().len(), 10);
        };
        check();
        assert_eq!(moving.names_on(&moving.target).len(), moved);
        moving.finish();
        check();
        assert!(moving.names_on(&moving.source).is_empty());
        assert_eq!(moving.source.stored_slots(), Ok(vec![]));
        assert_eq!(moving.target.stored_slots(), Ok(vec![(moving.slot, 10)]));
    }
}

/// BetterDB-inc/monitor#376: counts of slots and a total that were read apart did not agree.
#[test]
fn each_slot_is_counted_at_one_instant() {
    const KEYS: usize = 20;
    watched(|| {
        let cluster = three_nodes();
        let client = cluster.client();
        for tag in ["busy", "moving"] {
            (0..KEYS).for_each(|n| client.set(format!("{{{tag}}}:{n}"), b"v").unwrap());
        }
        let (busy, moving) = (Slot::of("busy"), Slot::of("moving"));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let client = cluster.client();
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let pair = [number, number + KEYS].map(|n| format!("{{busy}}:{n}"));
                    let swap = client.transaction(&pair, |keys| -> Result<(), CommandError> {
                        assert!(keys.remove(&pair[0])?);
                        keys.set(&pair[1], b"v")
                    });
                    swap.unwrap().unwrap();
                    number += 1;
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let source = cluster.slot_map().owner(moving).expect("an owner");
                    let target = id((source.index() + 1) % 3);
                    let slots: SlotSet = [moving].into_iter().collect();
                    let reshard = Reshard::of(&cluster).by(MoveKind::Classic).batch_keys(3);
                    reshard.move_slots(&slots, source, target).unwrap().run().unwrap();
                }
            });
            for round in 0..300 {
                let counts = client.counts().unwrap();
                let count_of = |slot| counts.iter().find(|count| count.0 == slot);
                assert_eq!(count_of(busy), Some(&(busy, KEYS)), "round {round}");
                assert_eq!(count_of(moving), Some(&(moving, KEYS)), "round {round}");
                assert_eq!(client.live(), Ok(2 * KEYS), "round {round}");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

/// xacrimon/dashmap#97: whether a pass sees every key that stays was left open.
#[test]
fn a_pass_sees_what_stays_once_while_others_come_and_go_and_slots_move() {
    watched(|| {
        let cluster = three_nodes();
        let client = cluster.client();
        let staying: Vec<_> = (0..200).map(|number| format!("stays:{number}")).collect();
        for name in &staying {
            client.set(name, b"v").unwrap();
        }
        let moving: Vec<_> = staying[..20].iter().map(Slot::of).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let client = cluster.client();
                let mut number: u32 = 0;
                while !stop.load(Ordering::Relaxed) {
                    client.set(format!("comes:{}", number % 500), b"v").unwrap();
                    client.remove(format!("comes:{}", (number + 250) % 500)).unwrap();
                    number += 1;
                }
            });
            scope.spawn(|| {
                let mut turns = moving.iter().cycle();
                while !stop.load(Ordering::Relaxed) {
                    let slots: SlotSet = turns.next().copied().into_iter().collect();
                    let map = cluster.slot_map();
                    let source = slots.iter().find_map(|slot| map.owner(slot)).expect("an owner");
                    let target = id((source.index() + 1) % 3);
                    assert_eq!(plan_moves(&map, &slots, source, target).unwrap().len(), 1);
                    let reshard = Reshard::of(&cluster).by(MoveKind::Classic);
                    reshard.move_slots(&slots, source, target).unwrap().run().unwrap();
                }
            });
            for round in 0..30 {
                let seen = pass(&client);
                for name in &staying {
                    assert_eq!(seen.get(name), Some(&1), "{name} in round {round}");
                }
                assert!(seen.values().all(|&times| times == 1), "round {round}");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

/// dragonflydb/dragonfly#4455, #4495: a slot was flushed under a pass that was on its way.
#[test]
fn slots_may_be_cleared_under_a_pass() {
    let cluster = three_nodes();
    let client = cluster.client();
    (0..100).for_each(|number| client.set(format!("k:{number}"), b"v").unwrap());
    let mut entries = client.iter();
    let first = entries.next().expect("a first entry").unwrap();
    let current = Slot::of(Handle::key(&first));
    assert!(client.clear_slot(current).unwrap() > 0, "the slot that the pass is in");
    let cleared: Vec<_> = Slot::all().filter(|slot| slot.number() > 9000).collect();
    for &slot in &cleared {
        client.clear_slot(slot).unwrap();
    }
    for entry in entries {
        let entry = entry.unwrap();
        assert_eq!(&*entry, b"v", "a handle keeps its value");
        assert!(Slot::of(Handle::key(&entry)) <= slot(9000));
    }
    assert_eq!(&*first, b"v");
    assert_eq!(client.iter().count(), client.len().unwrap());
}
