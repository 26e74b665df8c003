//! Why slots: how many of a million keys change their node when one node joins.
//!
//! With `hash mod N` nearly every key has another node after N has changed. With slots, keys stay
//! in their slots, and only as many slots change hands as the new node is due.

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};

use slotkeep::reshard::plan_join;
use slotkeep::{Cluster, Slot, SlotSet};

const KEYS: u32 = 1_000_000;

/// The keys of a web shop: a tenth each of ten kinds.
fn key(number: u32) -> String {
    const KINDS: [&str; 10] = [
        "user", "session", "cart", "order", "product", "price", "stock", "review", "image", "token",
    ];
    format!("{}:{}", KINDS[number as usize % KINDS.len()], number / 10)
}

/// The share of the keys for which `moves` holds, in percent.
fn percent(moves: impl Fn(&str) -> bool) -> f64 {
    let moved = (0..KEYS).filter(|&number| moves(&key(number))).count();
    f64::from(u32::try_from(moved).unwrap_or(u32::MAX)) * 100.0 / f64::from(KEYS)
}

/// How many keys change their node by `hash mod N` when one node joins `nodes`.
fn moved_by_mod_n(nodes: u64) -> f64 {
    percent(|key| {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        hash % nodes != hash % (nodes + 1)
    })
}

/// How many keys change their node by slots when one node joins `nodes`.
fn moved_by_slots(nodes: usize) -> Result<f64, slotkeep::Error> {
    let cluster = Cluster::builder().nodes(nodes).shared_workers(1).build()?;
    let node = cluster.add_node()?;
    let plan = plan_join(&cluster.slot_map(), node.id());
    let moved: SlotSet = plan.iter().map(|planned| planned.slot).collect();
    Ok(percent(|key| moved.contains(Slot::of(key))))
}

#[track_caller]
fn check(measured: f64, expected: f64) {
    assert!((measured - expected).abs() < 0.5, "{measured} % instead of {expected} %");
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{KEYS} keys; one node joins");
    println!("nodes      moved by hash mod N   moved by slots");
    for (nodes, by_mod_n, by_slots) in [(4_u32, 80.0, 20.0), (16, 94.1, 5.9)] {
        let mod_n = moved_by_mod_n(nodes.into());
        let slots = moved_by_slots(nodes.try_into()?)?;
        println!("{nodes:>2} to {:<2}   {mod_n:>16.1} %   {slots:>12.1} %", nodes + 1);
        check(mod_n, by_mod_n);
        check(slots, by_slots);
    }
    println!("by slots nobody gets a key but the node that joins");
    Ok(())
}
