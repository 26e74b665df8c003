//! Deadlines and sweeps change hands with their slot: the target's worker finds what expires.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::thread;
use std::time::Duration;

use slotkeep::{Client, Cluster, Error, Node, SetOptions, Slot};

type Tested = Result<(), Error>;

const TTL: Duration = Duration::from_secs(10);

const KEYS: usize = 2000;

/// How often a test looks, giving way in between, before it calls that for ever.
const LOOKS: u32 = 1_000_000;

fn fill(client: &Client) -> Tested {
    for number in 0..KEYS {
        let ttl = TTL * if number % 2 == 0 { 1 } else { 2 };
        client.set_with(format!("{{k}}:{number}"), b"v", &SetOptions::new().expire_in(ttl))?;
    }
    Ok(())
}

/// The owner of the slot, and the other of two nodes.
fn sides(cluster: &Cluster, slot: Slot) -> (Node, Node) {
    let mut nodes = cluster.nodes();
    let last = nodes.swap_remove(1);
    let first = nodes.swap_remove(0);
    if last.slot_owner(slot).owner == Some(last.id()) { (last, first) } else { (first, last) }
}

/// Waits, giving way, until so many entries are left. Nobody touches them: a worker has to.
#[track_caller]
fn wait_for_len(client: &Client, len: usize) {
    let swept = (0..LOOKS).any(|_| {
        thread::yield_now();
        client.len() == Ok(len)
    });
    assert!(swept, "{:?} entries are left of {len}", client.len());
}

#[test]
fn a_deadline_set_before_the_handover_fires_on_the_targets_worker() -> Tested {
    let cluster = Cluster::builder().nodes(2).workers_per_node(1).stopped_clock().build()?;
    let client = cluster.client();
    let slot = Slot::of("{k}");
    fill(&client)?;
    let (source, target) = sides(&cluster, slot);
    assert_ne!(source.worker_of(slot), target.worker_of(slot));
    source.hand_over(slot, target.id())?;
    cluster.advance(TTL);
    wait_for_len(&client, KEYS / 2);
    assert_eq!(target.count_keys_in_slot(slot)?, KEYS / 2);
    // The next deadline comes back with the slot.
    target.hand_over(slot, source.id())?;
    cluster.advance(TTL);
    wait_for_len(&client, 0);
    cluster.check_invariants();
    Ok(())
}

#[test]
fn a_sweep_that_is_half_done_goes_on_where_the_table_went() -> Tested {
    let cluster = Cluster::builder().nodes(2).step_mode(7).build()?;
    let client = cluster.client();
    let slot = Slot::of("{k}");
    fill(&client)?;
    cluster.advance(TTL);
    let mut steps = 0;
    loop {
        let (source, target) = sides(&cluster, slot);
        let goes_on = cluster.sweep_step(source.id(), slot);
        steps += 1;
        source.hand_over(slot, target.id())?;
        assert!(!cluster.sweep_step(source.id(), slot), "nothing is left there");
        cluster.check_invariants();
        if !goes_on {
            break;
        }
    }
    assert!(steps > 2, "the sweep was never half done");
    assert_eq!((client.len(), client.live()), (Ok(KEYS / 2), Ok(KEYS / 2)));
    Ok(())
}
