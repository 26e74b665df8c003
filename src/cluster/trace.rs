//! The hops of a call, for people who want to see them.

use std::collections::VecDeque;

use crate::limits::TRACE_HOPS_MAX;
use crate::migration::MoveId;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::sync::Mutex;
use crate::topology::NodeId;

/// One node that a call asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The slot of the call.
    pub slot: Slot,
    /// The node.
    pub node: NodeId,
    /// The move that ASKING named, if the call carried it.
    pub asking: Option<MoveId>,
    /// What the node answered.
    pub answer: Answer,
}

/// What a node answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// It ran the call.
    Served,
    /// The owner is another node.
    Moved {
        /// The owner.
        owner: NodeId,
    },
    /// The key may be at the target of a move.
    Ask {
        /// The target.
        target: NodeId,
        /// The move.
        id: MoveId,
    },
    /// The keys are split between two nodes; only to calls of
    /// [`Semantics::Redis`](crate::Semantics).
    TryAgain,
    /// The keys have to be pulled to the target of a move first. The call runs there, which is the
    /// next hop.
    Pull {
        /// The source.
        source: NodeId,
        /// The target.
        target: NodeId,
    },
    /// The keys have to be pulled back from the target of an aborted move first.
    PullBack {
        /// The target.
        target: NodeId,
    },
    /// The slot's state changed meanwhile; the node is asked again.
    Again,
    /// The node does not serve the slot.
    Down,
    /// The call did not reach the shard.
    Refused,
}

/// The hops of the calls of one client, the newest [`TRACE_HOPS_MAX`] of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Mutex<VecDeque<Hop>>>);

impl Trace {
    pub(crate) fn push(&self, hop: Hop) {
        let mut hops = self.0.lock();
        if hops.len() == TRACE_HOPS_MAX {
            hops.pop_front();
        }
        hops.push_back(hop);
    }

    pub(crate) fn take(&self) -> Vec<Hop> {
        std::mem::take(&mut *self.0.lock()).into()
    }
}
