//! `AdminError`: why an admin verb was refused.

use std::time::Duration;

use thiserror::Error;

use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::node::HandoverId;
use crate::shard::Refusal;
use crate::slot::Slot;
use crate::topology::NodeId;
use crate::worker::WorkerError;

/// Why an admin verb was refused. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum AdminError {
    /// A verb of SETSLOT, a migration batch or an abort was refused.
    #[error("slot {slot}: {error}")]
    SetSlot {
        /// The slot.
        slot: Slot,
        /// Why.
        error: SetSlotError,
    },
    /// The call did not reach its worker, or the slot is held still for a call that lost too many
    /// races (`Busy`: come back later).
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// There is no such node.
    #[error("there is no {node}")]
    UnknownNode {
        /// The node that was named.
        node: NodeId,
    },
    /// The cluster has as many nodes as [`NODES_MAX`](crate::limits::NODES_MAX) allows.
    #[error("the cluster has no room for another node")]
    TooManyNodes,
    /// The system could not start a worker's thread.
    #[error("a worker's thread could not be started")]
    NoThread,
    /// ADDSLOTS of a slot that has an owner.
    #[error("slot {slot} is already busy")]
    SlotBusy {
        /// The slot.
        slot: Slot,
    },
    /// DELSLOTS of a slot that this node does not own.
    #[error("slot {slot} is already unassigned")]
    SlotUnassigned {
        /// The slot.
        slot: Slot,
    },
    /// A slot is listed more than once.
    #[error("slot {slot} specified multiple times")]
    SlotListedTwice {
        /// The slot.
        slot: Slot,
    },
    /// DELSLOTS or FLUSHSLOTS of a slot that still has live keys.
    #[error("slot {slot} still holds keys")]
    SlotHoldsKeys {
        /// The slot.
        slot: Slot,
    },
    /// No move of this id is open.
    #[error("move {id} is not open")]
    NoSuchMove {
        /// The move that was named.
        id: MoveId,
    },
    /// No handover of this id is open, nor remembered where that would do.
    #[error("handover {id} is not open")]
    NoSuchHandover {
        /// The handover that was named.
        id: HandoverId,
    },
    /// As many handovers of sets are open as
    /// [`HANDOVERS_OPEN_MAX`](crate::limits::HANDOVERS_OPEN_MAX) allows.
    #[error("too many handovers are open")]
    TooManyHandovers,
    /// MIGRATE of keys none of which is here and live.
    #[error("no such key")]
    NoKey,
    /// MIGRATE of a key that is at the target already; nothing travelled.
    #[error("target key name already exists")]
    BusyKey,
    /// MIGRATE of keys that hash to different slots.
    #[error("keys do not hash to the same slot")]
    CrossSlot,
    /// A key is longer than [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX).
    #[error("a key of {bytes} bytes is too long")]
    KeyTooLong {
        /// The length of the key.
        bytes: usize,
    },
    /// What would come to the target takes more room than its bound leaves free, and its policy
    /// evicts nothing for it.
    #[error("slot {slot}: the target has room for {free}, and {needed} would come")]
    TargetFull {
        /// The slot.
        slot: Slot,
        /// What would have to be free, in entries or bytes, as the bound counts.
        needed: u64,
        /// What is free.
        free: u64,
    },
    /// A batch of no key, or of more than [`MIGRATE_KEYS_MAX`](crate::limits::MIGRATE_KEYS_MAX).
    #[error("a batch of {keys} keys is out of bounds")]
    BatchSize {
        /// How many keys the batch has.
        keys: usize,
    },
    /// A batch of no byte.
    #[error("a batch of no byte is out of bounds")]
    BatchBytes,
    /// A bound on the time of a hold that is below [`HOLD_TIME_MIN`](crate::limits::HOLD_TIME_MIN)
    /// or above [`HOLD_TIME_MAX`](crate::limits::HOLD_TIME_MAX).
    #[error("a hold of {} ns is out of bounds", time.as_nanos())]
    HoldTime {
        /// The bound that was asked for.
        time: Duration,
    },
}

impl AdminError {
    /// That there is no room for what would come to the target of a move.
    pub(super) fn target_full(slot: Slot, refusal: Refusal) -> Self {
        let (needed, free) = match refusal {
            Refusal::Full { needed, free } => (needed, free),
            Refusal::TooHeavy { weight, bound } => (weight, bound),
        };
        Self::TargetFull { slot, needed, free }
    }

    /// What a Redis node would print for this error, without the leading `-`.
    pub fn redis_text(&self) -> String {
        match self {
            Self::SetSlot { slot, error } => error.redis_text(slot.number()),
            Self::SlotBusy { slot } => format!("ERR Slot {slot} is already busy"),
            Self::SlotUnassigned { slot } => format!("ERR Slot {slot} is already unassigned"),
            Self::SlotListedTwice { slot } => format!("ERR Slot {slot} specified multiple times"),
            Self::SlotHoldsKeys { .. } => {
                "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.".to_owned()
            }
            Self::UnknownNode { node } => format!("ERR Unknown node {}", node.index()),
            Self::NoKey => "NOKEY".to_owned(),
            Self::BusyKey => "BUSYKEY Target key name already exists.".to_owned(),
            Self::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".to_owned(),
            Self::Worker(_)
            | Self::TooManyNodes
            | Self::NoThread
            | Self::NoSuchMove { .. }
            | Self::NoSuchHandover { .. }
            | Self::TooManyHandovers
            | Self::TargetFull { .. }
            | Self::KeyTooLong { .. }
            | Self::BatchSize { .. }
            | Self::BatchBytes
            | Self::HoldTime { .. } => format!("ERR {self}"),
        }
    }
}
