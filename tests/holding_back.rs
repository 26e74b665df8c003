//! Pauses, paces and aborts of moves that run, from other threads and under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slotkeep::reshard::{Move, MoveKind, MoveStep, Pace, PlannedMove, Reshard};
use slotkeep::{AdminError, BatchLimits, Cluster, MovePhase, Slot, SlotSet, limits};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{key, keys, slot, watched};

fn two_nodes() -> Cluster {
    Cluster::builder().nodes(2).workers_per_node(1).build().expect("two nodes")
}

/// The move of the slot that all keys of `support` hash to, and the way back.
fn planned(cluster: &Cluster) -> PlannedMove {
    let source = cluster.slot_map().owner(slot()).expect("an owner");
    let target = cluster.node_ids().into_iter().find(|&id| id != source).expect("two nodes");
    PlannedMove { slot: slot(), source, target }
}

fn slots() -> SlotSet {
    [slot()].into_iter().collect()
}

#[test]
fn a_resharding_waits_while_it_is_paused_and_goes_on_when_it_is_resumed() {
    watched("pause", || {
        let cluster = two_nodes();
        let client = cluster.client();
        client.set_many(keys(200).iter().map(|name| (name, &b"v"[..]))).unwrap();
        let PlannedMove { source, target, .. } = planned(&cluster);
        let reshard = Reshard::of(&cluster).by(MoveKind::Classic).batch_keys(1);
        let reshard = reshard.move_slots(&slots(), source, target).unwrap();
        let control = reshard.control();
        let in_the_middle = AtomicBool::new(false);
        let hand = control.clone();
        let reshard = reshard.on_progress(|progress| {
            if progress.keys_moved == 50 {
                hand.pause();
                in_the_middle.store(true, Ordering::Release);
            }
            std::ops::ControlFlow::Continue(())
        });
        thread::scope(|scope| {
            scope.spawn(|| {
                while !in_the_middle.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                for _ in 0..100 {
                    assert_eq!(client.get(key(7)).unwrap().as_deref(), Some(&b"v"[..]));
                    let record = cluster.moves()[0].clone();
                    assert!(record.paused && !record.phase.is_ended(), "{record:?}");
                    assert_eq!((record.keys_moved, record.keys_left), (50, 150));
                }
                control.resume();
            });
            let report = reshard.run().unwrap();
            assert_eq!((report.slots_moved, report.keys_moved), (1, 200));
        });
        assert!(!cluster.moves()[0].paused);
    });
}

#[test]
fn a_resharding_that_is_aborted_from_another_thread_gives_its_open_slot_back() {
    watched("abort", || {
        let cluster = two_nodes();
        let client = cluster.client();
        client.set_many(keys(200).iter().map(|name| (name, &b"v"[..]))).unwrap();
        let PlannedMove { source, target, .. } = planned(&cluster);
        let reshard = Reshard::of(&cluster).by(MoveKind::Classic).batch_keys(1);
        let reshard = reshard.move_slots(&slots(), source, target).unwrap();
        let control = reshard.control();
        control.pause();
        thread::scope(|scope| {
            scope.spawn(|| {
                // By now it may have begun to wait, or not: it never gets past its first step.
                thread::yield_now();
                control.abort();
            });
            let report = reshard.run().unwrap();
            assert!(report.stopped);
            assert_eq!(report.slots_moved, 0);
        });
        assert_eq!(cluster.slot_map().owner(slot()), Some(source));
        assert_eq!(client.mget(&keys(200)).unwrap().iter().flatten().count(), 200);
    });
}

#[test]
fn handovers_wait_between_two_slots_and_end_there_when_they_are_aborted() {
    watched("handovers", || {
        for all_or_nothing in [false, true] {
            let cluster = two_nodes();
            let [source, target] = cluster.node_ids()[..] else { panic!("two nodes") };
            let slots: SlotSet = cluster.slot_map().slots_of(source).iter().take(20).collect();
            let reshard = Reshard::of(&cluster).move_slots(&slots, source, target).unwrap();
            let reshard = if all_or_nothing { reshard.all_or_nothing() } else { reshard };
            let (control, hand) = (reshard.control(), reshard.control());
            let paused = AtomicBool::new(false);
            let mut told = 0;
            let reshard = reshard.on_progress(|_| {
                told += 1;
                if told == 7 {
                    hand.pause();
                    paused.store(true, Ordering::Release);
                }
                std::ops::ControlFlow::Continue(())
            });
            let moved = || {
                let map = cluster.slot_map();
                slots.iter().filter(|&slot| map.owner(slot) == Some(target)).count()
            };
            let report = thread::scope(|scope| {
                scope.spawn(|| {
                    while !paused.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    let before = moved();
                    assert_eq!(before, if all_or_nothing { 0 } else { 7 });
                    (0..1000).for_each(|_| thread::yield_now());
                    assert_eq!(moved(), before, "nothing flips while it is paused");
                    control.abort();
                });
                reshard.run().unwrap()
            });
            assert!(report.stopped);
            assert_eq!(moved(), report.slots_moved);
            assert_eq!(report.slots_moved, if all_or_nothing { 0 } else { 7 });
            assert!(cluster.handovers().is_empty());
        }
    });
}

#[test]
fn a_pace_is_kept_over_all_slots_of_a_resharding() {
    let cluster = two_nodes();
    let client = cluster.client();
    let source = cluster.node_ids()[0];
    let slots: SlotSet = cluster.slot_map().slots_of(source).iter().take(20).collect();
    let names = (0_u32..).map(|number| format!("key:{number}"));
    let names: Vec<_> = names.filter(|name| slots.contains(Slot::of(name))).take(100).collect();
    client.set_many(names.iter().map(|name| (name, &b"v"[..]))).unwrap();
    let pace = Pace::new().keys_per_second(1000).expect("a rate within bounds");
    let target = cluster.node_ids()[1];
    let reshard =
        Reshard::of(&cluster).by(MoveKind::Classic).pace(&pace).move_slots(&slots, source, target);
    let report = reshard.and_then(Reshard::run).expect("a resharding");
    assert_eq!((report.slots_moved, report.keys_moved), (20, 100));
    // All but the last batch, and but the burst, have been waited for.
    let least = Duration::from_millis(100 - 50).saturating_sub(limits::PACE_BURST);
    assert!(report.elapsed >= least, "{:?}", report.elapsed);
}

#[test]
fn batch_limits_out_of_bounds_are_refused_and_change_nothing() {
    let cluster = two_nodes();
    let mut driver = Move::new(&cluster, planned(&cluster), 1).unwrap();
    driver.step().unwrap();
    driver.step().unwrap();
    let id = driver.id().unwrap();
    let source = cluster.node(planned(&cluster).source).unwrap();
    let long = limits::HOLD_TIME_MAX + Duration::from_nanos(1);
    for (limits, refused) in [
        (BatchLimits::of_keys(0), AdminError::BatchSize { keys: 0 }),
        (BatchLimits::of_keys(4097), AdminError::BatchSize { keys: 4097 }),
        (BatchLimits::of_keys(7).bytes(0), AdminError::BatchBytes),
        (BatchLimits::of_keys(7).hold_time(Duration::ZERO), {
            AdminError::HoldTime { time: Duration::ZERO }
        }),
        (BatchLimits::of_keys(7).hold_time(long), AdminError::HoldTime { time: long }),
    ] {
        assert_eq!(source.migrate_batch(slot(), id, limits), Err(refused));
        assert_eq!(cluster.abort_step(id, limits), Err(refused));
    }
    assert_eq!(cluster.move_record(id).unwrap().phase, MovePhase::Migrating);
}

#[test]
fn a_batch_of_few_bytes_sends_the_key_that_reaches_the_bound() {
    let cluster = two_nodes();
    let client = cluster.client();
    for name in keys(10) {
        client.set(name, &[7; 100]).unwrap();
    }
    let mut driver = Move::new(&cluster, planned(&cluster), 1).unwrap();
    driver.step().unwrap();
    driver.step().unwrap();
    let source = cluster.node(planned(&cluster).source).unwrap();
    let limits = BatchLimits::of_keys(64).bytes(1);
    for left in (0..10).rev() {
        let sent = source.migrate_batch(slot(), driver.id().unwrap(), limits).unwrap();
        assert!(sent.left >= left, "{sent:?}");
        assert!(sent.bytes >= 132);
    }
}

/// Writers add up, on few keys, while moves begin, are aborted at any step and begin anew.
#[test]
fn aborts_under_load_lose_no_write() {
    const WRITERS: usize = 2;
    const MOVES: usize = 300;
    watched("aborts under load", || {
        let cluster = two_nodes();
        let done = AtomicBool::new(false);
        let names = keys(12);
        let added = thread::scope(|scope| {
            let write = || {
                let client = cluster.client();
                let mut added = vec![0_i64; names.len()];
                for number in (0..names.len()).cycle() {
                    if done.load(Ordering::Acquire) {
                        return added;
                    }
                    client.incr(&names[number], 1).expect("a slot that is served");
                    added[number] += 1;
                    // Keys that come and go, so that the sides have what travels.
                    let short = key(format_args!("short {number}"));
                    client.set(&short, b"v").expect("a slot that is served");
                    client.expire(&short, Duration::from_micros(50)).expect("an answer");
                }
                added
            };
            let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
            let (mut aborted, mut flipped) = (0, 0);
            for round in 0..MOVES {
                let mut driver = Move::new(&cluster, planned(&cluster), 2).unwrap();
                let control = driver.control();
                let abort_after = round % 13;
                for steps in 0.. {
                    if steps == abort_after {
                        control.abort();
                    }
                    match driver.step() {
                        Ok(MoveStep::Done { flipped: true }) => flipped += 1,
                        Ok(MoveStep::Done { flipped: false }) => aborted += 1,
                        Ok(_) => continue,
                        Err(error) => panic!("round {round}: {error}"),
                    }
                    break;
                }
            }
            done.store(true, Ordering::Release);
            assert!(aborted > 0 && flipped > 0, "{aborted} aborted, {flipped} flipped");
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        let client = cluster.client();
        for (number, name) in names.iter().enumerate() {
            let sum: i64 = added.iter().map(|by_one| by_one[number]).sum();
            assert_eq!(client.incr(name, 0), Ok(sum), "{name}");
        }
    });
}

/// Whatever the machine, thousands of keys take longer than a microsecond.
#[test]
fn a_bound_on_the_time_of_a_hold_makes_the_batches_of_a_move_smaller() {
    const KEYS: usize = 4000;
    // How many keys the largest batch sent, which was allowed to send all of them.
    let largest = |pace: &Pace| {
        let cluster = two_nodes();
        let client = cluster.client();
        client.set_many(keys(KEYS).iter().map(|name| (name, &b"v"[..]))).unwrap();
        let driver = Move::new(&cluster, planned(&cluster), limits::MIGRATE_KEYS_MAX).unwrap();
        let mut driver = driver.pace(pace);
        let mut largest = 0;
        loop {
            let before = driver.keys_moved();
            let stepped = driver.step().unwrap();
            largest = largest.max(driver.keys_moved() - before);
            if let MoveStep::Done { flipped } = stepped {
                assert!(flipped);
                assert_eq!(driver.keys_moved(), KEYS as u64);
                assert_eq!(client.mget(&keys(KEYS)).unwrap().iter().flatten().count(), KEYS);
                return largest;
            }
        }
    };
    let free = largest(&Pace::new());
    let bound = largest(&Pace::new().hold_time(limits::HOLD_TIME_MIN).unwrap());
    assert!(bound >= limits::MIGRATE_CHUNK_KEYS as u64, "{bound} keys");
    assert!(bound * 4 < free, "{bound} keys, {free} without the bound");
}
