//! Redirects: which calls are sent on while slots move, counted hop by hop.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::error::Error;

use slotkeep::{Answer, Client, Cluster, Hop, MoveId, NodeId, SetSlot, Slot};

type Tested = Result<(), Box<dyn Error>>;

fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

/// Opens the move of a slot from its owner to another node.
fn open(cluster: &Cluster, slot: Slot, target: NodeId) -> Result<(NodeId, MoveId), Box<dyn Error>> {
    let source = cluster.slot_map().owner(slot).ok_or("an owner")?;
    let (from, to) = (cluster.node(source).ok_or("node")?, cluster.node(target).ok_or("node")?);
    let id = to.set_slot(slot, SetSlot::Importing { source })?.ok_or("an id")?;
    from.set_slot_step(slot, SetSlot::Migrating { target }, id)?;
    Ok((source, id))
}

/// Moves a whole slot by the classic verbs.
fn move_slot(cluster: &Cluster, slot: Slot, target: NodeId) -> Tested {
    let (source, id) = open(cluster, slot, target)?;
    let (from, to) = (cluster.node(source).ok_or("node")?, cluster.node(target).ok_or("node")?);
    while from.migrate_batch(slot, id, 7)?.left > 0 {}
    to.set_slot_step(slot, SetSlot::Node { owner: target }, id)?;
    from.set_slot(slot, SetSlot::Node { owner: target })?;
    Ok(())
}

fn keys(tag: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{{{tag}}}:{number}")).collect()
}

fn redirects(hops: &[Hop]) -> usize {
    let sent_on = |hop: &&Hop| matches!(hop.answer, Answer::Ask { .. } | Answer::Moved { .. });
    hops.iter().filter(sent_on).count()
}

#[test]
fn writes_to_a_half_moved_slot_go_where_the_key_is_or_would_be() -> Tested {
    let cluster = Cluster::builder().nodes(3).workers_per_node(1).build()?;
    let client = cluster.client();
    let names = keys("half", 50);
    for name in &names {
        client.set(name, b"old")?;
    }
    let slot = Slot::of(&names[0]);
    let source = cluster.slot_map().owner(slot).ok_or("an owner")?;
    let target = cluster.node_ids().into_iter().find(|&node| node != source).ok_or("a target")?;
    let (_, id) = open(&cluster, slot, target)?;
    let from = cluster.node(source).ok_or("node")?;
    assert_eq!(from.migrate_batch(slot, id, 30)?.moved, 30);
    for name in names.iter().chain(&keys("half:new", 0)) {
        client.set(name, b"new")?;
    }
    for number in 0..10 {
        client.set(format!("{{half}}:new:{number}"), b"new")?;
    }
    let to = cluster.node(target).ok_or("node")?;
    assert_eq!(to.count_keys_in_slot(slot)?, 40);
    assert_eq!(from.count_keys_in_slot(slot)?, 20);
    assert!(client.entries_of_slot(slot)?.iter().all(|value| **value == *b"new"));
    Ok(())
}

fn read(client: &Client, names: &[String]) -> Result<Vec<Hop>, slotkeep::Error> {
    let (read, hops) = client.traced(|client| {
        names.iter().try_for_each(|name| client.get(name).map(|value| assert!(value.is_some())))
    });
    read.map(|()| hops)
}

#[test]
fn each_moved_slot_costs_one_redirect() -> Tested {
    let cluster = Cluster::builder().nodes(3).workers_per_node(1).build()?;
    let client = cluster.client();
    let (first, second) = (keys("acct:58", 2), keys("acct:7", 2));
    for name in first.iter().chain(&second) {
        client.set(name, b"v")?;
    }
    let mut sent_on = 0;
    for (moved, reads) in [
        (&first, first.clone()),
        (&second, vec![second[0].clone(), second[1].clone(), first[0].clone()]),
    ] {
        let slot = Slot::of(&moved[0]);
        let owner = cluster.slot_map().owner(slot).ok_or("an owner")?;
        let target = cluster.node_ids().into_iter().find(|&node| node != owner).ok_or("target")?;
        move_slot(&cluster, slot, target)?;
        sent_on += redirects(&read(&client, &reads)?);
    }
    assert_eq!(sent_on, 2, "of five reads two are redirected");
    let counters = cluster.counters();
    assert_eq!((counters.moved, counters.asks, counters.redirects), (2, 0, 2));
    Ok(())
}

#[test]
fn ask_never_changes_the_map() -> Tested {
    let cluster = Cluster::builder().nodes(3).workers_per_node(1).build()?;
    let client = cluster.client();
    let names = keys("many", 100);
    for name in &names {
        client.set(name, b"v")?;
    }
    let slot = Slot::of(&names[0]);
    let source = cluster.slot_map().owner(slot).ok_or("an owner")?;
    let target = id((source.index() + 1) % 3);
    let (_, move_id) = open(&cluster, slot, target)?;
    cluster.node(source).ok_or("node")?.migrate_batch(slot, move_id, 60)?;
    let before = client.slot_map();
    let hops = read(&client, &names)?;
    let asked = hops.iter().filter(|hop| hop.asking == Some(move_id)).count();
    assert_eq!(asked, 60);
    let counters = cluster.counters();
    assert_eq!((counters.moved, counters.asks, counters.redirects), (0, 60, 60));
    assert_eq!(client.slot_map(), before);
    Ok(())
}
