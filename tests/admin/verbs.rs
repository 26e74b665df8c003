//! SETSLOT.

use slotkeep::{AbortStep, AdminError, MoveId, MovePhase, SetSlot, SetSlotError, SlotState};

use crate::setup::{
    KEY, OTHER, assigned, check, id, is_open, nobody, one, open, refused, slot, three, two,
};

#[test]
fn importing_wants_another_nodes_slot_and_its_owner() {
    let (_cluster, nodes) = assigned(3);
    let s = slot(3300);
    let importing = |at: usize, source| nodes[at].set_slot(s, SetSlot::Importing { source });
    let owner = refused(s, SetSlotError::AlreadyOwner { node: one() });
    check(importing(0, two()), owner, "ERR I'm already the owner of hash slot 3300");
    let itself = refused(s, SetSlotError::MoveToSelf { node: two() });
    check(importing(1, two()), itself, "ERR Target node is myself");
    let stranger = refused(s, SetSlotError::SourceNotOwner { source_node: three() });
    assert_eq!(importing(1, three()), Err(stranger));
    assert_eq!(importing(1, nobody()), Err(AdminError::UnknownNode { node: nobody() }));
    assert_eq!(nodes[1].slot_state(s), Ok(SlotState::Stable));
    let id = importing(1, one()).unwrap().unwrap();
    assert_eq!(nodes[1].slot_state(s), Ok(SlotState::Importing { source: one(), id }));
    assert_eq!(nodes[0].slot_state(s), Ok(SlotState::Stable), "the source knows nothing yet");
}

#[test]
fn migrating_wants_the_owner_and_a_target_that_imports() {
    let (cluster, nodes) = assigned(3);
    let s = slot(3300);
    let migrating = |at: usize, target| nodes[at].set_slot(s, SetSlot::Migrating { target });
    let not_mine = refused(s, SetSlotError::NotOwner { node: two() });
    check(migrating(1, three()), not_mine, "ERR I'm not the owner of hash slot 3300");
    let itself = refused(s, SetSlotError::MoveToSelf { node: one() });
    check(migrating(0, one()), itself, "ERR Target node is myself");
    let closed = refused(s, SetSlotError::TargetNotImporting { target: two() });
    assert_eq!(migrating(0, two()), Err(closed));
    assert_eq!(migrating(0, nobody()), Err(AdminError::UnknownNode { node: nobody() }));
    assert_eq!(nodes[0].slot_state(s), Ok(SlotState::Stable));
    let id = open(&nodes[0], &nodes[1], s);
    assert_eq!(nodes[0].slot_state(s), Ok(SlotState::Migrating { target: two(), id }));
    assert_eq!(cluster.slot_map().owner(s), Some(one()), "marks move no ownership");
}

#[test]
fn a_second_move_of_an_open_slot_is_refused_on_either_side() {
    let (cluster, nodes) = assigned(3);
    let s = slot(3300);
    let first = open(&nodes[0], &nodes[1], s);
    let again = SetSlot::Importing { source: one() };
    assert_eq!(nodes[1].set_slot(s, again), Err(is_open(s, two(), first)));
    let second = nodes[2].set_slot(s, again).unwrap().unwrap();
    let to_third = SetSlot::Migrating { target: three() };
    assert_eq!(nodes[0].set_slot(s, to_third), Err(is_open(s, one(), first)));
    let unmoved = refused(s, SetSlotError::NoSuchMove);
    assert_eq!(nodes[0].migrate_batch(s, second, 1), Err(unmoved));
    assert_eq!(nodes[2].set_slot(s, SetSlot::Stable), Ok(Some(second)));
    assert_eq!(cluster.move_record(first).unwrap().phase, MovePhase::Migrating);
    assert_eq!(cluster.move_record(second).unwrap().phase, MovePhase::Aborted);
}

#[test]
fn node_flips_only_an_open_and_empty_source() {
    let (cluster, nodes) = assigned(3);
    let s = slot(3300);
    let take = |at: usize| nodes[at].set_slot(s, SetSlot::Node { owner: id(at) });
    let order = refused(s, SetSlotError::WrongOrder);
    assert_eq!(take(1), Err(order), "it imports nothing");
    let node_on_source = |owner| nodes[0].set_slot(s, SetSlot::Node { owner });
    assert_eq!(node_on_source(two()), Err(order), "the target goes first");
    assert_eq!(node_on_source(nobody()), Err(AdminError::UnknownNode { node: nobody() }));
    cluster.client().set(KEY, b"v").unwrap();
    let id = open(&nodes[0], &nodes[1], s);
    assert_eq!(node_on_source(two()), Err(order));
    let held = refused(s, SetSlotError::SourceHoldsKeys { source_node: one() });
    let text = "ERR Can't assign hashslot 3300 to a different node \
                while I still hold keys for this hash slot.";
    check(take(1), held, text);
    let sent = nodes[0].migrate_batch(s, id, 9).unwrap();
    assert_eq!((sent.moved, sent.left), (1, 0));
    let before = cluster.slot_map().get(s).epoch;
    assert_eq!(take(1), Ok(Some(id)));
    let flipped = cluster.slot_map().get(s);
    assert_eq!(flipped.owner, Some(two()));
    assert!(flipped.epoch > before);
    assert_eq!(take(1), Ok(None), "twice is harmless");
    assert_eq!(node_on_source(two()), Ok(None), "the claim has closed it already");
    assert_eq!(cluster.slot_map().get(s), flipped, "neither drew another epoch");
    for node in &nodes {
        assert_eq!(node.slot_owner(s), flipped, "as {} sees it", node.id());
        assert_eq!(node.slot_state(s), Ok(SlotState::Stable));
    }
}

#[test]
fn stable_closes_what_has_not_begun_and_refuses_split_keys() {
    let (cluster, nodes) = assigned(2);
    let s = slot(3300);
    assert_eq!(nodes[0].set_slot(s, SetSlot::Stable), Ok(None), "nothing is open");
    for at in [0, 1] {
        let id = open(&nodes[0], &nodes[1], s);
        assert_eq!(nodes[at].set_slot(s, SetSlot::Stable), Ok(Some(id)));
        for node in &nodes {
            assert_eq!(node.slot_state(s), Ok(SlotState::Stable), "asked of node {at}");
        }
    }
    let client = cluster.client();
    client.mset([(KEY, &b"1"[..]), (OTHER, b"2")]).unwrap();
    let id = open(&nodes[0], &nodes[1], s);
    nodes[0].migrate_batch(s, id, 1).unwrap();
    for node in &nodes {
        let split = refused(s, SetSlotError::KeysSplit);
        assert_eq!(node.set_slot(s, SetSlot::Stable), Err(split));
    }
    assert_eq!(cluster.abort_step(id, 9), Ok(AbortStep::More));
    assert_eq!(cluster.abort_step(id, 9), Ok(AbortStep::Done));
    assert_eq!(nodes[0].count_keys_in_slot(s), Ok(2));
    let record = cluster.move_record(id).unwrap();
    assert_eq!((record.phase, record.keys_returned), (MovePhase::Aborted, 1));
}

#[test]
fn a_step_of_an_ended_move_is_refused_by_every_verb() {
    let (cluster, nodes) = assigned(2);
    let s = slot(3300);
    let ended = open(&nodes[0], &nodes[1], s);
    nodes[0].set_slot(s, SetSlot::Stable).unwrap();
    open(&nodes[0], &nodes[1], s);
    let gone = Err(refused(s, SetSlotError::NoSuchMove));
    let migrating = SetSlot::Migrating { target: two() };
    assert_eq!(nodes[0].set_slot_step(s, migrating, ended), gone);
    assert_eq!(nodes[0].set_slot_step(s, SetSlot::Stable, ended), gone);
    assert_eq!(nodes[1].set_slot_step(s, SetSlot::Stable, ended), gone);
    assert_eq!(nodes[1].set_slot_step(s, SetSlot::Node { owner: two() }, ended), gone);
    assert_eq!(nodes[0].set_slot_step(s, SetSlot::Node { owner: two() }, ended), gone);
    assert_eq!(nodes[0].migrate_batch(s, ended, 1).map(|_| None), gone);
    let no_move = Err(AdminError::NoSuchMove { id: ended });
    assert_eq!(cluster.abort_step(ended, 1), no_move);
    let never = MoveId::new(u64::MAX);
    assert_eq!(cluster.abort_step(never, 1), Err(AdminError::NoSuchMove { id: never }));
}

#[test]
fn an_importer_that_stands_alone_is_aborted_by_closing_it() {
    let (cluster, nodes) = assigned(2);
    let s = slot(3300);
    let importing = SetSlot::Importing { source: one() };
    let id = nodes[1].set_slot(s, importing).unwrap().unwrap();
    assert_eq!(cluster.abort_step(id, 1), Ok(AbortStep::Done));
    assert_eq!(nodes[1].slot_state(s), Ok(SlotState::Stable));
    assert_eq!(cluster.move_record(id).unwrap().phase, MovePhase::Aborted);
}

#[test]
fn refusals_that_redis_does_not_know_have_a_text_of_their_own() {
    let s = slot(3300);
    let id = MoveId::new(7);
    let errors = [
        SetSlotError::SourceNotOwner { source_node: one() },
        SetSlotError::SlotIsOpen { node: one(), id },
        SetSlotError::TargetNotImporting { target: two() },
        SetSlotError::TargetHoldsKeys { target: two() },
        SetSlotError::NoSuchMove,
        SetSlotError::WrongOrder,
        SetSlotError::KeysSplit,
        SetSlotError::Flipped,
        SetSlotError::KeysLeft { target: two() },
    ];
    let mut texts: Vec<_> = errors.iter().map(|&error| refused(s, error).redis_text()).collect();
    assert!(texts.iter().all(|text| text.starts_with("ERR hash slot 3300: ")), "{texts:?}");
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), errors.len(), "each its own");
}
