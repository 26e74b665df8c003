//! Check and fix after drivers, fixes and messages that were lost, step by step.

use std::time::{Duration, SystemTime};

use slotkeep::reshard::{
    Finding, Fix, FixOptions, FixStep, Handover, Move, MoveStep, PlannedMove, Resume, Uncovered,
};
use slotkeep::{
    AdminError, Client, Cluster, HandoverPhase, MigrateOptions, MoveId, MovePhase, NodeId,
    SetOptions, SetSlot, SetSlotError, Slot, SlotSet,
};

const SEED: u64 = 0x5107;
const TTL: Duration = Duration::from_secs(60);

struct Rig {
    cluster: Cluster,
    expected: Vec<(String, Option<SystemTime>)>,
}

fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

fn slot() -> Slot {
    Slot::of("{b}")
}

fn only() -> SlotSet {
    [slot()].into_iter().collect()
}

/// Whether messages between the nodes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bus {
    Delivers,
    Holds,
    Loses,
}

impl Rig {
    /// So many keys, each with its own name for a value, every other one with a deadline.
    fn new(keys: usize, bus: Bus) -> Self {
        println!("seed {SEED:#x}");
        let builder = Cluster::builder().nodes(3).workers_per_node(1).step_mode(SEED);
        let cluster = builder.unassigned().full_coverage(false).build().expect("three nodes");
        cluster.nodes()[0].add_slots(&[slot()]).expect("nobody has it");
        let client = cluster.client();
        let mut expected = Vec::new();
        for number in 0..keys {
            let name = format!("{{b}}:{number}");
            let options = SetOptions::new();
            let options = if number % 2 == 0 { options } else { options.expire_in(TTL) };
            client.set_with(&name, name.as_bytes(), &options).expect("a slot that is served");
            let expiry = client.expiry(&name).expect("an answer").expect("just written");
            expected.push((name, expiry));
        }
        if bus != Bus::Delivers {
            cluster.bus().hold();
        }
        Self { cluster, expected }
    }

    /// A driver that dies after so many steps; it turns round after some of them.
    fn drive(&self, steps: usize, turns_after: Option<usize>) -> Option<MoveId> {
        let planned = PlannedMove { slot: slot(), source: id(0), target: id(1) };
        let mut driver = Move::new(&self.cluster, planned, 2).expect("nodes of this cluster");
        for step in 0..steps {
            if turns_after == Some(step) {
                driver.abort();
            }
            if let MoveStep::Done { .. } = driver.step().expect("a step that is legal") {
                break;
            }
        }
        self.cluster.moves().first().map(|record| record.id)
    }

    #[track_caller]
    fn check_keys(&self, client: &Client, when: &str) {
        for (name, expiry) in &self.expected {
            let found = client.get(name).expect("an answer");
            assert_eq!(found.as_deref(), Some(name.as_bytes()), "{when}");
            assert_eq!(client.expiry(name), Ok(Some(*expiry)), "{name}, {when}");
        }
    }

    #[track_caller]
    fn check_healthy(&self, when: &str) {
        let found = self.cluster.check_slots(&only()).expect("an open cluster");
        assert!(found.is_healthy(), "{when}: {found}");
        self.check_keys(&self.cluster.client(), when);
        self.cluster.check_invariants();
    }
}

/// Every prefix of a move, and of one that is turned round at every step.
fn deaths() -> impl Iterator<Item = (usize, usize, Option<usize>)> {
    [0, 1, 5].into_iter().flat_map(|keys| {
        let steps = 0..(8 + keys / 2);
        steps.flat_map(move |steps| {
            let turns = std::iter::once(None).chain((0..steps).map(Some));
            turns.map(move |turns_after| (keys, steps, turns_after))
        })
    })
}

#[test]
fn a_driver_that_dies_at_any_step_is_found_and_its_move_is_finished_or_aborted() {
    let mut open = 0;
    for (keys, steps, turns_after) in deaths() {
        for how in [Resume::Finish, Resume::Abort] {
            for bus in [Bus::Delivers, Bus::Holds, Bus::Loses] {
                let when = format!("{keys} keys, {steps} steps, {turns_after:?}, {how:?}, {bus:?}");
                let rig = Rig::new(keys, bus);
                let id = rig.drive(steps, turns_after);
                let record = id.and_then(|id| rig.cluster.move_record(id));
                let phase = record.map(|record| record.phase).filter(|phase| !phase.is_ended());
                let found = rig.cluster.check_slots(&only()).unwrap().findings;
                let named = found.iter().find_map(|finding| {
                    let Finding::OpenMove { id, phase, .. } = finding else { return None };
                    Some((*id, *phase))
                });
                assert_eq!(named, id.zip(phase), "{when}: {found:?}");
                open += usize::from(named.is_some());
                if bus == Bus::Loses {
                    while rig.cluster.bus().discard(0) {}
                }
                let client = rig.cluster.client();
                let options = FixOptions::new().open_moves(how);
                let fixed = rig.cluster.fix_slots(&only(), options).unwrap();
                assert!(fixed.left.is_healthy(), "{when}: {fixed}");
                rig.check_healthy(&when);
                rig.check_keys(&client, &when);
                let flipped = matches!(phase, Some(MovePhase::Flipped));
                if let Some((id, phase)) = named {
                    let ended = rig.cluster.move_record(id).unwrap().phase;
                    let back = phase == MovePhase::Aborting || how == Resume::Abort;
                    let back = back && !flipped;
                    let expected = if back { MovePhase::Aborted } else { MovePhase::Completed };
                    assert_eq!(ended, expected, "{when}");
                }
                let again = rig.cluster.fix_slots(&only(), options).unwrap();
                assert!(again.is_empty(), "{when}: {again}");
                // What was on its way arrives late, and does no harm.
                rig.cluster.bus().release();
                rig.check_healthy(&when);
            }
        }
    }
    assert!(open > 100, "{open} moves were open");
}

#[test]
fn a_fix_that_dies_at_any_step_is_finished_by_the_next() {
    for (keys, steps, turns_after) in deaths() {
        for fix_steps in 1..6 {
            let when = format!("{keys} keys, {steps} steps, {turns_after:?}, {fix_steps} of a fix");
            let rig = Rig::new(keys, Bus::Delivers);
            rig.drive(steps, turns_after);
            let how = if fix_steps % 2 == 0 { Resume::Finish } else { Resume::Abort };
            let options = FixOptions::new().open_moves(how);
            let mut fix = Fix::new(&rig.cluster, options, only());
            for _ in 0..fix_steps {
                if fix.step().unwrap() == FixStep::Done {
                    break;
                }
                rig.check_keys(&rig.cluster.client(), &when);
            }
            drop(fix);
            assert!(rig.cluster.fix_slots(&only(), options).unwrap().left.is_healthy(), "{when}");
            rig.check_healthy(&when);
        }
    }
}

#[test]
fn a_paused_move_is_closed_too() {
    let rig = Rig::new(5, Bus::Delivers);
    let id = rig.drive(3, None).expect("an open move");
    rig.cluster.pause_move(id).unwrap();
    assert!(rig.cluster.fix_slots(&only(), FixOptions::new()).unwrap().left.is_healthy());
    assert_eq!(rig.cluster.move_record(id).unwrap().phase, MovePhase::Completed);
    rig.check_healthy("a paused move");
}

#[test]
fn what_expires_on_the_way_is_not_brought_back() {
    for how in [Resume::Finish, Resume::Abort] {
        let mut rig = Rig::new(5, Bus::Delivers);
        rig.drive(3, None);
        rig.cluster.advance(TTL);
        rig.expected.retain(|(_, expiry)| expiry.is_none());
        let options = FixOptions::new().open_moves(how);
        assert!(rig.cluster.fix_slots(&only(), options).unwrap().left.is_healthy());
        rig.check_healthy("deadlines have passed");
        assert_eq!(rig.cluster.client().live(), Ok(rig.expected.len()));
    }
}

#[test]
fn a_cluster_without_slots_gets_them_shared_out_unless_it_is_to_be_left() {
    let builder = Cluster::builder().nodes(3).workers_per_node(1).step_mode(SEED);
    let cluster = builder.unassigned().build().unwrap();
    let left = cluster.fix_with(FixOptions::new().uncovered(Uncovered::Leave)).unwrap();
    assert!(left.repaired.is_empty());
    assert_eq!(left.left.findings.len(), 16_384);
    let fixed = cluster.fix().unwrap();
    assert_eq!(fixed.repaired.len(), 16_384);
    let sizes = cluster.node_ids().into_iter().map(|node| cluster.slot_map().slots_of(node).len());
    let sizes: Vec<_> = sizes.collect();
    assert!(sizes.iter().all(|size| (5461..=5462).contains(size)), "{sizes:?}");
    assert!(cluster.check().unwrap().is_healthy());
    assert!(cluster.fix().unwrap().is_empty());
}

/// One step of people or tools that obey no order: verbs of ours, verbs as Redis obeys them,
/// batches, copies, writes. Verbs of ours lose no key, whatever the others have left.
fn anything(cluster: &Cluster, rng: &mut fastrand::Rng, when: &str) {
    let nodes = cluster.nodes();
    let node = &nodes[rng.usize(..nodes.len())];
    let other = nodes[rng.usize(..nodes.len())].id();
    let verbs = [
        SetSlot::Importing { source: other },
        SetSlot::Migrating { target: other },
        SetSlot::Stable,
        SetSlot::Node { owner: other },
    ];
    let verb = verbs[rng.usize(..verbs.len())];
    let before = all_keys(cluster);
    let choice = rng.u32(..14);
    // What is refused changes nothing.
    match choice {
        0..4 => drop(node.as_redis().set_slot(slot(), verb)),
        10 | 11 => drop(node.set_slot(slot(), verb)),
        12 | 13 => {
            let names: Vec<_> = (0..3).map(|_| format!("{{b}}:{}", rng.u32(..12))).collect();
            let options = MigrateOptions::default();
            let options = if choice == 12 { options } else { options.replace() };
            let _ = node.copy_keys(&names, other, options);
        }
        4 => drop(node.as_redis().del_slots(&[slot()])),
        5 => drop(node.set_slot(slot(), SetSlot::Stable)),
        6 | 7 => {
            let id = node.slot_state(slot()).ok().and_then(slotkeep::SlotState::move_id);
            let _ = id.map(|id| node.migrate_batch(slot(), id, 2));
        }
        8 => drop(node.hand_over(slot(), other)),
        _ => {
            let name = format!("{{b}}:{}", rng.u32(..12));
            let _ = cluster.client().set(&name, name.as_bytes());
        }
    }
    if choice > 4 {
        let after = all_keys(cluster);
        let lost: Vec<_> = before.iter().filter(|name| !after.contains(name)).collect();
        assert!(lost.is_empty(), "{when}: {lost:?} lost by {choice}, {verb:?}");
    }
}

/// The live keys of the slot, on whatever node.
fn all_keys(cluster: &Cluster) -> Vec<String> {
    let lists = cluster.nodes().into_iter().map(|node| node.keys_in_slot(slot(), usize::MAX));
    let keys = lists.flat_map(|keys| keys.expect("an open cluster"));
    let mut names: Vec<_> = keys.map(|key| String::from_utf8(key.into()).expect("text")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn whatever_the_verbs_of_redis_leave_is_repaired_and_no_key_is_lost() {
    const SEEDS: u64 = 600;
    let (mut repaired, mut split) = (0, 0);
    for seed in 0..SEEDS {
        let rig = Rig::new(6, if seed % 3 == 0 { Bus::Loses } else { Bus::Delivers });
        let mut rng = fastrand::Rng::with_seed(seed);
        if seed % 4 > 0 {
            // Most things go wrong while a move is open.
            rig.drive(rng.usize(1..6), None);
        }
        for _ in 0..rng.u32(1..10) {
            anything(&rig.cluster, &mut rng, &format!("seed {seed}"));
            while rig.cluster.bus().discard(0) {}
        }
        let names = all_keys(&rig.cluster);
        let found = rig.cluster.check_slots(&only()).unwrap();
        let keys_of = |node: &slotkeep::Node| node.count_keys_in_slot(slot()).unwrap() > 0;
        split += usize::from(rig.cluster.nodes().iter().filter(|node| keys_of(node)).count() > 1);
        let how = if seed % 2 == 0 { Resume::Finish } else { Resume::Abort };
        let options = FixOptions::new().open_moves(how);
        let fixed = rig.cluster.fix_slots(&only(), options).unwrap();
        assert!(fixed.left.is_healthy(), "seed {seed}: {found}{fixed}");
        assert_eq!(found.is_healthy(), fixed.is_empty(), "seed {seed}: {found}{fixed}");
        repaired += usize::from(!fixed.is_empty());
        assert_eq!(all_keys(&rig.cluster), names, "seed {seed}: {found}{fixed}");
        let client = rig.cluster.client();
        for name in &names {
            let value = client.get(name).expect("an answer");
            assert_eq!(value.as_deref(), Some(name.as_bytes()), "seed {seed}: {found}{fixed}");
        }
        assert!(rig.cluster.check_slots(&only()).unwrap().is_healthy(), "seed {seed}");
        rig.cluster.check_invariants();
        let again = rig.cluster.fix_slots(&only(), options).unwrap();
        assert!(again.is_empty(), "seed {seed}: {again}");
    }
    assert!(repaired > 300 && split > 60, "{repaired} repaired, {split} with split keys");
}

/// The source of an open move loses its mark by a verb as in Redis once two keys have travelled.
fn split_by_hand() -> Rig {
    let rig = Rig::new(6, Bus::Delivers);
    rig.drive(3, None).expect("an open move");
    let nodes = rig.cluster.nodes();
    assert_eq!(nodes[1].count_keys_in_slot(slot()), Ok(2));
    nodes[0].as_redis().set_slot(slot(), SetSlot::Stable).expect("as in Redis");
    rig
}

#[track_caller]
fn check_refused_and_mended(rig: &Rig, when: &str) {
    let error = SetSlotError::KeysSplit;
    let refused = Err(AdminError::SetSlot { slot: slot(), error });
    assert_eq!(rig.cluster.nodes()[1].set_slot(slot(), SetSlot::Stable), refused, "{when}");
    let fixed = rig.cluster.fix_slots(&only(), FixOptions::new()).expect("an open cluster");
    assert!(fixed.left.is_healthy(), "{when}: {fixed}");
    rig.check_healthy(when);
}

#[test]
fn stable_and_fix_drop_no_key_of_an_importer_whose_source_lost_its_mark_by_hand() {
    check_refused_and_mended(&split_by_hand(), "one batch");
    for copied in 0..4 {
        let rig = split_by_hand();
        let nodes = rig.cluster.nodes();
        let importing = SetSlot::Importing { source: id(0) };
        nodes[1].as_redis().set_slot(slot(), importing).expect("as in Redis");
        let at_source = nodes[0].keys_in_slot(slot(), copied).expect("keys");
        if copied > 0 {
            let options = MigrateOptions::default();
            assert_eq!(nodes[0].copy_keys(&at_source, id(1), options), Ok(copied));
        }
        check_refused_and_mended(&rig, &format!("{copied} copies beside keys"));
    }
}

#[test]
fn stable_on_an_aborting_target_whose_source_lost_its_mark_by_hand_drops_no_key() {
    let rig = Rig::new(6, Bus::Delivers);
    rig.drive(4, Some(3)).expect("an open move");
    let nodes = rig.cluster.nodes();
    nodes[0].as_redis().set_slot(slot(), SetSlot::Stable).expect("as in Redis");
    assert!(nodes[1].count_keys_in_slot(slot()).unwrap() > 0);
    check_refused_and_mended(&rig, "aborting");
}

#[test]
fn stable_drops_no_key_of_a_source_that_lost_the_slot_by_hand() {
    let rig = Rig::new(6, Bus::Delivers);
    rig.drive(2, None).expect("an open move");
    let nodes = rig.cluster.nodes();
    nodes[0].as_redis().del_slots(&[slot()]).expect("as in Redis");
    nodes[1].set_slot(slot(), SetSlot::Stable).expect("no key has travelled");
    let fixed = rig.cluster.fix_slots(&only(), FixOptions::new()).unwrap();
    assert!(fixed.left.is_healthy(), "{fixed}");
    rig.check_healthy("a slot that nobody owned");
}

#[test]
fn a_node_that_holds_keys_which_nobody_finds_imports_none() {
    let rig = split_by_hand();
    let target = &rig.cluster.nodes()[1];
    target.as_redis().set_slot(slot(), SetSlot::Stable).expect("as in Redis");
    let error = SetSlotError::TargetHoldsKeys { target: id(1) };
    let refused = Err(AdminError::SetSlot { slot: slot(), error });
    assert_eq!(target.set_slot(slot(), SetSlot::Importing { source: id(0) }), refused);
    let fixed = rig.cluster.fix_slots(&only(), FixOptions::new()).unwrap();
    assert!(fixed.left.is_healthy(), "{fixed}");
    rig.check_healthy("orphans");
}

#[test]
fn a_slot_that_went_to_a_node_that_joined_after_a_fix_began_is_repaired_too() {
    let rig = Rig::new(6, Bus::Delivers);
    let mut fix = Fix::new(&rig.cluster, FixOptions::new(), only());
    let joined = rig.cluster.add_node().expect("room for one more").id();
    rig.cluster.nodes()[0].hand_over(slot(), joined).expect("nothing is in the way");
    let stray = &rig.cluster.nodes()[1];
    stray.as_redis().set_slot(slot(), SetSlot::Importing { source: id(2) }).expect("as in Redis");
    while fix.step().expect("an open cluster") != FixStep::Done {}
    assert_eq!(fix.report().repaired.len(), 1, "{}", fix.report());
    rig.check_healthy("a stray mark");
}

#[test]
fn no_node_claims_a_slot_that_another_one_serves_or_has_reserved() {
    let busy = Err(AdminError::SlotBusy { slot: slot() });
    let check_refused = |cluster: &Cluster, when: &str| {
        let known = cluster.slot_owner(slot());
        for node in cluster.nodes().iter().filter(|node| Some(node.id()) != known.owner) {
            assert_eq!(node.claim_slot(slot(), known), busy, "{when}");
        }
    };
    for steps in 0..8 {
        let rig = Rig::new(6, Bus::Holds);
        rig.drive(steps, None);
        let before = rig.cluster.slot_owner(slot());
        check_refused(&rig.cluster, &format!("{steps} steps of a move"));
        assert_eq!(rig.cluster.slot_owner(slot()), before);
        rig.cluster.fix_slots(&only(), FixOptions::new()).expect("an open cluster");
        rig.check_healthy(&format!("{steps} steps of a move"));
    }
    for steps in 0..5 {
        let rig = Rig::new(6, Bus::Delivers);
        let planned = PlannedMove { slot: slot(), source: id(0), target: id(1) };
        let mut driver = Handover::new(&rig.cluster, &[planned]);
        for _ in 0..steps {
            driver.step().expect("nothing is in the way");
        }
        check_refused(&rig.cluster, &format!("{steps} steps of a handover"));
        while !matches!(driver.step(), Ok(MoveStep::Done { .. })) {}
        rig.check_healthy(&format!("{steps} steps of a handover"));
    }
    let rig = Rig::new(6, Bus::Delivers);
    let nodes = rig.cluster.nodes();
    nodes[0].as_redis().del_slots(&[slot()]).expect("as in Redis");
    assert_eq!(nodes[1].claim_slot(slot(), rig.cluster.slot_owner(slot())), Ok(()));
}

#[test]
fn a_handover_of_a_set_whose_driver_died_is_finished_or_released() {
    let slots: Vec<_> = Slot::all().skip(100).take(4).collect();
    for steps in 1..10 {
        for how in [Resume::Finish, Resume::Abort] {
            let rig = Rig::new(1, Bus::Delivers);
            rig.cluster.nodes()[0].add_slots(&slots).unwrap();
            let planned = |&slot| PlannedMove { slot, source: id(0), target: id(2) };
            let moves: Vec<_> = slots.iter().map(planned).collect();
            let mut driver = Handover::new(&rig.cluster, &moves);
            for _ in 0..steps {
                driver.step().unwrap();
            }
            let open = rig.cluster.handovers();
            let set: SlotSet = slots.iter().copied().collect();
            let found = rig.cluster.check_slots(&set).unwrap();
            // Slots that have flipped are made known by the last step only.
            let is_set = |finding: &&Finding| matches!(finding, Finding::OpenHandover { .. });
            let sets = found.findings.iter().filter(is_set).count();
            assert_eq!(sets, open.len(), "{steps} steps: {found}");
            let options = FixOptions::new().open_moves(how);
            let fixed = rig.cluster.fix_slots(&set, options).unwrap();
            assert_eq!((fixed.repaired.len(), fixed.left.is_healthy()), (sets, true), "{fixed}");
            assert!(rig.cluster.check_slots(&set).unwrap().is_healthy(), "{steps} steps");
            let committed = open.first().is_none_or(|set| set.phase == HandoverPhase::Committed);
            let finished = committed || how == Resume::Finish;
            let owner = id(if finished { 2 } else { 0 });
            let map = rig.cluster.slot_map();
            assert!(slots.iter().all(|&slot| map.owner(slot) == Some(owner)), "{steps} steps");
        }
    }
}
