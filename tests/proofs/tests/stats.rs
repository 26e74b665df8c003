//! Statistics where time is moved by hand: an entry that expires counts as expired once, whoever
//! lets go of it; and what moves, aborts and copies do adds up on every node.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::time::Duration;

use slotkeep::reshard::{MoveKind, Reshard};
use slotkeep::{
    AbortStep, Bound, Client, Cluster, Compute, Error, MigrateOptions, Node, SetOptions, SetSlot,
    Slot, SlotSet, Stats,
};

type Tested = Result<(), Error>;

const TTL: Duration = Duration::from_secs(10);

fn stepped(nodes: usize) -> (Cluster, Client) {
    let cluster = Cluster::builder().nodes(nodes).step_mode(7).build().expect("a small cluster");
    let client = cluster.client();
    (cluster, client)
}

fn expiring(client: &Client, key: &str) -> Tested {
    let options = SetOptions::new().expire_in(TTL);
    client.set_with(key, b"v", &options).map(drop).map_err(Error::from)
}

/// The counts of the cluster, after a check that each slot's add up.
#[track_caller]
fn total(cluster: &Cluster) -> Stats {
    cluster.check_invariants();
    cluster.stats().expect("no token is held").total()
}

/// Source and target of a slot's move.
fn sides(cluster: &Cluster, slot: Slot) -> (Node, Node) {
    let source = cluster.slot_map().owner(slot).expect("every slot has an owner");
    let (one, other) = (cluster.nodes().remove(0), cluster.nodes().remove(1));
    if one.id() == source { (one, other) } else { (other, one) }
}

#[test]
fn an_entry_that_is_met_expired_counts_once_as_expired_and_once_as_what_the_call_did() -> Tested {
    type Meet = fn(&Client, &str) -> Tested;
    // What the call counts: hits, misses, inserts, updates, removed.
    let calls: [(&str, [u64; 5], Meet); 8] = [
        ("get", [0, 1, 0, 0, 0], |client, key| client.get(key).map(drop)),
        ("set", [0, 0, 1, 0, 0], |client, key| Ok(client.set(key, b"w")?)),
        ("set with a deadline", [0, 0, 1, 0, 0], |client, key| expiring(client, key)),
        ("remove", [0; 5], |client, key| client.remove(key).map(drop)),
        ("contains_key", [0; 5], |client, key| client.contains_key(key).map(drop)),
        ("compute", [0, 0, 1, 0, 0], |client, key| {
            client.compute(key, |_| Compute::Replace(vec![1])).map(drop)
        }),
        ("update_in_place", [0, 1, 0, 0, 0], |client, key| {
            client.update_in_place(key, |_| ()).map(drop)
        }),
        ("transaction", [0, 0, 1, 0, 0], |client, key| {
            assert_eq!(client.transaction(&[key], |one| one.set(key, b"w"))?, Ok(()));
            Ok(())
        }),
    ];
    for (call, expected, meet) in calls {
        let (cluster, client) = stepped(1);
        expiring(&client, "key")?;
        cluster.advance(TTL);
        assert_eq!(total(&cluster).expired, 0, "{call}: nobody has met it yet");
        let before = total(&cluster);
        meet(&client, "key")?;
        let now = total(&cluster);
        let counted = [
            now.hits - before.hits,
            now.misses - before.misses,
            now.inserts - before.inserts,
            now.updates - before.updates,
            now.removed - before.removed,
        ];
        assert_eq!((counted, now.expired), (expected, 1), "{call}");
    }
    Ok(())
}

#[test]
fn what_a_sweep_or_a_full_cache_lets_go_of_counts_as_expired_once() -> Tested {
    let (cluster, client) = stepped(1);
    let slot = Slot::of("{b}");
    for number in 0..100 {
        expiring(&client, &format!("{{b}}:{number}"))?;
    }
    client.set("{b}", b"stays")?;
    cluster.advance(TTL);
    while cluster.sweep_step(cluster.node_ids()[0], slot) {}
    assert_eq!((total(&cluster).expired, total(&cluster).entries), (100, 1));

    let bound = Cluster::builder().bound(Bound::Entries(100)).step_mode(7).build()?;
    let client = bound.client();
    for number in 0..100 {
        expiring(&client, &format!("{number}"))?;
    }
    bound.advance(TTL);
    for number in 100..200 {
        client.set(number.to_string(), b"v")?;
    }
    let stats = total(&bound);
    assert_eq!((stats.inserts, stats.entries, stats.removals()), (200, 100, 100));
    assert!(stats.expired > 0, "{stats:?}");
    Ok(())
}

#[test]
fn a_move_lets_go_of_what_has_expired_on_either_side() -> Tested {
    for kind in [MoveKind::Handover, MoveKind::Classic] {
        let (cluster, client) = stepped(2);
        let slot = Slot::of("{b}");
        for number in 0..50 {
            expiring(&client, &format!("{{b}}:{number}"))?;
        }
        if kind == MoveKind::Classic {
            // A handover takes expired entries along: it looks at none.
            cluster.advance(TTL);
        }
        client.set("{b}", b"stays")?;
        let (source, target) = sides(&cluster, slot);
        let slots: SlotSet = [slot].into_iter().collect();
        let reshard = Reshard::of(&cluster).by(kind).move_slots(&slots, source.id(), target.id());
        reshard.expect("a plan").run().expect("nobody interferes");
        let (left, taken) = (source.stats()?, target.stats()?);
        let expected = if kind == MoveKind::Classic { (50, 1, 1) } else { (0, 51, 51) };
        assert_eq!((left.expired, left.moved_out, taken.moved_in), expected, "{kind:?}");
        assert_eq!(taken.entries, taken.moved_in, "{kind:?}");
        assert_eq!(total(&cluster).inserts, 51, "{kind:?}");
    }
    Ok(())
}

#[test]
fn an_abort_takes_the_entries_back_and_counts_no_call() -> Tested {
    let (cluster, client) = stepped(2);
    let slot = Slot::of("{b}");
    for number in 0..50 {
        client.set(format!("{{b}}:{number}"), b"v")?;
    }
    let (source, target) = sides(&cluster, slot);
    let importing = SetSlot::Importing { source: source.id() };
    let id = target.set_slot(slot, importing)?.expect("IMPORTING draws an id");
    source.set_slot_step(slot, SetSlot::Migrating { target: target.id() }, id)?;
    source.migrate_batch(slot, id, 30)?;
    assert_eq!((source.stats()?.moved_out, target.stats()?.moved_in), (30, 30));
    while cluster.abort_step(id, 7)? == AbortStep::More {}
    let (mine, theirs) = (source.stats()?, target.stats()?);
    assert_eq!((mine.moved_out, mine.moved_in, mine.entries), (30, 30, 50));
    assert_eq!((theirs.moved_in, theirs.moved_out, theirs.entries), (30, 30, 0));
    let total = total(&cluster);
    assert_eq!((total.inserts, total.removals(), total.hits, total.updates), (50, 0, 0, 0));
    Ok(())
}

#[test]
fn copies_are_inserts_that_are_cleared_when_nobody_wants_them() -> Tested {
    let (cluster, client) = stepped(2);
    let slot = Slot::of("{b}");
    client.set("{b}", b"v")?;
    let (source, target) = sides(&cluster, slot);
    target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    source.copy_keys(&["{b}"], target.id(), MigrateOptions::default())?;
    assert_eq!((target.stats()?.inserts, target.stats()?.entries), (1, 1));
    let replace = MigrateOptions::default().replace();
    source.copy_keys(&["{b}"], target.id(), replace)?;
    target.set_slot(slot, SetSlot::Stable)?;
    let theirs = target.stats()?;
    assert_eq!((theirs.updates, theirs.cleared, theirs.entries), (1, 1, 0));
    assert_eq!((total(&cluster).entries, theirs.hits, theirs.misses), (1, 0, 0));
    Ok(())
}
