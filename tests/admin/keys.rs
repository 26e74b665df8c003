//! COUNTKEYSINSLOT, GETKEYSINSLOT, MIGRATE and its COPY.

use std::time::Duration;

use slotkeep::{
    AdminError, Client, Cluster, MigrateOptions, Node, SetOptions, SetSlot, SetSlotError,
};

use crate::setup::{assigned, check, is_open, nobody, one, open, refused, slot, three, two};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{{b}}:{number}")).collect()
}

fn filled(nodes: usize, keys: usize) -> (Cluster, Vec<Node>, Client, Vec<String>) {
    let (cluster, nodes) = assigned(nodes);
    let client = cluster.client();
    let names = names(keys);
    client.mset(names.iter().map(|name| (name, &b"v"[..]))).expect("one slot");
    (cluster, nodes, client, names)
}

#[test]
fn keys_are_counted_and_listed_where_they_lie() {
    let (_cluster, nodes, client, mut names) = filled(2, 5);
    let s = slot(3300);
    assert_eq!(nodes[0].count_keys_in_slot(s), Ok(5));
    assert_eq!(nodes[0].count_keys_in_slot(slot(3301)), Ok(0));
    assert_eq!(nodes[1].count_keys_in_slot(s), Ok(0));
    let mut listed = nodes[0].keys_in_slot(s, 99).unwrap();
    listed.sort();
    names.sort();
    assert!(listed.iter().map(|key| &**key).eq(names.iter().map(String::as_bytes)));
    assert_eq!(nodes[0].keys_in_slot(s, 2).unwrap().len(), 2);
    assert!(nodes[0].keys_in_slot(s, 0).unwrap().is_empty());
    client.set("{42}", b"v").unwrap();
    assert_eq!(nodes[0].stored_slots(), Ok(vec![(s, 5), (slot(8000), 1)]));
    assert_eq!(nodes[1].stored_slots(), Ok(vec![]));
}

#[test]
fn dead_keys_are_counted_but_not_as_live_and_never_sent() {
    let (cluster, nodes, client, names) = filled(2, 2);
    let s = slot(3300);
    let dead = SetOptions::new().expire_in(Duration::ZERO);
    client.set_with("{b}:dead", b"v", &dead).unwrap();
    // A worker may sweep the dead key at any time.
    let stored = nodes[0].count_keys_in_slot(s).unwrap();
    assert!((2..=3).contains(&stored));
    assert_eq!(nodes[0].count_live_keys_in_slot(s), Ok(2));
    let id = open(&nodes[0], &nodes[1], s);
    let only_dead = nodes[0].migrate_keys(&["{b}:dead"], two(), MigrateOptions::default());
    assert_eq!(only_dead, Err(AdminError::NoKey));
    let sent = nodes[0].migrate_batch(s, id, 99).unwrap();
    assert_eq!((sent.moved, sent.left), (2, 0));
    assert_eq!(nodes[1].count_keys_in_slot(s), Ok(names.len()));
    assert_eq!(cluster.move_record(id).unwrap().keys_moved, 2);
}

#[test]
fn migrate_moves_the_named_keys_that_are_there_at_one_instant() {
    let (cluster, nodes, client, names) = filled(2, 5);
    let s = slot(3300);
    let id = open(&nodes[0], &nodes[1], s);
    let before = client.get(&names[1]).unwrap().unwrap();
    let named = [names[1].as_str(), "{b}:absent", &names[3], &names[1]];
    let sent = nodes[0].migrate_keys(&named, two(), MigrateOptions::default());
    let sent = sent.unwrap();
    assert_eq!((sent.moved, sent.left), (2, 3), "named twice, sent once");
    assert_eq!(nodes[1].count_keys_in_slot(s), Ok(2));
    let after = client.get(&names[1]).unwrap().unwrap();
    assert!(slotkeep::Handle::ptr_eq(&before, &after), "by pointer, not by copy");
    assert_eq!(cluster.move_record(id).unwrap().keys_moved, 2);
}

#[test]
fn migrate_keeps_deadlines() {
    let (_cluster, nodes, client, names) = filled(2, 1);
    client.expire(&names[0], Duration::from_secs(5000)).unwrap();
    let deadline = client.expiry(&names[0]).unwrap();
    open(&nodes[0], &nodes[1], slot(3300));
    nodes[0].migrate_keys(&names, two(), MigrateOptions::default()).unwrap();
    assert!(deadline.is_some_and(|deadline| deadline.is_some()));
    assert_eq!(client.expiry(&names[0]).unwrap(), deadline);
}

#[test]
fn migrate_of_nothing_that_is_here_answers_no_key() {
    let (_cluster, nodes, _client, names) = filled(2, 1);
    open(&nodes[0], &nodes[1], slot(3300));
    let migrate = |keys: &[&str]| nodes[0].migrate_keys(keys, two(), MigrateOptions::default());
    check(migrate(&["{b}:absent", "{b}:too"]), AdminError::NoKey, "NOKEY");
    migrate(&[&names[0]]).unwrap();
    check(migrate(&[&names[0]]), AdminError::NoKey, "NOKEY");
}

#[test]
fn migrate_wants_keys_of_one_slot_within_the_bounds() {
    let (_cluster, nodes, _client, names) = filled(3, 1);
    open(&nodes[0], &nodes[1], slot(3300));
    let migrate = |keys: &[&str]| nodes[0].migrate_keys(keys, two(), MigrateOptions::default());
    let text = "CROSSSLOT Keys in request don't hash to the same slot";
    check(migrate(&[&names[0], "elsewhere"]), AdminError::CrossSlot, text);
    assert_eq!(migrate(&[]), Err(AdminError::BatchSize { keys: 0 }));
    let many = vec![names[0].as_str(); slotkeep::limits::MIGRATE_KEYS_MAX + 1];
    assert_eq!(migrate(&many), Err(AdminError::BatchSize { keys: many.len() }));
    let long = format!("{{b}}{}", "x".repeat(slotkeep::limits::KEY_BYTES_MAX));
    assert_eq!(migrate(&[&long]), Err(AdminError::KeyTooLong { bytes: long.len() }));
    let sent = nodes[0].migrate_keys(&names, nobody(), MigrateOptions::default());
    assert_eq!(sent, Err(AdminError::UnknownNode { node: nobody() }));
    assert_eq!(nodes[0].count_keys_in_slot(slot(3300)), Ok(1), "nothing travelled");
}

#[test]
fn migrate_wants_an_open_move_to_that_target() {
    let (_cluster, nodes, _client, names) = filled(3, 2);
    let s = slot(3300);
    let migrate =
        |at: usize, target| nodes[at].migrate_keys(&names, target, MigrateOptions::default());
    let closed = |target| Err(refused(s, SetSlotError::TargetNotImporting { target }));
    assert_eq!(migrate(0, two()), closed(two()), "no move is open");
    assert_eq!(migrate(0, one()), closed(one()), "to oneself");
    let id = open(&nodes[0], &nodes[1], s);
    assert_eq!(migrate(0, three()), closed(three()), "the move goes elsewhere");
    assert_eq!(migrate(1, one()), closed(one()), "the way back is an abort");
    assert_eq!(migrate(2, one()), closed(one()), "a bystander has nothing to send");
    assert_eq!(nodes[0].migrate_batch(s, id, 0), Err(AdminError::BatchSize { keys: 0 }));
    let many = slotkeep::limits::MIGRATE_KEYS_MAX + 1;
    assert_eq!(nodes[0].migrate_batch(s, id, many), Err(AdminError::BatchSize { keys: many }));
    assert_eq!(nodes[0].count_keys_in_slot(s), Ok(2));
}

#[test]
fn copies_are_made_for_an_importer_before_the_move_begins() {
    let (_cluster, nodes, client, names) = filled(2, 3);
    let s = slot(3300);
    let copy = |keys: &[String], options| nodes[0].copy_keys(keys, two(), options);
    let plain = MigrateOptions::default();
    let closed = refused(s, SetSlotError::TargetNotImporting { target: two() });
    assert_eq!(copy(&names, plain), Err(closed));
    let importing = SetSlot::Importing { source: one() };
    nodes[1].set_slot(s, importing).unwrap();
    assert_eq!(copy(&names[..2], plain), Ok(2));
    let text = "BUSYKEY Target key name already exists.";
    check(copy(&names, plain), AdminError::BusyKey, text);
    assert_eq!(nodes[1].count_keys_in_slot(s), Ok(2), "not even the third was copied");
    assert_eq!(copy(&names, plain.replace()), Ok(3));
    assert_eq!(copy(&["{b}:absent".to_owned()], plain), Err(AdminError::NoKey));
    assert_eq!(nodes[0].count_keys_in_slot(s), Ok(3), "a copy leaves the key");
    client.set(&names[0], b"new").unwrap();
    assert_eq!(client.get(&names[0]).unwrap().as_deref(), Some(&b"new"[..]));
    let holds = refused(s, SetSlotError::TargetHoldsKeys { target: two() });
    let migrating = SetSlot::Migrating { target: two() };
    assert_eq!(nodes[0].set_slot(s, migrating), Err(holds));
    assert!(nodes[1].set_slot(s, SetSlot::Stable).unwrap().is_some());
    assert_eq!(nodes[1].count_keys_in_slot(s), Ok(0), "the copies are gone");
    assert_eq!(client.live(), Ok(3));
}

#[test]
fn copies_are_refused_once_the_move_has_begun_and_to_oneself() {
    let (_cluster, nodes, _client, names) = filled(2, 1);
    let s = slot(3300);
    let plain = MigrateOptions::default();
    let itself = refused(s, SetSlotError::MoveToSelf { node: one() });
    assert_eq!(nodes[0].copy_keys(&names, one(), plain), Err(itself));
    let id = open(&nodes[0], &nodes[1], s);
    assert_eq!(nodes[0].copy_keys(&names, two(), plain), Err(is_open(s, one(), id)));
    let not_mine = refused(s, SetSlotError::NotOwner { node: two() });
    assert_eq!(nodes[1].copy_keys(&names, one(), plain), Err(not_mine));
}
