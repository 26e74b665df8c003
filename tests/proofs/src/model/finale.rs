//! The end of a run, and readings of whole slots: everything is closed, healed and compared.

use slotkeep::reshard::Resume;
use slotkeep::reshard::resume;
use slotkeep::{Slot, SlotState};

use crate::model::look::keys_at;
use crate::model::look::state_at;
use crate::model::op::Op;
use crate::model::world::World;

/// How many steps a call may take once nothing else happens: redirects, `TRYAGAIN` and its
/// repetitions are all bounded.
const LAST_STEPS_MAX: usize = 400;

impl World<'_> {
    pub(super) fn read_slot(&mut self) -> bool {
        let slot = self.any_slot();
        self.check_entries(slot);
        true
    }

    /// A whole slot, read at one instant, is what the oracle holds of it.
    fn check_entries(&mut self, slot: usize) {
        let found = self.entries(slot);
        assert_eq!(found, self.oracle.of_slot(slot), "the entries of a slot");
        self.note(&("read", slot, found.len()));
    }

    /// The counts of the client add up, and agree with the oracle.
    pub(super) fn count_all(&mut self) -> bool {
        let client = &self.stage.clients[0];
        let len = client.len().expect("the cluster is open");
        let live = client.live().expect("the cluster is open");
        let counts = client.counts().expect("the cluster is open");
        assert_eq!(live, self.oracle.live(), "live keys");
        assert_eq!(len, counts.iter().map(|(_, count)| count).sum::<usize>(), "the total");
        assert!(len >= live, "{len} entries, {live} of them live");
        self.note(&("count", len, live));
        true
    }

    pub(super) fn clear_slot(&mut self) -> bool {
        let slot = self.any_slot();
        self.clear(slot);
        true
    }

    pub(super) fn clear(&mut self, slot: usize) {
        let cleared = self.stage.clients[0].clear_slot(self.stage.slots[slot]);
        let cleared = cleared.expect("the cluster is open");
        assert!(cleared >= self.oracle.live_in(slot), "a slot was not cleared");
        self.oracle.clear_slot(slot);
        self.note(&("clear", slot, cleared));
    }

    /// Brings the run to its end and compares everything.
    pub(super) fn end(&mut self) {
        self.stage.cluster.bus().release();
        self.check();
        self.end_calls();
        self.movers.clear();
        self.sets.clear();
        self.close_moves();
        self.heal();
        self.check();
        self.own_all();
        self.read_all();
        self.drop_handles();
        let counters = self.stage.cluster.counters();
        self.tally.redirects += counters.redirects;
        self.tally.try_agains += counters.try_agains;
        self.tally.pulls += counters.pulls;
        self.tally.runs += 1;
    }

    /// Some clients die; the calls of the others are answered, because nothing is in their way.
    fn end_calls(&mut self) {
        while let Some(index) = self.pending.len().checked_sub(1) {
            if self.rng.u8(0..4) == 0 {
                self.pending.swap_remove(index);
                continue;
            }
            let calls = self.pending.len();
            let answered = (0..LAST_STEPS_MAX).any(|_| {
                self.step_pending(index);
                self.check();
                self.pending.len() < calls
            });
            assert!(answered, "a call that nothing is in the way of was not answered");
        }
    }

    fn close_moves(&mut self) {
        let how = if self.rng.bool() { Resume::Finish } else { Resume::Abort };
        let report = resume(&self.stage.cluster, how);
        self.note(&("resume", how, &report));
        let report = report.expect("an open move can be closed");
        assert_eq!(report.waits, 0, "no call holds a slot still");
        self.check();
        self.deep_check();
        let open = self.stage.cluster.moves().into_iter().find(|record| !record.phase.is_ended());
        assert_eq!(open, None, "every move is closed");
        assert!(self.stage.cluster.handovers().is_empty(), "every set is closed");
    }

    /// Each node has one contact with the node that knows best, and then knows the same.
    fn heal(&mut self) {
        for slot in 0..self.stage.slots.len() {
            let number = self.stage.slots[slot];
            let truth = self.truth(slot);
            let best = self.nodes.iter().find(|node| node.slot_owner(number) == truth);
            let best = best.expect("somebody knows the truth").id();
            for node in &self.nodes {
                if node.slot_owner(number) != truth {
                    let verb = slotkeep::SetSlot::Node { owner: best };
                    node.set_slot(number, verb).expect("a contact is always heard");
                }
                assert_eq!(node.slot_owner(number), truth, "{} knows the owner", node.id());
                assert_eq!(state_at(node, number), SlotState::Stable, "no mark is left");
                assert_eq!(node.conflicts(), [], "no claim contradicts an owner");
            }
        }
        let map = self.stage.cluster.slot_map();
        let truths = (0..self.stage.slots.len()).map(|slot| self.truth(slot).owner);
        let owners = self.stage.slots.iter().map(|&slot| map.owner(slot));
        assert!(owners.eq(truths), "the words of the cluster say the same");
    }

    /// Slots without an owner get one, so that every key can be asked for.
    fn own_all(&mut self) {
        for slot in 0..self.stage.slots.len() {
            if self.truth(slot).owner.is_none() {
                let node = self.any_node();
                assert!(self.add_slots_to(node, &[slot]), "nobody owns the slot");
            }
        }
    }

    /// Every client finds every key as the oracle has it, and nodes hold nothing else.
    fn read_all(&mut self) {
        for slot in 0..self.stage.slots.len() {
            self.check_entries(slot);
        }
        self.count_all();
        for client in 0..self.stage.clients.len() {
            for key in 0..self.stage.key_count() {
                self.whole(client, Op::Get(key));
            }
        }
        // Whatever had expired has been met by now.
        let len = self.stage.clients[0].len().expect("the cluster is open");
        assert_eq!(len, self.oracle.live(), "entries after every key was read");
        for slot in 0..self.stage.slots.len() {
            self.check_homes(slot);
        }
        self.deep_check();
    }

    /// The owner holds every key of the slot, and nobody else holds any.
    fn check_homes(&self, slot: usize) {
        let number: Slot = self.stage.slots[slot];
        let owner = self.truth(slot).owner;
        for node in &self.nodes {
            let keys = keys_at(node, number);
            if owner == Some(node.id()) {
                let expected = self.oracle.of_slot(slot);
                let expected: Vec<_> = expected.into_iter().map(|(key, _)| key).collect();
                assert_eq!(keys, expected, "the keys of slot {number} on its owner");
            } else {
                let none: Vec<Vec<u8>> = Vec::new();
                assert_eq!(keys, none, "keys of slot {number} on {}", node.id());
            }
        }
    }
}
