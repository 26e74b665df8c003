//! Handovers: of one slot in one hold, and of sets whose drivers are begun, stepped, dropped at any
//! step, taken over and turned round.

use slotkeep::reshard::Handover;
use slotkeep::reshard::MoveStep;
use slotkeep::{Error, HandoverId, HandoverPhase, HandoverRecord, MovePhase, SlotState};

use crate::model::look::live_at;
use crate::model::look::state_at;
use crate::model::world::World;

/// How many drivers of sets there are at most.
const SETS_MAX: usize = 2;

/// A driver and the set that it is known to drive.
#[derive(Debug)]
pub(super) struct DrivenSet {
    driver: Handover<[u8]>,
    id: Option<HandoverId>,
}

impl World<'_> {
    pub(super) fn hand_over(&mut self) -> bool {
        let slot = self.any_slot();
        let number = self.stage.slots[slot];
        let owner = self.owner_of(slot);
        let importer = self.with_state(slot, |state| matches!(state, SlotState::Importing { .. }));
        let (node, target) = (self.mostly(owner), self.mostly(importer));
        let open = self.state(node, slot).move_id();
        let before = self.picture(&[slot]);
        let done = self.nodes[node].hand_over(number, self.id(target));
        self.note(&("hand over", node, target, slot, &done));
        let Some(handed) = self.judge(&[slot], &before, done) else { return false };
        assert_eq!(self.truth(slot).owner, Some(self.id(target)), "the target owns the slot");
        let live = live_at(&self.nodes[target], number);
        assert_eq!(live, self.oracle.live_in(slot), "everything has changed hands");
        for side in [node, target] {
            assert_eq!(self.state(side, slot), SlotState::Stable, "no mark is left");
        }
        self.tally.handovers_of_open += u64::from(open == Some(handed.id));
        self.moves.push((slot, handed.id));
        true
    }

    pub(super) fn new_set(&mut self) -> bool {
        if self.sets.len() == SETS_MAX {
            return false;
        }
        let mut slots: Vec<usize> = (0..self.stage.slots.len()).collect();
        self.rng.shuffle(&mut slots);
        slots.truncate(self.rng.usize(1..=slots.len()));
        let moves: Vec<_> = slots.into_iter().filter_map(|slot| self.plan(slot)).collect();
        let batch_keys = self.rng.usize(1..4);
        self.note(&("set", &moves, batch_keys));
        let driver = Handover::new(&self.stage.cluster, &moves).batch_keys(batch_keys);
        let driver = driver.expect("a small batch");
        self.sets.push(DrivenSet { driver, id: None });
        true
    }

    fn any_set(&mut self) -> Option<usize> {
        let count = self.sets.len();
        (count > 0).then(|| self.rng.usize(0..count))
    }

    pub(super) fn step_set(&mut self) -> bool {
        let Some(index) = self.any_set() else { return false };
        let DrivenSet { driver, id } = &mut self.sets[index];
        let stepped = driver.step();
        *id = driver.id().or(*id);
        let id = *id;
        self.note(&("drive set", index, id, &stepped));
        match stepped {
            Ok(MoveStep::Done { flipped }) => {
                let driven = self.sets.swap_remove(index);
                self.check_set_outcome(&driven, flipped);
                true
            }
            Ok(MoveStep::Busy) => {
                self.tally.verbs_busy += 1;
                let slots = self.sets[index].driver.moves().iter().map(|planned| planned.slot);
                let mut slots = slots.map(|slot| self.index_of(slot));
                assert!(slots.any(|slot| self.is_called(slot)), "no call holds a slot still");
                false
            }
            Ok(_) => true,
            Err(Error::Admin(_)) => {
                // A set that was never begun has nothing to give back, and no other driver.
                self.tally.verbs_refused += 1;
                if id.is_none() || self.rng.u8(0..4) == 0 {
                    self.sets.swap_remove(index);
                }
                false
            }
            Err(error) => panic!("no driver may end so: {error:?}"),
        }
    }

    /// All or nothing: every slot of a set ends in the same way.
    fn check_set_outcome(&mut self, driven: &DrivenSet, flipped: bool) {
        let Some(id) = driven.id else {
            assert!(!flipped, "a set that was never begun");
            return;
        };
        let open = self.stage.cluster.handovers().into_iter().find(|record| record.id == id);
        assert!(open.is_none(), "the driver says that the set has ended: {open:?}");
        let phase = if flipped { MovePhase::Completed } else { MovePhase::Aborted };
        let records = self.stage.cluster.moves();
        let of_set = records.iter().filter(|record| record.set == Some(id));
        let phases: Vec<_> = of_set.map(|record| record.phase).collect();
        assert!(phases.iter().all(|&known| known == phase), "{phases:?}, but it was {phase:?}");
        let slots = driven.driver.moves().len();
        if flipped {
            assert_eq!(phases.len(), slots, "every slot of the set has a record");
            self.tally.sets_committed += u64::from(slots > 1);
        } else {
            self.tally.sets_released += u64::from(!phases.is_empty());
        }
    }

    pub(super) fn drop_set(&mut self) -> bool {
        let Some(index) = self.any_set() else { return false };
        self.note(&("drop set", index));
        self.sets.swap_remove(index);
        true
    }

    pub(super) fn take_over_set(&mut self) -> bool {
        let open = self.stage.cluster.handovers();
        if self.sets.len() == SETS_MAX || open.is_empty() {
            return false;
        }
        let id = open[self.rng.usize(0..open.len())].id;
        self.note(&("take over set", id));
        let driver = Handover::take_over(&self.stage.cluster, id).expect("the set is open");
        self.sets.push(DrivenSet { driver, id: Some(id) });
        true
    }

    pub(super) fn abort_set(&mut self) -> bool {
        let Some(index) = self.any_set() else { return false };
        let turned = self.sets[index].driver.abort();
        self.note(&("turn set round", index, &turned));
        turned.is_ok()
    }

    /// How far an open set has come is what the marks of its slots say.
    pub(super) fn check_sets(&self) {
        for record in self.stage.cluster.handovers() {
            let HandoverRecord { id, phase, reserved, flipped, ref moves, .. } = record;
            let is_reserving = phase == HandoverPhase::Reserving;
            assert!(!is_reserving || reserved < moves.len(), "{record:?}");
            let is_committed = phase == HandoverPhase::Committed;
            assert!(is_committed || flipped == 0, "one flips before all are reserved: {record:?}");
            assert!(!is_committed || reserved == moves.len(), "{record:?}");
            for (index, planned) in moves.iter().enumerate() {
                let slot = self.index_of(planned.slot);
                let sides = [planned.source, planned.target].map(|node| {
                    let node = self.nodes.iter().find(|known| known.id() == node);
                    node.expect("both nodes are there")
                });
                let marks = sides.map(|node| state_at(node, self.stage.slots[slot]));
                let is_reserved = marks.iter().all(|mark| {
                    let SlotState::Reserved { id: open } = *mark else { return false };
                    let known = self.stage.cluster.move_record(open);
                    known.is_some_and(|known| known.set == Some(id))
                });
                let expected = (flipped..reserved).contains(&index);
                assert_eq!(is_reserved, expected, "slot {slot} of {record:?}: {marks:?}");
            }
        }
    }
}
