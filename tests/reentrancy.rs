//! A closure under a token gets `Reentrant` from every cluster, at once; so does a worker wherever
//! it would wait for another worker, and nobody else: a value may call the engine when it is
//! dropped.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use slotkeep::{
    AdminError, Client, Cluster, CommandError, Compute, Error, MigrateOptions, Ownership, SetSlot,
    Slot, WorkerError,
};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Tested, check_each, key, key_calls, other_calls, watched};

const MODES: [Ownership; 2] = [Ownership::Lent, Ownership::Strict];

/// A closure under a token, by the call that runs it.
#[derive(Clone, Copy, Debug)]
enum Under {
    Compute,
    Update,
    UpdateInPlace,
    Transaction,
}

const UNDER: [Under; 4] = [Under::Compute, Under::Update, Under::UpdateInPlace, Under::Transaction];

/// Runs `inside` in a closure under the token of `name`, which is there.
fn under_token(client: &Client, name: &str, under: Under, inside: impl FnOnce() + Send) -> Tested {
    match under {
        Under::Compute => client
            .compute(name, |seen| {
                assert!(seen.is_some());
                inside();
                Compute::Keep
            })
            .map(drop),
        Under::Update => client.update(name, |_| inside()).map(|ran| ran.expect("there")),
        Under::UpdateInPlace => {
            client.update_in_place(name, |_| inside()).map(|ran| ran.expect("there"))
        }
        Under::Transaction => client
            .transaction(&[name], |_| {
                inside();
                Ok::<_, CommandError>(())
            })
            .map(|ran| ran.expect("no error")),
    }
}

fn build(nodes: usize, ownership: Ownership) -> Cluster {
    let builder = Cluster::builder().nodes(nodes).workers_per_node(2).ownership(ownership);
    let cluster = builder.build().expect("a small cluster");
    cluster.client().set("key", b"value").expect("a write");
    cluster
}

/// What looks at a single node answers the same, and what takes no token is served.
fn check_looks(cluster: &Cluster) {
    let slot = Slot::of("key");
    let reentrant = AdminError::Worker(WorkerError::Reentrant);
    for node in cluster.nodes() {
        assert_eq!(node.slot_state(slot).map(drop), Err(reentrant));
        assert_eq!(node.count_keys_in_slot(slot).map(drop), Err(reentrant));
        assert_eq!(node.count_live_keys_in_slot(slot).map(drop), Err(reentrant));
        assert_eq!(node.keys_in_slot(slot, 1).map(drop), Err(reentrant));
        assert_eq!(node.memory_bytes_in_slot(slot).map(drop), Err(reentrant));
        assert_eq!(
            (node.slot_map().owner(slot), node.conflicts().len()),
            (node.slot_owner(slot).owner, 0)
        );
    }
    assert!(cluster.counters().redirects == cluster.redirect_count());
    assert!(cluster.client().owner_of("key").is_ok_and(|owner| owner.slot == slot));
    assert!(cluster.moves().is_empty());
}

#[test]
fn every_call_from_every_closure_under_a_token_is_refused_at_once() {
    watched("reentrant calls", || {
        for (under, ownership) in UNDER.iter().flat_map(|under| MODES.map(|mode| (*under, mode))) {
            println!("{under:?} {ownership:?}");
            let cluster = build(2, ownership);
            let client = cluster.client();
            for other in ["key", "another key of another slot"] {
                under_token(&client, "key", under, || {
                    check_each(key_calls(&client, other.as_bytes()), Error::Reentrant);
                    check_each(other_calls(&cluster, &client, other.as_bytes()), Error::Reentrant);
                    check_looks(&cluster);
                })
                .expect("the closure itself runs");
            }
            // The closure has ended: nothing of it sticks to the thread.
            assert_eq!(client.get("key").expect("a read").as_deref(), Some(&b"value"[..]));
            assert_eq!((cluster.node_count(), client.len()), (2, Ok(1)), "nothing was applied");
        }
    });
}

#[test]
fn a_closure_under_a_token_is_refused_by_other_clusters_too() {
    watched("two clusters", || {
        for (mine, theirs) in MODES.iter().flat_map(|mine| MODES.map(|theirs| (*mine, theirs))) {
            let (cluster, other) = (build(2, mine), build(3, theirs));
            let client = other.client();
            for under in UNDER {
                under_token(&cluster.client(), "key", under, || {
                    check_each(key_calls(&client, b"key"), Error::Reentrant);
                    check_each(other_calls(&other, &client, b"key"), Error::Reentrant);
                    check_looks(&other);
                })
                .expect("the closure itself runs");
            }
            assert_eq!(client.get("key").expect("a read").as_deref(), Some(&b"value"[..]));
        }
    });
}

/// A key of another worker than that of "key", and one of the same.
fn keys_by_worker(client: &Client) -> (String, String) {
    let worker = |name: &str| client.owner_of(name).expect("a short key").worker;
    let mine = worker("key");
    let mut names = (0..).map(|number: u32| format!("key {number}"));
    let same = names.find(|name| worker(name) == mine).expect("a quarter of all keys");
    let other = names.find(|name| worker(name) != mine).expect("most keys");
    (same, other)
}

#[test]
fn a_worker_is_served_lent_calls_and_waits_for_no_worker() {
    watched("from a worker", || {
        let cluster = build(2, Ownership::Lent);
        let other_cluster = build(1, Ownership::Lent);
        let (client, foreign) = (cluster.client(), other_cluster.client());
        let (same, other) = keys_by_worker(&client);
        let inside = client.run_on_owner("key", || -> Tested {
            let me = thread::current().id();
            for name in [&same, &other] {
                client.set(name, b"lent")?;
                assert_eq!(client.get(name)?.as_deref(), Some(&b"lent"[..]));
                assert_eq!(client.mget(&[name])?.len(), 1);
            }
            foreign.set("key", b"lent")?;
            assert_eq!(client.len(), Ok(3));
            let inline = client.run_on_owner(&same, || thread::current().id());
            assert_eq!(inline, Ok(me), "its own closures run in place");
            let waits = [client.run_on_owner(&other, || ()), foreign.run_on_owner("key", || ())];
            assert_eq!(waits, [Err(Error::Reentrant); 2]);
            client.compute(&same, |_| {
                assert_eq!(client.run_on_owner(&same, || ()), Err(Error::Reentrant));
                Compute::Keep
            })?;
            Ok(())
        });
        assert_eq!(inside, Ok(Ok(())));
    });
}

#[test]
fn in_strict_mode_a_worker_serves_its_own_shards_in_place_and_no_others() {
    watched("from a strict worker", || {
        let cluster = build(2, Ownership::Strict);
        let (lent, strict) = (build(1, Ownership::Lent), build(1, Ownership::Strict));
        let client = cluster.client();
        let (same, other) = keys_by_worker(&client);
        let inside = client.run_on_owner("key", || -> Tested {
            let me = thread::current().id();
            client.set(&same, b"mine")?;
            let ran_on = client.update(&same, |_| thread::current().id())?;
            assert_eq!(ran_on, Some(me), "in place");
            check_each(key_calls(&client, other.as_bytes()), Error::Reentrant);
            check_each(key_calls(&strict.client(), b"key"), Error::Reentrant);
            lent.client().set("key", b"lent")?;
            Ok(())
        });
        assert_eq!(inside, Ok(Ok(())));
        assert_eq!(client.get(&other).expect("a read"), None, "nothing was applied");
        assert_eq!(client.get(&same).expect("a read").as_deref(), Some(&b"mine"[..]));
    });
}

#[test]
fn nothing_sticks_to_a_thread_whose_closure_panicked() {
    watched("after a panic", || {
        for (under, ownership) in UNDER.iter().flat_map(|under| MODES.map(|mode| (*under, mode))) {
            let cluster = build(1, ownership);
            let client = cluster.client();
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                under_token(&client, "key", under, || panic!("inside"))
            }));
            assert!(panicked.is_err());
            client.set("key", b"served").expect("this thread is in no closure");
            assert_eq!(client.run_on_owner("key", || 1), Ok(1));
        }
    });
}

/// Calls the engine about its own slot when it is dropped, if it is active.
struct CallsBack {
    calls: Arc<CallBack>,
    active: bool,
}

/// What is called, and what it was answered. A client cannot be named in the type of its own
/// values, so that it hides in a closure.
#[derive(Default)]
struct CallBack {
    call: OnceLock<Box<dyn Fn() -> [Tested; 5] + Send + Sync>>,
    served: AtomicUsize,
    reentrant: AtomicUsize,
}

impl CallBack {
    fn value(self: &Arc<Self>, active: bool) -> CallsBack {
        CallsBack { calls: Arc::clone(self), active }
    }

    /// The values lie in the cluster that they call, so they must not keep it.
    fn connect(self: &Arc<Self>, client: &Arc<Client<CallsBack>>) {
        let (calls, client) = (Arc::downgrade(self), Arc::downgrade(client));
        let connected = self.call.set(Box::new(move || {
            let (Some(calls), Some(client)) = (calls.upgrade(), client.upgrade()) else {
                return [Err(Error::Closed); 5];
            };
            [
                client.get(key(0)).map(drop),
                client.set(key(1), calls.value(false)).map_err(Error::from),
                client.remove(key(2)).map(drop),
                client.entries_of_slot(support::slot()).map(drop),
                client.len().map(drop),
            ]
        }));
        assert!(connected.is_ok(), "connected twice");
    }
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        let Some(call) = self.calls.call.get().filter(|_| self.active) else { return };
        for answer in call() {
            let count = match answer {
                Ok(()) => &self.calls.served,
                Err(Error::Reentrant) => &self.calls.reentrant,
                Err(Error::Closed) => continue,
                Err(error) => panic!("a call back was answered {error}"),
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Drops one active value by a call; all of its calls back are served.
#[track_caller]
fn check_call_back(
    (calls, client): (&Arc<CallBack>, &Client<CallsBack>),
    what: &str,
    call: &dyn Fn(&str) -> Tested,
) {
    let name = key(0);
    client.set(&name, calls.value(true)).map_err(Error::from).expect("a write");
    let before = calls.served.load(Ordering::Relaxed);
    assert_eq!(call(&name), Ok(()), "{what}");
    assert_eq!(calls.served.load(Ordering::Relaxed) - before, 5, "{what}");
    client.compute(&name, |_| Compute::Remove).expect("a removal");
}

fn check_call_backs(ownership: Ownership) {
    let builder = Cluster::builder().nodes(2).workers_per_node(1).ownership(ownership);
    let cluster = builder.values::<CallsBack>().build().expect("a small cluster");
    let calls = Arc::new(CallBack::default());
    let client = Arc::new(cluster.client());
    calls.connect(&client);
    let idle = || calls.value(false);
    let check = |what: &str, call: &dyn Fn(&str) -> Tested| {
        check_call_back((&calls, &client), what, call);
    };
    check("set", &|name| Ok(client.set(name, idle())?));
    check("remove", &|name| client.remove(name).map(drop));
    check("take", &|name| client.take(name).map(drop));
    check("compute, remove", &|name| client.compute(name, |_| Compute::Remove).map(drop));
    check("compute, replace", &|name| client.compute(name, |_| Compute::Replace(idle())).map(drop));
    check("mset", &|name| client.mset([(name, idle())]));
    check("remove_all", &|name| client.remove_all(&[name]).map(drop));
    check("set_many", &|name| client.set_many([(name, idle())]));
    check("remove_many", &|name| client.remove_many(&[name]).map(drop));
    check("clear_slot", &|_| client.clear_slot(support::slot()).map(drop));
    check("clear", &|_| client.clear().map(drop));
    check("transaction, remove", &|name| {
        client.transaction(&[name], |one| one.remove(name)).map(drop)
    });
    check("transaction, set twice", &|name| {
        client
            .transaction(&[name], |one| {
                one.set(name, idle())?;
                one.set(name, idle())
            })
            .map(drop)
    });
    check("expiry", &|name| {
        client.expire(name, std::time::Duration::ZERO)?;
        client.get(name).map(drop)
    });
    check("a handle", &|name| {
        let handle = client.get(name)?;
        client.remove(name)?;
        drop(handle);
        Ok(())
    });
    assert_eq!(calls.reentrant.load(Ordering::Relaxed), 0);
    // The call back holds a client, and so keeps the cluster: the end is brought by hand.
    cluster.shutdown();
}

#[test]
fn a_value_may_call_the_engine_when_it_is_dropped() {
    watched("calls back", || MODES.into_iter().for_each(check_call_backs));
}

/// Notes when it is dropped, and calls the engine about the key's slot.
struct Captured<'a>(&'a Client, &'a AtomicUsize);

impl Drop for Captured<'_> {
    fn drop(&mut self) {
        match self.0.get("key") {
            Ok(_) | Err(Error::Reentrant | Error::Closed) => self.1.fetch_add(1, Ordering::Relaxed),
            Err(error) => panic!("a call from a dropped closure was answered {error}"),
        };
    }
}

#[test]
fn what_a_closure_holds_may_call_the_engine_though_the_closure_never_runs() {
    watched("captured", || {
        for ownership in MODES {
            let cluster = Cluster::builder().ownership(ownership).build().expect("a cluster");
            let (client, count) = (cluster.client(), AtomicUsize::new(0));
            let captured = || Captured(&client, &count);
            for there in [false, true] {
                let held = captured();
                assert_eq!(client.update("absent{key}", move |_| drop(held)), Ok(None));
                let held = captured();
                assert_eq!(client.update_in_place("absent{key}", move |_| drop(held)), Ok(None));
                if there {
                    continue;
                }
                client.set("key", b"v").expect("a write");
            }
            let handle = client.get("key").expect("a read");
            let held = captured();
            let shared = client.update_in_place("key", move |_| drop(held));
            assert_eq!(shared, Err(Error::Shared));
            drop(handle);
            let held = captured();
            client
                .compute("key", move |_| {
                    drop(held);
                    Compute::Keep
                })
                .expect("a closure");
            assert_eq!(count.load(Ordering::Relaxed), 6);
        }
    });
}

/// Every copy of it calls the engine when it is dropped.
#[derive(Clone)]
struct CopyCallsBack(Arc<OnceLock<Box<dyn Fn() -> Tested + Send + Sync>>>);

impl Drop for CopyCallsBack {
    fn drop(&mut self) {
        if let Some(call) = self.0.get() {
            let answer = call();
            assert!(matches!(answer, Ok(()) | Err(Error::Reentrant | Error::Closed)), "{answer:?}");
        }
    }
}

#[test]
fn copies_that_a_refused_copy_drops_may_call_the_engine() {
    watched("refused copies", || {
        let builder = Cluster::builder().nodes(2).workers_per_node(1).values::<CopyCallsBack>();
        let cluster = builder.build().expect("a small cluster");
        let (client, call) = (cluster.client(), Arc::new(OnceLock::new()));
        let names = support::keys(2);
        for name in &names {
            let written = client.set(name, CopyCallsBack(Arc::clone(&call)));
            written.map_err(Error::from).expect("a write");
        }
        let owner = cluster.slot_map().owner(support::slot()).expect("an owner");
        let (source, target): (Vec<_>, Vec<_>) =
            cluster.nodes().into_iter().partition(|node| node.id() == owner);
        let (source, target) = (&source[0], &target[0]);
        let importing = SetSlot::Importing { source: source.id() };
        target.set_slot(support::slot(), importing).expect("the slot is stable");
        let options = MigrateOptions::default();
        assert_eq!(source.copy_keys(&names[1..], target.id(), options), Ok(1));
        let client = Arc::new(client);
        let weak = Arc::downgrade(&client);
        let connected = call.set(Box::new(move || match weak.upgrade() {
            Some(client) => client.get(key(0)).map(drop),
            None => Err(Error::Closed),
        }));
        assert!(connected.is_ok());
        // The first key is copied, the second one is there already: the copy of the first goes.
        let refused = source.copy_keys(&names, target.id(), options);
        assert_eq!(refused, Err(AdminError::BusyKey));
        cluster.shutdown();
    });
}
