//! The end of a cluster, whoever brings it and whatever is going on, and panics of closures and
//! values: nothing hangs, every call is answered, and no thread is left.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use slotkeep::{Client, Cluster, CommandError, Compute, Error, Node, Ownership, Slot};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Tested, check_each, fill_mailbox, key_calls, other_calls, watched};

const MODES: [Ownership; 2] = [Ownership::Lent, Ownership::Strict];

/// How often each way to end a cluster is tried, so that they are a thousand together.
const ROUNDS: usize = 1000 / WAYS.len();

/// Who ends a cluster, and how.
#[derive(Clone, Copy, Debug)]
enum Way {
    Shutdown,
    DropLast,
    ShutdownInside,
    DropInside,
    /// Two threads at once.
    ShutdownTwice,
}

const WAYS: [Way; 5] =
    [Way::Shutdown, Way::DropLast, Way::ShutdownInside, Way::DropInside, Way::ShutdownTwice];

fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> thread::JoinHandle<R> {
    thread::Builder::new().spawn(body).expect("one thread more")
}

/// Calls until the cluster is closed; every answer before that is a good one.
fn call_until_closed(started: &mpsc::Sender<()>, call: impl Fn() -> Tested) {
    let mut told = false;
    loop {
        match call() {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, Error::Closed);
                break;
            }
        }
        if !told {
            told = true;
            started.send(()).expect("the round waits for it");
        }
    }
}

/// One cluster with a mailbox of one job, calls in flight from several threads, and its end.
fn end_while_busy(way: Way, ownership: Ownership) {
    let builder = Cluster::builder().nodes(2).workers_per_node(1).mailbox_jobs(1);
    let cluster = builder.ownership(ownership).build().expect("a small cluster");
    let client = cluster.client();
    let (started, begun) = mpsc::channel();
    let nodes = cluster.nodes();
    let mut threads = Vec::new();
    for number in 0..3 {
        let (node, started) = (nodes[number % 2].clone(), started.clone());
        threads.push(spawn(move || {
            call_until_closed(&started, || Ok(node.run_on_worker(Slot::MIN, || ())?));
        }));
    }
    // Who holds a client keeps the cluster alive, so only shutdown can end these.
    if !matches!(way, Way::DropLast | Way::DropInside) {
        let client = client.clone();
        threads.push(spawn(move || {
            call_until_closed(&started, || {
                client.set("key", b"v")?;
                client.get("key").map(drop)
            });
        }));
    }
    for _ in &threads {
        begun.recv().expect("every thread calls");
    }
    match way {
        Way::Shutdown => cluster.shutdown(),
        Way::DropLast => drop((cluster, client)),
        Way::ShutdownInside => {
            let ended = nodes[0].run_on_worker(Slot::MIN, || cluster.shutdown());
            assert_eq!(ended, Ok(()), "the closure that ends the cluster is answered");
        }
        Way::DropInside => {
            let ended = nodes[0].run_on_worker(Slot::MIN, move || drop((cluster, client)));
            assert_eq!(ended, Ok(()), "the closure that ends the cluster is answered");
        }
        Way::ShutdownTwice => {
            let other = cluster.clone();
            threads.push(spawn(move || other.shutdown()));
            cluster.shutdown();
        }
    }
    for thread in threads {
        thread.join().expect("every call is answered");
    }
}

#[track_caller]
fn check_rounds(way: Way) {
    watched(&format!("{way:?}"), move || {
        for round in 0..ROUNDS {
            end_while_busy(way, MODES[round % 2]);
        }
    });
}

#[test]
fn shutdown_ends_a_busy_cluster() {
    check_rounds(Way::Shutdown);
}

#[test]
fn dropping_the_last_client_ends_a_busy_cluster() {
    check_rounds(Way::DropLast);
}

#[test]
fn a_workers_own_closure_may_shut_the_cluster_down() {
    check_rounds(Way::ShutdownInside);
}

#[test]
fn a_workers_own_closure_may_drop_the_last_client() {
    check_rounds(Way::DropInside);
}

#[test]
fn two_threads_may_shut_down_at_once() {
    check_rounds(Way::ShutdownTwice);
}

/// A cluster whose only worker is inside a closure until the sender is dropped.
fn held_worker(cluster: &Cluster) -> (mpsc::Sender<()>, thread::JoinHandle<Tested>) {
    let (release, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let node = cluster.nodes()[0].clone();
    let thread = spawn(move || {
        let ran = node.run_on_worker(Slot::MIN, move || {
            begin.send(()).expect("the test waits");
            // Nothing is ever sent: the end of the sender is waited for.
            held.recv().unwrap_or_default();
        });
        Ok(ran?)
    });
    begun.recv().expect("the closure runs");
    (release, thread)
}

#[test]
fn who_waits_for_a_full_mailbox_hears_of_the_end_before_the_running_closure_does() {
    watched("a full mailbox", || {
        let builder = Cluster::builder().workers_per_node(1).mailbox_jobs(1);
        let cluster = builder.ownership(Ownership::Strict).build().expect("a small cluster");
        let client = cluster.client();
        let (release, running) = held_worker(&cluster);
        let trying = client.trying();
        let (refused, waiting) = fill_mailbox(move || trying.get("key").map(drop));
        assert_eq!(refused, Err(Error::Busy));
        let writers: Vec<_> = (0..6)
            .map(|_| {
                let client = client.clone();
                spawn(move || client.set("key", b"v").map_err(Error::from))
            })
            .collect();
        let ending = spawn(move || cluster.shutdown());
        for writer in writers.into_iter().chain([waiting]) {
            assert_eq!(writer.join().expect("no panic"), Err(Error::Closed));
        }
        assert!(!ending.is_finished(), "shutdown waits for the closure that runs");
        drop(release);
        assert_eq!(running.join().expect("no panic"), Ok(()), "what runs is finished");
        ending.join().expect("no panic");
    });
}

/// Panics when it is dropped, if it was armed.
struct Bomb {
    armed: bool,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.armed, "a value's own panic");
    }
}

#[test]
fn a_waiting_closure_whose_drop_panics_does_not_keep_threads_alive() {
    watched("a panic in a waiting closure", || {
        // Shared workers have names that no other test of this file uses.
        let cluster = Cluster::builder().shared_workers(2).mailbox_jobs(1).build();
        let cluster = cluster.expect("a small cluster");
        let (release, running) = held_worker(&cluster);
        let trying = cluster.client().trying();
        let (refused, waiting) = fill_mailbox(move || {
            let bomb = Bomb { armed: true };
            // Run, it would leave the bomb alone. The empty key lies in the first slot.
            let call = || trying.run_on_owner("", move || std::mem::forget(bomb));
            catch_unwind(AssertUnwindSafe(call)).map_err(drop)
        });
        assert_eq!(refused, Err(()), "a closure that is refused is dropped by its caller");
        let ending = spawn(move || cluster.shutdown());
        let answered = waiting.join().expect("the panic is not the caller's");
        assert_eq!(answered, Ok(Err(Error::Closed)));
        drop(release);
        assert_eq!(running.join().expect("no panic"), Ok(()));
        ending.join().expect("the panic is not shutdown's");
        threads_end(|name| name.starts_with("worker-"));
    });
}

/// Waits until no thread of this process has such a name.
fn threads_end(ours: impl Fn(&str) -> bool) {
    loop {
        let Some(names) = thread_names() else {
            println!("this system does not list threads: not checked");
            return;
        };
        if !names.iter().any(|name| ours(name)) {
            return;
        }
        // A thread that was joined may be listed for a moment; the watchdog bounds it.
        thread::yield_now();
    }
}

/// The names of this process's threads, where the system lists them.
fn thread_names() -> Option<Vec<String>> {
    let mut names = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()? {
        // A thread may end while the list is read.
        if let Ok(name) = fs::read_to_string(task.ok()?.path().join("comm")) {
            names.push(name.trim_end().to_owned());
        }
    }
    Some(names)
}

#[test]
fn no_thread_is_left_whoever_ends_the_cluster() {
    // No other test of this file has so many workers, so these names are this test's own.
    let ours = |name: &str| {
        let number = name.strip_prefix("node-0-worker-").and_then(|number| number.parse().ok());
        number.is_some_and(|number: usize| number > 4)
    };
    watched("threads", move || {
        for way in WAYS {
            let cluster = Cluster::builder().workers_per_node(10).build().expect("a cluster");
            let node = cluster.nodes()[0].clone();
            for slot in Slot::all().take(10) {
                node.run_on_worker(slot, || ()).expect("an open cluster");
            }
            let running =
                thread_names().map(|names| names.iter().filter(|name| ours(name)).count());
            assert!(running.is_none_or(|count| count == 5), "{running:?} of 5");
            let ended = match way {
                Way::ShutdownInside => node.run_on_worker(Slot::MIN, || cluster.shutdown()),
                Way::DropInside => node.run_on_worker(Slot::MIN, move || drop(cluster)),
                Way::DropLast => node.run_on_worker(Slot::MIN, || ()).map(|()| drop(cluster)),
                Way::Shutdown | Way::ShutdownTwice => {
                    node.run_on_worker(Slot::MIN, || ()).map(|()| cluster.shutdown())
                }
            };
            assert_eq!(ended, Ok(()));
            threads_end(ours);
        }
    });
}

#[test]
fn every_call_after_the_end_answers_closed() {
    for ownership in MODES {
        let cluster = Cluster::builder().nodes(3).ownership(ownership).build().expect("a cluster");
        let client = cluster.client();
        cluster.shutdown();
        check_each(key_calls(&client, b"key"), Error::Closed);
        // Without a key there is nothing to iterate over, and nothing that could fail.
        let mut calls = other_calls(&cluster, &client, b"key");
        calls.retain(|&(call, _)| call != "iter");
        check_each(calls, Error::Closed);

        let cluster = Cluster::builder().nodes(3).ownership(ownership).build().expect("a cluster");
        let client = cluster.client();
        client.set("key", b"v").expect("an open cluster");
        let handle = client.get("key").expect("an open cluster").expect("there");
        cluster.shutdown();
        cluster.shutdown();
        check_each(key_calls(&client, b"key"), Error::Closed);
        check_each(other_calls(&cluster, &client, b"key"), Error::Closed);
        assert_eq!(*handle, *b"v");
    }
}

/// A closure that panics, by the call that runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Panicking {
    Compute,
    Update,
    UpdateInPlace,
    Transaction,
    RunOnOwner,
    RunOnWorker,
}

const PANICKING: [Panicking; 6] = [
    Panicking::Compute,
    Panicking::Update,
    Panicking::UpdateInPlace,
    Panicking::Transaction,
    Panicking::RunOnOwner,
    Panicking::RunOnWorker,
];

const MESSAGE: &str = "a closure's own panic";

fn panicking_call(call: Panicking, client: &Client, node: &Node, name: &str) -> Tested {
    match call {
        Panicking::Compute => client.compute(name, |_| panic!("{MESSAGE}")).map(drop),
        Panicking::Update => client
            .update(name, |value| -> () {
                value.clear();
                panic!("{MESSAGE}")
            })
            .map(drop),
        Panicking::UpdateInPlace => client
            .update_in_place(name, |value| -> () {
                value.fill(b'#');
                panic!("{MESSAGE}")
            })
            .map(drop),
        Panicking::Transaction => client
            .transaction(&[name], |one| -> Result<(), CommandError> {
                one.remove(name)?;
                panic!("{MESSAGE}")
            })
            .map(drop),
        Panicking::RunOnOwner => client.run_on_owner(name, || panic!("{MESSAGE}")),
        Panicking::RunOnWorker => Ok(node.run_on_worker(Slot::of(name), || panic!("{MESSAGE}"))?),
    }
}

#[test]
fn a_panic_reaches_its_caller_frees_the_token_and_leaves_the_worker_alive() {
    watched("panics", || {
        for (call, ownership) in PANICKING.iter().flat_map(|call| MODES.map(|mode| (*call, mode))) {
            println!("{call:?} {ownership:?}");
            let builder = Cluster::builder().workers_per_node(1).ownership(ownership);
            let cluster = builder.build().expect("a small cluster");
            let (client, node) = (cluster.client(), cluster.nodes()[0].clone());
            let worker = || thread::current().id();
            let before = client.run_on_owner("key", worker).expect("it runs");
            client.set("key", b"v").expect("a write");
            let panicked =
                catch_unwind(AssertUnwindSafe(|| panicking_call(call, &client, &node, "key")));
            let payload = panicked.expect_err("the panic goes on in the caller");
            assert_eq!(payload.downcast_ref::<String>().map(String::as_str), Some(MESSAGE));
            let left = (call != Panicking::UpdateInPlace).then_some(&b"v"[..]);
            // Another thread gets the token, and finds what the docs say.
            let other = client.clone();
            let found = spawn(move || other.get("key")).join().expect("no panic");
            assert_eq!(found.expect("a read").as_deref(), left);
            assert_eq!(client.len(), Ok(usize::from(left.is_some())));
            client.set("key", b"again").expect("the shard is valid");
            client.compute("key", |_| Compute::Remove).expect("this thread is in no closure");
            assert_eq!(client.run_on_owner("key", worker), Ok(before), "the same worker");
        }
    });
}

#[test]
fn a_value_whose_drop_panics_leaves_everything_valid() {
    watched("bombs", || {
        for ownership in MODES {
            let builder = Cluster::builder().workers_per_node(1).ownership(ownership);
            let cluster = builder.values::<Bomb>().build().expect("a small cluster");
            let client = cluster.client();
            let armed = || Bomb { armed: true };
            let check = |call: &dyn Fn() -> Tested, left: bool| {
                client.set("key", armed()).expect("nothing is there to drop");
                let dropped = catch_unwind(AssertUnwindSafe(call));
                assert!(dropped.is_err(), "the panic goes on in the caller");
                let found = client.get("key").expect("the token is free");
                assert_eq!(found.map(|bomb| bomb.armed), left.then_some(false));
                drop(client.compute("key", |_| Compute::Remove));
            };
            let harmless = || Bomb { armed: false };
            check(&|| client.set("key", harmless()).map_err(Error::from), true);
            check(&|| client.remove("key").map(drop), false);
            check(&|| client.take("key").map(drop), false);
            check(&|| client.compute("key", |_| Compute::Remove).map(drop), false);
            check(&|| client.compute("key", |_| Compute::Replace(harmless())).map(drop), true);
            check(&|| client.mset([("key", harmless())]), true);
            check(&|| client.remove_all(&["key"]).map(drop), false);
            check(&|| client.clear_slot(Slot::of("key")).map(drop), false);
            check(&|| client.clear().map(drop), false);
            let swap = || client.transaction(&["key"], |one| one.set("key", harmless())).map(drop);
            check(&swap, true);
            assert_eq!((client.len(), client.run_on_owner("key", || 7)), (Ok(0), Ok(7)));
        }
    });
}
