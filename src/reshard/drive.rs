//! `Move`: the driver of one slot's move, one verb or batch a step; any driver can take over.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::SlotState;
use crate::node::AbortStep;
use crate::node::AdminError;
use crate::node::MovePhase;
use crate::node::Node;
use crate::node::SetSlot;
use crate::reshard::MoveControl;
use crate::reshard::Pace;
use crate::reshard::PlannedMove;
use crate::reshard::driver::check_batch_keys;
use crate::shard::Value;
use crate::worker::WorkerError;

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    MarkTarget,
    MarkSource(MoveId),
    SendKeys(MoveId),
    Flip(MoveId),
    Close(MoveId),
    TellOthers { next: usize },
    TakeBack(MoveId),
    Done { flipped: bool },
}

/// What a step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveStep {
    /// There is more to do.
    More,
    /// A call holds the slot still; try again a little later.
    Busy,
    /// The move is paused; nothing was done.
    Paused,
    /// The pace holds the next batch back; nothing was done.
    Wait {
        /// For how long, by the cluster's clock.
        time: Duration,
    },
    /// The slot has its new owner, or an abort has brought everything back.
    Done {
        /// Whether the slot has changed its owner.
        flipped: bool,
    },
}

/// The driver of one slot's move by the classic state machine: IMPORTING on the target, MIGRATING
/// on the source, keys in batches, NODE on the target, NODE on the source, then the others.
///
/// It may be dropped at any step. [`Move::take_over`] makes another driver that finishes the move,
/// or aborts it.
#[derive(Debug)]
pub struct Move<V: Value + ?Sized> {
    cluster: Cluster<V>,
    source: Node<V>,
    target: Node<V>,
    planned: PlannedMove,
    batch_keys: usize,
    pace: Pace,
    control: MoveControl<V>,
    phase: Phase,
    keys_moved: u64,
}

impl<V: Value + ?Sized> Move<V> {
    /// A driver that has not begun. `batch_keys` is how many keys travel at once, from 1 to
    /// [`MIGRATE_KEYS_MAX`](crate::limits::MIGRATE_KEYS_MAX).
    ///
    /// # Errors
    /// [`Error::Admin`] with `UnknownNode` or `BatchSize`.
    pub fn new(
        cluster: &Cluster<V>,
        planned: PlannedMove,
        batch_keys: usize,
    ) -> Result<Self, Error> {
        check_batch_keys(batch_keys)?;
        let node = |node| cluster.node(node).ok_or(AdminError::UnknownNode { node });
        let (source, target) = (node(planned.source)?, node(planned.target)?);
        Ok(Self {
            cluster: cluster.clone(),
            source,
            target,
            planned,
            batch_keys,
            pace: Pace::new(),
            control: MoveControl::of(cluster),
            phase: Phase::MarkTarget,
            keys_moved: 0,
        })
    }

    /// A driver that goes on where another one stopped. What is to be done next is read from the
    /// nodes' marks.
    ///
    /// # Errors
    /// [`Error::Admin`] with `NoSuchMove` when no move `id` is remembered or it belongs to a
    /// [`Handover`](crate::reshard::Handover), or `BatchSize`.
    pub fn take_over(cluster: &Cluster<V>, id: MoveId, batch_keys: usize) -> Result<Self, Error> {
        let record = cluster.move_record(id).filter(|record| record.set.is_none());
        let record = record.ok_or(AdminError::NoSuchMove { id })?;
        let planned =
            PlannedMove { slot: record.slot, source: record.source, target: record.target };
        let mut driver = Self::new(cluster, planned, batch_keys)?;
        driver.phase = driver.phase_of(id)?;
        driver.control.attend(driver.id());
        Ok(driver)
    }

    /// Keys travel at this pace, whose budget the driver shares with the pace's clones.
    #[must_use]
    pub fn pace(mut self, pace: &Pace) -> Self {
        self.pace = pace.clone();
        self
    }

    /// The hand by which another thread pauses, resumes and aborts this driver.
    pub fn control(&self) -> MoveControl<V> {
        self.control.clone()
    }

    /// The driver obeys this hand from here on.
    pub(super) fn controlled_by(mut self, control: &MoveControl<V>) -> Self {
        self.control = control.clone();
        self.control.attend(self.id());
        self
    }

    /// Reads from the marks how far the move `id` has come.
    fn phase_of(&self, id: MoveId) -> Result<Phase, AdminError> {
        let at_source = self.source.slot_state(self.planned.slot)?;
        let at_target = self.target.slot_state(self.planned.slot)?;
        let target_has_it = at_target.move_id() == Some(id);
        Ok(match at_source {
            SlotState::Aborting { id: open, .. } if open == id => Phase::TakeBack(id),
            SlotState::Migrating { id: open, .. } if open == id && target_has_it => {
                Phase::SendKeys(id)
            }
            SlotState::Migrating { id: open, .. } if open == id => Phase::Close(id),
            SlotState::Stable
            | SlotState::Migrating { .. }
            | SlotState::Importing { .. }
            | SlotState::Aborting { .. }
            | SlotState::Retired { .. }
            | SlotState::Reserved { .. } => {
                if target_has_it {
                    Phase::MarkSource(id)
                } else {
                    self.ended(id)
                }
            }
        })
    }

    /// The move is not open any more: its record says how it ended.
    fn ended(&self, id: MoveId) -> Phase {
        let record = self.cluster.move_record(id);
        let flipped = record.is_some_and(|record| record.phase == MovePhase::Completed);
        Phase::Done { flipped }
    }

    /// The move that this driver drives, once it has begun.
    pub fn id(&self) -> Option<MoveId> {
        match self.phase {
            Phase::MarkTarget | Phase::TellOthers { .. } | Phase::Done { .. } => None,
            Phase::MarkSource(id)
            | Phase::SendKeys(id)
            | Phase::Flip(id)
            | Phase::Close(id)
            | Phase::TakeBack(id) => Some(id),
        }
    }

    /// The slot and its two nodes.
    pub fn planned(&self) -> PlannedMove {
        self.planned
    }

    /// How many keys this driver has sent.
    pub fn keys_moved(&self) -> u64 {
        self.keys_moved
    }

    /// Whether the slot has its new owner, and its source knows.
    pub fn has_flipped(&self) -> bool {
        matches!(self.phase, Phase::TellOthers { .. } | Phase::Done { flipped: true })
    }

    /// Turns round: from the next step on the keys travel back. After the flip it is too late, and
    /// the move is completed.
    pub fn abort(&mut self) {
        self.phase = match self.phase {
            Phase::MarkSource(id) | Phase::SendKeys(id) | Phase::Flip(id) => Phase::TakeBack(id),
            Phase::MarkTarget => Phase::Done { flipped: false },
            phase @ (Phase::Close(_)
            | Phase::TellOthers { .. }
            | Phase::TakeBack(_)
            | Phase::Done { .. }) => phase,
        };
    }

    /// One verb or one batch, unless the move is paused or its pace holds the batch back.
    ///
    /// # Errors
    /// What the verb was refused with; the driver stays where it is.
    pub fn step(&mut self) -> Result<MoveStep, Error> {
        if let Some(held_back) = self.held_back() {
            return Ok(held_back);
        }
        let stepped = match self.phase {
            Phase::MarkTarget => self.mark_target(),
            Phase::MarkSource(id) => self.mark_source(id),
            Phase::SendKeys(id) => self.send_keys(id),
            Phase::Flip(id) => self.flip(id),
            Phase::Close(id) => self.close(id),
            Phase::TellOthers { next } => Ok(self.tell(next)),
            Phase::TakeBack(id) => self.take_back(id),
            phase @ Phase::Done { .. } => Ok(phase),
        };
        match stepped {
            Ok(phase) => {
                self.phase = phase;
                self.control.attend(self.id());
            }
            Err(AdminError::Worker(WorkerError::Busy)) => return Ok(MoveStep::Busy),
            Err(error) => return Err(error.into()),
        }
        let done = if let Phase::Done { flipped } = self.phase { Some(flipped) } else { None };
        Ok(done.map_or(MoveStep::More, |flipped| MoveStep::Done { flipped }))
    }

    /// Obeys the driver's control, the move's record and the pace, in this order.
    fn held_back(&mut self) -> Option<MoveStep> {
        if self.control.is_aborted() {
            self.abort();
        }
        let is_over = match self.phase {
            Phase::Close(_) | Phase::TellOthers { .. } | Phase::Done { .. } => true,
            Phase::MarkTarget
            | Phase::MarkSource(_)
            | Phase::SendKeys(_)
            | Phase::Flip(_)
            | Phase::TakeBack(_) => false,
        };
        if !is_over && self.control.is_paused() {
            return Some(MoveStep::Paused);
        }
        let Phase::SendKeys(_) = self.phase else { return None };
        let time = self.pace.wait_at(self.source.uptime())?;
        Some(MoveStep::Wait { time })
    }

    fn mark_target(&self) -> Result<Phase, AdminError> {
        let verb = SetSlot::Importing { source: self.planned.source };
        let id = self.target.set_slot(self.planned.slot, verb)?;
        Ok(id.map_or(Phase::MarkTarget, Phase::MarkSource))
    }

    fn mark_source(&self, id: MoveId) -> Result<Phase, AdminError> {
        let verb = SetSlot::Migrating { target: self.planned.target };
        self.source.set_slot_step(self.planned.slot, verb, id)?;
        Ok(Phase::SendKeys(id))
    }

    fn send_keys(&mut self, id: MoveId) -> Result<Phase, AdminError> {
        let limits = self.pace.batch(self.batch_keys);
        let sent = self.source.migrate_batch(self.planned.slot, id, limits)?;
        self.keys_moved += sent.moved as u64;
        self.pace.spend(self.source.uptime(), sent.moved as u64, sent.bytes);
        Ok(if sent.left == 0 { Phase::Flip(id) } else { Phase::SendKeys(id) })
    }

    fn flip(&self, id: MoveId) -> Result<Phase, AdminError> {
        let verb = SetSlot::Node { owner: self.planned.target };
        self.target.set_slot_step(self.planned.slot, verb, id)?;
        Ok(Phase::Close(id))
    }

    fn close(&self, id: MoveId) -> Result<Phase, AdminError> {
        let verb = SetSlot::Node { owner: self.planned.target };
        match self.source.set_slot_step(self.planned.slot, verb, id) {
            // The claim was faster.
            Ok(_) | Err(AdminError::SetSlot { error: SetSlotError::NoSuchMove, .. }) => {
                Ok(Phase::TellOthers { next: 0 })
            }
            Err(error) => Err(error),
        }
    }

    /// NODE on the nodes that have no part in the move, one a step; where the claim has arrived
    /// there is nothing to say.
    fn tell(&self, next: usize) -> Phase {
        let PlannedMove { slot, target, .. } = self.planned;
        let epoch = self.target.slot_owner(slot).epoch;
        let behind = self
            .cluster
            .nodes()
            .into_iter()
            .skip(next)
            .find(|node| node.id() != target && node.slot_owner(slot).epoch < epoch);
        let Some(node) = behind else { return Phase::Done { flipped: true } };
        // A refusal changes nothing: the node hears of the flip at its next contact.
        let _ = node.set_slot(slot, SetSlot::Node { owner: target });
        Phase::TellOthers { next: node.id().index() + 1 }
    }

    fn take_back(&self, id: MoveId) -> Result<Phase, AdminError> {
        match self.cluster.abort_step(id, self.pace.batch(self.batch_keys)) {
            Ok(AbortStep::More) => Ok(Phase::TakeBack(id)),
            Ok(AbortStep::Done) => Ok(Phase::Done { flipped: false }),
            Err(AdminError::SetSlot { error: SetSlotError::Flipped, .. }) => Ok(Phase::Close(id)),
            Err(AdminError::NoSuchMove { .. }) => Ok(self.ended(id)),
            Err(error) => Err(error),
        }
    }
}
