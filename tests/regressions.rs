//! What once went wrong, through the public API: each test fails without the mend of its fault.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::sync::Barrier;
use std::time::Duration;

use slotkeep::limits::{BATCH_KEYS_MAX, CALL_KEYS_MAX};
use slotkeep::{
    AdminError, Cluster, Error, MovePhase, Node, NodeId, SetSlot, SetSlotError, Slot, SlotRange,
    SlotSet, WorkerError,
};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Fixture, Kind, Tested, keys, slot, watched};

const HOUR: Duration = Duration::from_secs(3600);

fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

fn node(cluster: &Cluster, index: usize) -> Node {
    cluster.node(id(index)).expect("a node of this cluster")
}

/// A cluster of one node with one worker, and that node, which does not keep the cluster running.
fn one_worker() -> (Cluster, Node) {
    let cluster = Cluster::builder().nodes(1).workers_per_node(1).build().expect("one thread");
    let node = node(&cluster, 0);
    (cluster, node)
}

/// Ends each of two clusters from the worker of the other one, both at the same time.
fn end_each_other(end: impl Fn(Cluster) + Sync) {
    let (one, other) = (one_worker(), one_worker());
    let both_run = Barrier::new(2);
    std::thread::scope(|scope| {
        for (at, ended) in [(&one.1, other.0), (&other.1, one.0)] {
            let (end, both_run) = (&end, &both_run);
            scope.spawn(move || {
                let ran = at.run_on_worker(Slot::MIN, move || {
                    both_run.wait();
                    end(ended);
                });
                assert_eq!(ran, Ok(()), "the closure was running when its cluster ended");
            });
        }
    });
    for node in [one.1, other.1] {
        assert_eq!(node.bump_epoch(), Err(AdminError::Worker(WorkerError::Closed)));
    }
}

#[test]
fn two_clusters_that_shut_each_other_down_from_their_workers_both_end() {
    watched("shutdown", || {
        end_each_other(|cluster| {
            cluster.shutdown();
            assert!(matches!(cluster.client().get("key"), Err(Error::Closed)));
        });
    });
}

#[test]
fn two_clusters_whose_workers_drop_the_last_handle_of_each_other_both_end() {
    watched("drop", || end_each_other(drop));
}

#[test]
fn after_a_refused_addslots_every_node_knows_the_same_of_the_slots() -> Tested {
    let cluster = Cluster::builder().nodes(2).unassigned().build()?;
    let taken = Slot::MAX;
    let free: Vec<_> = (0..3).filter_map(Slot::new).collect();
    node(&cluster, 1).add_slots(&[taken])?;
    let refused = node(&cluster, 0).add_slots(&[&free[..], &[taken]].concat());
    assert_eq!(refused, Err(AdminError::SlotBusy { slot: taken }));
    cluster.add_node()?;
    for slot in free {
        let told = node(&cluster, 0).slot_owner(slot);
        assert_eq!(told.owner, None);
        for node in cluster.nodes() {
            assert_eq!(node.slot_owner(slot), told, "slot {slot} as {} sees it", node.id());
        }
    }
    Ok(())
}

#[test]
fn operations_stay_counted_when_a_slot_leaves_that_never_had_a_key() -> Tested {
    const GETS: u64 = 1000;
    let cluster = Cluster::builder().nodes(2).workers_per_node(1).build()?;
    let client = cluster.client();
    let (moved, dropped) = ("moved", "dropped");
    for _ in 0..GETS {
        assert_eq!((client.get(moved)?, client.get(dropped)?), (None, None));
    }
    assert_eq!(cluster.counters().lent, 2 * GETS);

    let slot = Slot::of(moved);
    let source = cluster.slot_map().owner(slot).expect("every slot has an owner");
    let target = id(1 - source.index());
    let (from, to) = (node(&cluster, source.index()), node(&cluster, target.index()));
    let count = |what: &str| assert_eq!(cluster.counters().lent, 2 * GETS, "after {what}");
    to.set_slot(slot, SetSlot::Importing { source })?;
    count("IMPORTING");
    from.set_slot(slot, SetSlot::Migrating { target })?;
    count("MIGRATING");
    to.set_slot(slot, SetSlot::Node { owner: target })?;
    count("NODE on the target");
    from.set_slot(slot, SetSlot::Node { owner: target })?;
    count("NODE on the source");

    let slot = Slot::of(dropped);
    let owner = cluster.slot_map().owner(slot).expect("every slot has an owner");
    node(&cluster, owner.index()).del_slots(&[slot])?;
    count("DELSLOTS");
    Ok(())
}

#[test]
fn a_batch_of_a_patient_client_goes_on_key_by_key_at_once() {
    for kind in [Kind::Moving, Kind::MovingStrict, Kind::Aborting] {
        watched("a batch over a split slot", move || {
            println!("{kind:?}");
            let fixture = Fixture::<[u8]>::new(kind).expect("a small cluster");
            let client = fixture.client.waiting(HOUR);
            let names = keys(6);
            client.set_many(names.iter().map(|name| (name, &b"old"[..])))?;
            fixture.disturb();
            let values = || client.get_many(&names);
            assert!(values()?.iter().all(|value| value.as_deref() == Some(b"old")));
            client.set_many(names.iter().map(|name| (name, &b"new"[..])))?;
            assert!(values()?.iter().all(|value| value.as_deref() == Some(b"new")));
            assert_eq!(client.remove_many(&names)?, names.len());
            assert_eq!(client.len()?, 0);
            fixture.restore();
            Tested::Ok(())
        })
        .expect("every key has one home");
    }
}

#[test]
fn a_refused_batch_is_the_last_error_of_its_move() -> Tested {
    let fixture = Fixture::<[u8]>::new(Kind::ThreeNodes)?;
    let (source, target) = fixture.sides();
    let id = target.set_slot(slot(), SetSlot::Importing { source: source.id() })?;
    let id = id.expect("IMPORTING draws an id");
    let record = || fixture.cluster.move_record(id).expect("an open move");
    assert_eq!(record().last_error, None);
    // The source has not been told MIGRATING.
    let refused = AdminError::SetSlot { slot: slot(), error: SetSlotError::NoSuchMove };
    assert_eq!(source.migrate_batch(slot(), id, 1), Err(refused));
    assert_eq!((record().phase, record().last_error), (MovePhase::Importing, Some(refused)));
    Ok(())
}

/// The same item without end; asked for more than `bound` times it fails, before it takes memory.
fn endless<T: Clone>(item: T, bound: usize) -> impl Iterator<Item = T> {
    let mut asked = 0;
    std::iter::repeat(item).inspect(move |_| {
        asked += 1;
        assert!(asked <= bound, "{bound} items are too many already, and more are taken");
    })
}

#[test]
fn an_mset_without_end_is_refused_after_as_many_keys_as_tell() -> Tested {
    let client = Cluster::builder().nodes(1).workers_per_node(1).build()?.client();
    let keys = CALL_KEYS_MAX + 1;
    let answer = client.mset(endless(("key", &b"value"[..]), keys));
    assert_eq!((answer, client.len()), (Err(Error::TooManyKeys { keys }), Ok(0)));
    Ok(())
}

#[test]
fn a_set_many_without_end_is_refused_after_as_many_keys_as_tell() -> Tested {
    // Neither key nor value takes any memory, so that millions of them take none.
    let builder = Cluster::builder().nodes(1).workers_per_node(1).values::<()>();
    let client = builder.build()?.client();
    let keys = BATCH_KEYS_MAX + 1;
    let no_bytes: [u8; 0] = [];
    let answer = client.set_many(endless((no_bytes, ()), keys));
    assert_eq!((answer, client.len()), (Err(Error::TooManyKeys { keys }), Ok(0)));
    Ok(())
}

#[test]
fn what_is_no_slot_is_refused_in_the_words_of_redis() {
    #[track_caller]
    fn check<T>(parsed: Result<T, slotkeep::SlotError>, expected: &str) {
        let error = parsed.map(drop).expect_err("not a slot, range or set");
        assert_eq!(Error::from(error).redis_text(), expected);
    }
    let invalid = "ERR Invalid or out of range slot";
    check("16384".parse::<Slot>(), invalid);
    check(Slot::try_from(u16::MAX), invalid);
    check("one".parse::<Slot>(), invalid);
    check("0-16384".parse::<SlotRange>(), invalid);
    let reversed = "ERR start slot number 5 is greater than end slot number 3";
    check("5-3".parse::<SlotRange>(), reversed);
    check("0-2,5-3".parse::<SlotSet>(), reversed);
    check("7,1-9".parse::<SlotSet>(), "ERR Slot 7 specified multiple times");
}
