//! Statistics: what each call counts, the same in every kind of cluster; sums that agree at every
//! level; nothing lost by moves, evictions or threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use slotkeep::reshard::{MoveKind, Reshard};
use slotkeep::{
    Bound, Client, Cluster, Compute, Error, Expiry, Handle, Policy, SetOptions, Slot, SlotSet,
    Stats,
};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Tested, key, keys, slot, with_each_cluster};

/// A call on a key that is there and on one that is not.
type Call = fn(&Client, &str, &str) -> Tested;

/// Hits, misses, inserts, updates, entries removed.
const HIT: [u64; 5] = [1, 0, 0, 0, 0];
const MISS: [u64; 5] = [0, 1, 0, 0, 0];
const INSERT: [u64; 5] = [0, 0, 1, 0, 0];
const UPDATE: [u64; 5] = [0, 0, 0, 1, 0];
const REMOVED: [u64; 5] = [0, 0, 0, 0, 1];
const NOTHING: [u64; 5] = [0; 5];

/// Calls on one key, and what they count.
const CALLS: [(&str, [u64; 5], Call); 24] = [
    ("get", HIT, |client, here, _| client.get(here).map(drop)),
    ("get nothing", MISS, |client, _, gone| client.get(gone).map(drop)),
    ("set", UPDATE, |client, here, _| Ok(client.set(here, b"2")?)),
    ("set a longer value", UPDATE, |client, here, _| Ok(client.set(here, &[2; 300])?)),
    ("set over a handle", UPDATE, |client, here, _| {
        let handle =
            client.entries_of_slot(slot())?.into_iter().find(|h| Handle::key(h) == here.as_bytes());
        client.set(here, b"2")?;
        drop(handle.expect("it is there"));
        Ok(())
    }),
    ("set a new key", INSERT, |client, _, gone| Ok(client.set(gone, b"2")?)),
    ("set with a deadline", UPDATE, |client, here, _| {
        let options = SetOptions::new().expiry(Expiry::In(std::time::Duration::from_secs(3600)));
        client.set_with(here, b"2", &options).map(drop).map_err(Error::from)
    }),
    ("set if absent", NOTHING, |client, here, _| {
        client.set_with(here, b"2", &SetOptions::new().if_absent()).map(drop).map_err(Error::from)
    }),
    ("set if present", NOTHING, |client, _, gone| {
        client.set_with(gone, b"2", &SetOptions::new().if_present()).map(drop).map_err(Error::from)
    }),
    ("take", REMOVED, |client, here, _| client.take(here).map(drop)),
    ("remove", REMOVED, |client, here, _| client.remove(here).map(drop)),
    ("remove nothing", NOTHING, |client, _, gone| client.remove(gone).map(drop)),
    ("contains_key", NOTHING, |client, here, _| client.contains_key(here).map(drop)),
    ("ttl, persist", NOTHING, |client, here, _| {
        client.ttl(here)?;
        client.persist(here).map(drop)
    }),
    ("incr", UPDATE, |client, here, _| client.incr(here, 1).map(drop)),
    ("incr a new key", INSERT, |client, _, gone| client.incr(gone, 1).map(drop)),
    ("incr beyond", NOTHING, |client, here, _| {
        assert_eq!(client.incr(here, i64::MAX), Err(Error::Overflow));
        Ok(())
    }),
    ("append", UPDATE, |client, here, _| client.append(here, b"2").map(drop)),
    ("update", UPDATE, |client, here, _| client.update(here, Vec::clear).map(drop)),
    ("update nothing", MISS, |client, _, gone| client.update(gone, Vec::clear).map(drop)),
    ("update_in_place", UPDATE, |client, here, _| {
        client.update_in_place(here, |value| value[0] = 7).map(drop)
    }),
    ("update_in_place nothing", MISS, |client, _, gone| {
        client.update_in_place(gone, |value| value[0] = 7).map(drop)
    }),
    ("update_in_place under a handle", HIT, |client, here, _| {
        let handle = client.get(here)?;
        let updated = client.update_in_place(here, |value| value[0] = 7);
        assert_eq!(updated, Err(Error::Shared));
        drop(handle);
        Ok(())
    }),
    ("update_in_place that panics", REMOVED, |client, here, _| {
        let panics = || client.update_in_place(here, |_| panic!("half done"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        Ok(())
    }),
];

/// Closures that decide, and calls on several keys.
const MORE_CALLS: [(&str, [u64; 5], Call); 18] = [
    ("compute keeps", HIT, |client, here, _| client.compute(here, |_| Compute::Keep).map(drop)),
    ("compute keeps nothing", MISS, |client, _, gone| {
        client.compute(gone, |_| Compute::Keep).map(drop)
    }),
    ("compute replaces", UPDATE, |client, here, _| {
        client.compute(here, |_| Compute::Replace(vec![3])).map(drop)
    }),
    ("compute makes", INSERT, |client, _, gone| {
        client.compute(gone, |_| Compute::Replace(vec![3])).map(drop)
    }),
    ("compute removes", REMOVED, |client, here, _| {
        client.compute(here, |_| Compute::Remove).map(drop)
    }),
    ("compute removes nothing", NOTHING, |client, _, gone| {
        client.compute(gone, |_| Compute::Remove).map(drop)
    }),
    ("compute panics", NOTHING, |client, here, _| {
        let panics = || client.compute(here, |_| panic!("undecided"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        Ok(())
    }),
    ("mget", [2, 1, 0, 0, 0], |client, here, gone| client.mget(&[here, gone, here]).map(drop)),
    ("get_many", [2, 1, 0, 0, 0], |client, here, gone| {
        client.get_many(&[here, gone, here]).map(drop)
    }),
    ("mset", [0, 0, 1, 2, 0], |client, here, gone| {
        client.mset([(here, &b"4"[..]), (gone, b"5"), (gone, b"6")])
    }),
    ("set_many", [0, 0, 1, 2, 0], |client, here, gone| {
        client.set_many([(here, &b"4"[..]), (gone, b"5"), (gone, b"6")])
    }),
    ("remove_all", REMOVED, |client, here, gone| client.remove_all(&[here, gone, here]).map(drop)),
    ("remove_many", REMOVED, |client, here, gone| {
        client.remove_many(&[here, gone, here]).map(drop)
    }),
    ("transaction", [0, 0, 1, 0, 1], |client, here, gone| {
        let outcome = client.transaction(&[here, gone], |both| {
            both.set(gone, b"7")?;
            both.remove(here)
        })?;
        assert_eq!(outcome, Ok(true));
        Ok(())
    }),
    ("transaction that reads", NOTHING, |client, here, gone| {
        let read = client.transaction(&[here, gone, here], |both| both.contains_key(here))?;
        assert_eq!(read, Ok(true));
        Ok(())
    }),
    ("transaction that fails", NOTHING, |client, here, gone| {
        let outcome = client.transaction(&[here, gone], |both| {
            both.set(gone, b"7").expect("a declared key");
            Err::<(), _>("no")
        })?;
        assert_eq!(outcome, Err("no"));
        Ok(())
    }),
    ("retain", REMOVED, |client, here, _| {
        assert_eq!(client.retain(|key, _| key != here.as_bytes()), Ok(1));
        Ok(())
    }),
    ("walks", NOTHING, |client, _, _| {
        client.live()?;
        client.counts()?;
        client.iter().try_for_each(|entry| entry.map(drop))
    }),
];

/// The counts that calls change.
fn counts(stats: Stats) -> [u64; 5] {
    [stats.hits, stats.misses, stats.inserts, stats.updates, stats.removed]
}

fn since<const N: usize>(before: [u64; N], now: [u64; N]) -> [u64; N] {
    std::array::from_fn(|index| now[index] - before[index])
}

/// Entries are what came and did not go, whatever else is counted.
#[track_caller]
fn check_balance(stats: Stats) {
    let there = stats.inserts + stats.moved_in - stats.moved_out - stats.removals();
    assert_eq!(stats.entries, there, "{stats:?}");
}

#[track_caller]
fn total(cluster: &Cluster) -> Stats {
    let report = cluster.stats().expect("no token is held");
    report.slots().iter().for_each(|slot| check_balance(slot.stats));
    report.total()
}

#[test]
fn each_call_counts_the_same_in_every_kind_of_cluster() {
    with_each_cluster::<[u8]>(|fixture| {
        let calls = || CALLS.iter().chain(&MORE_CALLS);
        let names = |call: &str| (key(format!("{call}, here")), key(format!("{call}, gone")));
        for (call, ..) in calls() {
            fixture.client.set(names(call).0, b"1")?;
        }
        fixture.disturb();
        for (call, expected, run) in calls() {
            let (here, gone) = names(call);
            let before = total(&fixture.cluster);
            run(&fixture.client, &here, &gone)?;
            let now = total(&fixture.cluster);
            let counted = since(counts(before), counts(now));
            assert_eq!(counted, *expected, "{call} on {:?}", fixture.kind);
            assert_eq!(now.moved_in, now.moved_out, "{call} on {:?}", fixture.kind);
            let gone_otherwise = [now.expired, now.evicted, now.cleared];
            assert_eq!(gone_otherwise, [0; 3], "{call} on {:?}", fixture.kind);
        }
        let entries = fixture.client.len()? as u64;
        assert_eq!(total(&fixture.cluster).entries, entries);
        assert_eq!(fixture.client.clear()? as u64, entries);
        let cleared = total(&fixture.cluster);
        assert_eq!((cleared.entries, cleared.cleared, cleared.weight), (0, entries, 0));
        Ok(())
    });
}

#[test]
fn slots_workers_and_nodes_each_add_up_to_the_total() {
    let cluster = Cluster::builder().nodes(3).workers_per_node(2).build().expect("a cluster");
    let client = cluster.client();
    let names: Vec<_> = (0..500).map(|number| format!("key {number}")).collect();
    client.set_many(names.iter().map(|name| (name, &b"v"[..]))).expect("a batch");
    client.get_many(&names[100..]).expect("a batch");
    client.get_many(&["nothing", "nowhere"]).expect("a batch");
    client.remove_many(&names[..50]).expect("a batch");
    let report = cluster.stats().expect("no token is held");
    let total = report.total();
    assert_eq!(counts(total), [400, 2, 500, 0, 50]);
    assert_eq!(total.entries, 450);
    let slots: SlotSet =
        names.iter().chain([&"nothing".into(), &"nowhere".into()]).map(Slot::of).collect();
    let listed: SlotSet = report.slots().iter().map(|slot| slot.slot).collect();
    assert_eq!(listed, slots, "a slot is listed where something happened");
    let (workers, nodes) = (report.workers(), report.nodes());
    assert_eq!((workers.len(), nodes.len()), (6, 3));
    assert_eq!(workers.iter().map(|(_, stats)| stats).sum::<Stats>(), total);
    assert_eq!(nodes.iter().map(|(_, stats)| stats).sum::<Stats>(), total);
    assert!(workers.iter().all(|(_, stats)| stats.inserts > 0), "{workers:?}");
    for (id, stats) in nodes {
        let node = cluster.node(id).expect("it is listed");
        assert_eq!(node.stats(), Ok(stats));
        let of_workers = report.slots().iter().filter(|slot| slot.node == id);
        for slot in of_workers.clone() {
            let name = node.worker_of(slot.slot);
            assert!(workers.iter().any(|(worker, _)| *worker == name), "{name} is not listed");
        }
        assert_eq!(of_workers.map(|slot| slot.stats).sum::<Stats>(), stats);
    }
    assert_eq!(client.stats().as_ref(), Ok(&report));
    cluster.shutdown();
    assert_eq!(cluster.stats(), Ok(report), "what was counted is still known");
}

#[test]
fn a_shared_worker_has_the_counts_of_all_nodes() {
    let cluster = Cluster::builder().nodes(4).shared_workers(1).build().expect("a cluster");
    let names = ["a", "b", "c", "d", "e", "f"];
    cluster.client().set_many(names.map(|name| (name, &b"v"[..]))).expect("a batch");
    let report = cluster.stats().expect("no token is held");
    assert_eq!(report.workers().len(), 1);
    assert_eq!(report.workers()[0].1, report.total());
    assert_eq!(report.total().inserts, 6);
}

#[track_caller]
fn check_moved(kind: MoveKind) {
    let cluster = Cluster::builder().nodes(2).build().expect("a cluster");
    let (client, stale) = (cluster.client(), cluster.client());
    client.set_many(keys(300).iter().map(|name| (name, &b"v"[..]))).expect("a batch");
    client.get(key(7)).expect("a key");
    let before = total(&cluster);
    let source = cluster.slot_map().owner(slot()).expect("an owner");
    let target = cluster.node_ids().into_iter().find(|&id| id != source).expect("two nodes");
    let slots: SlotSet = [slot()].into_iter().collect();
    let reshard = Reshard::of(&cluster).by(kind).move_slots(&slots, source, target);
    reshard.expect("a plan").run().expect("nobody interferes");

    let of = |id| cluster.node(id).expect("a node").stats().expect("no token is held");
    let (left, taken) = (of(source), of(target));
    assert_eq!(counts(left), counts(before), "{kind:?}: what happened there stays there");
    assert_eq!((left.moved_out, left.entries, left.weight), (300, 0, 0), "{kind:?}");
    assert_eq!((taken.moved_in, taken.entries), (300, 300), "{kind:?}");
    assert_eq!((counts(taken), taken.weight), ([0; 5], before.weight), "{kind:?}");
    // The redirect counts nowhere.
    assert!(stale.get(key(7)).expect("a key").is_some());
    assert_eq!(since(counts(before), counts(total(&cluster))), HIT, "{kind:?}");
    assert_eq!(of(target).hits, 1, "{kind:?}");
}

#[test]
fn a_move_leaves_the_counts_where_things_happened_and_takes_the_entries_along() {
    check_moved(MoveKind::Handover);
    check_moved(MoveKind::Classic);
}

#[test]
fn what_makes_room_counts_as_evicted() {
    let cluster = Cluster::builder().bound(Bound::Entries(100)).build().expect("a cluster");
    let client = cluster.client();
    for number in 0..1_000_u32 {
        client.set(number.to_le_bytes(), b"v").expect("room is made");
    }
    let stats = total(&cluster);
    assert_eq!((stats.inserts, stats.entries, stats.evicted), (1_000, 100, 900));
    assert_eq!((stats.removals(), stats.expired), (900, 0));
}

#[test]
fn what_threads_evict_counts_once_and_each_slot_adds_up_at_every_instant() {
    const THREADS: u32 = 3;
    const ROUNDS: u32 = 5_000;
    let cluster = Cluster::builder().bound(Bound::Entries(100)).build().expect("a cluster");
    let removed: u64 = thread::scope(|scope| {
        let write = |thread: u32| {
            let client = cluster.client();
            move || {
                let key = |number: u32| format!("{{{}}}{thread}:{number}", number % 8);
                let mut removed = 0;
                for number in 0..ROUNDS {
                    client.set(key(number), b"v").expect("room is made");
                    let recent = key(number.saturating_sub(number % 40));
                    if number % 5 == 0 && client.remove(recent).expect("an open cluster") {
                        removed += 1;
                    }
                }
                removed
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(write(thread))).collect();
        for _ in 0..50 {
            total(&cluster);
        }
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let stats = total(&cluster);
    assert_eq!((stats.inserts, stats.updates), (u64::from(THREADS * ROUNDS), 0));
    assert_eq!((stats.removed, stats.expired), (removed, 0));
    assert!(stats.entries <= 100 && removed > 100, "{stats:?}");
    assert_eq!(stats.evicted, stats.inserts - removed - stats.entries);
}

#[test]
fn what_finds_no_room_counts_nothing() {
    let builder = Cluster::builder().bound(Bound::Entries(2)).policy(Policy::NoEviction);
    let cluster = builder.build().expect("a cluster");
    let client = cluster.client();
    client.set("a", b"v").expect("room");
    client.set("b", b"v").expect("room");
    let before = total(&cluster);
    assert!(client.set("c", b"v").is_err());
    assert!(client.incr("c", 1).is_err());
    assert!(client.compute("c", |_| Compute::Replace(vec![1])).is_err());
    assert!(client.transaction(&["c"], |one| one.set("c", b"v")).is_err());
    assert_eq!(total(&cluster), before);
    client.set("a", b"w").expect("no more than before");
    assert_eq!(since(counts(before), counts(total(&cluster))), UPDATE);
}

#[test]
fn the_counts_of_threads_add_up_to_the_last_one() {
    const THREADS: u64 = 4;
    // More updates of one key than a shard counts by itself.
    const ROUNDS: u64 = 20_000;
    let cluster = Cluster::builder().nodes(2).build().expect("a cluster");
    thread::scope(|scope| {
        for number in 0..THREADS {
            let client = cluster.client();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    client.set("shared", b"v").expect("an open cluster");
                    assert!(client.get("shared").expect("an open cluster").is_some());
                    assert!(client.get("nothing").expect("an open cluster").is_none());
                    if round % 8 == 0 {
                        let own = format!("{number}");
                        client.set(&own, b"v").expect("an open cluster");
                        assert_eq!(client.remove(&own), Ok(true));
                    }
                }
            });
        }
    });
    let (all, own) = (THREADS * ROUNDS, THREADS * ROUNDS / 8);
    assert_eq!(counts(total(&cluster)), [all, all, 1 + own, all - 1, own]);
}

#[test]
fn who_holds_a_token_is_told_so() {
    let cluster = Cluster::builder().build().expect("a cluster");
    let node = cluster.nodes().remove(0);
    let asked = cluster.client().compute("key", |_| {
        assert_eq!(cluster.stats(), Err(Error::Reentrant));
        assert_eq!(node.stats(), Err(slotkeep::WorkerError::Reentrant));
        Compute::Keep
    });
    assert!(asked.expect("an open cluster").is_none());
}

#[test]
fn a_ratio_of_no_reads_is_none() {
    let mut stats = Stats::default();
    assert_eq!(stats.hit_ratio(), None);
    (stats.hits, stats.misses) = (3, 1);
    assert_eq!(stats.hit_ratio(), Some(0.75));
}
