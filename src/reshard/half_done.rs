//! Every half-done state of a slot, made by hand: check names it, fix repairs it, nothing is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cluster::Client;
use crate::cluster::Cluster;
use crate::evict::Policy;
use crate::migration::MoveId;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::node::Claim;
use crate::node::MemberOptions;
use crate::node::Message;
use crate::node::MigrateOptions;
use crate::node::MovePhase;
use crate::node::MoveRecord;
use crate::node::Roster;
use crate::node::RosterOptions;
use crate::node::SetSlot;
use crate::reshard::Finding;
use crate::reshard::Fix;
use crate::reshard::FixOptions;
use crate::reshard::FixReport;
use crate::reshard::FixStep;
use crate::reshard::Repair;
use crate::reshard::Resume;
use crate::reshard::Uncovered;
use crate::shard::Entry;
use crate::shard::Kept;
use crate::shard::Key;
use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::sync::Arc;
use crate::time::NEVER;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// A deadline that is far away, one that has passed, in nanoseconds since the cluster began.
const FAR: u64 = 1 << 60;
const PAST: u64 = 0;

/// One of so many states is tried, spread evenly; with 1 it takes a minute and a half.
const STRIDE: usize = 13;

fn id(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// Three nodes without threads; every state gets a slot of its own.
struct Bench {
    roster: Arc<Roster<[u8]>>,
    cluster: Cluster,
    client: Client,
    /// A hash tag for each slot.
    tags: Vec<String>,
    used: u16,
}

/// What a node is made to hold.
#[derive(Clone, Copy, Debug)]
struct Made {
    owns: bool,
    state: SlotState,
    /// The epoch of its own claim, or of the other's, which it believes.
    epoch: u64,
}

impl Bench {
    fn new() -> Self {
        let options = RosterOptions {
            member: MemberOptions { full_coverage: false, bound: None, policy: Policy::default() },
            ..RosterOptions::of_unit_tests()
        };
        let roster = Arc::new(Roster::new(options));
        for _ in 0..3 {
            roster.add_node().unwrap();
        }
        // Later epochs are drawn from here on.
        for _ in 0..10 {
            roster.draw_epoch();
        }
        let cluster = Cluster::over(Arc::clone(&roster));
        let client = cluster.client();
        let mut tags = vec![String::new(); usize::from(SLOT_COUNT)];
        let mut missing = tags.len();
        for number in 0.. {
            let tag = format!("{{{number}}}");
            let place = &mut tags[Slot::of(&tag).index()];
            if place.is_empty() {
                *place = tag;
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        Self { roster, cluster, client, tags, used: 0 }
    }

    fn next_slot(&mut self) -> Slot {
        let slot = Slot::new(self.used).expect("one slot for each state");
        self.used += 1;
        slot
    }

    fn name(&self, slot: Slot, key: &str) -> String {
        format!("{}:{key}", self.tags[slot.index()])
    }

    /// A move on record from one node to another.
    fn begin(&self, slot: Slot, (source, target): (usize, usize), phase: MovePhase) -> MoveId {
        let move_id = self.roster.draw_move_id();
        let sides = (slot, id(source), id(target));
        let record = MoveRecord::new(move_id, sides, phase, &self.roster.now());
        self.roster.moves.begin(record);
        move_id
    }

    fn put(&self, slot: Slot, node: usize, made: Made) {
        let member = self.roster.known(id(node));
        let believed = if node == A { B } else { A };
        let owner = if made.owns { node } else { believed };
        let view = SlotOwner::new(Some(id(owner)), Epoch::new(made.epoch));
        let mut hold = member.headers.get(slot).lock();
        let side = Side { node: id(node), view, state: made.state, has_keys: false };
        member.put_side(slot, &mut hold, &side);
    }

    fn insert(&self, slot: Slot, node: usize, key: &str, deadline: u64) {
        let member = self.roster.known(id(node));
        let name = self.name(slot, key);
        let key = Key::new(name.as_bytes(), &self.roster.hasher).unwrap();
        let value = format!("of {node}");
        let mut hold = member.headers.get(slot).lock();
        let entry = Entry::<[u8]>::new(key.bytes, value.as_bytes(), Kept::until(deadline));
        hold.insert(entry, key.hash, &self.roster.hasher);
        member.release(slot, hold);
    }

    /// Three keys of the node's own, one of them with a deadline, one that is dead, and one that
    /// others may have too.
    fn fill(&self, slot: Slot, node: usize) {
        self.insert(slot, node, &format!("own {node}"), NEVER);
        self.insert(slot, node, &format!("also own {node}"), NEVER);
        self.insert(slot, node, &format!("timed {node}"), FAR);
        self.insert(slot, node, &format!("dead {node}"), PAST);
        self.insert(slot, node, "shared", NEVER);
    }

    fn read(&self, slot: Slot, key: &str) -> Option<String> {
        let found = self.client.get(self.name(slot, key)).expect("a slot that is served");
        found.map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    /// Every key of the filled nodes is there with its value and its deadline; the dead are not.
    #[track_caller]
    fn check_keys(&self, slot: Slot, filled: &[usize], what: &str) {
        for &node in filled {
            let value = Some(format!("of {node}"));
            for key in ["own", "also own", "timed"] {
                let key = format!("{key} {node}");
                assert_eq!(self.read(slot, &key), value, "{key}, {what}");
                let ttl = self.client.ttl(self.name(slot, &key)).unwrap().unwrap();
                let far = Duration::from_nanos(FAR);
                let expected = key.starts_with("timed");
                assert_eq!(ttl.is_some(), expected, "{key}, {what}");
                assert!(ttl.is_none_or(|ttl| ttl < far && ttl > far / 2), "{key}, {what}");
            }
            assert_eq!(self.read(slot, &format!("dead {node}")), None, "{what}");
        }
        if !filled.is_empty() {
            let shared = self.read(slot, "shared").expect("the key that several have");
            let of_one = |node: &usize| shared == format!("of {node}");
            assert!(filled.iter().any(of_one), "{shared}, {what}");
        }
        // Nothing lies where it has no right to be, and nothing is there twice.
        let owner = self.cluster.slot_owner(slot).owner;
        let stored = self.cluster.holdings(slot).unwrap();
        let elsewhere = stored.iter().filter(|holding| Some(holding.node) != owner);
        assert!(elsewhere.into_iter().all(|holding| holding.live_keys == 0), "{what}: {stored:?}");
    }

    /// Fixes a slot step by step, with calls between: what a client finds once it finds from then
    /// on, what it removes stays removed, and what it writes stays.
    #[track_caller]
    fn walk(&self, slot: Slot, how: Resume, filled: &[usize], what: &str) {
        let options = FixOptions::new().open_moves(how);
        let mut fix = Fix::new(&self.cluster, options, Self::only(slot));
        let mut seen = BTreeSet::new();
        let mut removed = BTreeSet::new();
        loop {
            let client = &self.client;
            for &node in filled {
                for key in ["own", "timed", "also own"] {
                    let name = self.name(slot, &format!("{key} {node}"));
                    let found = client.get(&name).ok().flatten();
                    let is_removed = removed.contains(&name);
                    assert!(found.is_none() || !is_removed, "{name} is back, {what}");
                    assert!(
                        found.is_some() || is_removed || !seen.contains(&name),
                        "{name}, {what}"
                    );
                    if found.is_none() {
                        continue;
                    }
                    seen.insert(name.clone());
                    if key == "also own" {
                        assert_eq!(client.remove(&name), Ok(true), "{name}, {what}");
                        removed.insert(name);
                    }
                }
            }
            match fix.step().unwrap() {
                FixStep::More => {}
                FixStep::Busy => unreachable!("no call is in the gate"),
                FixStep::Done => break,
            }
        }
        assert_eq!(removed.len(), filled.len(), "{what}");
        for &node in filled {
            // For the checks that follow.
            let name = self.name(slot, &format!("also own {node}"));
            self.client.set(name, format!("of {node}").as_bytes()).unwrap();
        }
    }

    fn only(slot: Slot) -> SlotSet {
        [slot].into_iter().collect()
    }

    /// Fixes a slot and checks that nothing more is to be done. Returns what was.
    #[track_caller]
    fn check_fix(&self, slot: Slot, how: Resume, filled: &[usize], what: &str) -> FixReport {
        let slots = Self::only(slot);
        let options = FixOptions::new().open_moves(how);
        let fixed = self.cluster.fix_slots(&slots, options).unwrap();
        assert!(fixed.left.is_healthy(), "{what}: {fixed}");
        let found = self.cluster.check_slots(&slots).unwrap();
        assert!(found.is_healthy(), "{what}: {found} after {fixed}");
        self.check_keys(slot, filled, what);
        let again = self.cluster.fix_slots(&slots, options).unwrap();
        assert!(again.is_empty(), "{what}: {again}");
        fixed
    }
}

/// The marks that a node can carry, under either move, with either of the others or itself.
fn states(ids: [MoveId; 2], me: usize) -> Vec<SlotState> {
    let mut states = vec![SlotState::Stable];
    for move_id in ids {
        for peer in [A, B, C] {
            let (peer, id, me) = (id(peer), move_id, id(me));
            if peer == me {
                states.push(SlotState::Migrating { target: peer, id });
                continue;
            }
            states.extend([
                SlotState::Migrating { target: peer, id },
                SlotState::Importing { source: peer, id },
                SlotState::Aborting { target: peer, id },
                SlotState::Retired { source: peer, id },
            ]);
        }
    }
    states
}

/// Every pair of marks on two nodes, each owning the slot or not, each with or without keys, under
/// moves that are on record or not; and a third node with keys that nobody finds.
#[test]
fn every_state_of_two_nodes_is_repaired_and_no_key_is_lost() {
    let mut bench = Bench::new();
    let (mut place, mut count) = (0_usize, 0);
    let nothing = [MoveId::new(0); 2];
    for one in 0..states(nothing, A).len() {
        for other in 0..states(nothing, B).len() {
            for bits in 0..16_u32 {
                place += 1;
                if !place.is_multiple_of(STRIDE) {
                    continue;
                }
                if bench.used == SLOT_COUNT {
                    bench = Bench::new();
                }
                check_state(&mut bench, (one, other, bits), count);
                count += 1;
            }
        }
    }
    assert!(count > 400, "{count} states");
}

fn check_state(bench: &mut Bench, (one, other, bits): (usize, usize, u32), count: usize) {
    let slot = bench.next_slot();
    let is_set = |bit: u32| bits & 1 << bit != 0;
    let ids = if count.is_multiple_of(3) {
        [bench.roster.draw_move_id(), bench.roster.draw_move_id()]
    } else {
        let phases = [MovePhase::Importing, MovePhase::Migrating, MovePhase::Aborting];
        let phase = phases[count / 3 % phases.len()];
        [bench.begin(slot, (A, B), phase), bench.begin(slot, (B, A), phase)]
    };
    let epochs = if count.is_multiple_of(2) { [1, 2] } else { [2, 1] };
    let mut filled = Vec::new();
    let mut made = Vec::new();
    for (node, state) in [(A, states(ids, A)[one]), (B, states(ids, B)[other])] {
        let bit = 2 * u32::try_from(node).unwrap();
        let (owns, has_keys) = (is_set(bit), is_set(bit + 1));
        made.push(Made { owns, state, epoch: epochs[node] });
        bench.put(slot, node, made[node]);
        if has_keys {
            filled.push(node);
        }
    }
    if count.is_multiple_of(5) {
        filled.push(C);
        bench.put(slot, C, Made { owns: false, state: SlotState::Stable, epoch: 1 });
    }
    for &node in &filled {
        bench.fill(slot, node);
    }
    let truth = made.iter().enumerate().filter(|(_, made)| made.owns);
    if count.is_multiple_of(11) {
        // The cluster's word names a node that may own nothing.
        bench.roster.truth.raise(slot, SlotOwner::new(Some(id(A)), Epoch::new(3)));
    } else if let Some((node, made)) = truth.max_by_key(|(_, made)| made.epoch) {
        bench.roster.truth.raise(slot, SlotOwner::new(Some(id(node)), Epoch::new(made.epoch)));
    }
    let what = format!("{made:?}, {filled:?}");
    let how = if count % 7 < 4 { Resume::Finish } else { Resume::Abort };
    let found = bench.cluster.check_slots(&Bench::only(slot)).unwrap();
    let is_clean = made.iter().all(|made| made.state == SlotState::Stable);
    let owners = made.iter().filter(|made| made.owns).count();
    let has_strays = filled.iter().any(|&node| made.get(node).is_none_or(|made| !made.owns));
    let may_be_well = is_clean && owners == 1 && !has_strays;
    assert!(!found.is_healthy() || may_be_well, "{what}: nothing is found");
    if count.is_multiple_of(2) {
        bench.walk(slot, how, &filled, &what);
    }
    let fixed = bench.check_fix(slot, how, &filled, &what);
    assert!(found.is_healthy() || count.is_multiple_of(2) || !fixed.is_empty(), "{what}");
}

/// Nothing is made of a node but this.
fn stable(owns: bool, epoch: u64) -> Made {
    Made { owns, state: SlotState::Stable, epoch }
}

/// The slot's findings in words, without its number.
fn words(bench: &Bench, slot: Slot) -> Vec<String> {
    let found = bench.cluster.check_slots(&Bench::only(slot)).unwrap();
    let prefix = format!("slot {slot}: ");
    let lines = found.to_string();
    lines.lines().map(|line| line.trim_start_matches(&prefix).to_owned()).collect()
}

#[test]
fn of_two_owners_the_later_one_stays_and_so_does_its_copy_of_a_key() {
    for (epochs, owner, other) in [([3, 4], B, A), ([4, 3], A, B)] {
        let mut bench = Bench::new();
        let slot = bench.next_slot();
        for node in [A, B] {
            bench.put(slot, node, stable(true, epochs[node]));
            bench.fill(slot, node);
        }
        bench.roster.truth.raise(slot, SlotOwner::new(Some(id(owner)), Epoch::new(4)));
        assert_eq!(words(&bench, slot), ["owned by node 0 and by node 1"]);
        let fixed = bench.check_fix(slot, Resume::Finish, &[A, B], "two owners");
        let repairs: Vec<_> = fixed.repaired.iter().map(|(_, repair)| *repair).collect();
        let reclaimed = Repair::Reclaimed { by: id(owner), from: id(other) };
        assert_eq!(repairs[..2], [reclaimed, Repair::Aborted], "{fixed}");
        assert!(repairs[2..].iter().all(|repair| *repair == Repair::Told), "{fixed}");
        assert_eq!(bench.cluster.slot_owner(slot).owner, Some(id(owner)));
        assert_eq!(bench.read(slot, "shared"), Some(format!("of {owner}")));
    }
}

#[test]
fn a_slot_without_an_owner_goes_to_who_has_most_of_it_or_has_fewest_slots() {
    let mut bench = Bench::new();
    let (with_keys, named, unknown) = (bench.next_slot(), bench.next_slot(), bench.next_slot());
    bench.fill(with_keys, B);
    bench.insert(with_keys, A, "own 0", NEVER);
    bench.roster.truth.raise(named, SlotOwner::new(Some(id(B)), Epoch::new(5)));
    let others: Vec<_> = Slot::all().skip(100).take(3).collect();
    bench.cluster.node(id(A)).unwrap().add_slots(&others[..2]).unwrap();
    bench.cluster.node(id(B)).unwrap().add_slots(&others[2..]).unwrap();
    let found = words(&bench, with_keys);
    let orphans = |keys, node| format!("{keys} keys lie on node {node}, where nobody finds them");
    assert_eq!(found, [orphans(1, A), orphans(4, B), "nobody owns it".to_owned()]);
    let left = FixOptions::new().uncovered(Uncovered::Leave);
    let fixed = bench.cluster.fix_slots(&Bench::only(with_keys), left).unwrap();
    assert!(fixed.repaired.is_empty(), "{fixed}");
    assert_eq!(fixed.left.findings.len(), 3, "{fixed}");
    for (slot, filled, owner) in [(with_keys, &[B][..], B), (named, &[], B), (unknown, &[], C)] {
        bench.check_fix(slot, Resume::Finish, filled, "nobody owns it");
        assert_eq!(bench.cluster.slot_owner(slot).owner, Some(id(owner)), "{slot}");
    }
    assert_eq!(bench.read(with_keys, "own 0").as_deref(), Some("of 0"));
}

#[test]
fn views_that_contradict_the_owner_are_found_and_settled_by_a_later_epoch() {
    let bench = Bench::new();
    let claim = |owner, epoch| SlotOwner::new(Some(id(owner)), Epoch::new(epoch));
    let view = |node, slot, heard| bench.roster.known(id(node)).view.raise(slot, heard);
    let slots: Vec<_> = Slot::all().take(4).collect();
    bench.cluster.node(id(A)).unwrap().add_slots(&slots).unwrap();
    let epoch_of = |slot| bench.cluster.slot_owner(slot).epoch.get();
    let [behind, ahead, clash, unrecorded] = slots[..] else { panic!("four slots") };

    // Nobody may go back in a view: what is behind is made by an owner that went on alone.
    let (member, later) = (bench.roster.known(id(A)), bench.roster.flip_to(behind, Some(id(A))));
    member.view.raise(behind, later);
    assert_eq!(words(&bench, behind).len(), 2, "two nodes have not heard");
    view(B, ahead, claim(C, epoch_of(ahead) + 100));
    assert_eq!(words(&bench, ahead).len(), 1);
    view(B, clash, claim(C, epoch_of(clash)));
    assert!(
        words(&bench, clash)[0].contains("but node 1 says node 2"),
        "{:?}",
        words(&bench, clash)
    );
    bench.roster.truth.raise(unrecorded, claim(B, epoch_of(unrecorded) + 1));
    assert!(words(&bench, unrecorded)[0].contains("the cluster's word says node 1"));
    // Epochs are drawn from one counter, so that one that was seen has been drawn.
    while bench.roster.last_epoch().get() < 200 {
        bench.roster.draw_epoch();
    }
    for slot in slots {
        let fixed = bench.check_fix(slot, Resume::Finish, &[], "a view");
        assert!(!fixed.is_empty());
        assert_eq!(bench.cluster.slot_owner(slot).owner, Some(id(A)));
    }
}

#[test]
fn a_claim_that_was_kept_is_answered_by_a_later_one_and_forgotten() {
    let mut bench = Bench::new();
    let slot = bench.next_slot();
    bench.cluster.node(id(A)).unwrap().add_slots(&[slot]).unwrap();
    let ownership = SlotOwner::new(Some(id(C)), bench.roster.draw_epoch());
    for to in [A, B, C] {
        let claims = Arc::from([Claim { slot, ownership }]);
        bench.roster.deliver(&Message { from: id(C), to: id(to), claims });
    }
    let found = bench.cluster.check_slots(&Bench::only(slot)).unwrap().findings;
    assert!(matches!(found[..], [.., Finding::KeptConflict { .. }]), "{found:?}");
    let fixed = bench.check_fix(slot, Resume::Finish, &[], "a kept conflict");
    assert!(fixed.repaired.iter().any(|(_, repair)| *repair == Repair::Forgotten), "{fixed}");
    assert_eq!(bench.cluster.slot_owner(slot).owner, Some(id(A)));
    assert!(bench.cluster.slot_owner(slot).epoch > ownership.epoch);
}

#[test]
fn a_reserved_slot_is_named_and_left_alone() {
    let mut bench = Bench::new();
    let slot = bench.next_slot();
    let state = SlotState::Reserved { id: bench.roster.draw_move_id() };
    bench.put(slot, A, Made { state, ..stable(false, 1) });
    bench.fill(slot, B);
    assert!(words(&bench, slot)[0].starts_with("reserved on node 0"));
    let fixed = bench.cluster.fix_slots(&Bench::only(slot), FixOptions::new()).unwrap();
    assert!(fixed.repaired.is_empty() && !fixed.left.is_healthy(), "{fixed}");
    assert_eq!(bench.cluster.holdings(slot).unwrap()[0].state, state);
}

#[test]
fn copies_of_a_move_that_is_only_prepared_are_no_keys_that_nobody_finds() {
    for how in [Resume::Finish, Resume::Abort] {
        let mut bench = Bench::new();
        let slot = bench.next_slot();
        let [a, b] = [A, B].map(|node| bench.cluster.node(id(node)).unwrap());
        a.add_slots(&[slot]).unwrap();
        bench.fill(slot, A);
        b.set_slot(slot, SetSlot::Importing { source: id(A) }).unwrap();
        let copied = [bench.name(slot, "own 0"), bench.name(slot, "timed 0")];
        assert_eq!(a.copy_keys(&copied, id(B), MigrateOptions::default()), Ok(2));
        bench.client.remove(&copied[0]).unwrap();
        assert_eq!(words(&bench, slot).len(), 1, "the open move, and nothing else");
        let options = FixOptions::new().open_moves(how);
        let fixed = bench.cluster.fix_slots(&Bench::only(slot), options).unwrap();
        assert!(fixed.left.is_healthy(), "{fixed}");
        assert_eq!(bench.client.get(&copied[0]).unwrap(), None, "no copy comes to life");
        assert_eq!(bench.read(slot, "timed 0").as_deref(), Some("of 0"));
    }
}
