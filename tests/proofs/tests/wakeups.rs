//! An idle engine wakes nobody, whatever traffic it had; a deadline wakes its worker once.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use slotkeep::{Client, Cluster, Error, SetOptions};

type Tested = Result<(), Error>;

const IDLE: Duration = Duration::from_millis(200);
const HOUR: Duration = Duration::from_secs(3600);

/// How often a test looks, giving way in between, before it calls that for ever.
const LOOKS: u32 = 1_000_000;

/// Workers are known by their names, so that these tests run one after another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Lets wall time pass: nobody ever sends.
fn idle(wait: Duration) {
    let (sender, nothing) = mpsc::channel::<()>();
    assert_eq!(nothing.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
    drop(sender);
}

/// Whether every worker of this process is asleep, by what the system tells.
fn workers_sleep() -> bool {
    let tasks = fs::read_dir("/proc/self/task").expect("a list of threads");
    let stats = tasks.map(|task| fs::read_to_string(task.expect("a thread").path().join("stat")));
    // A thread that has just ended has no line any more.
    stats.filter_map(Result::ok).all(|stat| {
        let (name, state) = stat.rsplit_once(") ").expect("a name in brackets, then the state");
        !name.contains("worker") || state.starts_with('S')
    })
}

/// Waits until every worker has nothing left to do and is parked; how often they woke so far.
fn settle(cluster: &Cluster) -> u64 {
    for _ in 0..LOOKS {
        let before = cluster.counters().wakeups;
        if workers_sleep() {
            idle(Duration::from_millis(20));
            if workers_sleep() && cluster.counters().wakeups == before {
                return before;
            }
        }
        thread::yield_now();
    }
    panic!("the workers do not come to rest");
}

/// Nobody has woken more often than that, and nobody does while the engine is left alone.
#[track_caller]
fn check_wakeups(cluster: &Cluster, expected: u64) {
    assert_eq!(settle(cluster), expected);
    idle(IDLE);
    assert_eq!(cluster.counters().wakeups, expected, "somebody woke though nothing happened");
}

fn expiring(client: &Client, key: &str, wait: Duration) -> Tested {
    let outcome = client.set_with(key, b"v", &SetOptions::new().expire_in(wait));
    outcome.map(drop).map_err(Error::from)
}

#[test]
fn an_idle_engine_wakes_nobody() -> Tested {
    let _alone = ONE_AT_A_TIME.lock();
    let cluster = Cluster::builder().nodes(3).workers_per_node(2).build()?;
    let rested = settle(&cluster);
    check_wakeups(&cluster, rested);
    Ok(())
}

#[test]
fn lent_calls_wake_nobody_and_a_closure_on_the_owner_wakes_one() -> Tested {
    let _alone = ONE_AT_A_TIME.lock();
    let cluster = Cluster::builder().nodes(3).workers_per_node(2).build()?;
    let client = cluster.client();
    let rested = settle(&cluster);
    for number in 0..10_000 {
        let key = format!("key:{}", number % 500);
        client.set(&key, b"v")?;
        client.get(&key)?;
        client.incr("number", 1)?;
        client.mget(&[&key])?;
    }
    client.clear()?;
    check_wakeups(&cluster, rested);
    client.run_on_owner("key", || ())?;
    check_wakeups(&cluster, rested + 1);
    Ok(())
}

#[test]
fn a_deadline_wakes_its_worker_once_and_later_ones_wake_nobody() -> Tested {
    let _alone = ONE_AT_A_TIME.lock();
    let cluster = Cluster::builder().workers_per_node(1).build()?;
    let client = cluster.client();
    let rested = settle(&cluster);
    expiring(&client, "first", 2 * HOUR)?;
    check_wakeups(&cluster, rested + 1);
    for number in 0..100 {
        expiring(&client, &format!("later:{number}"), 3 * HOUR)?;
    }
    check_wakeups(&cluster, rested + 1);
    expiring(&client, "nearer", HOUR)?;
    check_wakeups(&cluster, rested + 2);
    Ok(())
}

#[test]
fn a_deadline_that_comes_wakes_its_worker_once_more_and_then_nobody() -> Tested {
    let _alone = ONE_AT_A_TIME.lock();
    let cluster = Cluster::builder().workers_per_node(1).build()?;
    let client = cluster.client();
    let rested = settle(&cluster);
    expiring(&client, "soon", IDLE)?;
    for _ in 0..LOOKS {
        if client.is_empty()? {
            break;
        }
        thread::yield_now();
    }
    assert_eq!(client.len(), Ok(0), "nobody swept it");
    // Once to hear of the deadline, once when it came.
    check_wakeups(&cluster, rested + 2);
    Ok(())
}
