//! Drivers of moves: begun, stepped, dropped at any step, taken over and turned round.

use slotkeep::reshard::Move;
use slotkeep::reshard::MoveStep;
use slotkeep::reshard::PlannedMove;
use slotkeep::{Error, MoveId, MovePhase, MoveRecord, Slot, SlotState};

use crate::model::look::state_at;
use crate::model::world::World;

/// How many drivers there are at most.
const DRIVERS_MAX: usize = 3;

/// A driver and the move that it is known to drive.
#[derive(Debug)]
pub(super) struct Driven {
    driver: Move<[u8]>,
    id: Option<MoveId>,
}

impl World<'_> {
    pub(super) fn new_driver(&mut self) -> bool {
        if self.movers.len() == DRIVERS_MAX {
            return false;
        }
        let slot = self.any_slot();
        let Some(planned) = self.plan(slot) else { return false };
        let batch_keys = self.rng.usize(1..4);
        self.note(&("driver", planned, batch_keys));
        let driver =
            Move::new(&self.stage.cluster, planned, batch_keys).expect("both nodes are there");
        self.movers.push(Driven { driver, id: None });
        true
    }

    /// A move from the owner of a slot; seldom to itself, which is refused.
    pub(super) fn plan(&mut self, slot: usize) -> Option<PlannedMove> {
        let source = self.truth(slot).owner?;
        let other = (source.index() + self.rng.usize(1..self.nodes.len())) % self.nodes.len();
        let target = if self.rng.u8(0..16) == 0 { source.index() } else { other };
        Some(PlannedMove { slot: self.stage.slots[slot], source, target: self.id(target) })
    }

    /// The number in the run of a slot in play.
    pub(super) fn index_of(&self, slot: Slot) -> usize {
        let index = self.stage.slots.iter().position(|&known| known == slot);
        index.expect("a slot in play")
    }

    fn any_driver(&mut self) -> Option<usize> {
        let count = self.movers.len();
        (count > 0).then(|| self.rng.usize(0..count))
    }

    pub(super) fn step_driver(&mut self) -> bool {
        let Some(index) = self.any_driver() else { return self.new_driver() };
        let Driven { driver, id } = &mut self.movers[index];
        let stepped = driver.step();
        let known = *id;
        *id = driver.id().or(known);
        let (planned, id) = (driver.planned(), *id);
        self.note(&("drive", index, id, &stepped));
        let slot = self.index_of(planned.slot);
        if known.is_none() {
            self.moves.extend(id.map(|id| (slot, id)));
        }
        match stepped {
            Ok(MoveStep::More) => true,
            Ok(MoveStep::Busy) => {
                self.tally.verbs_busy += 1;
                assert!(self.is_called(slot), "no call is there to hold the slot still");
                false
            }
            Ok(MoveStep::Paused | MoveStep::Wait { .. }) => {
                unreachable!("no move of the model is paused or paced")
            }
            Ok(MoveStep::Done { flipped }) => {
                self.check_outcome(id, flipped);
                self.movers.swap_remove(index);
                true
            }
            Err(Error::Admin(_)) => {
                // Somebody else was faster. A stubborn driver tries again.
                self.tally.verbs_refused += 1;
                if self.rng.bool() {
                    self.movers.swap_remove(index);
                }
                false
            }
            Err(error) => panic!("no driver may end so: {error:?}"),
        }
    }

    /// What a driver says of the end is what the record of the move says.
    fn check_outcome(&self, id: Option<MoveId>, flipped: bool) {
        let phase = id.and_then(|id| self.stage.cluster.move_record(id)).map(|record| record.phase);
        match phase {
            Some(MovePhase::Completed) => assert!(flipped, "the move was completed"),
            Some(MovePhase::Aborted) | None => assert!(!flipped, "the move was not completed"),
            Some(open) => panic!("the driver says that the move has ended, but it is {open:?}"),
        }
    }

    pub(super) fn drop_driver(&mut self) -> bool {
        let Some(index) = self.any_driver() else { return false };
        self.note(&("drop driver", index));
        self.movers.swap_remove(index);
        true
    }

    pub(super) fn take_over(&mut self) -> bool {
        if self.movers.len() == DRIVERS_MAX {
            return false;
        }
        let slot = self.any_slot();
        let Some(id) = self.any_move(slot) else { return false };
        let batch_keys = self.rng.usize(1..4);
        self.note(&("take over", slot, id));
        let driver = Move::take_over(&self.stage.cluster, id, batch_keys);
        let driver = driver.expect("the move is remembered");
        self.movers.push(Driven { driver, id: Some(id) });
        true
    }

    pub(super) fn abort_driver(&mut self) -> bool {
        let Some(index) = self.any_driver() else { return false };
        self.note(&("turn round", index));
        self.movers[index].driver.abort();
        true
    }

    /// Marks and records tell the same story: every open record has the marks of its phase, and
    /// every mark an open record.
    pub(super) fn check_records(&self) {
        let records = self.stage.cluster.moves();
        let open: Vec<_> = records.iter().filter(|record| !record.phase.is_ended()).collect();
        for record in &open {
            self.check_record(record);
        }
        for node in &self.nodes {
            for &slot in &self.stage.slots {
                let Some(id) = state_at(node, slot).move_id() else { continue };
                let known = open.iter().any(|record| record.id == id && record.slot == slot);
                assert!(known, "{} is marked under move {id}, which is not open", node.id());
            }
        }
    }

    fn check_record(&self, record: &MoveRecord) {
        let &MoveRecord { id, slot, source, target, phase, .. } = record;
        let mark = |node| {
            let node = self.nodes.iter().find(|known| known.id() == node);
            node.map_or(SlotState::Stable, |node| state_at(node, slot))
        };
        let (at_source, at_target) = (mark(source), mark(target));
        let leaving = at_source == SlotState::Migrating { target, id };
        let coming = at_target == SlotState::Importing { source, id };
        let returning = at_source == SlotState::Aborting { target, id }
            && at_target == SlotState::Retired { source, id };
        let reserved = SlotState::Reserved { id };
        let expected = if at_source == reserved && at_target == reserved {
            MovePhase::Reserved
        } else if returning {
            MovePhase::Aborting
        } else if leaving && coming {
            MovePhase::Migrating
        } else if leaving && at_target.move_id() != Some(id) {
            MovePhase::Flipped
        } else {
            MovePhase::Importing
        };
        let lone = coming && at_source.move_id() != Some(id);
        let holds = phase == expected && (phase != MovePhase::Importing || lone);
        assert!(holds, "{record:?}, but the marks are {at_source:?} and {at_target:?}");
    }
}
