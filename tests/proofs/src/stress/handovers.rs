//! A mover's handovers: of one slot in one hold, of one that is open, of a set all or nothing.

use slotkeep::reshard::{Handover, MoveStep, PlannedMove, Reshard, ReshardError};
use slotkeep::{AdminError, Error, HandoverId, MovePhase, SetSlotError, SlotSet, WorkerError};

use super::movers::{BATCH_KEYS, Mover, is_race};
use super::{Failure, SLOTS};

/// How many handovers a chase is, and how many ticks it lets pass between two of them, at most.
const CHASE_HANDOVERS: u32 = 12;
const CHASE_PAUSE_TICKS: u64 = 12;

impl Mover<'_> {
    /// A slot that never stands still, so that slow calls go to its gate.
    pub(super) fn chase(&mut self, index: usize) -> Result<(), Failure> {
        for _ in 0..CHASE_HANDOVERS {
            self.hand_over(index)?;
            let ticks = self.rng.u64(..CHASE_PAUSE_TICKS);
            self.arena.pause(ticks);
        }
        Ok(())
    }

    /// In one hold; mostly between the sides of a move, if one is open.
    pub(super) fn hand_over(&mut self, index: usize) -> Result<(), Failure> {
        let cluster = &self.arena.cluster;
        let open = self.open_move(index).filter(|_| self.rng.u8(..4) > 0);
        let planned = match &open {
            Some(record) => {
                let (slot, source, target) = (record.slot, record.source, record.target);
                Some(PlannedMove { slot, source, target })
            }
            None => self.plan(index),
        };
        let Some(PlannedMove { slot, source, target }) = planned else { return Ok(()) };
        match cluster.node(source).expect("a node").hand_over(slot, target) {
            Ok(handed) => {
                self.report.handovers += 1;
                let was_open = open.is_some_and(|record| record.id == handed.id);
                self.report.handovers_of_open += u64::from(was_open);
                Ok(())
            }
            Err(AdminError::Worker(WorkerError::Busy)) => {
                self.report.busy_steps += 1;
                Ok(())
            }
            Err(error) => self.expect_race(error.into(), is_expected),
        }
    }

    /// The keys of a slot that is open between the two nodes come back first.
    pub(super) fn join_and_hand_over(&mut self, index: usize) -> Result<(), Failure> {
        let Some(PlannedMove { slot, source, target }) = self.plan(index) else { return Ok(()) };
        let slots: SlotSet = [slot].into_iter().collect();
        let moves = Reshard::of(&self.arena.cluster)
            .batch_keys(BATCH_KEYS)
            .move_slots(&slots, source, target);
        match moves.and_then(Reshard::run) {
            Ok(report) => {
                self.report.handovers += report.slots_moved as u64;
                Ok(())
            }
            Err(ReshardError::Step { error, .. }) => self.expect_race(error, is_expected),
            // The node that was asked had not heard of the owner.
            Err(ReshardError::Plan(_)) => Ok(()),
            Err(error) => Err(Failure::Reshard(error)),
        }
    }

    /// Slots of several nodes, or a set whose driver was dropped.
    pub(super) fn hand_over_set(&mut self) -> Result<(), Failure> {
        let cluster = &self.arena.cluster;
        let left = cluster.handovers();
        if !left.is_empty() && self.rng.bool() {
            let record = &left[self.rng.usize(..left.len())];
            let Ok(driver) = Handover::take_over(cluster, record.id) else { return Ok(()) };
            self.report.taken_over += 1;
            return self.drive_set(driver);
        }
        let mut slots: Vec<usize> = (0..SLOTS).collect();
        self.rng.shuffle(&mut slots);
        slots.truncate(self.rng.usize(1..=SLOTS));
        let moves: Vec<_> = slots.into_iter().filter_map(|slot| self.plan(slot)).collect();
        self.drive_set(Handover::new(&self.arena.cluster, &moves))
    }

    fn drive_set(&mut self, driver: Handover<u64>) -> Result<(), Failure> {
        let mut driver = driver.batch_keys(BATCH_KEYS).map_err(Failure::Move)?;
        let driven = self.drive_set_to(&mut driver);
        self.report.set_flips += driver.slots_moved() as u64;
        driven
    }

    /// Drives a set until it ends, is ended by another driver, or is dropped.
    fn drive_set_to(&mut self, driver: &mut Handover<u64>) -> Result<(), Failure> {
        let (turns_after, dropped_after) = self.fate();
        for steps in 0.. {
            if Some(steps) == dropped_after {
                self.report.drivers_dropped += 1;
                return Ok(());
            }
            if Some(steps) == turns_after
                && let Err(error) = driver.abort()
            {
                return self.expect_race(error, is_expected);
            }
            let id = driver.id();
            match driver.step() {
                Ok(MoveStep::Done { flipped }) => return self.end_set(driver, id, flipped),
                Ok(stepped) => self.report.busy_steps += u64::from(stepped == MoveStep::Busy),
                Err(error @ Error::Admin(AdminError::NoSuchHandover { .. })) => {
                    return self.expect_race(error, is_expected);
                }
                // The driver has turned round, and releases what it had reserved.
                Err(error) => self.expect_race(error, is_expected)?,
            }
            self.pause();
        }
        Ok(())
    }

    /// All or nothing: no record of the set's slots says anything else than its end.
    fn end_set(
        &mut self,
        driver: &Handover<u64>,
        id: Option<HandoverId>,
        flipped: bool,
    ) -> Result<(), Failure> {
        let expected = if flipped { MovePhase::Completed } else { MovePhase::Aborted };
        let records = self.arena.cluster.moves();
        let of_set = records.iter().filter(|record| id.is_some() && record.set == id);
        let phases: Vec<_> = of_set.map(|record| record.phase).collect();
        let half_done = phases.iter().any(|&phase| phase != expected);
        if half_done || (!flipped && driver.slots_moved() > 0) {
            return Err(Failure::SetHalfDone { flipped, phases });
        }
        if !driver.moves().is_empty() {
            self.report.sets_committed += u64::from(flipped);
            self.report.sets_released += u64::from(!flipped);
        }
        Ok(())
    }
}

/// What another mover's step may make of a handover.
fn is_expected(refusal: &AdminError) -> bool {
    let split = SetSlotError::KeysSplit;
    is_race(refusal) || matches!(refusal, AdminError::SetSlot { error, .. } if *error == split)
}
