//! SETSLOT and DELSLOTS as a Redis server obeys them: on one node alone, hazards included.

use std::fmt;

use crate::migration::Closed;
use crate::migration::SetSlotError;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::node::AdminError;
use crate::node::Claim;
use crate::node::Member;
use crate::node::MovePhase;
use crate::node::Node;
use crate::node::SetSlot;
use crate::node::member::set_state;
use crate::node::member::state_of;
use crate::node::slots::distinct;
use crate::shard::Dropped;
use crate::shard::Hold;
use crate::shard::Value;
use crate::slot::Slot;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;
use crate::worker::WorkerError;

/// The verbs of one node as a Redis server obeys them; see [`Node::as_redis`].
pub struct AsRedis<'n, V: Value + ?Sized = [u8]> {
    node: &'n Node<V>,
}

impl<V: Value + ?Sized> fmt::Debug for AsRedis<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsRedis").field("node", self.node).finish()
    }
}

impl<V: Value + ?Sized> Node<V> {
    /// The verbs of this node as a Redis server obeys them: for people who test tools and clients
    /// against what a real server does. **They lose keys where Redis loses them.**
    ///
    /// Each looks at this node alone, overwrites marks, and moves neither keys nor the views of
    /// others, but for the gossip after a flip. The engine stays sound: moves elsewhere, and calls
    /// to other slots, know nothing of it.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::{Cluster, SetSlot, Slot};
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cluster = Cluster::builder().nodes(2).build()?;
    /// let (client, slot) = (cluster.client(), Slot::of("{b}"));
    /// let (source, target) = (&cluster.nodes()[0], &cluster.nodes()[1]);
    /// client.set("{b}", b"v")?;
    /// target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    /// let id = source.set_slot(slot, SetSlot::Migrating { target: target.id() })?.unwrap();
    /// source.migrate_batch(slot, id, 1)?;
    /// assert!(source.set_slot(slot, SetSlot::Stable).is_err(), "the key would be out of reach");
    /// source.as_redis().set_slot(slot, SetSlot::Stable)?;
    /// assert!(client.get("{b}")?.is_none(), "and now it is");
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_redis(&self) -> AsRedis<'_, V> {
        AsRedis { node: self }
    }
}

impl<V: Value + ?Sized> AsRedis<'_, V> {
    /// SETSLOT on this node alone.
    ///
    /// | verb | refused when | does |
    /// |---|---|---|
    /// | MIGRATING | not the owner; no such node | overwrites the mark |
    /// | IMPORTING | the owner; no such node | overwrites the mark |
    /// | STABLE | never | clears the mark, wherever the keys are |
    /// | NODE | no such node; gives away a slot of which a key is here | binds the slot here |
    ///
    /// MIGRATING takes over the id under which its target imports from here, or draws one. NODE
    /// changes this node's view only, and clears MIGRATING if no key is here. But when it names
    /// the node itself, which is importing, that is a flip: the mark goes, an epoch is drawn, and
    /// all others hear of it at once, whatever a test holds back on the bus.
    ///
    /// Who hears of such a flip binds the slot, unless it imports it. If it was the owner and owns
    /// other slots too, it deletes the keys that it holds; its mark stays. A binding without a flip
    /// is older than every claim, so that the next flip mends it. What Redis does in the background
    /// besides, such as heartbeats that take a slot back from a wrong owner, does not happen, and a
    /// node that loses its last slot stays a master.
    ///
    /// # Errors
    /// [`AdminError::SetSlot`] and [`AdminError::UnknownNode`], whose
    /// [`redis_text`](AdminError::redis_text) is that of Redis; `Worker` with `Busy` while a call
    /// is in the slot's gate, or another verb has it reserved (come back), `Closed`,
    /// `Reentrant`. Nothing was changed.
    pub fn set_slot(&self, slot: Slot, verb: SetSlot) -> Result<(), AdminError> {
        self.node.roster.expect_open()?;
        self.node.roster.expect_gate_open(slot)?;
        match verb {
            SetSlot::Migrating { target } => self.migrating(slot, target),
            SetSlot::Importing { source } => self.importing(slot, source),
            SetSlot::Stable => self.mark(slot, |_| Ok(SlotState::Stable)),
            SetSlot::Node { owner } => self.bind(slot, owner),
        }
    }

    /// DELSLOTS on this node alone, whoever owns the slots: in its view they get no owner, the
    /// others hear nothing, and the keys stay where they are, out of reach.
    ///
    /// # Errors
    /// [`AdminError::SlotUnassigned`] for a slot that has no owner in this node's view,
    /// `SlotListedTwice`, `Worker`. Nothing was changed, but for one case: `Busy` also says that a
    /// slot was reserved after all of them had been looked at, by ADDSLOTS, DELSLOTS or a handover;
    /// then the lower ones have no owner any more. The node's view tells which those are.
    pub fn del_slots(&self, slots: &[Slot]) -> Result<(), AdminError> {
        let slots = distinct(slots)?;
        self.node.roster.expect_open()?;
        let member = self.node.member();
        for slot in &slots {
            if member.view.owner(slot).is_none() {
                return Err(AdminError::SlotUnassigned { slot });
            }
            self.node.roster.expect_gate_open(slot)?;
            drop(self.lock(slot)?);
        }
        for slot in &slots {
            let (mut hold, _) = self.lock(slot)?;
            member.set_owned(slot, &mut hold, false);
            bind_in_view(member, slot, None);
        }
        Ok(())
    }

    fn migrating(&self, slot: Slot, target: NodeId) -> Result<(), AdminError> {
        let roster = &self.node.roster;
        let at_target = roster.member(target).map(|member| member.peek_state(slot));
        self.mark(slot, |me| {
            if !me.owns() {
                return Err(SetSlotError::NotOwner { node: me.node });
            }
            let at_target = at_target.ok_or(SetSlotError::UnknownPeer { peer: target })?;
            let id = match at_target {
                SlotState::Importing { source, id } if source == me.node => id,
                SlotState::Stable
                | SlotState::Importing { .. }
                | SlotState::Migrating { .. }
                | SlotState::Aborting { .. }
                | SlotState::Retired { .. }
                | SlotState::Reserved { .. } => roster.draw_move_id(),
            };
            roster.moves.change(id, |record| record.phase = MovePhase::Migrating);
            Ok(SlotState::Migrating { target, id })
        })
    }

    fn importing(&self, slot: Slot, source: NodeId) -> Result<(), AdminError> {
        let roster = &self.node.roster;
        self.mark(slot, |me| {
            if me.owns() {
                return Err(SetSlotError::AlreadyOwner { node: me.node });
            }
            if roster.member(source).is_none() {
                return Err(SetSlotError::UnknownPeer { peer: source });
            }
            let id = roster.draw_move_id();
            // A move from a node to itself is none, and nobody could drive it.
            if source != me.node {
                roster.begin_move(id, slot, (source, me.node), &roster.now());
            }
            // Keys that are here already are no copies of the source's.
            if me.has_keys {
                roster.moves.change(id, |record| record.phase = MovePhase::Migrating);
            }
            Ok(SlotState::Importing { source, id })
        })
    }

    /// Puts a mark over whatever is there.
    fn mark(
        &self,
        slot: Slot,
        decide: impl FnOnce(&Side) -> Result<SlotState, SetSlotError>,
    ) -> Result<(), AdminError> {
        let (mut hold, before) = self.lock(slot)?;
        let me = self.node.member().side(slot, &hold, &self.node.roster.now());
        let state = decide(&me).map_err(|error| AdminError::SetSlot { slot, error })?;
        set_state(&mut *hold, state);
        // So that a check looks at it.
        self.node.member().populated.insert(slot);
        drop(hold);
        self.forget(before);
        Ok(())
    }

    /// NODE.
    fn bind(&self, slot: Slot, owner: NodeId) -> Result<(), AdminError> {
        let roster = &self.node.roster;
        roster.named(owner)?;
        let (member, is_me) = (self.node.member(), owner == self.node.id);
        let (mut hold, before) = self.lock(slot)?;
        let is_empty = hold.len() == 0;
        if hold.owned && !is_me && !is_empty {
            let error = SetSlotError::SourceHoldsKeys { source_node: self.node.id };
            return Err(AdminError::SetSlot { slot, error });
        }
        let flips = is_me && is_target(before);
        let flip = flips.then(|| roster.flip_to(slot, Some(owner)));
        if let Some(ownership) = flip {
            member.view.raise(slot, ownership);
            member.saw_epoch(ownership.epoch);
        } else if roster.truth.owner(slot) == Some(owner) {
            member.view.raise(slot, roster.truth.get(slot));
        } else {
            bind_in_view(member, slot, Some(owner));
        }
        member.set_owned(slot, &mut hold, is_me);
        if flips || (is_empty && is_source(before)) {
            set_state(&mut *hold, SlotState::Stable);
        }
        drop(hold);
        if let (Some(ownership), Some(id)) = (flip, before.move_id()) {
            roster.moves.change(id, |record| record.phase = MovePhase::Flipped);
            let others = roster.members().filter(|other| other.id != self.node.id);
            others.for_each(|other| obey(other, Claim { slot, ownership }));
        }
        self.forget(before);
        Ok(())
    }

    /// The slot's token and its mark, unless ADDSLOTS, DELSLOTS or a handover is at work there.
    fn lock(&self, slot: Slot) -> Result<(Hold<'_, V>, SlotState), AdminError> {
        let hold = self.node.member().headers.get(slot).lock();
        let state = state_of(&hold);
        if matches!(state, SlotState::Reserved { .. }) {
            return Err(WorkerError::Busy.into());
        }
        Ok((hold, state))
    }

    /// Ends the record of a move when neither side has its mark any more. Marks are looked at one
    /// after the other: an id that both have lost is taken up by nobody.
    fn forget(&self, before: SlotState) {
        let roster = &self.node.roster;
        let Some(record) = before.move_id().and_then(|id| roster.moves.get(id)) else { return };
        let id = record.id;
        let has_mark =
            |node| roster.known(node).peek_state(record.slot).move_id() == Some(record.id);
        if !record.phase.is_ended() && ![record.source, record.target].into_iter().any(has_mark) {
            let flipped = record.phase == MovePhase::Flipped;
            roster.end_move(Closed { id, flipped }, &roster.now());
        }
    }
}

fn is_source(state: SlotState) -> bool {
    matches!(state, SlotState::Migrating { .. } | SlotState::Aborting { .. })
}

fn is_target(state: SlotState) -> bool {
    matches!(state, SlotState::Importing { .. } | SlotState::Retired { .. })
}

/// Binds a slot in one node's view without a flip. Only here does a word of a view get smaller: an
/// epoch older than that of what was known, so that no claim by the owner comes too late.
fn bind_in_view<V: Value + ?Sized>(member: &Member<V>, slot: Slot, owner: Option<NodeId>) {
    loop {
        let known = member.view.get(slot);
        let older = Epoch::new(known.epoch.get().saturating_sub(1));
        if known.owner == owner || member.view.replace(slot, known, SlotOwner::new(owner, older)) {
            return;
        }
    }
}

/// A node hears of a flip as Redis hears: it believes the greater epoch, and what it held of a slot
/// that was its own is deleted.
fn obey<V: Value + ?Sized>(member: &Member<V>, Claim { slot, ownership }: Claim) {
    let is_mine = |known: SlotOwner| known.owner == Some(member.id);
    let owns_others = member.view.iter().any(|(other, known)| other != slot && is_mine(known));
    let mut dropped = Dropped::new();
    let mut hold = member.headers.get(slot).lock();
    let state = state_of(&hold);
    let skips = is_target(state) || matches!(state, SlotState::Reserved { .. });
    if skips || member.view.get(slot).epoch >= ownership.epoch {
        return;
    }
    if hold.owned && owns_others {
        hold.clear(&mut dropped);
    }
    member.view.raise(slot, ownership);
    member.saw_epoch(ownership.epoch);
    member.set_owned(slot, &mut hold, false);
}
