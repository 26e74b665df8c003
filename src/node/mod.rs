//! `Node`: identity, slot states, admin verbs, the bus. Takes token, state, route and operation in
//! one hold.

mod abort;
mod bounded;
mod bus;
mod census;
mod error;
mod evict;
mod execute;
mod faithful;
mod handover;
mod handover_set;
mod hands;
mod hear;
mod limits;
mod member;
mod migrate;
mod moves;
mod nodes;
mod pair;
mod pull;
mod repair;
mod roster;
mod sample;
mod setslot;
mod slots;
mod stats;
mod sweep;
mod whole;
mod window;

pub use abort::AbortStep;
pub use bounded::Bound;
pub use bus::Claim;
pub use error::AdminError;
pub use execute::Asking;
pub use faithful::AsRedis;
pub use handover::HandedOver;
pub use handover_set::{HandoverId, HandoverPhase, HandoverRecord, HandoverStep};
pub use limits::BatchLimits;
pub use member::{ClusterState, Conflict};
pub use migrate::{BatchResult, MigrateOptions};
pub use moves::{MovePhase, MoveRecord};
pub use repair::Holding;
pub use setslot::SetSlot;
pub use slots::BumpEpoch;

pub(crate) use bus::Message;
pub(crate) use execute::{Attempt, Attempted, Executed, Redirected};
pub(crate) use handover::Tried;
pub(crate) use member::{Member, MemberOptions, state_of};
pub(crate) use pull::{Pull, Way};
pub(crate) use roster::{Roster, RosterOptions, WorkerPlan};
pub(crate) use window::{Visit, Window};

use std::fmt;
use std::time::Duration;

use crate::migration::SlotState;
use crate::shard::Shard;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::sync::Arc;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotMap;
use crate::topology::SlotOwner;
use crate::worker::Patience;
use crate::worker::WorkerError;

/// One node of a cluster, for operators: its view, its slots, the admin verbs.
///
/// A cheap handle; it does not keep the cluster running. Once the cluster is shut down its verbs
/// answer [`WorkerError::Closed`](crate::WorkerError), and what only looks goes on to answer.
pub struct Node<V: Value + ?Sized = [u8]> {
    roster: Arc<Roster<V>>,
    id: NodeId,
}

impl<V: Value + ?Sized> Clone for Node<V> {
    fn clone(&self) -> Self {
        Self { roster: Arc::clone(&self.roster), id: self.id }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Node<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<V: Value + ?Sized> Node<V> {
    pub(crate) fn new(roster: Arc<Roster<V>>, id: NodeId) -> Option<Self> {
        roster.member(id)?;
        Some(Self { roster, id })
    }

    /// The node behind this handle; handles are only made for nodes that exist, and nodes stay.
    fn member(&self) -> &Member<V> {
        self.roster.known(self.id)
    }

    /// The node's index, also the order in which tokens are taken.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The node's 40-digit hexadecimal name.
    pub fn name(&self) -> String {
        self.id.name(self.roster.seed())
    }

    /// The slots that this node owns in its own view.
    pub fn slots(&self) -> SlotSet {
        self.member().view.owned_by(self.id).map(|(slot, _)| slot).collect()
    }

    /// This node's view of who owns what.
    pub fn slot_map(&self) -> SlotMap {
        SlotMap::of(&self.member().view)
    }

    /// Who owns one slot in this node's view, and since when.
    pub fn slot_owner(&self, slot: Slot) -> SlotOwner {
        self.member().view.get(slot)
    }

    /// This node's mark on a slot, read under the slot's token.
    ///
    /// # Errors
    /// [`AdminError::Worker`] with `Reentrant` from inside a closure under a token.
    pub fn slot_state(&self, slot: Slot) -> Result<SlotState, AdminError> {
        self.look(slot, state_of)
    }

    /// Reads a slot under its token; refused where that would wait for ever.
    fn look<R>(&self, slot: Slot, read: impl FnOnce(&Shard<V>) -> R) -> Result<R, AdminError> {
        if crate::sync::holds_token() {
            return Err(WorkerError::Reentrant.into());
        }
        Ok(self.member().peek(slot, read))
    }

    /// The greatest epoch of the node's own slots, or the one that BUMPEPOCH gave it.
    ///
    /// For display and for the wire only: claims are compared slot by slot.
    pub fn config_epoch(&self) -> Epoch {
        self.member().config_epoch()
    }

    /// The greatest epoch that this node has seen.
    pub fn current_epoch(&self) -> Epoch {
        self.member().current_epoch()
    }

    /// Whether this node serves: all slots have an owner in its view, or full coverage is off.
    pub fn cluster_state(&self) -> ClusterState {
        self.member().cluster_state()
    }

    /// Whether the node serves only while every slot has an owner (`cluster-require-full-coverage`,
    /// on by default).
    pub fn set_full_coverage(&self, required: bool) {
        self.member().set_full_coverage(required);
    }

    /// Whether a node that does not serve answers reads all the same
    /// (`cluster-allow-reads-when-down`, off by default).
    pub fn set_reads_when_down(&self, allowed: bool) {
        self.member().set_reads_when_down(allowed);
    }

    /// The claims that contradicted an owner that did not give its slot away, oldest first.
    pub fn conflicts(&self) -> Vec<Conflict> {
        self.member().conflicts()
    }

    /// How many keys of the slot lie here, expired ones that nobody met yet included
    /// (COUNTKEYSINSLOT).
    ///
    /// # Errors
    /// [`AdminError::Worker`] with `Reentrant` from inside a closure under a token.
    pub fn count_keys_in_slot(&self, slot: Slot) -> Result<usize, AdminError> {
        self.look(slot, Shard::len)
    }

    /// How many live keys of the slot lie here.
    ///
    /// # Errors
    /// [`AdminError::Worker`] with `Reentrant` from inside a closure under a token.
    pub fn count_live_keys_in_slot(&self, slot: Slot) -> Result<usize, AdminError> {
        self.look(slot, |body| body.live_len(&self.roster.now()))
    }

    /// The bytes that the slot's table and entries take here, without what the allocator adds.
    /// Looks at every entry.
    ///
    /// # Errors
    /// [`AdminError::Worker`] with `Reentrant` from inside a closure under a token.
    pub fn memory_bytes_in_slot(&self, slot: Slot) -> Result<usize, AdminError> {
        self.look(slot, Shard::memory_bytes)
    }

    /// Up to `count` keys of the slot that lie here, in no order, expired ones that nobody met yet
    /// included (GETKEYSINSLOT).
    ///
    /// # Errors
    /// [`AdminError::Worker`] with `Reentrant` from inside a closure under a token.
    pub fn keys_in_slot(&self, slot: Slot, count: usize) -> Result<Vec<Box<[u8]>>, AdminError> {
        self.look(slot, |body| {
            body.iter().take(count).map(|entry| Box::from(entry.key())).collect()
        })
    }

    /// The slots of which keys lie here, with their counts, expired keys included.
    ///
    /// # Errors
    /// [`AdminError::Worker`] with `Reentrant` from inside a closure under a token.
    pub fn stored_slots(&self) -> Result<Vec<(Slot, usize)>, AdminError> {
        let slots = self.member().populated.iter();
        let counts = slots.map(|slot| Ok((slot, self.count_keys_in_slot(slot)?)));
        counts.filter(|count| !matches!(count, Ok((_, 0)))).collect()
    }

    /// The name of the worker that owns the slot's shard here.
    pub fn worker_of(&self, slot: Slot) -> &str {
        self.member().worker(slot).name()
    }

    /// Runs a closure on the worker that owns the slot's shard here, and waits for it.
    ///
    /// On that worker itself the closure runs at once. A panic in the closure goes on in the
    /// caller. The closure holds no token and may call the engine; what would wait for another
    /// worker is refused there.
    ///
    /// # Errors
    /// [`AdminError::Worker`]: `Closed` after shutdown (the closure was dropped), `Reentrant` from
    /// inside a token or from another worker.
    pub fn run_on_worker<R: Send>(
        &self,
        slot: Slot,
        closure: impl FnOnce() -> R + Send,
    ) -> Result<R, AdminError> {
        self.roster.expect_open()?;
        Ok(self.member().worker(slot).call(Patience::Wait, closure)?)
    }

    /// The moves that begin or end at this node, open ones first, then the ended ones that are
    /// remembered, newest first.
    pub fn moves(&self) -> Vec<MoveRecord> {
        let mut records = self.roster.moves.all();
        records.retain(|record| record.source == self.id || record.target == self.id);
        records
    }

    /// The time since the cluster began.
    pub fn uptime(&self) -> Duration {
        Duration::from_nanos(self.roster.now().nanos())
    }
}
