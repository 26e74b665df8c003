//! Handovers of sets of slots: begun, stepped and undone by whoever names them.

use crate::cluster::Cluster;
use crate::node::AdminError;
use crate::node::HandoverId;
use crate::node::HandoverPhase;
use crate::node::HandoverRecord;
use crate::node::HandoverStep;
use crate::shard::Value;
use crate::topology::PlannedMove;

impl<V: Value + ?Sized> Cluster<V> {
    /// Opens the handover of a set of slots, all or nothing. Nothing is reserved yet: what changes
    /// the slots is [`handover_step`](Self::handover_step).
    ///
    /// [`Handover`](crate::reshard::Handover) is the driver that most callers want.
    ///
    /// # Errors
    /// [`AdminError`]: `UnknownNode`, `SetSlot` with `MoveToSelf`, `SlotListedTwice`,
    /// `TooManyHandovers`, `Worker`. Nothing was changed.
    pub fn begin_handover(&self, moves: &[PlannedMove]) -> Result<HandoverId, AdminError> {
        self.roster().begin_handover(moves)
    }

    /// One step of the handover of a set, at most one hold of two tokens: a slot is reserved, or
    /// flips, or is released; the last step makes the new owners known. What is to be done is read
    /// from the set, so that any driver may take any step. A set that another driver has ended
    /// answers `Done` as well, as long as it is among the last
    /// [`HANDOVERS_KEPT_MAX`](crate::limits::HANDOVERS_KEPT_MAX) that have ended.
    ///
    /// # Errors
    /// [`AdminError`]: `SetSlot` when a slot cannot be reserved: `NotOwner`, `SlotIsOpen`,
    /// `TargetHoldsKeys` (come back, or turn round by [`abort_handover`](Self::abort_handover)); no
    /// step answers this once the set is committed. `NoSuchHandover` when it never was, or ended
    /// long ago; `Worker` (`Busy`: come back). Nothing was changed, and trying again is harmless.
    pub fn handover_step(&self, id: HandoverId) -> Result<HandoverStep, AdminError> {
        self.roster().handover_step(id)
    }

    /// Turns the handover of a set round: the next steps release what was reserved. A set that is
    /// committed stays so, and can only be completed; the answer says which it is.
    ///
    /// # Errors
    /// [`AdminError`]: `NoSuchHandover` when it has ended, `Worker`.
    pub fn abort_handover(&self, id: HandoverId) -> Result<HandoverPhase, AdminError> {
        self.roster().abort_handover(id)
    }

    /// The handovers of sets that are open, oldest first.
    pub fn handovers(&self) -> Vec<HandoverRecord> {
        self.roster().handovers.all()
    }
}
