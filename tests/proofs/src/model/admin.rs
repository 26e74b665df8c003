//! The operator: verbs at any node at any time, most of them sensible, some of them not.

use slotkeep::{
    AbortStep, AdminError, MigrateOptions, MoveId, SetSlot, SlotOwner, SlotState, WorkerError,
};

use crate::model::look::keys_at;
use crate::model::look::live_at;
use crate::model::look::state_at;
use crate::model::look::stored_at;
use crate::model::world::World;

/// What nodes know and hold of one slot: what a refused verb leaves as it was.
pub(super) type Picture = Vec<(SlotOwner, SlotState, usize)>;

impl World<'_> {
    pub(super) fn picture(&self, slots: &[usize]) -> Picture {
        let seen = |&slot: &usize| {
            let slot = self.stage.slots[slot];
            self.nodes
                .iter()
                .map(move |node| (node.slot_owner(slot), state_at(node, slot), live_at(node, slot)))
        };
        slots.iter().flat_map(seen).collect()
    }

    /// Three times out of four the hint, else anything.
    pub(super) fn mostly(&mut self, hint: Option<usize>) -> usize {
        let other = self.any_node();
        hint.filter(|_| self.rng.u8(0..4) > 0).unwrap_or(other)
    }

    pub(super) fn owner_of(&self, slot: usize) -> Option<usize> {
        let owner = self.truth(slot).owner?;
        self.nodes.iter().position(|node| node.id() == owner)
    }

    pub(super) fn with_state(&self, slot: usize, is: impl Fn(SlotState) -> bool) -> Option<usize> {
        (0..self.nodes.len()).find(|&node| is(self.state(node, slot)))
    }

    /// The move that a step names: none, the one that is open there, or any that ever began.
    fn any_step(&mut self, node: usize, slot: usize) -> Option<MoveId> {
        match self.rng.u8(0..8) {
            0..3 => None,
            3..6 => self.state(node, slot).move_id(),
            _ => self.any_move(slot),
        }
    }

    /// A move of the slot, a young one rather than an old one.
    pub(super) fn any_move(&mut self, slot: usize) -> Option<MoveId> {
        let ids: Vec<_> = self.moves.iter().filter(|(of, _)| *of == slot).collect();
        let back = self.rng.usize(0..4);
        ids.iter().rev().nth(back).map(|&&(_, id)| id)
    }

    pub(super) fn importing(&mut self) -> bool {
        let slot = self.any_slot();
        let owner = self.owner_of(slot);
        let (node, source) = (self.any_node(), self.mostly(owner));
        let verb = SetSlot::Importing { source: self.id(source) };
        self.verb(node, slot, verb, None)
    }

    pub(super) fn migrating(&mut self) -> bool {
        let slot = self.any_slot();
        let owner = self.owner_of(slot);
        let importer = self.with_state(slot, |state| matches!(state, SlotState::Importing { .. }));
        let (node, target) = (self.mostly(owner), self.mostly(importer));
        let step_of = self.any_step(target, slot);
        let verb = SetSlot::Migrating { target: self.id(target) };
        self.verb(node, slot, verb, step_of)
    }

    pub(super) fn stable(&mut self) -> bool {
        let slot = self.any_slot();
        let open = self.with_state(slot, SlotState::is_open);
        let node = self.mostly(open);
        let step_of = self.any_step(node, slot);
        let before = self.picture(&[slot]);
        let done = self.verb(node, slot, SetSlot::Stable, step_of);
        done && self.picture(&[slot]) != before
    }

    /// An operator closes a move, or undoes it when its keys are split, and opens the next one
    /// between the same nodes: whoever still has an ASK of the first meets the second.
    pub(super) fn reopen(&mut self) -> bool {
        let slot = self.any_slot();
        let is_source = |state| matches!(state, SlotState::Migrating { .. });
        let Some(source) = self.with_state(slot, is_source) else { return false };
        let Some(target) = self.state(source, slot).peer() else { return false };
        let importing = SetSlot::Importing { source: self.id(source) };
        let closed = self.verb(source, slot, SetSlot::Stable, None) || self.undo(source, slot);
        closed
            && self.verb(target.index(), slot, importing, None)
            && self.verb(source, slot, SetSlot::Migrating { target }, None)
    }

    /// Aborts the move of a slot to its end; whether that was done.
    fn undo(&mut self, node: usize, slot: usize) -> bool {
        let Some(id) = self.state(node, slot).move_id() else { return false };
        loop {
            let before = self.picture(&[slot]);
            let done = self.stage.cluster.abort_step(id, 1);
            self.note(&("undo", slot, id, &done));
            match self.judge(&[slot], &before, done) {
                Some(AbortStep::More) => {}
                Some(AbortStep::Done) => return true,
                None => return false,
            }
        }
    }

    pub(super) fn node_verb(&mut self) -> bool {
        let slot = self.any_slot();
        let importer = self.with_state(slot, |state| matches!(state, SlotState::Importing { .. }));
        let owner = self.owner_of(slot);
        let owner = if self.rng.bool() { self.mostly(importer) } else { self.mostly(owner) };
        let node = if self.rng.bool() { owner } else { self.any_node() };
        let step_of = self.any_step(node, slot);
        let verb = SetSlot::Node { owner: self.id(owner) };
        let before = self.picture(&[slot]);
        let done = self.verb(node, slot, verb, step_of);
        done && self.picture(&[slot]) != before
    }

    /// Gives a verb; whether it was accepted. A refused one must change nothing, and so must an
    /// accepted one that is given again.
    fn verb(&mut self, node: usize, slot: usize, verb: SetSlot, step_of: Option<MoveId>) -> bool {
        let number = self.stage.slots[slot];
        let before = self.picture(&[slot]);
        let give = |world: &Self| match step_of {
            Some(id) => world.nodes[node].set_slot_step(number, verb, id),
            None => world.nodes[node].set_slot(number, verb),
        };
        let done = give(self);
        self.note(&(node, slot, verb, step_of, &done));
        let Some(id) = self.judge(&[slot], &before, done) else { return false };
        if matches!(verb, SetSlot::Importing { .. }) {
            self.moves.extend(id.map(|id| (slot, id)));
        }
        if self.rng.u8(0..4) == 0 {
            let after = self.picture(&[slot]);
            let again = give(self);
            assert_eq!(self.picture(&[slot]), after, "again: {again:?}");
        }
        true
    }

    /// What was refused changed nothing, and was refused for a reason that can be.
    #[track_caller]
    pub(super) fn judge<T>(
        &mut self,
        slots: &[usize],
        before: &Picture,
        done: Result<T, AdminError>,
    ) -> Option<T> {
        let error = match done {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        assert_eq!(self.picture(slots), *before, "refused: {error:?}");
        if error == AdminError::Worker(WorkerError::Busy) {
            self.tally.verbs_busy += 1;
            assert!(self.is_called(slots[0]), "no call is there to hold the slot still");
        } else {
            self.tally.verbs_refused += 1;
            assert!(!matches!(error, AdminError::Worker(_)), "no verb may end so: {error:?}");
        }
        None
    }

    /// Whether a call to the slot is on its way.
    pub(super) fn is_called(&self, slot: usize) -> bool {
        self.pending.iter().any(|call| self.stage.slot_of_key(call.op.keys()[0]) == slot)
    }

    pub(super) fn migrate_batch(&mut self) -> bool {
        let slot = self.any_slot();
        let number = self.stage.slots[slot];
        let source = self.with_state(slot, |state| matches!(state, SlotState::Migrating { .. }));
        let node = self.mostly(source);
        let Some(id) = self.state(node, slot).move_id().or(self.any_move(slot)) else {
            return false;
        };
        let count = self.rng.usize(1..4);
        let before = self.picture(&[slot]);
        let done = self.nodes[node].migrate_batch(number, id, count);
        self.note(&("batch", node, slot, id, count, &done));
        let Some(sent) = self.judge(&[slot], &before, done) else { return false };
        assert!(sent.moved <= count, "a batch of {count}: {sent:?}");
        assert_eq!(sent.left, stored_at(&self.nodes[node], number));
        sent.moved > 0
    }

    pub(super) fn migrate_keys(&mut self) -> bool {
        let slot = self.any_slot();
        let number = self.stage.slots[slot];
        let source = self.with_state(slot, |state| matches!(state, SlotState::Migrating { .. }));
        let importer = self.with_state(slot, |state| matches!(state, SlotState::Importing { .. }));
        let (node, target) = (self.mostly(source), self.mostly(importer));
        let mut keys = self.stage.keys_of(slot);
        self.rng.shuffle(&mut keys);
        keys.truncate(self.rng.usize(1..=keys.len()));
        let names: Vec<_> = keys.iter().map(|&key| self.stage.key(key)).collect();
        let options = MigrateOptions::default();
        let options = if self.rng.bool() { options.replace() } else { options };
        let here = |world: &Self| {
            let node = &world.nodes[node];
            (live_at(node, number), keys_at(node, number))
        };
        let (live_before, _) = here(self);
        let before = self.picture(&[slot]);
        let done = self.nodes[node].migrate_keys(&names, self.id(target), options);
        self.note(&("keys", node, target, &keys, &done));
        let Some(sent) = self.judge(&[slot], &before, done) else { return false };
        let (live_after, left) = here(self);
        assert_eq!(sent.moved, live_before - live_after, "what was sent has left");
        let stays = names.iter().find(|&&name| left.iter().any(|key| key == name));
        assert_eq!(stays, None, "a named key that is live goes with the others");
        true
    }

    pub(super) fn abort_step(&mut self) -> bool {
        let slot = self.any_slot();
        let open = self.with_state(slot, SlotState::is_open);
        let node = self.mostly(open);
        let Some(id) = self.state(node, slot).move_id().or(self.any_move(slot)) else {
            return false;
        };
        let count = self.rng.usize(1..4);
        let before = self.picture(&[slot]);
        let done = self.stage.cluster.abort_step(id, count);
        self.note(&("abort", slot, id, count, &done));
        self.judge(&[slot], &before, done).is_some()
    }

    /// One slot, mostly the last one, or two of which each may be the one that is refused.
    fn some_slots(&mut self) -> Vec<usize> {
        let last = self.stage.slots.len() - 1;
        let one = if self.rng.u8(0..4) > 0 { last } else { self.any_slot() };
        let other = self.any_slot();
        if self.rng.u8(0..4) == 0 && one != other { vec![one, other] } else { vec![one] }
    }

    pub(super) fn add_slots(&mut self) -> bool {
        let slots = self.some_slots();
        let unowned = (0..self.stage.slots.len()).find(|&slot| self.truth(slot).owner.is_none());
        let slots = unowned.map_or(slots, |slot| vec![slot]);
        let node = self.any_node();
        self.add_slots_to(node, &slots)
    }

    /// ADDSLOTS at a node; whether it was done.
    pub(super) fn add_slots_to(&mut self, node: usize, slots: &[usize]) -> bool {
        let numbers: Vec<_> = slots.iter().map(|&slot| self.stage.slots[slot]).collect();
        let before = self.picture(slots);
        let done = self.nodes[node].add_slots(&numbers);
        self.note(&("add", node, slots, &done));
        if self.judge(slots, &before, done).is_none() {
            return false;
        }
        for &slot in slots {
            assert_eq!(self.truth(slot).owner, Some(self.id(node)), "ADDSLOTS makes an owner");
        }
        true
    }

    pub(super) fn del_slots(&mut self) -> bool {
        let slots = self.some_slots();
        let owner = self.owner_of(slots[0]);
        let node = self.mostly(owner);
        let numbers: Vec<_> = slots.iter().map(|&slot| self.stage.slots[slot]).collect();
        if self.rng.u8(0..4) == 0 && !self.is_open(slots[0]) {
            self.clear(slots[0]);
        }
        let before = self.picture(&slots);
        let done = self.nodes[node].del_slots(&numbers);
        self.note(&("del", node, &slots, &done));
        if self.judge(&slots, &before, done).is_none() {
            return false;
        }
        for &slot in &slots {
            assert_eq!(self.truth(slot).owner, None, "DELSLOTS leaves no owner");
            assert_eq!(self.oracle.live_in(slot), 0, "DELSLOTS strands no key");
        }
        true
    }

    pub(super) fn bump_epoch(&mut self) -> bool {
        let node = self.any_node();
        let done = self.nodes[node].bump_epoch();
        self.note(&("bump", node, &done));
        done.is_ok()
    }
}
