//! A thousand nodes in one process: they start, serve, let another one join, and stay small.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::error::Error;
use std::fs;
use std::time::Duration;

use slotkeep::Cluster;
use slotkeep::reshard::Reshard;

const NODES: usize = 1000;
const KEYS: usize = 10_000;
const GROWTH_MAX: u64 = 256 << 20;

/// The resident memory of this process, where the system tells it.
fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    // Pages of 4 KiB; a system with larger ones would be seen to use less, never more.
    Some(pages * 4096)
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

#[test]
fn a_thousand_nodes_serve_and_fit_into_256_mib() -> Result<(), Box<dyn Error>> {
    let before = resident_bytes();
    let clock = Cluster::builder().build()?;
    let clock = clock.nodes()[0].clone();
    let cluster = Cluster::builder().nodes(NODES).shared_workers(2).build()?;
    let built = clock.uptime();
    let client = cluster.client();
    let name = |number: usize| format!("key:{number}");
    for number in 0..KEYS {
        client.set(name(number), number.to_string().as_bytes()).map_err(slotkeep::Error::from)?;
    }
    let check = || -> Result<(), Box<dyn Error>> {
        for number in 0..KEYS {
            let value = client.get(name(number))?.ok_or("a key is gone")?;
            assert_eq!(*value, *number.to_string().as_bytes());
        }
        Ok(())
    };
    check()?;
    let served = clock.uptime();

    let joined = cluster.add_node()?;
    let report = Reshard::of(&cluster).join(joined.id())?.run()?;
    assert_eq!(report.slots_moved, 16_384 / (NODES + 1));
    assert_eq!(joined.slots().len(), 16_384 / (NODES + 1));
    check()?;
    let moved = clock.uptime();
    assert_eq!(client.len(), Ok(KEYS));
    let mut stored = 0;
    for node in cluster.nodes() {
        stored += node.stored_slots()?.iter().map(|&(_, count)| count).sum::<usize>();
    }
    assert_eq!(stored, KEYS, "every key has one home");

    println!(
        "{NODES} nodes: built in {:.2} s, {KEYS} keys written and read in {:.2} s, node {} joined \
         and took {} slots in {:.2} s",
        seconds(built),
        seconds(served.saturating_sub(built)),
        NODES + 1,
        report.slots_moved,
        seconds(moved.saturating_sub(served)),
    );
    match (before, resident_bytes()) {
        (Some(before), Some(after)) => {
            let growth = after.saturating_sub(before);
            println!("resident memory grew by {} MiB", growth >> 20);
            assert!(growth <= GROWTH_MAX, "grew by {growth} bytes");
        }
        (None, _) | (_, None) => println!("this system does not tell resident memory: not checked"),
    }
    Ok(())
}
