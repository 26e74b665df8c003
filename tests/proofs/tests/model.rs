//! The model test: random calls, verbs, drivers, messages and time against one map.

use slotkeep::reshard::{Resume, resume};
use slotkeep::{Client, Cluster, Node, SetSlot, Slot, SlotState};
use slotkeep_proofs::model::{Action, Plan, Tally, run};

/// How many runs there are: some seconds of them in the dev profile, many more in release.
const RUNS: u64 = if cfg!(debug_assertions) { 100 } else { 1500 };
const STEPS: u32 = 1000;

/// Where the seeds begin; another number makes another test.
const FIRST_SEED: u64 = 0;

/// The seed that `MODEL_SEED` names, to look at one run again, or all of them.
fn seeds() -> std::ops::Range<u64> {
    let one = std::env::var("MODEL_SEED").ok().and_then(|text| text.parse().ok());
    one.map_or(FIRST_SEED..FIRST_SEED + RUNS, |seed: u64| seed..seed + 1)
}

#[test]
fn every_answer_is_the_answer_of_one_map() {
    let mut tally = Tally::default();
    for seed in seeds() {
        if let Err(failure) = run(Plan { seed, steps: STEPS, fault: None }, &mut tally) {
            panic!("\n{failure}");
        }
    }
    println!("{tally}");
    if seeds().count() > 1 {
        assert_eq!(tally.never(), Vec::<String>::new(), "of {} actions", Action::ALL.len());
    }
}

#[test]
fn the_same_seed_replays_the_same_run() {
    let mut hashes = Vec::new();
    for seed in [1, 2, 3, 8, 13, 21] {
        let plan = Plan { seed, steps: 600, fault: None };
        let replay = || run(plan, &mut Tally::default());
        let (first, second) = match (replay(), replay()) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(failure), _) | (_, Err(failure)) => panic!("\n{failure}"),
        };
        assert_eq!(first, second, "seed {seed}");
        hashes.push(first);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 6, "different seeds make different runs");
}

/// Three nodes, the first of which owns the slot of `key`, the only one that has an owner.
fn one_slot(key: &str) -> (Cluster, Client, [Node; 3], Slot) {
    let builder = Cluster::builder().nodes(3).workers_per_node(1).unassigned();
    let cluster = builder.full_coverage(false).step_mode(0).build().expect("a small cluster");
    let nodes: [Node; 3] = cluster.nodes().try_into().expect("three nodes");
    let slot = Slot::of(key);
    nodes[0].add_slots(&[slot]).expect("nobody owns the slot");
    let client = cluster.client();
    (cluster, client, nodes, slot)
}

/// Moves a slot that holds no key.
fn move_slot(slot: Slot, source: &Node, target: &Node) -> Result<(), slotkeep::AdminError> {
    target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    target.set_slot(slot, SetSlot::Node { owner: target.id() })?;
    source.set_slot(slot, SetSlot::Node { owner: target.id() }).map(drop)
}

#[test]
fn a_target_that_heard_of_no_owner_serves_asking_all_the_same() {
    let (cluster, client, [source, target, _], slot) = one_slot("key");
    target.set_slot(slot, SetSlot::Importing { source: source.id() }).unwrap();
    cluster.bus().hold();
    source.del_slots(&[slot]).unwrap();
    source.add_slots(&[slot]).unwrap();
    assert!(cluster.bus().deliver(0), "the target hears that nobody owns the slot");
    assert_eq!(target.slot_owner(slot).owner, None);
    source.set_slot(slot, SetSlot::Migrating { target: target.id() }).unwrap();
    client.set("key", b"value").unwrap();
    assert_eq!(client.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(target.count_keys_in_slot(slot).unwrap(), 1, "a new key goes to the target");
}

#[test]
fn resume_ends_a_move_whose_source_has_lost_the_slot() {
    let (cluster, client, [first, second, third], slot) = one_slot("key");
    second.set_slot(slot, SetSlot::Importing { source: first.id() }).unwrap();
    move_slot(slot, &first, &third).unwrap();
    client.set("key", b"value").unwrap();
    assert_eq!(resume(&cluster, Resume::Finish).unwrap().slots_moved, 0);
    assert_eq!(second.slot_state(slot).unwrap(), SlotState::Stable);
    assert!(cluster.moves().iter().all(|record| record.phase.is_ended()));
    assert_eq!(client.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn the_mark_of_a_dead_move_goes_without_the_keys_of_a_living_one() {
    let (_cluster, client, [first, second, third], slot) = one_slot("key");
    second.set_slot(slot, SetSlot::Importing { source: first.id() }).unwrap();
    move_slot(slot, &first, &third).unwrap();
    // The slot comes back to its first owner, which holds a key already but does not own it yet.
    first.set_slot(slot, SetSlot::Importing { source: third.id() }).unwrap();
    third.set_slot(slot, SetSlot::Migrating { target: first.id() }).unwrap();
    client.set("key", b"value").unwrap();
    assert_eq!(first.count_keys_in_slot(slot).unwrap(), 1);
    second.set_slot(slot, SetSlot::Stable).unwrap();
    assert_eq!(client.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
