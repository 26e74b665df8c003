//! `Cluster`: nodes in one process. `Client`: its slot cache, redirects and batches.

mod atomic;
mod builder;
mod call;
mod client;
mod entry;
mod explain;
mod fanout;
mod handover;
mod map;
mod number;
mod options;
mod stats;
#[cfg(feature = "testing")]
mod step;
mod trace;
mod walk;

pub use builder::{Builder, Ownership};
pub use client::{Client, OwnerOf};
pub use explain::{Explanation, KeyAt};
pub use options::{SetOptions, SetOutcome};
pub use stats::{SlotStats, StatsReport};
#[cfg(feature = "testing")]
pub use step::{BusControl, Steps};
pub use trace::{Answer, Hop};
pub use walk::Iter;

use std::fmt;

use crate::error::Error;
use crate::migration::MoveId;
use crate::node::AbortStep;
use crate::node::AdminError;
use crate::node::BatchLimits;
use crate::node::Holding;
use crate::node::MoveRecord;
use crate::node::Node;
use crate::node::Roster;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::topology::NodeId;
use crate::topology::SlotMap;
use crate::topology::SlotOwner;

/// Ends the cluster when the last `Cluster` or `Client` is gone.
pub(crate) struct Lifeline<V: Value + ?Sized>(pub(crate) Arc<Roster<V>>);

impl<V: Value + ?Sized> Drop for Lifeline<V> {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

/// Several nodes in one process, which share out the 16384 slots.
///
/// A cheap handle; the cluster runs until [`shutdown`](Self::shutdown) or until the last `Cluster`
/// and [`Client`] are dropped.
pub struct Cluster<V: Value + ?Sized = [u8]> {
    life: Arc<Lifeline<V>>,
}

impl<V: Value + ?Sized> Clone for Cluster<V> {
    fn clone(&self) -> Self {
        Self { life: Arc::clone(&self.life) }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Cluster<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.node_count()).finish_non_exhaustive()
    }
}

/// How many operations ran which way, since the cluster began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Operations that ran on the calling thread, on a lent token; those of a batch mostly count
    /// for each of their keys.
    pub lent: u64,
    /// Jobs that ran on a worker: operations in strict mode, closures, key batches.
    pub worker: u64,
    /// How often a worker was parked and woken.
    pub wakeups: u64,
    /// MOVED and ASK answers that clients followed.
    pub redirects: u64,
    /// Those of them that were MOVED.
    pub moved: u64,
    /// Those of them that were ASK.
    pub asks: u64,
    /// TRYAGAIN answers that clients of [`Semantics::Redis`](crate::Semantics) got.
    pub try_agains: u64,
    /// Operations whose keys were pulled together before they ran.
    pub pulls: u64,
}

impl Cluster<[u8]> {
    /// A builder; [`Builder::values`] changes the type of the values.
    pub fn builder() -> Builder<[u8]> {
        Builder::new()
    }
}

impl<V: Value + ?Sized> Cluster<V> {
    pub(crate) fn over(roster: Arc<Roster<V>>) -> Self {
        Self { life: Arc::new(Lifeline(roster)) }
    }

    pub(crate) fn roster(&self) -> &Arc<Roster<V>> {
        &self.life.0
    }

    /// A client with a slot map of its own; its clones share that map.
    pub fn client(&self) -> Client<V> {
        Client::new(Arc::clone(&self.life))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.roster().node_count()
    }

    /// The ids of all nodes, ascending.
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.roster().members().map(|member| member.id).collect()
    }

    /// A node, if it exists.
    pub fn node(&self, id: NodeId) -> Option<Node<V>> {
        Node::new(Arc::clone(self.roster()), id)
    }

    /// Every node, by id.
    pub fn nodes(&self) -> Vec<Node<V>> {
        self.node_ids().into_iter().filter_map(|id| self.node(id)).collect()
    }

    /// Adds a node without slots; it knows the owners of all slots.
    ///
    /// # Errors
    /// [`Error::Admin`] with `TooManyNodes` or `NoThread`, [`Error::Closed`], [`Error::Reentrant`].
    pub fn add_node(&self) -> Result<Node<V>, Error> {
        let id = self.roster().add_node()?;
        self.node(id).ok_or(Error::Closed)
    }

    /// Who owns which slot, from the words that flips compare and swap: what all views come to.
    pub fn slot_map(&self) -> SlotMap {
        SlotMap::of(&self.roster().truth)
    }

    /// Who owns one slot, and since when, by the same words.
    pub fn slot_owner(&self, slot: Slot) -> SlotOwner {
        self.roster().truth.get(slot)
    }

    /// What each node holds of a slot, by id: of those that own it in any view, have had a key or a
    /// mark of it, or are named by such a mark; what the others may know is
    /// [`Node::slot_owner`] alone.
    ///
    /// Takes one token after another, so that a slot that moves meanwhile may be seen in between.
    /// Looks at every entry of a shard in which some may have expired.
    ///
    /// # Errors
    /// [`AdminError::Worker`].
    pub fn holdings(&self, slot: Slot) -> Result<Vec<Holding>, AdminError> {
        self.roster().holdings(slot)
    }

    /// The record of a move: an open one, or one of the ended ones that are remembered.
    pub fn move_record(&self, id: MoveId) -> Option<MoveRecord> {
        self.roster().moves.get(id)
    }

    /// The open moves, then the ended ones that are remembered, newest first.
    pub fn moves(&self) -> Vec<MoveRecord> {
        self.roster().moves.all()
    }

    /// How many operations ran which way. Looks at every slot that a node owns or that had keys.
    pub fn counters(&self) -> Counters {
        let roster = self.roster();
        let workers = roster.workers();
        let units = roster.members().map(crate::node::Member::unit_count);
        Counters {
            lent: if roster.strict { 0 } else { units.sum() },
            worker: workers.iter().map(|worker| worker.job_count()).sum(),
            wakeups: workers.iter().map(|worker| worker.wakeup_count()).sum(),
            redirects: roster.answers.redirects(),
            moved: roster.answers.moved(),
            asks: roster.answers.asks(),
            try_agains: roster.answers.try_agains(),
            pulls: roster.answers.pulls(),
        }
    }

    /// How many MOVED and ASK answers clients have followed.
    pub fn redirect_count(&self) -> u64 {
        self.roster().answers.redirects()
    }

    /// Pauses an open move whose keys travel: its drivers wait before their next step, its marks
    /// stay, and calls are served as before. Once the slot has flipped a pause holds nothing back.
    ///
    /// # Errors
    /// [`AdminError::NoSuchMove`] when the move is not open, or belongs to the handover of a set.
    pub fn pause_move(&self, id: MoveId) -> Result<(), AdminError> {
        self.set_paused(id, true)
    }

    /// Lets a paused move go on.
    ///
    /// # Errors
    /// As [`pause_move`](Self::pause_move).
    pub fn resume_move(&self, id: MoveId) -> Result<(), AdminError> {
        self.set_paused(id, false)
    }

    fn set_paused(&self, id: MoveId, paused: bool) -> Result<(), AdminError> {
        let open = self.roster().moves.set_paused(id, paused);
        if open { Ok(()) } else { Err(AdminError::NoSuchMove { id }) }
    }

    /// One step of the abort of a move: first both sides turn round, then a batch a step travels
    /// back, of so many keys or what [`BatchLimits`] say, and the last step clears both marks. Any
    /// driver may take any step.
    ///
    /// # Errors
    /// [`AdminError::NoSuchMove`] when the move is not open, `SetSlot` with `Flipped` when it is
    /// too late, `BatchSize`, `BatchBytes`, `HoldTime`, `Worker` (`Busy`: come back). Trying again
    /// is harmless.
    pub fn abort_step(
        &self,
        id: MoveId,
        limits: impl Into<BatchLimits>,
    ) -> Result<AbortStep, AdminError> {
        self.roster().abort_step(id, limits.into())
    }

    /// Ends the cluster: ends and joins every thread but the calling one, within the time of the
    /// longest closure that is running. Calls after it, and calls that waited for a worker, answer
    /// [`Error::Closed`]. Handles stay valid. From inside a closure under a token nothing is waited
    /// for: the threads end by themselves, and dropping the last handle joins them.
    pub fn shutdown(&self) {
        self.roster().shut_down();
    }
}
