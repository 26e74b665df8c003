//! Whatever is out of bounds is a typed error that changes nothing and hands the value back.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slotkeep::limits::{
    CALL_KEYS_MAX, KEY_BYTES_MAX, MAILBOX_JOBS_MAX, MIGRATE_KEYS_MAX, NODES_MAX, VALUE_BYTES_MAX,
    WORKERS_MAX,
};
use slotkeep::migration::Down;
use slotkeep::reshard::{Move, PlanError, PlannedMove, Reshard, ReshardError};
use slotkeep::{
    AdminError, BuildError, Builder, Client, Cluster, CommandError, Compute, Error, Expiry,
    MigrateOptions, NodeId, Refused, SetOptions, SetSlot, Slot, SlotSet,
};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Tested, check_each, key_calls, with_each_cluster};

/// Cannot be copied: whoever has it after a refused call was handed it back.
#[derive(PartialEq, Debug)]
struct Only(&'static str);

#[track_caller]
fn check_refused<S: PartialEq + Debug, R>(
    answer: Result<R, Refused<S>>,
    (error, value): (Error, S),
) {
    match answer {
        Ok(_) => panic!("{error} was expected"),
        Err(refused) => assert_eq!((refused.error, refused.value), (error, value)),
    }
}

/// Every call on keys answers the same error, and hands the value back.
#[track_caller]
fn check_all(client: &Client, name: &[u8], error: Error) {
    check_each(key_calls(client, name), error);
    check_refused(client.set(name, b"v"), (error, ()));
    check_refused(client.try_set(name, b"v"), (error, ()));
    check_refused(client.set_with(name, b"v", &SetOptions::new()), (error, ()));
}

#[test]
fn the_longest_key_is_served_and_the_next_longer_one_is_refused_by_every_call() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        let longest = vec![b'k'; KEY_BYTES_MAX];
        client.set(&longest, b"v")?;
        assert_eq!(client.get(&longest)?.as_deref(), Some(&b"v"[..]));
        let longer = vec![b'k'; KEY_BYTES_MAX + 1];
        let error = Error::KeyTooLong { bytes: KEY_BYTES_MAX + 1 };
        check_all(client, &longer, error);
        assert_eq!(client.owner_of(&longer), Err(error));
        assert_eq!(client.explain(&longer), Err(error));
        assert_eq!(client.run_on_owner(&longer, || unreachable!("not run")), Err::<(), _>(error));
        assert_eq!(client.len(), Ok(1));
        Ok(())
    });
}

#[test]
fn a_value_above_the_bound_is_refused_before_it_is_copied() {
    // Zeroed memory that nobody touches is not resident.
    let too_long = vec![0_u8; VALUE_BYTES_MAX + 1];
    let error = Error::ValueTooLong { bytes: too_long.len() };
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        client.set("key", b"old")?;
        let seen = client.get("key")?.expect("there");
        check_refused(client.set("key", &too_long), (error, ()));
        check_refused(client.replace(&seen, &too_long), (error, ()));
        let options = SetOptions::new().if_absent();
        check_refused(client.set_with("key", &too_long, &options), (error, ()));
        let entries = [("key", &b"new"[..]), ("{key}", &too_long)];
        assert_eq!(client.mset(entries), Err(error));
        assert_eq!(client.set_many(entries), Err(error));
        assert_eq!(client.append("key", &too_long[3..]), Err(error));
        let grown = |_: Option<&[u8]>| Compute::Replace(vec![0; VALUE_BYTES_MAX + 1]);
        assert_eq!(client.compute("key", grown).map(drop), Err(error));
        let grow = |value: &mut Vec<u8>| *value = vec![0; VALUE_BYTES_MAX + 1];
        assert_eq!(client.update("key", grow), Err(error));
        let staged = client.transaction(&["key"], |one| {
            let refused = one.set("key", &too_long);
            assert_eq!(refused, Err(CommandError::ValueTooLong { bytes: too_long.len() }));
            Ok::<_, ()>(one.get("key").map(|value| value.map(<[u8]>::to_vec)))
        })?;
        assert_eq!(staged, Ok(Ok(Some(b"old".to_vec()))));
        assert_eq!(client.get("key")?.as_deref(), Some(&b"old"[..]));
        assert_eq!(client.len(), Ok(1));
        Ok(())
    });
}

#[test]
fn options_of_the_builder_are_checked_before_anything_starts() {
    #[track_caller]
    fn check(builder: Builder, error: BuildError) {
        assert_eq!(builder.build().map(drop), Err(Error::Build(error)));
    }
    let builder = Cluster::builder;
    for count in [0, NODES_MAX + 1, usize::MAX] {
        check(builder().nodes(count), BuildError::Nodes { count });
    }
    for count in [0, WORKERS_MAX + 1, usize::MAX] {
        check(builder().workers_per_node(count), BuildError::Workers { count });
        check(builder().shared_workers(count), BuildError::Workers { count });
    }
    for jobs in [0, MAILBOX_JOBS_MAX + 1, usize::MAX] {
        check(builder().mailbox_jobs(jobs), BuildError::Mailbox { jobs });
    }
    let fits = builder().nodes(2).shared_workers(1).mailbox_jobs(MAILBOX_JOBS_MAX).build();
    assert_eq!(fits.map(|cluster| cluster.node_count()), Ok(2));
}

#[test]
fn a_wait_too_long_to_count_means_never() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        for wait in [Duration::MAX, Duration::from_nanos(u64::MAX)] {
            client.set_with("key", b"v", &SetOptions::new().expire_in(wait))?;
            assert_eq!(client.ttl("key"), Ok(Some(None)));
            client.expire("key", Duration::from_secs(100))?;
            assert_eq!(client.expire("key", wait), Ok(true));
            assert_eq!((client.ttl("key"), client.expiry("key")), (Ok(Some(None)), Ok(Some(None))));
        }
        let patient = client.waiting(Duration::MAX);
        assert_eq!(patient.get("key")?.as_deref(), Some(&b"v"[..]));
        Ok(())
    });
}

#[test]
fn times_beyond_what_is_counted_are_never_or_at_once() {
    let furthest = |sign: fn(SystemTime, Duration) -> Option<SystemTime>| {
        let steps = (0..64).rev().map(|bit| Duration::from_secs(1 << bit));
        steps.fold(UNIX_EPOCH, |time, step| sign(time, step).unwrap_or(time))
    };
    let (future, past) = (furthest(|a, b| a.checked_add(b)), furthest(|a, b| a.checked_sub(b)));
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        client.set_with("key", b"v", &SetOptions::new().expire_at(future))?;
        assert_eq!(client.ttl("key"), Ok(Some(None)));
        for time in [past, UNIX_EPOCH, UNIX_EPOCH - Duration::from_nanos(1)] {
            client.set("key", b"v")?;
            assert_eq!(client.expire_at("key", time), Ok(true));
            assert_eq!(client.get("key")?, None);
            client.set_with("key", b"v", &SetOptions::new().expiry(Expiry::At(time)))?;
            assert_eq!(client.contains_key("key"), Ok(false));
        }
        Ok(())
    });
}

#[test]
fn atomic_calls_want_a_key_and_not_too_many() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        let none: [&str; 0] = [];
        let nothing = std::iter::empty::<(&str, &[u8])>();
        let run = |keys: &[&str]| client.transaction(keys, |_| Ok::<_, ()>(())).map(drop);
        assert_eq!(client.mget(&none).map(drop), Err(Error::NoKeys));
        assert_eq!(client.mset(nothing), Err(Error::NoKeys));
        assert_eq!(client.remove_all(&none), Err(Error::NoKeys));
        assert_eq!(run(&none), Err(Error::NoKeys));
        let many = vec!["k"; CALL_KEYS_MAX + 1];
        let error = Error::TooManyKeys { keys: CALL_KEYS_MAX + 1 };
        assert_eq!(client.mget(&many).map(drop), Err(error));
        assert_eq!(client.mset(many.iter().map(|name| (name, &b"v"[..]))), Err(error));
        assert_eq!(client.remove_all(&many), Err(error));
        assert_eq!(run(&many), Err(error));
        assert_eq!(client.len(), Ok(0));
        assert_eq!(client.mget(&many[1..]).map(|found| found.len()), Ok(CALL_KEYS_MAX));
        Ok(())
    });
}

#[test]
fn batches_of_a_move_have_their_bounds_and_nodes_have_to_exist() -> Tested {
    let cluster = Cluster::builder().nodes(2).workers_per_node(1).build()?;
    let node = |index| cluster.node(NodeId::new(index).expect("small")).expect("there");
    let (source, target) = (node(0), node(1));
    let slot = Slot::MIN;
    let id = target.set_slot(slot, SetSlot::Importing { source: source.id() })?.expect("an id");
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    for keys in [0, MIGRATE_KEYS_MAX + 1, usize::MAX] {
        let error = AdminError::BatchSize { keys };
        assert_eq!(source.migrate_batch(slot, id, keys), Err(error));
        assert_eq!(cluster.abort_step(id, keys), Err(error));
        let planned = PlannedMove { slot, source: source.id(), target: target.id() };
        assert_eq!(Move::new(&cluster, planned, keys).map(drop), Err(Error::Admin(error)));
    }
    let none: [&str; 0] = [];
    let options = MigrateOptions::default();
    let empty = source.migrate_keys(&none, target.id(), options);
    assert_eq!(empty, Err(AdminError::BatchSize { keys: 0 }));

    let stranger = NodeId::new(7).expect("small");
    let unknown = AdminError::UnknownNode { node: stranger };
    assert!(cluster.node(stranger).is_none());
    assert_eq!(target.set_slot(slot, SetSlot::Importing { source: stranger }), Err(unknown));
    assert_eq!(source.set_slot(slot, SetSlot::Migrating { target: stranger }), Err(unknown));
    assert_eq!(source.set_slot(slot, SetSlot::Node { owner: stranger }), Err(unknown));
    assert_eq!(source.migrate_keys(&["k"], stranger, options), Err(unknown));
    assert_eq!(source.copy_keys(&["k"], stranger, options), Err(unknown));
    let planned = PlannedMove { slot, source: stranger, target: target.id() };
    assert_eq!(Move::new(&cluster, planned, 1).map(drop), Err(Error::Admin(unknown)));
    let plan = ReshardError::Plan(PlanError::UnknownNode { node: stranger });
    let slots: SlotSet = [slot].into_iter().collect();
    assert_eq!(Reshard::of(&cluster).join(stranger).map(drop), Err(plan));
    assert_eq!(Reshard::of(&cluster).drain(stranger).map(drop), Err(plan));
    let named = Reshard::of(&cluster).move_slots(&slots, source.id(), stranger);
    assert_eq!(named.map(drop), Err(plan));
    assert_eq!(cluster.move_record(id).map(|record| record.keys_moved), Some(0));
    Ok(())
}

#[test]
fn a_slot_without_an_owner_is_down_until_somebody_gets_it() -> Tested {
    for nodes in [1, 3] {
        let cluster = Cluster::builder().nodes(nodes).unassigned().build()?;
        let client = cluster.client();
        let slot = Slot::of("key");
        check_all(&client, b"key", Error::ClusterDown { slot, reason: Down::SlotNotServed });
        assert_eq!((client.len(), client.clear(), client.iter().count()), (Ok(0), Ok(0), 0));
        assert!(client.entries_of_slot(slot)?.is_empty());
        assert_eq!(client.explain("key")?.owner, None);

        // One slot is assigned: the cluster as a whole is down all the same.
        cluster.nodes()[0].add_slots(&[slot])?;
        check_all(&client, b"key", Error::ClusterDown { slot, reason: Down::Cluster });
        for node in cluster.nodes() {
            node.set_reads_when_down(true);
        }
        assert_eq!(client.get("key")?, None);
        let read_only = Error::ClusterDown { slot, reason: Down::ReadOnly };
        check_refused(client.set("key", b"v"), (read_only, ()));
        for node in cluster.nodes() {
            node.set_full_coverage(false);
        }
        client.set("key", b"v")?;
        assert_eq!(client.get("key")?.as_deref(), Some(&b"v"[..]));
    }
    Ok(())
}

#[test]
fn a_value_without_clone_comes_back_from_every_refusal() -> Tested {
    let cluster = Cluster::builder().values::<Only>().build()?;
    let client = cluster.client();
    let longer = vec![0; KEY_BYTES_MAX + 1];
    let too_long = Error::KeyTooLong { bytes: longer.len() };
    check_refused(client.set(&longer, Only("a")), (too_long, Only("a")));
    check_refused(client.try_set(&longer, Only("b")), (too_long, Only("b")));
    client.set("key", Only("there"))?;
    let seen = client.get("key")?.expect("there");
    client.compute("key", |_| {
        check_refused(client.set("key", Only("c")), (Error::Reentrant, Only("c")));
        check_refused(client.replace(&seen, Only("d")), (Error::Reentrant, Only("d")));
        Compute::Keep
    })?;
    let empty = Cluster::builder().unassigned().values::<Only>().build()?;
    let down = Error::ClusterDown { slot: Slot::of("key"), reason: Down::SlotNotServed };
    check_refused(empty.client().set("key", Only("e")), (down, Only("e")));
    cluster.shutdown();
    check_refused(client.set("key", Only("f")), (Error::Closed, Only("f")));
    check_refused(client.replace(&seen, Only("g")), (Error::Closed, Only("g")));
    assert_eq!(*seen, Only("there"));
    Ok(())
}
