//! Who runs what: in strict mode the owner of the shard, always the same thread; lent calls on the
//! caller's; long work on the source's worker. Counters count exactly, and `try_` forms never wait.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use slotkeep::{
    Client, Cluster, CommandError, Compute, Counters, Error, MigrateOptions, Ownership, SetSlot,
    Slot,
};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Tested, fill_mailbox, keys, watched};

fn name_of_thread() -> String {
    thread::current().name().unwrap_or("unnamed").to_owned()
}

fn build(ownership: Ownership) -> Cluster {
    let builder = Cluster::builder().nodes(3).workers_per_node(2).ownership(ownership);
    builder.build().expect("a small cluster")
}

/// The name and the number of the thread that ran each kind of closure on a key.
fn ran_on(client: &Client, key: &str) -> Result<Vec<(String, thread::ThreadId)>, Error> {
    let here = || (name_of_thread(), thread::current().id());
    let mut threads = vec![client.run_on_owner(key, here)?];
    client.compute(key, |_| {
        threads.push(here());
        Compute::Keep
    })?;
    threads.extend(client.update(key, |_| here())?);
    threads.extend(client.update_in_place(key, |_| here())?);
    let inside = client.transaction(&[key], |_| Ok::<_, CommandError>(here()))?;
    threads.extend(inside);
    Ok(threads)
}

#[test]
fn in_strict_mode_a_shards_work_runs_on_its_owner_always_the_same_thread() {
    watched("strict", || -> Tested {
        let cluster = build(Ownership::Strict);
        let client = cluster.client();
        let mut seen: BTreeMap<String, thread::ThreadId> = BTreeMap::new();
        for number in 0..200 {
            let key = format!("key:{number}");
            client.set(&key, b"v")?;
            let owner = client.owner_of(&key)?.worker;
            let threads = ran_on(&client, &key)?;
            assert_eq!(threads.len(), 5);
            for (name, id) in threads {
                assert_eq!(name, owner);
                assert_eq!(*seen.entry(name).or_insert(id), id, "a worker is one thread");
            }
        }
        assert_eq!(seen.len(), 6, "three nodes of two workers: {seen:?}");
        Ok(())
    })
    .expect("every call is served");
}

#[test]
fn a_lent_call_runs_on_the_calling_thread_and_an_owner_closure_on_the_owner() -> Tested {
    let cluster = build(Ownership::Lent);
    let client = cluster.client();
    let me = thread::current().id();
    for number in 0..50 {
        let key = format!("key:{number}");
        client.set(&key, b"v")?;
        let threads = ran_on(&client, &key)?;
        assert_eq!(threads[0].0, client.owner_of(&key)?.worker);
        assert!(threads[1..].iter().all(|(_, id)| *id == me));
    }
    Ok(())
}

#[test]
fn every_node_and_worker_owns_shards_by_name() -> Tested {
    let cluster = Cluster::builder().nodes(2).shared_workers(3).build()?;
    for slot in Slot::all().step_by(101) {
        for node in cluster.nodes() {
            let ran = node.run_on_worker(slot, name_of_thread)?;
            assert_eq!(ran, node.worker_of(slot));
            assert!(["worker-0", "worker-1", "worker-2"].contains(&ran.as_str()));
        }
    }
    Ok(())
}

/// Notes on which thread it is copied.
struct NotesCopies(mpsc::Sender<String>);

impl Clone for NotesCopies {
    fn clone(&self) -> Self {
        self.0.send(name_of_thread()).expect("the test listens");
        Self(self.0.clone())
    }
}

#[test]
fn key_batches_run_on_the_sources_worker() -> Tested {
    let cluster =
        Cluster::builder().nodes(2).workers_per_node(1).values::<NotesCopies>().build()?;
    let client = cluster.client();
    let (sender, copies) = mpsc::channel();
    let names = keys(10);
    for name in &names {
        client.set(name, NotesCopies(sender.clone()))?;
    }
    let slot = support::slot();
    let owner = cluster.slot_map().owner(slot).expect("an owner");
    let (source, target): (Vec<_>, Vec<_>) =
        cluster.nodes().into_iter().partition(|node| node.id() == owner);
    let (source, target) = (&source[0], &target[0]);
    let jobs = || cluster.counters().worker;
    let id = target.set_slot(slot, SetSlot::Importing { source: owner })?.expect("an id");
    let options = MigrateOptions::default();
    assert_eq!((source.copy_keys(&names, target.id(), options), jobs()), (Ok(10), 1));
    let noted: Vec<_> = copies.try_iter().collect();
    assert_eq!(noted, vec![source.worker_of(slot); 10]);
    target.set_slot(slot, SetSlot::Stable)?;

    let id = {
        let again = target.set_slot(slot, SetSlot::Importing { source: owner })?.expect("an id");
        assert!(again > id);
        again
    };
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    assert_eq!(jobs(), 1, "verbs need no worker");
    source.migrate_batch(slot, id, 3)?;
    source.migrate_keys(&names, target.id(), options)?;
    assert_eq!(jobs(), 3, "a job for each batch");
    cluster.abort_step(id, 4096)?;
    cluster.abort_step(id, 4096)?;
    assert_eq!(jobs(), 5, "a job for each step of an abort");
    assert_eq!(copies.try_iter().count(), 0, "keys travel by pointer, without a copy");
    Ok(())
}

#[track_caller]
fn check_counts(cluster: &Cluster, before: Counters, (lent, worker): (u64, u64)) -> Counters {
    let now = cluster.counters();
    assert_eq!((now.lent - before.lent, now.worker - before.worker), (lent, worker));
    now
}

#[test]
fn operations_are_counted_exactly_by_the_way_they_ran() -> Tested {
    for ownership in [Ownership::Lent, Ownership::Strict] {
        let way = |count| if ownership == Ownership::Lent { (count, 0) } else { (0, count) };
        let cluster = build(ownership);
        let client = cluster.client();
        let start = cluster.counters();
        assert_eq!((start.lent, start.worker, start.redirects, start.try_agains), (0, 0, 0, 0));
        for number in 0..100 {
            client.set(format!("key:{number}"), b"v")?;
        }
        let now = check_counts(&cluster, start, way(100));
        client.get("key:7")?;
        client.remove("absent")?;
        client.mget(&keys(5))?;
        client.transaction(&keys(2), |_| Ok::<_, CommandError>(()))?.expect("no error");
        let now = check_counts(&cluster, now, way(4));
        // A batch is one operation for each of its slots.
        let names: Vec<_> = (0..100).map(|number| format!("key:{number}")).collect();
        let mut slots: Vec<_> = names.iter().map(Slot::of).collect();
        slots.sort_unstable();
        slots.dedup();
        client.get_many(&names)?;
        let now = check_counts(&cluster, now, way(slots.len() as u64));
        client.run_on_owner("key", || ())?;
        let now = check_counts(&cluster, now, (0, 1));
        // What is refused before it reaches a shard does not count.
        assert_eq!(client.mget(&["a", "b"]).map(drop), Err(Error::CrossSlot));
        assert!(client.get(vec![0; 70_000]).is_err());
        check_counts(&cluster, now, (0, 0));
    }
    Ok(())
}

#[test]
fn counts_of_many_threads_add_up() {
    for (ownership, expected) in [(Ownership::Lent, (2000, 0)), (Ownership::Strict, (0, 2000))] {
        let cluster = build(ownership);
        let client = cluster.client();
        thread::scope(|scope| {
            for thread in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    for number in 0..500 {
                        client.incr(format!("{}", (thread + number) % 7), 1).expect("a number");
                    }
                });
            }
        });
        let counters = cluster.counters();
        assert_eq!((counters.lent, counters.worker), expected);
    }
}

#[test]
fn a_call_that_does_not_wait_is_busy_while_the_token_is_taken() {
    watched("a taken token", || {
        let cluster = Cluster::builder().workers_per_node(1).build().expect("a small cluster");
        let client = cluster.client();
        client.set("key", b"v").expect("a write");
        let (taken, give_back) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let holder = {
            let client = client.clone();
            let (taken, give_back) = (Arc::clone(&taken), Arc::clone(&give_back));
            let body = move || {
                client.compute("key", |_| {
                    taken.wait();
                    give_back.wait();
                    Compute::Keep
                })
            };
            thread::Builder::new().spawn(body).expect("a thread")
        };
        taken.wait();
        let trying = client.trying();
        let slot = Slot::of("key");
        let answers = [
            client.try_get("key").map(drop),
            client.try_set("key", b"new").map_err(Error::from),
            client.try_remove("key").map(drop),
            trying.get("key").map(drop),
            trying.incr("key", 1).map(drop),
            trying.compute("key", |_| Compute::Remove).map(drop),
            trying.mget(&["key"]).map(drop),
            trying.get_many(&["key"]).map(drop),
        ];
        assert!(answers.iter().all(|answer| *answer == Err(Error::Busy)), "{answers:?}");
        let Err(refused) = client.try_set("key", b"mine") else { panic!("the token is taken") };
        assert_eq!(refused.error, Error::Busy);
        // Only that one slot is taken.
        let elsewhere = (0..).map(|number: u32| format!("other:{number}"));
        let elsewhere = elsewhere.filter(|name| Slot::of(name) != slot).take(3);
        for name in elsewhere {
            trying.set(&name, b"v").expect("its own token is free");
        }
        give_back.wait();
        let kept = holder.join().expect("no panic").expect("a closure");
        assert_eq!(kept.as_deref(), Some(&b"v"[..]), "nothing was applied meanwhile");
        trying.set("key", b"free again").expect("the token is back");
    });
}

#[test]
fn a_call_that_does_not_wait_is_busy_while_the_mailbox_is_full() {
    watched("a full mailbox", || {
        let builder = Cluster::builder().workers_per_node(1).mailbox_jobs(1);
        let cluster = builder.ownership(Ownership::Strict).build().expect("a small cluster");
        let client = cluster.client();
        let (begun, give_back) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let running = {
            let client = client.clone();
            let (begun, give_back) = (Arc::clone(&begun), Arc::clone(&give_back));
            let body = move || {
                client.run_on_owner("key", || {
                    begun.wait();
                    give_back.wait();
                })
            };
            thread::Builder::new().spawn(body).expect("a thread")
        };
        begun.wait();
        let trying = client.trying();
        let (refused, waiting) = {
            let trying = trying.clone();
            fill_mailbox(move || trying.set("waited", b"v").map_err(Error::from))
        };
        assert_eq!(refused, Err(Error::Busy));
        let Err(refused) = client.try_set("key", b"mine") else { panic!("the mailbox is full") };
        assert_eq!(refused.error, Error::Busy);
        assert_eq!(client.try_get("key").map(drop), Err(Error::Busy));
        assert_eq!(trying.run_on_owner("key", || ()), Err(Error::Busy));
        assert_eq!(trying.mget(&["key"]).map(drop), Err(Error::Busy));
        give_back.wait();
        assert_eq!(running.join().expect("no panic"), Ok(()));
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
        assert_eq!(client.get("waited").expect("a read").as_deref(), Some(&b"v"[..]));
        assert_eq!(client.get("key").expect("a read"), None);
    });
}
