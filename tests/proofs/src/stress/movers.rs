//! A mover: classic moves to and fro, some of them turned round, dropped, or taken over.

use std::sync::atomic::Ordering;

use fastrand::Rng;
use slotkeep::reshard::{Move, MoveStep, PlannedMove};
use slotkeep::{AdminError, Cluster, Error, MoveId, MovePhase, NodeId, SetSlotError};

use super::{Arena, Failure, Report, SLOTS};

/// How many ticks a mover lets pass between two steps, at most.
const PAUSE_TICKS: u64 = 60;

/// How many keys travel at once: fewer than a slot has, so that keys are split.
const BATCH_KEYS: usize = 1;

pub(super) struct Mover<'a> {
    arena: &'a Arena,
    rng: Rng,
    report: Report,
}

impl<'a> Mover<'a> {
    pub(super) fn new(arena: &'a Arena, rng: Rng) -> Self {
        Self { arena, rng, report: Report::default() }
    }

    pub(super) fn run(mut self) -> Result<Report, Failure> {
        while !self.arena.is_over() {
            let slot = self.rng.usize(..SLOTS);
            if let Some(driver) = self.begin(slot)? {
                self.drive(slot, driver)?;
            }
        }
        Ok(self.report)
    }

    /// Any node's view may be behind: a move from the wrong node is refused.
    fn begin(&mut self, index: usize) -> Result<Option<Move<u64>>, Failure> {
        let (cluster, slot) = (&self.arena.cluster, self.arena.slots[index]);
        let nodes = cluster.nodes();
        let asked = &nodes[self.rng.usize(..nodes.len())];
        let Some(source) = asked.slot_owner(slot).owner else { return Ok(None) };
        let target = NodeId::new(self.rng.usize(..nodes.len())).expect("a node");
        if target == source {
            return Ok(None);
        }
        Move::new(cluster, PlannedMove { slot, source, target }, BATCH_KEYS)
            .map(Some)
            .map_err(Failure::Move)
    }

    /// Drives a move until it ends, is refused, or is dropped for somebody else to find.
    fn drive(&mut self, index: usize, mut driver: Move<u64>) -> Result<(), Failure> {
        let turns_after = self.rng.bool().then(|| self.rng.u32(1..8));
        let dropped_after = (self.rng.u8(..6) == 0).then(|| self.rng.u32(1..8));
        for steps in 0.. {
            if Some(steps) == dropped_after {
                self.report.drivers_dropped += 1;
                return Ok(());
            }
            if Some(steps) == turns_after {
                driver.abort();
            }
            let id = driver.id();
            match driver.step() {
                Ok(MoveStep::Done { .. }) => {
                    self.note_end(id);
                    return Ok(());
                }
                Ok(MoveStep::Busy) => self.report.busy_steps += 1,
                Ok(MoveStep::Paused | MoveStep::Wait { .. }) => {
                    unreachable!("no move of the stress is paused or paced")
                }
                Ok(MoveStep::More) => self.note_split(index, driver.id()),
                Err(error) => match self.after_refusal(error, driver)? {
                    Some(next) => driver = next,
                    None => return Ok(()),
                },
            }
            self.note_end(id);
            let ticks = self.rng.u64(..PAUSE_TICKS);
            self.arena.pause(ticks);
        }
        Ok(())
    }

    /// A slot that is open already is taken over; a driver whose move ended is done. What two
    /// movers may do to each other is expected, what says that a key is in two homes is not.
    fn after_refusal(
        &mut self,
        error: Error,
        mut driver: Move<u64>,
    ) -> Result<Option<Move<u64>>, Failure> {
        self.report.refused_steps += 1;
        let Error::Admin(refusal) = error else { return Err(Failure::Move(error)) };
        if let AdminError::SetSlot { error: SetSlotError::SlotIsOpen { id, .. }, .. } = refusal
            && driver.id().is_none()
        {
            self.report.taken_over += 1;
            return Ok(Move::take_over(&self.arena.cluster, id, BATCH_KEYS).ok());
        }
        if has_ended(&refusal) {
            return Ok(None);
        }
        if cannot_begin(&refusal) {
            driver.abort();
            return Ok(Some(driver));
        }
        Err(Failure::Move(error))
    }

    /// Tells the clients that keys are on both sides.
    fn note_split(&self, index: usize, id: Option<MoveId>) {
        let record = id.and_then(|id| self.arena.cluster.move_record(id));
        let split = record
            .filter(|record| record.phase == MovePhase::Migrating && record.keys_moved > 0)
            .map_or(0, |record| record.id.get());
        self.arena.split[index].store(split, Ordering::SeqCst);
    }

    fn note_end(&self, id: Option<MoveId>) {
        let record = id.and_then(|id| self.arena.cluster.move_record(id));
        if let Some(record) = record.filter(|record| record.phase.is_ended()) {
            self.arena.ended.lock().insert(record.id, record);
        }
    }
}

/// Another driver was faster, or this one's news of the owner were old.
fn has_ended(refusal: &AdminError) -> bool {
    matches!(
        refusal,
        AdminError::NoSuchMove { .. }
            | AdminError::SetSlot {
                error: SetSlotError::NoSuchMove
                    | SetSlotError::SourceNotOwner { .. }
                    | SetSlotError::AlreadyOwner { .. }
                    | SetSlotError::WrongOrder
                    | SetSlotError::Flipped,
                ..
            }
    )
}

/// The importer is marked, and the slot has left its source or moves elsewhere.
fn cannot_begin(refusal: &AdminError) -> bool {
    matches!(
        refusal,
        AdminError::SetSlot {
            error: SetSlotError::SlotIsOpen { .. }
                | SetSlotError::NotOwner { .. }
                | SetSlotError::TargetNotImporting { .. },
            ..
        }
    )
}

/// Ends every move that is open still: the last driver of each was dropped.
pub(super) fn finish_all(cluster: &Cluster<u64>) -> Result<(), Failure> {
    for record in cluster.moves().into_iter().filter(|record| !record.phase.is_ended()) {
        let mut driver = Move::take_over(cluster, record.id, BATCH_KEYS).map_err(Failure::Move)?;
        if record.phase == MovePhase::Importing {
            driver.abort();
        }
        while !matches!(driver.step().map_err(Failure::Move)?, MoveStep::Done { .. }) {}
    }
    Ok(())
}
