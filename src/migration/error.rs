//! Why a verb of a move is refused.

use thiserror::Error;

use crate::migration::MoveId;
use crate::topology::NodeId;

/// Why a verb of SETSLOT, a migration batch or an abort was refused. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SetSlotError {
    /// MIGRATING on a node that does not own the slot.
    #[error("{node} does not own the slot")]
    NotOwner {
        /// The node that was asked.
        node: NodeId,
    },
    /// IMPORTING on the owner, or a flip to it.
    #[error("{node} owns the slot already")]
    AlreadyOwner {
        /// The node that was asked.
        node: NodeId,
    },
    /// IMPORTING from a node that does not own the slot, as far as the target knows.
    #[error("{source_node} does not own the slot")]
    SourceNotOwner {
        /// The node that was named as the source.
        source_node: NodeId,
    },
    /// A move to or from a node that does not exist. Only the verbs as in Redis answer it.
    #[error("there is no {peer} to move the slot to or from")]
    UnknownPeer {
        /// The node that was named.
        peer: NodeId,
    },
    /// A move from a node to itself.
    #[error("{node} cannot move a slot to itself")]
    MoveToSelf {
        /// The node.
        node: NodeId,
    },
    /// The node's header carries the mark of another move, which is never overwritten.
    #[error("the slot is open on {node} under move {id}")]
    SlotIsOpen {
        /// The node whose header is marked.
        node: NodeId,
        /// The move that is open.
        id: MoveId,
    },
    /// MIGRATING to a node that does not import the slot from here.
    #[error("{target} does not import the slot from this node")]
    TargetNotImporting {
        /// The node that was named as the target.
        target: NodeId,
    },
    /// The target holds keys, such as copies, so the slot cannot start to move to it.
    #[error("{target} holds keys of the slot already")]
    TargetHoldsKeys {
        /// The node that was named as the target.
        target: NodeId,
    },
    /// The move named by the step is not open between these two nodes: it has ended, or it is
    /// aborting.
    #[error("the move is not open between these nodes")]
    NoSuchMove,
    /// NODE on the target while the source holds live keys.
    #[error("{source_node} still holds keys of the slot")]
    SourceHoldsKeys {
        /// The source of the move.
        source_node: NodeId,
    },
    /// NODE on the source before the target has flipped, or on a node that imports nothing.
    #[error("the target has to take the slot first")]
    WrongOrder,
    /// STABLE while the keys are split between both sides, whatever their marks say; an abort
    /// brings them back first, or a fix when the marks belong to no move any more.
    #[error("the keys are split between both sides")]
    KeysSplit,
    /// An abort after the flip: the move can only be completed.
    #[error("the slot has flipped, the move can only be completed")]
    Flipped,
    /// The last step of an abort while the target still holds live keys.
    #[error("{target} still holds keys of the slot")]
    KeysLeft {
        /// The target of the aborted move.
        target: NodeId,
    },
}

impl SetSlotError {
    /// What a Redis node would print for this error about `slot`, without the leading `-`.
    ///
    /// Refusals that Redis does not know have a text of our own.
    pub fn redis_text(&self, slot: u16) -> String {
        match self {
            Self::NotOwner { .. } => format!("ERR I'm not the owner of hash slot {slot}"),
            Self::AlreadyOwner { .. } => {
                format!("ERR I'm already the owner of hash slot {slot}")
            }
            Self::UnknownPeer { peer } => {
                format!("ERR I don't know about node {}", peer.index())
            }
            Self::MoveToSelf { .. } => "ERR Target node is myself".to_owned(),
            Self::SourceHoldsKeys { .. } => format!(
                "ERR Can't assign hashslot {slot} to a different node \
                 while I still hold keys for this hash slot."
            ),
            Self::SourceNotOwner { .. }
            | Self::SlotIsOpen { .. }
            | Self::TargetNotImporting { .. }
            | Self::TargetHoldsKeys { .. }
            | Self::NoSuchMove
            | Self::WrongOrder
            | Self::KeysSplit
            | Self::Flipped
            | Self::KeysLeft { .. } => format!("ERR hash slot {slot}: {self}"),
        }
    }
}
