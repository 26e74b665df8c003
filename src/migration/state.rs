//! `SlotState`: what a node's header says about a slot's move, and `MoveId`.

use std::fmt;

use crate::topology::NodeId;

/// The identity of one move of one slot; never reused.
///
/// IMPORTING draws it, MIGRATING takes it over, ASK carries it, and every step of a driver names
/// it. It ends in the hold that clears both marks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MoveId(u64);

impl MoveId {
    /// The id with this number; only the engine gives a number its meaning.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The id as a plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MoveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a node holds about the move of a slot. Anything but `Stable` is a mark, and a mark is never
/// overwritten.
///
/// | state | on | a key that is here | a key that is not here |
/// |---|---|---|---|
/// | `Stable` | owner | served | served (absent) |
/// | `Migrating` | source | served | ASK with the move's id |
/// | `Importing` | target | served to ASKING with the id, else MOVED | the same |
/// | `Aborting` | source | served | pulled back from the target, then served |
/// | `Retired` | target | MOVED: it serves nothing | MOVED |
/// | `Reserved` | the source of a handover to come | served | served (absent) |
/// | `Reserved` | its target, or a node in ADDSLOTS or DELSLOTS | MOVED, or not served | the same |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum SlotState {
    /// No move.
    #[default]
    Stable,
    /// The keys leave this node, the owner.
    Migrating {
        /// Where they go.
        target: NodeId,
        /// The move.
        id: MoveId,
    },
    /// The keys come to this node.
    Importing {
        /// Where they come from.
        source: NodeId,
        /// The move.
        id: MoveId,
    },
    /// The owner takes the keys back.
    Aborting {
        /// Where they come back from.
        target: NodeId,
        /// The move.
        id: MoveId,
    },
    /// The keys leave this importer again; it serves nothing.
    Retired {
        /// Where they go back to.
        source: NodeId,
        /// The move.
        id: MoveId,
    },
    /// This node is about to own the slot, or to lose it; an owner serves on until then.
    Reserved {
        /// The move.
        id: MoveId,
    },
}

impl SlotState {
    /// Whether a move is open here.
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Stable)
    }

    /// The move that is open here.
    pub const fn move_id(self) -> Option<MoveId> {
        match self {
            Self::Stable => None,
            Self::Migrating { id, .. }
            | Self::Importing { id, .. }
            | Self::Aborting { id, .. }
            | Self::Retired { id, .. }
            | Self::Reserved { id } => Some(id),
        }
    }

    /// The other node of the move.
    pub const fn peer(self) -> Option<NodeId> {
        match self {
            Self::Stable | Self::Reserved { .. } => None,
            Self::Migrating { target: peer, .. }
            | Self::Aborting { target: peer, .. }
            | Self::Importing { source: peer, .. }
            | Self::Retired { source: peer, .. } => Some(peer),
        }
    }
}
