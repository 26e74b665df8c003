//! One slot changes its owner with everything in it, at one instant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use slotkeep::reshard::{Handover, PlannedMove};
use slotkeep::{
    AdminError, Answer, Client, Cluster, Compute, Handle, Hop, MovePhase, Node, Ownership,
    SetOptions, SetSlotError, Slot, WorkerError,
};

use crate::setup::{
    HOUR, Tested, check_settled, id, key, onward, open, refused, source_of, target_of, three_nodes,
    three_slots,
};

#[test]
fn values_deadlines_and_identities_survive_ten_handovers() -> Tested {
    for ownership in [Ownership::Lent, Ownership::Strict] {
        let builder = Cluster::builder().nodes(2).workers_per_node(1).ownership(ownership);
        let cluster = builder.build()?;
        let client = cluster.client();
        let slot = Slot::of("{it}");
        let mut handles = Vec::new();
        for number in 0..100 {
            let options = SetOptions::new().expire_in(HOUR);
            let value = number.to_string();
            client.set_with(key("it", number), value.as_bytes(), &options)?;
            handles.push(client.get(key("it", number))?.ok_or("a value")?);
        }
        let mut epoch = cluster.slot_map().get(slot).epoch;
        for round in 0..10 {
            let planned = onward(&cluster, slot);
            let handed = source_of(&cluster, planned).hand_over(slot, planned.target)?;
            assert_eq!(handed.keys, 100);
            let record = cluster.move_record(handed.id).ok_or("a record")?;
            assert_eq!((record.phase, record.keys_moved), (MovePhase::Completed, 100));
            assert_eq!((record.source, record.target), (planned.source, planned.target));
            assert!(record.ended.is_some() && record.set.is_none());
            check_settled(&cluster, slot, planned.target);
            let risen = cluster.slot_map().get(slot).epoch;
            assert!(risen > epoch, "round {round}");
            epoch = risen;
        }
        for (number, handle) in handles.iter().enumerate() {
            let found = client.get(key("it", number))?.ok_or("a value")?;
            assert!(Handle::ptr_eq(&found, handle), "key {number}");
            let left = client.ttl(key("it", number))?.flatten().ok_or("a deadline")?;
            assert!(left > HOUR / 2 && left <= HOUR);
        }
        assert_eq!((client.len(), client.live()), (Ok(100), Ok(100)));
    }
    Ok(())
}

#[test]
fn a_stale_client_is_sent_on_once_by_moved() -> Tested {
    let cluster = three_nodes();
    let client = cluster.client();
    client.set("k", b"v")?;
    let planned = onward(&cluster, Slot::of("k"));
    source_of(&cluster, planned).hand_over(planned.slot, planned.target)?;
    let (found, hops) = client.traced(|client| client.get("k"));
    assert_eq!(found?.as_deref(), Some(&b"v"[..]));
    let asked: Vec<_> = hops.iter().map(|hop| hop.node).collect();
    assert_eq!(asked, [planned.source, planned.target]);
    assert!(matches!(hops[0].answer, Answer::Moved { .. }), "{hops:?}");
    let (found, hops) = client.traced(|client| client.get("k"));
    assert!(found?.is_some() && hops.len() == 1, "{hops:?}");
    Ok(())
}

#[test]
fn empty_slots_change_hands_too_and_take_new_keys() -> Tested {
    let cluster = three_nodes();
    for number in [0, 5460, 5461, 16_383] {
        let slot = Slot::new(number).ok_or("a slot")?;
        let planned = onward(&cluster, slot);
        assert_eq!(source_of(&cluster, planned).hand_over(slot, planned.target)?.keys, 0);
        check_settled(&cluster, slot, planned.target);
    }
    let client = cluster.client();
    for number in 0..1000 {
        client.set(key(number, 0), b"v")?;
    }
    assert_eq!(client.live(), Ok(1000));
    Ok(())
}

/// Counts up in one key and keeps two others equal, until told to stop. Every answer is checked.
fn count_up(client: &Client, tag: &str, stop: &AtomicBool) -> i64 {
    let (counter, pair) = (key(tag, 0), [key(tag, 1), key(tag, 2)]);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let (sum, hops) = client.traced(|client| client.incr(&counter, 1));
        assert_eq!(sum, Ok(count), "{hops:?}");
        let moved = |hop: &Hop| matches!(hop.answer, Answer::Moved { .. });
        assert!(hops[..hops.len() - 1].iter().all(moved), "nothing but MOVED: {hops:?}");
        let text = count.to_string();
        client.mset(pair.iter().map(|key| (key, text.as_bytes()))).expect("no error");
        let read = client.mget(&pair).expect("no error");
        let read: Vec<_> = read.iter().flatten().map(|value| &**value).collect();
        assert_eq!(read, [text.as_bytes(); 2]);
    }
    count
}

#[test]
fn calls_see_source_or_target_and_never_neither_during_thousands_of_handovers() -> Tested {
    let cluster = three_nodes();
    let tags = ["one", "two"];
    let stop = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        let callers = tags.map(|tag| {
            let (client, stop) = (cluster.client(), &stop);
            scope.spawn(move || count_up(&client, tag, stop))
        });
        let nodes = cluster.nodes();
        for (round, tag) in tags.iter().cycle().take(10_000).enumerate() {
            let slot = Slot::of(key(tag, 0));
            let owns = |node: &&Node| node.slot_owner(slot).owner == Some(node.id());
            let source = nodes.iter().find(owns).expect("an owner at every instant");
            let target = &nodes[(source.id().index() + 1) % 3];
            let busy = Err(AdminError::Worker(WorkerError::Busy));
            while source.hand_over(slot, target.id()) == busy {
                thread::yield_now();
            }
            assert!(!owns(&source) && owns(&target), "one owner at every instant");
            if round % 64 == 0 {
                // On a single core the callers come in between here.
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        callers.map(|caller| caller.join().expect("no panic"))
    });
    assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
    assert!(cluster.redirect_count() > 50, "the callers met the handovers");
    assert_eq!(cluster.counters().try_agains, 0);
    for tag in tags {
        let slot = Slot::of(key(tag, 0));
        let owner = cluster.slot_map().owner(slot).ok_or("an owner")?;
        check_settled(&cluster, slot, owner);
    }
    Ok(())
}

#[test]
fn what_cannot_be_handed_over_is_refused_and_nothing_changes() -> Tested {
    let cluster = three_nodes();
    let slot = Slot::of("k");
    let planned = onward(&cluster, slot);
    let (source, target) = (source_of(&cluster, planned), target_of(&cluster, planned));
    let map = cluster.slot_map();
    let to_self = refused(slot, SetSlotError::MoveToSelf { node: source.id() });
    assert_eq!(source.hand_over(slot, source.id()), Err(to_self));
    let stranger = id(7);
    let unknown = AdminError::UnknownNode { node: stranger };
    assert_eq!(source.hand_over(slot, stranger), Err(unknown));
    let not_owner = refused(slot, SetSlotError::NotOwner { node: target.id() });
    assert_eq!(target.hand_over(slot, source.id()), Err(not_owner));
    let third = id((target.id().index() + 1) % 3);
    let open_id = open(&cluster, planned)?;
    let is_open = refused(slot, SetSlotError::SlotIsOpen { node: source.id(), id: open_id });
    assert_eq!(source.hand_over(slot, third), Err(is_open));
    let twice = [planned, PlannedMove { target: third, ..planned }];
    let listed = AdminError::SlotListedTwice { slot };
    assert_eq!(cluster.begin_handover(&twice), Err(listed));
    let looped = PlannedMove { target: planned.source, ..planned };
    assert_eq!(cluster.begin_handover(&[looped]), Err(to_self));
    let strange = PlannedMove { target: stranger, ..planned };
    assert_eq!(cluster.begin_handover(&[strange]), Err(unknown));
    let moves = [planned];
    assert!(Handover::new(&cluster, &moves).batch_keys(0).is_err());
    assert!(cluster.handovers().is_empty());
    assert_eq!(cluster.slot_map(), map);
    Ok(())
}

#[test]
fn a_move_between_the_same_nodes_is_completed_when_one_side_has_all_keys() -> Tested {
    for sent in [0, 10] {
        let cluster = three_nodes();
        let planned = three_slots(&cluster)?[0];
        let open_id = open(&cluster, planned)?;
        let source = source_of(&cluster, planned);
        if sent > 0 {
            assert_eq!(source.migrate_batch(planned.slot, open_id, sent)?.left, 0);
        }
        let handed = source.hand_over(planned.slot, planned.target)?;
        assert_eq!((handed.id, handed.keys), (open_id, 10 - sent as u64));
        let record = cluster.move_record(open_id).ok_or("a record")?;
        assert_eq!((record.phase, record.keys_moved), (MovePhase::Completed, 10));
        check_settled(&cluster, planned.slot, planned.target);
        assert_eq!(cluster.client().live(), Ok(30));
    }
    Ok(())
}

#[test]
fn a_closure_under_a_token_and_a_closed_cluster_hand_nothing_over() -> Tested {
    let cluster = three_nodes();
    let client = cluster.client();
    let planned = onward(&cluster, Slot::of("k"));
    let source = source_of(&cluster, planned);
    let set = cluster.begin_handover(&[planned])?;
    let check_all = |error: WorkerError| {
        let error = AdminError::Worker(error);
        assert_eq!(source.hand_over(planned.slot, planned.target), Err(error));
        assert_eq!(cluster.begin_handover(&[planned]), Err(error));
        assert_eq!(cluster.handover_step(set), Err(error));
        assert_eq!(cluster.abort_handover(set), Err(error));
        let mut driver = Handover::take_over(&cluster, set).expect("an open handover");
        assert_eq!(driver.step(), Err(error.into()));
        assert_eq!(driver.id(), Some(set), "the driver stays where it is");
    };
    client.compute("other", |_| {
        check_all(WorkerError::Reentrant);
        Compute::Keep
    })?;
    check_settled(&cluster, planned.slot, planned.source);
    cluster.shutdown();
    check_all(WorkerError::Closed);
    Ok(())
}
