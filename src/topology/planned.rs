//! `PlannedMove`: a slot, who has it, who is to get it.

use crate::slot::Slot;
use crate::topology::NodeId;

/// One slot that is to change its owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlannedMove {
    /// The slot.
    pub slot: Slot,
    /// Its owner.
    pub source: NodeId,
    /// Its next owner.
    pub target: NodeId,
}
