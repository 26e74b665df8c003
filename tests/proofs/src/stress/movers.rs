//! A mover: slots to and fro, some of the moves turned round, dropped, or taken over.

use std::sync::atomic::Ordering;

use fastrand::Rng;
use slotkeep::reshard::{FixOptions, Move, MoveStep, PlannedMove, ReshardError, Resume, resume};
use slotkeep::{AdminError, Error, MoveId, MovePhase, MoveRecord, NodeId, SetSlotError};

use super::{Arena, Failure, Report, SLOTS};

/// How many ticks a mover lets pass between two steps, at most.
const PAUSE_TICKS: u64 = 60;

/// How many keys travel at once: fewer than a slot has, so that keys are split.
pub(super) const BATCH_KEYS: usize = 1;

pub(super) struct Mover<'a> {
    pub(super) arena: &'a Arena,
    pub(super) rng: Rng,
    pub(super) report: Report,
}

impl<'a> Mover<'a> {
    pub(super) fn new(arena: &'a Arena, rng: Rng) -> Self {
        Self { arena, rng, report: Report::default() }
    }

    pub(super) fn run(mut self) -> Result<Report, Failure> {
        while !self.arena.is_over() {
            let slot = self.rng.usize(..SLOTS);
            match self.rng.u8(..32) {
                0..18 => self.classic(slot)?,
                18..23 => self.hand_over(slot)?,
                23 => self.chase(slot)?,
                24..26 => self.join_and_hand_over(slot)?,
                26..30 => self.hand_over_set()?,
                _ => self.repair()?,
            }
            self.pause();
        }
        Ok(self.report)
    }

    pub(super) fn pause(&mut self) {
        let ticks = self.rng.u64(..PAUSE_TICKS);
        self.arena.pause(ticks);
    }

    /// Any node's view may be behind: a move from the wrong node is refused.
    pub(super) fn plan(&mut self, index: usize) -> Option<PlannedMove> {
        let (cluster, slot) = (&self.arena.cluster, self.arena.slots[index]);
        let nodes = cluster.nodes();
        let asked = &nodes[self.rng.usize(..nodes.len())];
        let source = asked.slot_owner(slot).owner?;
        let target = NodeId::new(self.rng.usize(..nodes.len())).expect("a node");
        (target != source).then_some(PlannedMove { slot, source, target })
    }

    /// The move that has sent keys of a slot, if it is known to be open.
    pub(super) fn open_move(&self, index: usize) -> Option<MoveRecord> {
        let id = self.arena.split[index].load(Ordering::SeqCst);
        let record = (id != 0).then(|| self.arena.cluster.move_record(MoveId::new(id))).flatten();
        record.filter(|record| !record.phase.is_ended())
    }

    /// When a driver turns round, and when it is dropped, by its steps.
    pub(super) fn fate(&mut self) -> (Option<u32>, Option<u32>) {
        let turns_after = self.rng.bool().then(|| self.rng.u32(1..8));
        let dropped_after = (self.rng.u8(..6) == 0).then(|| self.rng.u32(1..8));
        (turns_after, dropped_after)
    }

    /// The verbs of SETSLOT and keys in batches. What was undone begins anew at once, as often as
    /// not: whoever still has an ASK of the first move meets the second.
    fn classic(&mut self, index: usize) -> Result<(), Failure> {
        let Some(planned) = self.plan(index) else { return Ok(()) };
        loop {
            let driver = Move::new(&self.arena.cluster, planned, BATCH_KEYS);
            let undone = self.drive(index, driver.map_err(Failure::Move)?)?;
            if !undone || self.rng.bool() {
                return Ok(());
            }
        }
    }

    /// Finishes or undoes whatever is open at the time, while other drivers are at work on it.
    fn repair(&mut self) -> Result<(), Failure> {
        let how = if self.rng.bool() { Resume::Finish } else { Resume::Abort };
        self.report.repairs += 1;
        if self.rng.bool() {
            let slots = self.arena.slots.iter().copied().collect();
            let options = FixOptions::new().open_moves(how);
            let fixed = self.arena.cluster.fix_slots(&slots, options);
            return fixed.map(drop).map_err(Failure::Move);
        }
        match resume(&self.arena.cluster, how) {
            Ok(_) => Ok(()),
            Err(ReshardError::Step { error, .. }) => self.expect_race(error, is_race),
            Err(error) => Err(Failure::Reshard(error)),
        }
    }

    /// Counts a refusal, if it is one that another mover may have caused.
    pub(super) fn expect_race(
        &mut self,
        error: Error,
        is_expected: fn(&AdminError) -> bool,
    ) -> Result<(), Failure> {
        self.report.refused_steps += 1;
        let expected = matches!(error, Error::Admin(refusal) if is_expected(&refusal));
        if expected { Ok(()) } else { Err(Failure::Move(error)) }
    }

    /// Drives a move until it ends, is refused, or is dropped for somebody else to find; whether it
    /// was undone. Drivers that turn round are in a hurry, half of them.
    fn drive(&mut self, index: usize, mut driver: Move<u64>) -> Result<bool, Failure> {
        let (turns_after, dropped_after) = self.fate();
        let (hurries, mut turned) = (self.rng.bool(), false);
        for steps in 0.. {
            if Some(steps) == dropped_after {
                self.report.drivers_dropped += 1;
                return Ok(false);
            }
            if Some(steps) == turns_after {
                driver.abort();
                turned = true;
            }
            let id = driver.id();
            match driver.step() {
                Ok(MoveStep::Done { flipped }) => {
                    self.arena.note_end(id);
                    return Ok(turned && !flipped);
                }
                Ok(MoveStep::Busy) => self.report.busy_steps += 1,
                Ok(MoveStep::Paused | MoveStep::Wait { .. }) => {
                    unreachable!("no move of the stress is paused or paced")
                }
                Ok(MoveStep::More) => self.note_split(index, driver.id()),
                Err(error) => {
                    let Some(next) = self.after_refusal(error, driver)? else {
                        self.arena.note_end(id);
                        return Ok(false);
                    };
                    driver = next;
                }
            }
            self.arena.note_end(id);
            if !(turned && hurries) {
                self.pause();
            }
        }
        Ok(false)
    }

    /// A slot that is open already is taken over; a driver whose move ended is done.
    fn after_refusal(
        &mut self,
        error: Error,
        mut driver: Move<u64>,
    ) -> Result<Option<Move<u64>>, Failure> {
        self.expect_race(error, is_race)?;
        let Error::Admin(refusal) = error else { return Ok(None) };
        if let AdminError::SetSlot { error: SetSlotError::SlotIsOpen { id, .. }, .. } = refusal
            && driver.id().is_none()
        {
            // A slot that is reserved is left to the driver of its set.
            let next = Move::take_over(&self.arena.cluster, id, BATCH_KEYS).ok();
            self.report.taken_over += u64::from(next.is_some());
            return Ok(next);
        }
        if has_ended(&refusal) {
            return Ok(None);
        }
        driver.abort();
        Ok(Some(driver))
    }

    /// Tells the clients that keys are on both sides.
    fn note_split(&self, index: usize, id: Option<MoveId>) {
        let record = id.and_then(|id| self.arena.cluster.move_record(id));
        let split = record
            .filter(|record| record.phase == MovePhase::Migrating && record.keys_moved > 0)
            .map_or(0, |record| record.id.get());
        self.arena.split[index].store(split, Ordering::SeqCst);
    }
}

/// Another driver was faster, or this one's news of the owner were old.
fn has_ended(refusal: &AdminError) -> bool {
    matches!(
        refusal,
        AdminError::NoSuchMove { .. }
            | AdminError::NoSuchHandover { .. }
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

/// What movers may do to each other is expected; what says that a key is in two homes is not.
pub(super) fn is_race(refusal: &AdminError) -> bool {
    has_ended(refusal) || cannot_begin(refusal)
}
