//! `World`: the state of one run, its steps, and what is checked after each of them.

use std::fmt::Debug;
use std::time::Duration;

use fastrand::Rng;
use slotkeep::{Error, MoveId, MovePhase, Node, NodeId, SlotOwner, SlotState};

use crate::model::action::Action;
use crate::model::action::Mix;
use crate::model::look::live_at;
use crate::model::look::state_at;
use crate::model::look::stored_at;
use crate::model::movers::Driven;
use crate::model::op::Handle;
use crate::model::op::Op;
use crate::model::op::Pending;
use crate::model::op::Reply;
use crate::model::oracle::Oracle;
use crate::model::sets::DrivenSet;
use crate::model::stage::AS_REDIS;
use crate::model::stage::Stage;
use crate::model::tally::Tally;
use crate::model::trail::Trail;

/// How many calls are on their way at most.
const CALLS_MAX: usize = 8;
/// How many handles are kept to see that they keep their values.
const HANDLES_MAX: usize = 6;
/// How many nodes join at most, the first ones included.
const NODES_MAX: usize = 4;
/// Every so many steps all entries and all records of moves are checked.
const DEEP_CHECK_EVERY: u32 = 8;

#[derive(Debug)]
pub(super) struct World<'s> {
    pub(super) stage: &'s Stage,
    pub(super) rng: Rng,
    pub(super) oracle: Oracle<'s>,
    pub(super) nodes: Vec<Node>,
    pub(super) pending: Vec<Pending<'s>>,
    pub(super) movers: Vec<Driven>,
    pub(super) sets: Vec<DrivenSet>,
    /// The moves that began, oldest first, with their slots.
    pub(super) moves: Vec<(usize, MoveId)>,
    pub(super) tally: &'s mut Tally,
    pub(super) trail: &'s mut Trail,
    handles: Vec<(Handle, Vec<u8>)>,
    mix: Mix,
    pub(super) step: u32,
    /// For each slot the last step after which nobody owned it.
    unowned_at: Vec<Option<u32>>,
    /// The last step after which some node knew no owner of some slot in play.
    uncovered_at: Option<u32>,
    /// The slots in play that had a mark before this step.
    open_before: Vec<bool>,
}

impl<'s> World<'s> {
    pub(super) fn new(
        stage: &'s Stage,
        seed: u64,
        tally: &'s mut Tally,
        trail: &'s mut Trail,
    ) -> Self {
        let mut rng = Rng::with_seed(!seed);
        let slots = stage.slots.len();
        Self {
            stage,
            mix: Mix::new(&mut rng),
            rng,
            oracle: Oracle::new(stage),
            nodes: stage.cluster.nodes(),
            pending: Vec::new(),
            movers: Vec::new(),
            sets: Vec::new(),
            moves: Vec::new(),
            tally,
            trail,
            handles: Vec::new(),
            step: 0,
            unowned_at: vec![None; slots],
            uncovered_at: None,
            open_before: vec![false; slots],
        }
    }

    /// One step of the run: an action, and the checks after it.
    pub(super) fn step(&mut self) {
        let action = self.mix.pick(&mut self.rng);
        self.act(action);
    }

    /// Does one thing and checks everything that is cheap, now and then the rest.
    pub(super) fn act(&mut self, action: Action) {
        self.step += 1;
        self.trail.begin_step();
        self.tally.steps += 1;
        self.tally.tried(action);
        self.open_before = (0..self.stage.slots.len()).map(|slot| self.is_open(slot)).collect();
        let effective = self.dispatch(action);
        if effective {
            self.tally.took_effect(action);
        }
        self.check();
    }

    /// Whether the action changed anything.
    fn dispatch(&mut self, action: Action) -> bool {
        match action {
            Action::BeginCall => self.begin_call(),
            Action::StepCall => self.step_call(),
            Action::DropCall => self.drop_call(),
            Action::WholeCall => self.whole_call(),
            Action::ReadSlot => self.read_slot(),
            Action::CountAll => self.count_all(),
            Action::ClearSlot => self.clear_slot(),
            Action::DropHandle => self.drop_handle(),
            Action::Importing => self.importing(),
            Action::Migrating => self.migrating(),
            Action::Stable => self.stable(),
            Action::Reopen => self.reopen(),
            Action::NodeVerb => self.node_verb(),
            Action::MigrateBatch => self.migrate_batch(),
            Action::MigrateKeys => self.migrate_keys(),
            Action::AbortStep => self.abort_step(),
            Action::AddSlots => self.add_slots(),
            Action::DelSlots => self.del_slots(),
            Action::BumpEpoch => self.bump_epoch(),
            Action::AddNode => self.add_node(),
            Action::NewDriver => self.new_driver(),
            Action::StepDriver => self.step_driver(),
            Action::DropDriver => self.drop_driver(),
            Action::TakeOver => self.take_over(),
            Action::AbortDriver => self.abort_driver(),
            Action::HandOver => self.hand_over(),
            Action::NewSet => self.new_set(),
            Action::StepSet => self.step_set(),
            Action::DropSet => self.drop_set(),
            Action::TakeOverSet => self.take_over_set(),
            Action::AbortSet => self.abort_set(),
            Action::HoldBus => self.hold_bus(),
            Action::ReleaseBus => self.release_bus(),
            Action::DeliverMessage => self.deliver_message(),
            Action::DiscardMessage => self.discard_message(),
            Action::Advance => self.advance(),
            Action::Sweep => self.sweep(),
        }
    }

    fn begin_call(&mut self) -> bool {
        if self.pending.len() == CALLS_MAX {
            return false;
        }
        let client = self.rng.usize(0..self.stage.clients.len());
        let op = Op::stepped(&mut self.rng, self.stage);
        self.note(&("begin", client, &op));
        self.pending.push(Pending::begin(self.stage, client, op, self.step));
        true
    }

    fn step_call(&mut self) -> bool {
        if self.pending.is_empty() {
            self.begin_call();
        }
        let index = self.rng.usize(0..self.pending.len());
        self.step_pending(index);
        true
    }

    /// One hold of a call; its answer is checked in the hold in which it took effect.
    pub(super) fn step_pending(&mut self, index: usize) {
        match self.pending[index].step() {
            None => {
                let op = self.pending[index].op.clone();
                self.note(&("on", op));
            }
            Some(ended) => {
                let call = self.pending.swap_remove(index);
                self.answered(&call, ended);
            }
        }
    }

    fn drop_call(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let index = self.rng.usize(0..self.pending.len());
        let call = self.pending.swap_remove(index);
        self.note(&("drop", &call.op));
        true
    }

    fn whole_call(&mut self) -> bool {
        let client = self.rng.usize(0..self.stage.clients.len());
        let op = Op::any(&mut self.rng, self.stage);
        self.whole(client, op);
        true
    }

    /// Makes a call by the public interface and checks its answer.
    pub(super) fn whole(&mut self, client: usize, op: Op) {
        let mut call = Pending::whole(self.stage, client, op, self.step);
        let ended = call.step().expect("a whole call ends in its step");
        self.answered(&call, ended);
    }

    fn answered(&mut self, call: &Pending<'s>, ended: Result<(Reply, Vec<Handle>), Error>) {
        let (client, op) = (call.client, &call.op);
        let answer = ended.as_ref().map(|(reply, _)| reply);
        self.note(&(client, op, &answer));
        self.tally.answers += 1;
        match answer {
            Ok(_) | Err(Error::NotAnInteger | Error::Overflow) => {
                let now = self.stage.cluster.now();
                let expected = self.oracle.apply(op, now);
                assert_eq!(answer.map_err(|&e| e), expected.as_ref().map_err(|&e| e));
                self.expire();
            }
            Err(&Error::TryAgain { slot }) => {
                self.tally.calls_split += 1;
                assert_eq!(client, AS_REDIS, "keys are pulled for every other client");
                let index = self.stage.slot_of_key(op.keys()[0]);
                assert_eq!(self.stage.slots[index], slot, "TRYAGAIN names another slot");
                assert!(op.can_be_split(), "a call on one key cannot be split");
                assert!(self.open_before[index], "only an open slot splits keys");
            }
            Err(&Error::ClusterDown { slot, .. }) => {
                self.tally.calls_down += 1;
                let index = self.stage.slots.iter().position(|known| *known == slot);
                let index = index.expect("CLUSTERDOWN names another slot");
                let since = |at: Option<u32>| at.is_some_and(|step| step + 1 >= call.began);
                let unowned = since(self.unowned_at[index]);
                let uncovered = self.stage.covered && since(self.uncovered_at);
                assert!(unowned || uncovered, "every slot had its owner during the call");
                if client == AS_REDIS {
                    self.settle(op);
                }
            }
            Err(error) => panic!("no call may end so: {error:?}"),
        }
        if let Ok((_, handles)) = ended {
            self.keep_some(handles);
        }
    }

    /// As in Redis a batch runs key by key: when a node goes down meanwhile, the first few are
    /// done. How many is read off the slot.
    fn settle(&mut self, op: &Op) {
        let prefixes: Vec<Op> = if let Op::SetMany(entries) = op {
            (0..entries.len()).map(|end| Op::SetMany(entries[..end].to_vec())).collect()
        } else if let Op::RemoveMany(keys) = op {
            (0..keys.len()).map(|end| Op::RemoveMany(keys[..end].to_vec())).collect()
        } else {
            return;
        };
        let slot = self.stage.slot_of_key(op.keys()[0]);
        let found = self.entries(slot);
        let done = prefixes.iter().find_map(|prefix| {
            let mut oracle = self.oracle.clone();
            let applied = oracle.apply(prefix, self.stage.cluster.now());
            (applied.is_ok() && oracle.of_slot(slot) == found).then_some(oracle)
        });
        self.oracle = done.expect("the first few keys of a batch are done, and no others");
    }

    /// A whole slot, read at one instant, in the order of the keys.
    pub(super) fn entries(&self, slot: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = self.stage.clients[0].entries_of_slot(self.stage.slots[slot]);
        let entries = entries.expect("the cluster is open");
        let mut found: Vec<_> =
            entries.iter().map(|entry| (Handle::key(entry).to_vec(), entry.to_vec())).collect();
        found.sort();
        found
    }

    fn keep_some(&mut self, handles: Vec<Handle>) {
        for handle in handles {
            if self.handles.len() < HANDLES_MAX && self.rng.u8(0..4) == 0 {
                let value = handle.to_vec();
                self.handles.push((handle, value));
            }
        }
    }

    fn drop_handle(&mut self) -> bool {
        if self.handles.is_empty() {
            return false;
        }
        let index = self.rng.usize(0..self.handles.len());
        let (handle, value) = self.handles.swap_remove(index);
        assert_eq!(*handle, *value, "a handle keeps the value that it was given");
        true
    }

    /// Drops every handle.
    pub(super) fn drop_handles(&mut self) {
        while self.drop_handle() {}
    }

    fn add_node(&mut self) -> bool {
        if self.nodes.len() == NODES_MAX {
            return false;
        }
        self.note(&"a node joins");
        self.nodes.push(self.stage.cluster.add_node().expect("there is room"));
        true
    }

    fn hold_bus(&mut self) -> bool {
        self.note(&"hold the bus");
        self.stage.cluster.bus().hold();
        true
    }

    fn release_bus(&mut self) -> bool {
        let held = self.stage.cluster.bus().held_count();
        self.note(&("release the bus", held));
        self.stage.cluster.bus().release();
        held > 0
    }

    fn deliver_message(&mut self) -> bool {
        let held = self.stage.cluster.bus().held_count();
        if held == 0 {
            return false;
        }
        let index = self.rng.usize(0..held);
        self.note(&("deliver", index, held));
        self.stage.cluster.bus().deliver(index)
    }

    fn discard_message(&mut self) -> bool {
        let held = self.stage.cluster.bus().held_count();
        if held == 0 {
            return false;
        }
        let index = self.rng.usize(0..held);
        self.note(&("discard", index, held));
        self.stage.cluster.bus().discard(index)
    }

    fn advance(&mut self) -> bool {
        let by = Duration::from_millis(self.rng.u64(1..60));
        self.stage.cluster.advance(by);
        self.note(&("now", self.stage.cluster.now()));
        self.expire();
        true
    }

    /// Drops what has expired from the oracle: after time has passed, and after a call that may
    /// have set a deadline that has come.
    fn expire(&mut self) {
        self.tally.expired += self.oracle.expire(self.stage.cluster.now()) as u64;
    }

    fn sweep(&mut self) -> bool {
        let slot = self.any_slot();
        let node = self.any_node();
        // Mostly where something has expired.
        let dead = |node: &Node| {
            let number = self.stage.slots[slot];
            stored_at(node, number) > live_at(node, number)
        };
        let node = self.nodes.iter().position(dead).unwrap_or(node);
        let before = stored_at(&self.nodes[node], self.stage.slots[slot]);
        let more = self.stage.cluster.sweep_step(self.id(node), self.stage.slots[slot]);
        let after = stored_at(&self.nodes[node], self.stage.slots[slot]);
        self.note(&("sweep", node, slot, more, before, after));
        after < before
    }

    pub(super) fn note(&mut self, what: &dyn Debug) {
        self.trail.note(&format!("{what:?}"));
    }

    pub(super) fn any_node(&mut self) -> usize {
        self.rng.usize(0..self.nodes.len())
    }

    pub(super) fn any_slot(&mut self) -> usize {
        self.rng.usize(0..self.stage.slots.len())
    }

    pub(super) fn id(&self, node: usize) -> NodeId {
        self.nodes[node].id()
    }

    /// The newest that any node knows of a slot: what the node that flipped it last says.
    pub(super) fn truth(&self, slot: usize) -> SlotOwner {
        let slot = self.stage.slots[slot];
        let views = self.nodes.iter().map(|node| node.slot_owner(slot));
        views.max_by_key(|known| known.epoch).expect("there are nodes")
    }

    pub(super) fn state(&self, node: usize, slot: usize) -> SlotState {
        state_at(&self.nodes[node], self.stage.slots[slot])
    }

    pub(super) fn is_open(&self, slot: usize) -> bool {
        (0..self.nodes.len()).any(|node| self.state(node, slot).is_open())
    }

    /// What is cheap is checked after each step, the rest now and then.
    pub(super) fn check(&mut self) {
        for slot in 0..self.stage.slots.len() {
            if self.truth(slot).owner.is_none() {
                self.unowned_at[slot] = Some(self.step);
            }
            let number = self.stage.slots[slot];
            if self.nodes.iter().any(|node| node.slot_owner(number).owner.is_none()) {
                self.uncovered_at = Some(self.step);
            }
            self.check_slot(slot);
        }
        if self.step.is_multiple_of(DEEP_CHECK_EVERY) {
            self.deep_check();
        }
    }

    /// No key is lost or made up, and nobody but the owner serves.
    fn check_slot(&self, slot: usize) {
        let number = self.stage.slots[slot];
        let truth = self.truth(slot);
        let mut live = 0;
        for node in &self.nodes {
            let here = live_at(node, number);
            live += here;
            let state = state_at(node, number);
            let known = node.slot_owner(number);
            if known.owner == Some(node.id()) && truth.owner != known.owner {
                let id = node.id();
                let leaving = matches!(state, SlotState::Migrating { .. });
                assert!(leaving && here == 0, "{id} serves slot {number}, which has left it");
            }
            if let SlotState::Reserved { id } = state {
                let record = self.stage.cluster.move_record(id);
                let is_open = record.is_some_and(|record| record.phase == MovePhase::Reserved);
                assert!(is_open, "a reservation was left");
            }
        }
        assert_eq!(live, self.oracle.live_in(slot), "live keys of slot {number}");
    }

    pub(super) fn deep_check(&self) {
        self.stage.cluster.check_invariants();
        self.check_records();
        self.check_sets();
    }
}
