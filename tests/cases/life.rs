//! Values that are kept, calls from inside of calls, the end of clusters, idle ones.

use std::sync::Barrier;
use std::sync::mpsc;
use std::time::Duration;

use slotkeep::{Client, Cluster, CommandError, Compute, Error, Handle, Ownership};

use crate::setup::{Moving, three_nodes, watched};

/// xacrimon/dashmap#369, #74, #64, #233, #195: a value that was kept blocked the next call, even on
/// the same thread.
#[test]
fn a_kept_value_blocks_no_call_on_its_own_key() {
    let client = three_nodes().client();
    client.set("{b}:k", b"old").unwrap();
    let kept = client.get("{b}:k").unwrap().expect("a value");
    client.set("{b}:k", b"new").unwrap();
    client.mset([("{b}:k", &b"newer"[..]), ("{b}:l", b"v")]).unwrap();
    assert_eq!(client.append("{b}:k", b"!"), Ok(6));
    let again = client.get("{b}:k").unwrap().expect("a value");
    assert_eq!(client.update_in_place("{b}:k", |_| ()), Err(Error::Shared));
    assert!(client.compute("{b}:k", |_| Compute::Remove).unwrap().is_none());
    assert_eq!(client.clear(), Ok(1));
    assert_eq!((&*kept, &*again), (&b"old"[..], &b"newer!"[..]), "each as it was read");
}

/// The same reports: two threads, each of which keeps what the other one writes.
#[test]
fn two_threads_that_keep_values_crosswise_do_not_wait_for_each_other() {
    watched(|| {
        let cluster = three_nodes();
        let keys = ["{b}:one", "{b}:two"];
        for key in keys {
            cluster.client().set(key, b"old").unwrap();
        }
        let both_keep = Barrier::new(2);
        std::thread::scope(|scope| {
            for turn in 0..2 {
                let (client, both_keep) = (cluster.client(), &both_keep);
                scope.spawn(move || {
                    let kept = client.get(keys[turn]).unwrap().expect("a value");
                    both_keep.wait();
                    for _ in 0..1000 {
                        client.set(keys[1 - turn], b"new").unwrap();
                        client.mget(&keys).unwrap();
                    }
                    assert_eq!(&*kept, b"old");
                });
            }
        });
    });
}

/// pubky/pkdns#51, Kumassy/ownserver#33: a guard that was kept over an await froze the server. A
/// handle is no guard: it goes to other threads and outlives everything.
#[test]
fn a_handle_is_sent_kept_and_dropped_anywhere() {
    fn free<T: Send + Sync + Clone + 'static>(_: &T) {}
    watched(|| {
        let cluster = three_nodes();
        let client = cluster.client();
        client.set("k", b"v").unwrap();
        let handle = client.get("k").unwrap().expect("a value");
        free(&handle);
        let (sent, received) = mpsc::channel::<Handle<[u8]>>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let handle = received.recv().expect("a handle");
                assert_eq!(&*handle, b"v");
            });
            sent.send(handle.clone()).expect("a receiver");
        });
        cluster.shutdown();
        drop((cluster, client));
        assert_eq!(&*handle, b"v", "after the cluster");
    });
}

/// What calls of a client answer from inside of a closure that runs under a token.
fn calls_inside(client: &Client, cluster: &Cluster) -> Vec<Result<(), Error>> {
    vec![
        client.get("other").map(drop),
        client.set("other", b"v").map_err(Error::from),
        client.mget(&["other"]).map(drop),
        client.compute("other", |_| Compute::Remove).map(drop),
        client.run_on_owner("other", || ()),
        client.len().map(drop),
        client.iter().next().map_or(Ok(()), |entry| entry.map(drop)),
        client.explain("other").map(drop),
        cluster.abort_step(slotkeep::MoveId::new(1), 1).map(drop).map_err(Error::from),
        cluster.nodes()[0].add_slots(&[]).map_err(Error::from),
        cluster.add_node().map(drop),
    ]
}

#[track_caller]
fn check_reentrant(answers: &[Result<(), Error>]) {
    for (index, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, Err(Error::Reentrant), "call {index}");
    }
}

/// A caller's closure that calls the engine again waits for itself, where guards are locks.
#[test]
fn a_call_from_inside_of_a_call_is_refused_at_once() {
    watched(|| {
        for ownership in [Ownership::Lent, Ownership::Strict] {
            let build = || Cluster::builder().nodes(2).workers_per_node(1).ownership(ownership);
            let (cluster, second) = (build().build().unwrap(), build().build().unwrap());
            let client = cluster.client();
            client.set("{b}:k", b"v").unwrap();
            second.client().set("{b}:k", b"v").unwrap();
            // Of whatever cluster.
            for (inside, its) in [(&client, &cluster), (&second.client(), &second)] {
                let (answers, told) = mpsc::channel();
                let note = || answers.send(calls_inside(inside, its)).expect("a receiver");
                let computed = client.compute("{b}:k", |_| {
                    note();
                    Compute::Keep
                });
                assert!(computed.unwrap().is_some());
                client.update("{b}:k", |_| note()).unwrap();
                client.update_in_place("{b}:k", |_| note()).unwrap();
                let transacted = client.transaction(&["{b}:k"], |_| {
                    note();
                    Ok::<_, CommandError>(())
                });
                transacted.unwrap().unwrap();
                let told: Vec<_> = told.try_iter().collect();
                assert_eq!(told.len(), 4, "each closure ran once");
                for answers in told {
                    check_reentrant(&answers);
                }
            }
            assert!(client.get("{b}:k").unwrap().is_some(), "and the shard is as it was");
        }
    });
}

/// The same, one floor up: a closure on a worker holds no token and may call, but must not wait
/// for another worker.
#[test]
fn a_closure_on_a_worker_calls_the_engine_and_waits_for_no_other_worker() {
    watched(|| {
        let build = |ownership| {
            Cluster::builder().nodes(2).workers_per_node(1).ownership(ownership).build().unwrap()
        };
        let lent = build(Ownership::Lent).client();
        let done = lent.run_on_owner("{b}", || {
            lent.set("{b}", b"v").map_err(Error::from)?;
            lent.set("{a}", b"v").map_err(Error::from)
        });
        assert_eq!(done, Ok(Ok(())), "lent calls wait for no worker");
        let strict = build(Ownership::Strict).client();
        let done = strict.run_on_owner("{b}", || {
            let own = strict.set("{b}", b"v").map_err(Error::from);
            let foreign = strict.set("{a}", b"v").map_err(Error::from);
            (own, foreign)
        });
        assert_eq!(done, Ok((Ok(()), Err(Error::Reentrant))));
    });
}

/// ibraheemdev/papaya#102: dropping one map freed what another one still had out.
#[test]
fn the_end_of_one_cluster_frees_nothing_of_another() {
    watched(|| {
        let mut clusters: Vec<_> = (0..3).map(|_| three_nodes()).collect();
        let kept: Vec<_> = clusters
            .iter()
            .map(|cluster| {
                let client = cluster.client();
                client.set("k", b"v").unwrap();
                client.get("k").unwrap().expect("a value")
            })
            .collect();
        clusters[0].shutdown();
        drop(clusters.remove(1));
        assert!(kept.iter().all(|handle| **handle == *b"v"));
        assert!(matches!(clusters[0].client().get("k"), Err(Error::Closed)));
        let alive = clusters[1].client();
        alive.set("k", b"new").unwrap();
        assert_eq!(alive.get("k").unwrap().as_deref(), Some(&b"new"[..]));
        drop((clusters, alive));
        assert!(kept.iter().all(|handle| **handle == *b"v"));
    });
}

/// The same for nodes of one cluster: what was read at the source lives on after the slot has left.
#[test]
fn a_value_that_was_read_on_one_node_stays_when_its_slot_goes_to_another() {
    let moving = Moving::new(3, 0);
    let name = &moving.names[0];
    let kept = moving.client.get(name).unwrap().expect("a value");
    moving.finish();
    let moved = moving.client.get(name).unwrap().expect("a value");
    assert!(Handle::ptr_eq(&kept, &moved));
    assert_eq!(moving.client.clear(), Ok(3));
    assert_eq!((&*kept, &*moved), (name.as_bytes(), name.as_bytes()));
}

/// RUSTSEC-2025-0024: crossbeam-channel before 0.5.15 frees twice when a channel is dropped.
#[test]
fn the_lock_file_names_no_channel_that_frees_twice() {
    let name = "name = \"crossbeam-channel\"\nversion = \"";
    let frees_twice = |lock: &str| {
        let mut versions = lock.split(name).skip(1).map(version_of);
        versions.any(|version| version.as_slice() < &[0, 5, 15][..])
    };
    assert!(frees_twice(&format!("{name}0.5.9\"")) && !frees_twice(&format!("{name}0.5.15\"")));
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"));
    assert!(!frees_twice(&lock.expect("a lock file beside the manifest")));
}

/// The numbers up to the closing quote.
fn version_of(rest: &str) -> Vec<u32> {
    let version = rest.split('"').next().unwrap_or_default();
    version.split('.').map(|part| part.parse().expect("a number")).collect()
}

/// moka-rs/moka#154: an idle cache kept a core busy.
#[test]
fn without_deadlines_no_worker_ever_wakes() {
    let cluster = three_nodes();
    let client = cluster.client();
    let before = cluster.counters();
    for number in 0..1000 {
        client.set(format!("k:{number}"), b"v").unwrap();
        client.get(format!("k:{number}")).unwrap();
    }
    client.set_many((0..1000).map(|number| (format!("m:{number}"), &b"v"[..]))).unwrap();
    client.clear().unwrap();
    let after = cluster.counters();
    assert_eq!(after.wakeups, before.wakeups);
    assert_eq!(after.worker, before.worker);
    // What never expires for being too long to count is no deadline either.
    client.expire("k:0", Duration::MAX).unwrap();
    assert_eq!(cluster.counters().wakeups, before.wakeups);
}
