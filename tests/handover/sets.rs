//! A set of slots changes its owners all or nothing, whoever drives it and wherever drivers die.

use std::ops::ControlFlow;
use std::thread;

use slotkeep::limits::{HANDOVERS_KEPT_MAX, HANDOVERS_OPEN_MAX};
use slotkeep::reshard::{
    Handover, Move, MoveKind, MoveStep, Pace, PlannedMove, Progress, Reshard, ReshardError, Resume,
    plan_drain, resume,
};
use slotkeep::{
    AdminError, Error, HandoverId, HandoverPhase, HandoverRecord, HandoverStep, MovePhase,
    MoveRecord, SetSlot, SetSlotError, SlotSet, SlotState,
};

use crate::setup::{
    Tested, check_settled, id, key, open, refused, source_of, target_of, three_nodes, three_slots,
};

/// Steps a driver to its end; whether the slots have flipped.
fn finish(driver: &mut Handover<[u8]>) -> Result<bool, Error> {
    loop {
        if let MoveStep::Done { flipped } = driver.step()? {
            return Ok(flipped);
        }
    }
}

#[test]
fn the_open_handovers_are_bounded() -> Tested {
    let cluster = three_nodes();
    for _ in 0..HANDOVERS_OPEN_MAX {
        cluster.begin_handover(&[])?;
    }
    assert_eq!(cluster.begin_handover(&[]), Err(AdminError::TooManyHandovers));
    resume(&cluster, Resume::Finish)?;
    cluster.begin_handover(&[])?;
    Ok(())
}

#[test]
fn a_split_slot_is_joined_first_by_every_way_but_the_single_hold() -> Tested {
    for all_or_nothing in [false, true] {
        let cluster = three_nodes();
        let moves = three_slots(&cluster)?;
        let open_id = open(&cluster, moves[1])?;
        let source = source_of(&cluster, moves[1]);
        source.migrate_batch(moves[1].slot, open_id, 4)?;
        let split = refused(moves[1].slot, SetSlotError::KeysSplit);
        assert_eq!(source.hand_over(moves[1].slot, moves[1].target), Err(split));
        let mut reshard = Reshard::of(&cluster).batch_keys(2);
        for planned in &moves {
            let slots: SlotSet = [planned.slot].into_iter().collect();
            reshard = reshard.move_slots(&slots, planned.source, planned.target)?;
        }
        let reshard = if all_or_nothing { reshard.all_or_nothing() } else { reshard };
        let report = reshard.run()?;
        assert_eq!((report.slots_moved, report.keys_moved), (3, 30));
        for planned in &moves {
            check_settled(&cluster, planned.slot, planned.target);
        }
        let record = cluster.move_record(open_id).ok_or("a record")?;
        assert_eq!((record.phase, record.keys_returned), (MovePhase::Aborted, 4));
        let joined = |record: &MoveRecord| {
            record.slot == moves[1].slot && record.phase == MovePhase::Completed
        };
        let record = cluster.moves().into_iter().find(joined).ok_or("a record")?;
        // A reservation that is refused has no record yet.
        let expected = if all_or_nothing { (0, None) } else { (1, Some(split)) };
        assert_eq!((record.retries, record.last_error), expected);
        assert_eq!(cluster.client().live(), Ok(30));
    }
    Ok(())
}

#[test]
fn a_join_keeps_the_bounds_of_a_batch_that_the_pace_sets() -> Tested {
    for all_or_nothing in [false, true] {
        let cluster = three_nodes();
        let planned = three_slots(&cluster)?[1];
        let open_id = open(&cluster, planned)?;
        source_of(&cluster, planned).migrate_batch(planned.slot, open_id, 6)?;
        let slots: SlotSet = [planned.slot].into_iter().collect();
        // One key in a twentieth of a second, and at once.
        let pace = Pace::new().keys_per_second(20)?;
        let reshard = Reshard::of(&cluster).pace(&pace);
        let reshard = reshard.move_slots(&slots, planned.source, planned.target)?;
        let reshard = if all_or_nothing { reshard.all_or_nothing() } else { reshard };
        let mut returned = Vec::new();
        let report = reshard
            .on_progress(|_| {
                let record = cluster.move_record(open_id).expect("a move that is remembered");
                returned.push(record.keys_returned);
                ControlFlow::Continue(())
            })
            .run()?;
        assert_eq!((report.slots_moved, report.keys_moved), (1, 10));
        returned.dedup();
        assert_eq!(returned, [0, 1, 2, 3, 4, 5, 6]);
    }
    Ok(())
}

#[test]
fn a_set_with_one_slot_that_is_open_elsewhere_moves_nothing_and_leaves_no_mark() -> Tested {
    let cluster = three_nodes();
    let moves = three_slots(&cluster)?;
    let map = cluster.slot_map();
    let last = moves[2];
    let third = id((last.target.index() + 1) % 3);
    let elsewhere = PlannedMove { target: third, ..last };
    let open_id = open(&cluster, elsewhere)?;
    let mut driver = Handover::new(&cluster, &moves);
    let error = finish(&mut driver).expect_err("the last slot is open");
    let is_open = SetSlotError::SlotIsOpen { node: last.source, id: open_id };
    assert_eq!(error, Error::Admin(refused(last.slot, is_open)));
    assert!(!finish(&mut driver)?, "what was reserved is released");
    assert_eq!(driver.slots_moved(), 0);
    assert!(cluster.handovers().is_empty());
    assert_eq!(cluster.slot_map(), map, "no epoch was drawn");
    for planned in &moves[..2] {
        check_settled(&cluster, planned.slot, planned.source);
    }
    let aborted = |record: &MoveRecord| record.phase == MovePhase::Aborted;
    assert_eq!(cluster.moves().iter().filter(|record| aborted(record)).count(), 2);
    // The same by way of `Reshard`; what is said is why.
    let mut reshard = Reshard::of(&cluster);
    for planned in &moves {
        let slots: SlotSet = [planned.slot].into_iter().collect();
        reshard = reshard.move_slots(&slots, planned.source, planned.target)?;
    }
    let failed = reshard.all_or_nothing().run();
    let Err(ReshardError::Step { slot, report, .. }) = failed else {
        return Err(format!("{failed:?}").into());
    };
    assert_eq!((slot, report.slots_moved), (last.slot, 0));
    assert_eq!(cluster.slot_map(), map);
    Ok(())
}

#[test]
fn a_reserved_slot_is_served_by_its_source_and_refuses_every_verb() -> Tested {
    let cluster = three_nodes();
    let moves = three_slots(&cluster)?;
    let client = cluster.client();
    let set = cluster.begin_handover(&moves)?;
    let planned = moves[0];
    assert_eq!(cluster.handover_step(set)?, HandoverStep::Reserved { slot: planned.slot });
    let (source, target) = (source_of(&cluster, planned), target_of(&cluster, planned));
    let SlotState::Reserved { id: reserved } = source.slot_state(planned.slot)? else {
        return Err("the source is not reserved".into());
    };
    assert_eq!(target.slot_state(planned.slot)?, SlotState::Reserved { id: reserved });
    let record = cluster.move_record(reserved).ok_or("a record")?;
    assert_eq!((record.phase, record.set), (MovePhase::Reserved, Some(set)));
    let before = cluster.redirect_count();
    client.set(key("a", 0), b"new")?;
    assert_eq!(client.get(key("a", 0))?.as_deref(), Some(&b"new"[..]));
    client.set(key("a", 99), b"added")?;
    assert!(client.remove(key("a", 1))?);
    assert_eq!(client.mget(&[key("a", 0), key("a", 1), key("a", 2)])?.iter().flatten().count(), 2);
    assert_eq!(cluster.redirect_count(), before);
    let (slot, source_id) = (planned.slot, planned.source);
    let open_at = |node| refused(slot, SetSlotError::SlotIsOpen { node, id: reserved });
    let importing = SetSlot::Importing { source: source_id };
    let migrating = SetSlot::Migrating { target: planned.target };
    assert_eq!(target.set_slot(slot, importing), Err(open_at(target.id())));
    assert_eq!(source.set_slot(slot, migrating), Err(open_at(source_id)));
    assert_eq!(source.set_slot(slot, SetSlot::Stable), Err(open_at(source_id)));
    assert_eq!(target.set_slot(slot, SetSlot::Stable), Err(open_at(target.id())));
    assert_eq!(source.hand_over(slot, planned.target), Err(open_at(source_id)));
    assert_eq!(source.del_slots(&[slot]), Err(open_at(source_id)));
    assert_eq!(target.add_slots(&[slot]), Err(AdminError::SlotBusy { slot }));
    let node = SetSlot::Node { owner: planned.target };
    let order = refused(slot, SetSlotError::WrongOrder);
    assert_eq!(target.set_slot(slot, node), Err(order));
    assert_eq!(source.set_slot(slot, node), Err(order));
    assert!(cluster.abort_step(reserved, 1).is_err());
    assert!(Move::take_over(&cluster, reserved, 1).is_err());
    let no_move = Err(AdminError::NoSuchMove { id: reserved });
    assert_eq!(cluster.pause_move(reserved), no_move);
    assert_eq!(cluster.resume_move(reserved), no_move);
    assert!(!cluster.move_record(reserved).ok_or("a record")?.paused);
    let mut driver = Handover::take_over(&cluster, set)?;
    assert!(finish(&mut driver)?);
    assert_eq!((driver.slots_moved(), driver.keys_moved()), (3, 30));
    assert_eq!(client.get(key("a", 99))?.as_deref(), Some(&b"added"[..]));
    for planned in &moves {
        check_settled(&cluster, planned.slot, planned.target);
    }
    Ok(())
}

#[test]
fn a_set_can_be_undone_until_it_is_committed_and_only_completed_after_that() -> Tested {
    // Three reservations, of which the third commits; three flips; the end.
    for steps in 0..7 {
        let cluster = three_nodes();
        let moves = three_slots(&cluster)?;
        let set = cluster.begin_handover(&moves)?;
        for _ in 0..steps {
            cluster.handover_step(set)?;
        }
        let committed = steps >= 3;
        let phase = cluster.abort_handover(set);
        let expected = if committed { HandoverPhase::Committed } else { HandoverPhase::Releasing };
        assert_eq!(phase, if steps == 7 { Err(no_such(set)) } else { Ok(expected) });
        let mut driver = Handover::take_over(&cluster, set)?;
        assert_eq!(finish(&mut driver)?, committed, "after {steps} steps");
        for planned in &moves {
            let owner = if committed { planned.target } else { planned.source };
            check_settled(&cluster, planned.slot, owner);
        }
        assert_eq!(cluster.handover_step(set), Ok(HandoverStep::Done { flipped: committed }));
        assert_eq!(cluster.abort_handover(set), Err(no_such(set)));
        assert!(Handover::take_over(&cluster, set).is_err());
        assert_eq!(cluster.client().live(), Ok(30));
    }
    Ok(())
}

fn no_such(id: HandoverId) -> AdminError {
    AdminError::NoSuchHandover { id }
}

#[test]
fn whatever_step_a_driver_dies_at_resume_finishes_or_undoes_its_set() -> Tested {
    for how in [Resume::Finish, Resume::Abort] {
        for steps in 0..12 {
            let cluster = three_nodes();
            let moves = three_slots(&cluster)?;
            // One of the slots has to be joined on the way.
            let open_id = open(&cluster, moves[1])?;
            source_of(&cluster, moves[1]).migrate_batch(moves[1].slot, open_id, 5)?;
            let mut driver = Handover::new(&cluster, &moves).batch_keys(5)?;
            for _ in 0..steps {
                driver.step()?;
            }
            let id = driver.id();
            let phase_of = |record: &HandoverRecord| record.phase;
            let phase = cluster.handovers().first().map(phase_of);
            drop(driver);
            let was_flipped = steps > 0 && id.is_none();
            let flips = was_flipped
                || phase == Some(HandoverPhase::Committed)
                || (how == Resume::Finish && id.is_some());
            resume(&cluster, how)?;
            assert!(cluster.handovers().is_empty());
            assert!(cluster.moves().iter().all(|record| record.phase.is_ended()));
            for planned in &moves {
                // The slot that was open goes on by itself when the set had not begun.
                let alone = planned == &moves[1] && steps == 0 && how == Resume::Finish;
                let owner = if flips || alone { planned.target } else { planned.source };
                check_settled(&cluster, planned.slot, owner);
            }
            assert_eq!(cluster.client().live(), Ok(30), "{how:?} after {steps} steps");
        }
    }
    Ok(())
}

#[test]
fn resume_releases_a_set_that_cannot_be_finished() -> Tested {
    let cluster = three_nodes();
    let moves = three_slots(&cluster)?;
    let set = cluster.begin_handover(&moves)?;
    cluster.handover_step(set)?;
    // The last slot leaves its source meanwhile.
    let third = id((moves[2].target.index() + 1) % 3);
    source_of(&cluster, moves[2]).hand_over(moves[2].slot, third)?;
    resume(&cluster, Resume::Finish)?;
    assert!(cluster.handovers().is_empty());
    check_settled(&cluster, moves[0].slot, moves[0].source);
    check_settled(&cluster, moves[1].slot, moves[1].source);
    check_settled(&cluster, moves[2].slot, third);
    Ok(())
}

#[test]
fn a_whole_node_leaves_and_joins_slot_by_slot_or_all_at_once() -> Tested {
    for all_or_nothing in [false, true] {
        let cluster = three_nodes();
        let client = cluster.client();
        for number in 0..3000 {
            client.set(format!("key:{number}"), b"v")?;
        }
        let leaving = cluster.nodes()[0].clone();
        let count = leaving.slots().len();
        assert!(count > 16_384 / 3 - 2);
        for join in [false, true] {
            let reshard = Reshard::of(&cluster);
            let reshard =
                if join { reshard.join(leaving.id())? } else { reshard.drain(leaving.id())? };
            let reshard = if all_or_nothing { reshard.all_or_nothing() } else { reshard };
            let mut last = 0;
            let report = reshard
                .on_progress(|progress| {
                    last = progress.slots_moved;
                    ControlFlow::Continue(())
                })
                .run()?;
            assert!(report.slots_moved == last && last >= count - 1, "{report:?}");
            assert!(!report.stopped && report.keys_moved > 0);
        }
        assert_eq!(cluster.nodes()[0].slots().len(), 16_384 / 3);
        let truth = cluster.slot_map();
        for node in cluster.nodes() {
            assert_eq!(node.slot_map(), truth, "as {} sees it", node.id());
        }
        assert_eq!(client.live(), Ok(3000));
        assert_eq!(cluster.counters().try_agains, 0);
    }
    Ok(())
}

#[test]
fn a_callback_that_breaks_while_a_slot_is_joined_leaves_it_whole_at_its_source() -> Tested {
    let cluster = three_nodes();
    let planned = three_slots(&cluster)?[0];
    let open_id = open(&cluster, planned)?;
    source_of(&cluster, planned).migrate_batch(planned.slot, open_id, 4)?;
    let slots: SlotSet = [planned.slot].into_iter().collect();
    let reshard = Reshard::of(&cluster).batch_keys(1);
    let reshard = reshard.move_slots(&slots, planned.source, planned.target)?;
    let report = reshard.on_progress(|_| ControlFlow::Break(())).run()?;
    assert_eq!((report.slots_moved, report.stopped), (0, true));
    check_settled(&cluster, planned.slot, planned.source);
    assert_eq!(cluster.client().live(), Ok(30));
    Ok(())
}

#[test]
fn a_callback_that_breaks_ends_a_resharding_between_two_slots_and_undoes_a_set() -> Tested {
    let cluster = three_nodes();
    let leaving = cluster.node_ids()[0];
    let stop_after = |count| {
        let mut left = count;
        move |_: &Progress| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    };
    let set = Reshard::of(&cluster).drain(leaving)?.all_or_nothing();
    let report = set.on_progress(stop_after(100)).run()?;
    assert_eq!((report.slots_moved, report.stopped), (0, true));
    assert!(cluster.handovers().is_empty());
    let report = Reshard::of(&cluster).drain(leaving)?.on_progress(stop_after(5)).run()?;
    assert_eq!((report.slots_moved, report.stopped), (5, true));
    // The last of these counts.
    let classic = Reshard::of(&cluster).drain(leaving)?.all_or_nothing().by(MoveKind::Classic);
    let report = classic.on_progress(stop_after(2)).run()?;
    assert_eq!((report.slots_moved, report.stopped), (0, true), "a classic move was open");
    Ok(())
}

#[test]
fn two_drivers_of_one_set_get_in_each_others_way_and_lose_nothing() -> Tested {
    let cluster = three_nodes();
    let client = cluster.client();
    for number in 0..300 {
        client.set(format!("key:{number}"), b"v")?;
    }
    let leaving = cluster.node_ids()[0];
    let moves = plan_drain(&cluster.slot_map(), leaving, &cluster.node_ids())?;
    let set = cluster.begin_handover(&moves)?;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !matches!(
                    cluster.handover_step(set),
                    Ok(HandoverStep::Done { .. }) | Err(AdminError::NoSuchHandover { .. })
                ) {}
            });
        }
    });
    assert!(cluster.handovers().is_empty());
    for planned in &moves {
        check_settled(&cluster, planned.slot, planned.target);
    }
    assert_eq!(client.live(), Ok(300));
    Ok(())
}

#[test]
fn a_driver_that_comes_late_hears_how_its_set_ended() -> Tested {
    for (steps, aborts) in [(0, false), (2, false), (2, true), (5, false), (6, false)] {
        for late_aborts in [false, true] {
            let cluster = three_nodes();
            let moves = three_slots(&cluster)?;
            let mut late = Handover::new(&cluster, &moves);
            // The first step only opens the set.
            for _ in 0..=steps {
                late.step()?;
            }
            let set = late.id().ok_or("an open set")?;
            let mut faster = Handover::take_over(&cluster, set)?;
            if aborts {
                faster.abort()?;
            }
            assert_eq!(finish(&mut faster)?, !aborts);
            if late_aborts {
                late.abort()?;
            }
            assert_eq!(late.step(), Ok(MoveStep::Done { flipped: !aborts }), "{steps} steps");
            assert_eq!(late.step(), Ok(MoveStep::Done { flipped: !aborts }));
        }
    }
    Ok(())
}

#[test]
fn a_resharding_whose_set_another_driver_ends_reports_how_it_ended() -> Tested {
    for how in [Resume::Finish, Resume::Abort] {
        let cluster = three_nodes();
        let moves = three_slots(&cluster)?;
        let mut reshard = Reshard::of(&cluster).all_or_nothing();
        for planned in &moves {
            let slots: SlotSet = [planned.slot].into_iter().collect();
            reshard = reshard.move_slots(&slots, planned.source, planned.target)?;
        }
        let report = reshard
            .on_progress(|_| {
                resume(&cluster, how).expect("a set that can be ended");
                ControlFlow::Continue(())
            })
            .run()?;
        let flipped = how == Resume::Finish;
        assert_eq!(report.slots_moved, if flipped { 3 } else { 0 });
        assert!(!report.stopped);
        for planned in &moves {
            let owner = if flipped { planned.target } else { planned.source };
            check_settled(&cluster, planned.slot, owner);
        }
    }
    Ok(())
}

#[test]
fn the_ended_handovers_that_are_remembered_are_bounded() -> Tested {
    let cluster = three_nodes();
    let first = cluster.begin_handover(&[])?;
    let done = Ok(HandoverStep::Done { flipped: true });
    assert_eq!(cluster.handover_step(first), done);
    for _ in 1..HANDOVERS_KEPT_MAX {
        let set = cluster.begin_handover(&[])?;
        assert_eq!(cluster.handover_step(set), done);
    }
    assert_eq!(cluster.handover_step(first), done);
    let last = cluster.begin_handover(&[])?;
    assert_eq!(cluster.handover_step(last), done);
    assert_eq!(cluster.handover_step(first), Err(no_such(first)));
    assert_eq!(cluster.handover_step(last), done);
    Ok(())
}
