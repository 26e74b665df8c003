//! `Member`: what one node is made of: headers, view, epochs, workers.

use std::collections::VecDeque;

use crate::command::Access;
use crate::evict::Hit;
use crate::evict::Policy;
use crate::limits::CONFLICTS_KEPT_MAX;
use crate::migration::MoveId;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::node::Bound;
use crate::node::Claim;
use crate::node::bounded::Order;
use crate::shard::Bare;
use crate::shard::Headers;
use crate::shard::Hold;
use crate::shard::Shard;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::sync::Arc;
use crate::sync::AtomicBool;
use crate::sync::AtomicU64;
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::time::NEVER;
use crate::time::Now;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotBits;
use crate::topology::SlotOwner;
use crate::topology::View;
use crate::worker::Worker;

/// Whether a node serves requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterState {
    /// It does.
    Ok,
    /// Some slot has no owner in the node's view, and full coverage is required.
    Fail,
}

/// A claim that contradicted an owner that did not give its slot away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// What was claimed.
    pub claim: Claim,
    /// What the owner knows.
    pub kept: SlotOwner,
}

/// What the builder decides about every node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberOptions {
    pub(crate) full_coverage: bool,
    /// How much the node may hold, if that is bounded.
    pub(crate) bound: Option<Bound>,
    /// What it does at that bound.
    pub(crate) policy: Policy,
}

/// One node.
pub(crate) struct Member<V: Value + ?Sized> {
    pub(crate) id: NodeId,
    pub(crate) headers: Headers<V>,
    /// Written under the slot's token; claims to slots that are not this node's need none.
    pub(crate) view: View,
    /// The slots that have had keys or a mark here.
    pub(crate) populated: SlotBits,
    /// The slots that want to be swept.
    pub(crate) deadlines: SlotBits,
    pub(crate) workers: Box<[Arc<Worker>]>,
    /// How room is made, where what the node holds is bounded.
    pub(super) order: Option<Order>,
    epoch_seen: AtomicU64,
    epoch_bumped: AtomicU64,
    full_coverage: AtomicBool,
    reads_when_down: AtomicBool,
    conflicts: Mutex<VecDeque<Conflict>>,
}

impl<V: Value + ?Sized> Member<V> {
    /// A node that owns what `view` says that it owns, and has no keys.
    pub(crate) fn new(
        id: NodeId,
        view: View,
        workers: Box<[Arc<Worker>]>,
        options: MemberOptions,
    ) -> Self {
        let MemberOptions { full_coverage, bound, policy } = options;
        let headers = Headers::new(bound.map(|bound| bound.budget(policy)));
        let order = headers.budget().map(|budget| Order::new(policy, budget.bound()));
        for (slot, _) in view.owned_by(id) {
            headers.get(slot).lock().owned = true;
        }
        Self {
            id,
            headers,
            view,
            populated: SlotBits::new(),
            deadlines: SlotBits::new(),
            workers,
            order,
            epoch_seen: AtomicU64::new(0),
            epoch_bumped: AtomicU64::new(0),
            full_coverage: AtomicBool::new(full_coverage),
            reads_when_down: AtomicBool::new(false),
            conflicts: Mutex::default(),
        }
    }

    /// The worker that owns the slot's shard. Neighbouring slots go to different workers, so that
    /// a node that owns one range uses all of them.
    #[inline]
    pub(crate) fn worker(&self, slot: Slot) -> &Worker {
        &self.workers[slot.index() % self.workers.len()]
    }

    /// What a hit leaves behind in a hold with this serial.
    #[inline]
    pub(super) fn hit(&self, slot: Slot, serial: u16) -> Hit {
        self.order.as_ref().map_or(Hit::Mark, |order| order.hit(slot, serial))
    }

    /// Whether requests are served. Relaxed: a switch may be seen a little later.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.view.is_full() || !self.full_coverage.load(Ordering::Relaxed)
    }

    /// Whether the state of the cluster lets a request pass.
    pub(crate) fn serves(&self, access: Access) -> bool {
        self.is_up() || (access == Access::Read && self.reads_when_down())
    }

    pub(crate) fn cluster_state(&self) -> ClusterState {
        if self.is_up() { ClusterState::Ok } else { ClusterState::Fail }
    }

    pub(crate) fn set_full_coverage(&self, required: bool) {
        self.full_coverage.store(required, Ordering::Relaxed);
    }

    pub(crate) fn reads_when_down(&self) -> bool {
        self.reads_when_down.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reads_when_down(&self, allowed: bool) {
        self.reads_when_down.store(allowed, Ordering::Relaxed);
    }

    pub(crate) fn saw_epoch(&self, epoch: Epoch) {
        self.epoch_seen.fetch_max(epoch.get(), Ordering::Relaxed);
    }

    pub(crate) fn current_epoch(&self) -> Epoch {
        Epoch::new(self.epoch_seen.load(Ordering::Relaxed))
    }

    pub(crate) fn bump_epoch(&self, epoch: Epoch) {
        self.epoch_bumped.fetch_max(epoch.get(), Ordering::Relaxed);
        self.saw_epoch(epoch);
    }

    pub(crate) fn config_epoch(&self) -> Epoch {
        let bumped = Epoch::new(self.epoch_bumped.load(Ordering::Relaxed));
        self.view.owned_by(self.id).map(|(_, epoch)| epoch).fold(bumped, Epoch::max)
    }

    pub(crate) fn keep_conflict(&self, claim: Claim, kept: SlotOwner) {
        let mut conflicts = self.conflicts.lock();
        if conflicts.iter().any(|known| known.claim == claim) {
            return;
        }
        if conflicts.len() == CONFLICTS_KEPT_MAX {
            conflicts.pop_front();
        }
        conflicts.push_back(Conflict { claim, kept });
    }

    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        self.conflicts.lock().iter().copied().collect()
    }

    pub(crate) fn forget_resolved_conflicts(&self, slots: &SlotSet) -> usize {
        let mut conflicts = self.conflicts.lock();
        let before = conflicts.len();
        conflicts.retain(|Conflict { claim, .. }| {
            !slots.contains(claim.slot) || self.view.get(claim.slot).epoch < claim.ownership.epoch
        });
        before - conflicts.len()
    }

    /// How many units ran here.
    pub(crate) fn unit_count(&self) -> u64 {
        self.touched_slots().iter().map(|slot| self.headers.get(slot).unit_count()).sum()
    }

    /// The slots of which something may have happened here: this node's, and those that have had
    /// keys or a mark here.
    pub(super) fn touched_slots(&self) -> SlotSet {
        let mut slots: SlotSet = self.populated.iter().collect();
        slots.extend(self.view.owned_by(self.id).map(|(slot, _)| slot));
        slots
    }

    /// The other node that a mark here names. None when it names this node itself, which only the
    /// verbs of [`AsRedis`](crate::AsRedis) can make of it.
    pub(crate) fn peer_in(&self, state: SlotState) -> Option<NodeId> {
        state.peer().filter(|&peer| peer != self.id)
    }

    /// Reads a slot's body under its token.
    pub(crate) fn peek<R>(&self, slot: Slot, read: impl FnOnce(&Shard<V>) -> R) -> R {
        read(&self.headers.get(slot).lock())
    }

    pub(crate) fn peek_state(&self, slot: Slot) -> SlotState {
        self.peek(slot, state_of)
    }

    /// What the state machine sees of a slot here. Looks for a live key, which takes long only when
    /// many have expired.
    pub(crate) fn side(&self, slot: Slot, body: &Shard<V>, now: &Now<'_>) -> Side {
        Side { has_keys: body.has_live(now), ..self.marks(slot, body) }
    }

    /// [`side`](Self::side) for who does not ask for keys.
    pub(crate) fn marks(&self, slot: Slot, body: &Shard<V>) -> Side {
        let (view, state) = (self.view.get(slot), state_of(body));
        Side { node: self.id, view, state, has_keys: false }
    }

    /// Writes back what the state machine changed.
    pub(crate) fn put_side(&self, slot: Slot, body: &mut Shard<V>, side: &Side) {
        self.view.raise(slot, side.view);
        self.saw_epoch(side.view.epoch);
        self.set_owned(slot, body, side.owns());
        if side.state.is_open() {
            self.populated.insert(slot);
        }
        set_state(body, side.state);
    }

    /// Whether this node owns the slot in its view, or has had a key or a mark of it. What it may
    /// have besides is nothing.
    pub(crate) fn has_touched(&self, slot: Slot) -> bool {
        self.view.owner(slot) == Some(self.id) || self.populated.contains(slot)
    }

    /// Says whether this node owns the slot. A slot that leaves is remembered as one that has had
    /// keys here, so that its operations stay counted.
    pub(crate) fn set_owned(&self, slot: Slot, body: &mut Shard<V>, owned: bool) {
        if body.owned && !owned {
            self.populated.insert(slot);
        }
        body.owned = owned;
    }

    /// Gives the token back after an operation; renews the hint to the table, and tells the worker
    /// of a nearer deadline.
    #[inline]
    pub(crate) fn release(&self, slot: Slot, mut hold: Hold<'_, V>) {
        if hold.take_news() {
            self.release_with_news(slot, hold);
        }
    }

    /// [`release`](Self::release) where nothing is bounded.
    #[inline]
    pub(crate) fn release_bare(&self, slot: Slot, mut hold: Bare<'_, V>) {
        if hold.take_news() {
            self.release_with_news(slot, hold.unbounded());
        }
    }

    #[cold]
    fn release_with_news(&self, slot: Slot, hold: Hold<'_, V>) {
        self.headers.renew_hint(slot, &hold);
        let deadline = hold.next_deadline();
        self.populated.insert(slot);
        if let Some(order) = &self.order {
            order.note_table(slot);
        }
        if deadline == NEVER {
            return;
        }
        self.deadlines.insert(slot);
        drop(hold);
        self.worker(slot).expect_deadline(deadline);
    }
}

const MIGRATING: u8 = 1;
const IMPORTING: u8 = 2;
const ABORTING: u8 = 3;
const RETIRED: u8 = 4;
const RESERVED: u8 = 5;

/// The mark of a header as a state.
pub(crate) fn state_of<V: Value + ?Sized>(body: &Shard<V>) -> SlotState {
    let id = MoveId::new(body.move_id());
    let Some(peer) = NodeId::unpacked(u64::from(body.peer)) else {
        return if body.mark == RESERVED { SlotState::Reserved { id } } else { SlotState::Stable };
    };
    match body.mark {
        MIGRATING => SlotState::Migrating { target: peer, id },
        IMPORTING => SlotState::Importing { source: peer, id },
        ABORTING => SlotState::Aborting { target: peer, id },
        RETIRED => SlotState::Retired { source: peer, id },
        _ => SlotState::Stable,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a packed node id has 16 bits")]
pub(crate) fn set_state<V: Value + ?Sized>(body: &mut Shard<V>, state: SlotState) {
    body.mark = match state {
        SlotState::Stable => 0,
        SlotState::Migrating { .. } => MIGRATING,
        SlotState::Importing { .. } => IMPORTING,
        SlotState::Aborting { .. } => ABORTING,
        SlotState::Retired { .. } => RETIRED,
        SlotState::Reserved { .. } => RESERVED,
    };
    body.peer = state.peer().map_or(0, |peer| peer.packed() as u16);
    body.set_move_id(state.move_id().map_or(0, MoveId::get));
}
