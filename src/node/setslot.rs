//! SETSLOT: the verbs of a classic move, applied under the tokens they need.

use crate::migration::Closed;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::migration::flip;
use crate::migration::importing;
use crate::migration::migrating;
use crate::migration::node_on_source;
use crate::migration::stable;
use crate::node::AdminError;
use crate::node::Claim;
use crate::node::Member;
use crate::node::Message;
use crate::node::MovePhase;
use crate::node::MoveRecord;
use crate::node::Node;
use crate::node::Roster;
use crate::node::pair::lock_pair;
use crate::shard::Dropped;
use crate::shard::KeyHasher;
use crate::shard::Room;
use crate::shard::Shard;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::time::Now;
use crate::topology::NodeId;

/// A verb of SETSLOT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SetSlot {
    /// On the target, first: keys may come from `source`.
    Importing {
        /// The owner.
        source: NodeId,
    },
    /// On the source, second: keys go to `target`, which imports from here.
    Migrating {
        /// The importer.
        target: NodeId,
    },
    /// On either side: closes the move, if no key has travelled or all have.
    Stable,
    /// On the target: it becomes the owner, if the source holds no live key. On the source, after
    /// that: it learns so. On any other node: it hears of `owner`'s claim.
    Node {
        /// The owner.
        owner: NodeId,
    },
}

/// Both sides of a slot under both tokens.
pub(super) struct Pair<'a, V: Value + ?Sized> {
    pub(super) me: Side,
    pub(super) peer: Side,
    pub(super) my_shard: &'a mut Shard<V>,
    pub(super) peer_shard: &'a mut Shard<V>,
    pub(super) now: &'a Now<'a>,
    pub(super) hasher: &'a KeyHasher,
    pub(super) dropped: &'a mut Dropped<V>,
    /// What has to be asked before keys come to the peer, if it is bounded. What comes home from a
    /// move that failed does not ask.
    pub(super) peer_room: Option<&'a Room<'a>>,
}

impl<V: Value + ?Sized> Roster<V> {
    /// Runs a transition under both tokens of a slot and writes back what it changed.
    pub(super) fn on_pair<R>(
        &self,
        (me, peer): (&Member<V>, &Member<V>),
        slot: Slot,
        transition: impl FnOnce(&mut Pair<'_, V>) -> R,
    ) -> R {
        self.on_marks((me, peer), slot, |pair| {
            pair.me.has_keys = pair.my_shard.has_live(pair.now);
            pair.peer.has_keys = pair.peer_shard.has_live(pair.now);
            transition(pair)
        })
    }

    /// Begins the record of a move, in the hold that marks its target.
    pub(super) fn begin_move(
        &self,
        id: MoveId,
        slot: Slot,
        (source, target): (NodeId, NodeId),
        now: &Now<'_>,
    ) {
        let sides = (slot, source, target);
        self.moves.begin(MoveRecord::new(id, sides, MovePhase::Importing, now));
    }

    /// [`on_pair`](Self::on_pair) for transitions that do not ask which side has keys.
    pub(super) fn on_marks<R>(
        &self,
        (me, peer): (&Member<V>, &Member<V>),
        slot: Slot,
        transition: impl FnOnce(&mut Pair<'_, V>) -> R,
    ) -> R {
        let mut dropped = Dropped::new();
        let (mut mine, mut theirs) = lock_pair(me, peer, slot);
        let now = self.now();
        let my_side = me.marks(slot, &mine);
        let peer_side = peer.marks(slot, &theirs);
        let peer_room = theirs.room();
        let mut pair = Pair {
            me: my_side,
            peer: peer_side,
            my_shard: &mut mine,
            peer_shard: &mut theirs,
            now: &now,
            hasher: &self.hasher,
            dropped: &mut dropped,
            peer_room: peer_room.as_ref(),
        };
        let result = transition(&mut pair);
        let (my_new, peer_new) = (pair.me, pair.peer);
        if (my_new.view, my_new.state) != (my_side.view, my_side.state) {
            me.put_side(slot, &mut mine, &my_new);
        }
        if (peer_new.view, peer_new.state) != (peer_side.view, peer_side.state) {
            peer.put_side(slot, &mut theirs, &peer_new);
        }
        if let Some(room) = &peer_room {
            theirs.settle_with(room);
        }
        me.release(slot, mine);
        peer.release(slot, theirs);
        result
    }
}

impl<V: Value + ?Sized> Node<V> {
    /// A verb of SETSLOT on this node. IMPORTING and MIGRATING return the id of the move.
    ///
    /// Twice is harmless: a verb whose effect stands already changes nothing.
    ///
    /// # Errors
    /// [`AdminError::SetSlot`] with the reason; [`AdminError::UnknownNode`];
    /// [`AdminError::Worker`]: `Busy` while a call that lost too many races holds the slot still
    /// (come back), `Closed`, `Reentrant`. Nothing was changed.
    pub fn set_slot(&self, slot: Slot, verb: SetSlot) -> Result<Option<MoveId>, AdminError> {
        self.set_slot_of(slot, verb, None)
    }

    /// A verb of SETSLOT as a step of the move `id`: refused when the slot is not open under it.
    ///
    /// # Errors
    /// As [`set_slot`](Self::set_slot), and
    /// [`SetSlotError::NoSuchMove`] when the move has ended.
    pub fn set_slot_step(
        &self,
        slot: Slot,
        verb: SetSlot,
        id: MoveId,
    ) -> Result<Option<MoveId>, AdminError> {
        self.set_slot_of(slot, verb, Some(id))
    }

    fn set_slot_of(
        &self,
        slot: Slot,
        verb: SetSlot,
        step_of: Option<MoveId>,
    ) -> Result<Option<MoveId>, AdminError> {
        self.roster.expect_open()?;
        self.roster.expect_gate_open(slot).inspect_err(|_| {
            if let Some(id) = step_of {
                self.roster.moves.waited(id);
            }
        })?;
        let done = match verb {
            SetSlot::Importing { source } => self.set_importing(slot, source),
            SetSlot::Migrating { target } => self.set_migrating(slot, target, step_of),
            SetSlot::Stable => self.set_stable(slot, step_of),
            SetSlot::Node { owner } if owner == self.id => self.take_slot(slot, step_of),
            SetSlot::Node { owner } => self.yield_slot(slot, owner, step_of),
        };
        if let (Err(error), Some(id)) = (&done, step_of) {
            self.roster.moves.refused(id, *error);
        }
        done
    }

    fn set_importing(&self, slot: Slot, source: NodeId) -> Result<Option<MoveId>, AdminError> {
        self.roster.named(source)?;
        let member = self.member();
        let id = self.roster.draw_move_id();
        let mut hold = member.headers.get(slot).lock();
        let now = self.roster.now();
        let mut side = member.side(slot, &hold, &now);
        importing(&mut side, source, id).map_err(|error| AdminError::SetSlot { slot, error })?;
        member.put_side(slot, &mut hold, &side);
        self.roster.begin_move(id, slot, (source, self.id), &now);
        Ok(Some(id))
    }

    fn set_migrating(
        &self,
        slot: Slot,
        target: NodeId,
        step_of: Option<MoveId>,
    ) -> Result<Option<MoveId>, AdminError> {
        let peer = self.roster.named(target)?;
        if target == self.id {
            let error = SetSlotError::MoveToSelf { node: target };
            return Err(AdminError::SetSlot { slot, error });
        }
        let opened = self.roster.on_pair((self.member(), peer), slot, |pair| {
            expect_step(step_of, pair.peer.state)?;
            let id = migrating(&mut pair.me, &mut pair.peer)?;
            let left = pair.my_shard.len() as u64;
            self.roster.moves.change(id, |record| {
                record.phase = MovePhase::Migrating;
                record.keys_left = left;
            });
            Ok(Some(id))
        });
        opened.map_err(|error| AdminError::SetSlot { slot, error })
    }

    fn set_stable(
        &self,
        slot: Slot,
        step_of: Option<MoveId>,
    ) -> Result<Option<MoveId>, AdminError> {
        let refused = |error| AdminError::SetSlot { slot, error };
        let state = self.member().peek_state(slot);
        expect_step(step_of, state).map_err(refused)?;
        let Some(peer) = self.member().peer_in(state) else {
            return match state.move_id() {
                // After a flip the source may not have heard of it: then this is NODE there.
                None => {
                    self.claim_again(slot);
                    Ok(None)
                }
                Some(id) => Err(refused(SetSlotError::SlotIsOpen { node: self.id, id })),
            };
        };
        let peer = self.roster.known(peer);
        let closed = self.roster.on_pair((self.member(), peer), slot, |pair| {
            // The marks may have changed since the look: what is named is this move.
            if pair.me.state != state {
                return Err(SetSlotError::NoSuchMove);
            }
            pair.me.has_keys &= !self.holds_copies(pair);
            let closed = stable(&mut pair.me, &mut pair.peer)?;
            if let Some(closed) = closed {
                self.close(pair, closed);
            }
            Ok(closed.map(|closed| closed.id))
        });
        closed.map_err(refused)
    }

    /// Tells everybody again of a slot that is this node's, for those that missed it.
    fn claim_again(&self, slot: Slot) {
        let ownership = self.member().view.get(slot);
        if ownership.owner == Some(self.id) {
            self.roster.broadcast(self.id, &[Claim { slot, ownership }]);
        }
    }

    /// Whether the keys that this node imports are but copies, made before the move began.
    fn holds_copies(&self, pair: &Pair<'_, V>) -> bool {
        let SlotState::Importing { id, .. } = pair.me.state else { return false };
        let record = self.roster.moves.get(id).filter(|_| pair.me.has_keys);
        record.is_some_and(|record| record.explains_copies(pair.my_shard.live_len(pair.now)))
    }

    /// Ends a move in the hold that cleared its marks: what lies on a side that does not own the
    /// slot is dead, or a copy. A side that another move has marked is left alone: an importer
    /// holds that move's keys. So are keys that lost their owner by hand: a fix finds them.
    fn close(&self, pair: &mut Pair<'_, V>, closed: Closed) {
        let is_left = |side: &Side| !side.owns() && !side.state.is_open() && !side.has_keys;
        if is_left(&pair.me) {
            pair.my_shard.clear(pair.dropped);
        }
        if is_left(&pair.peer) {
            pair.peer_shard.clear(pair.dropped);
        }
        self.roster.end_move(closed, pair.now);
    }

    /// NODE on the target.
    fn take_slot(&self, slot: Slot, step_of: Option<MoveId>) -> Result<Option<MoveId>, AdminError> {
        let refused = |error| AdminError::SetSlot { slot, error };
        let member = self.member();
        if step_of.is_none() && member.view.owner(slot) == Some(self.id) {
            self.claim_again(slot);
            return Ok(None);
        }
        let state = member.peek_state(slot);
        expect_step(step_of, state).map_err(refused)?;
        let source = member.peer_in(state);
        let (SlotState::Importing { .. }, Some(source)) = (state, source) else {
            return Err(refused(SetSlotError::WrongOrder));
        };
        let source = self.roster.known(source);
        let flipped = self.roster.on_pair((member, source), slot, |pair| {
            if pair.me.state != state {
                return Err(SetSlotError::NoSuchMove);
            }
            let own = || self.roster.flip_to(slot, Some(self.id));
            let id = flip(&pair.peer, &mut pair.me, own)?;
            // No live key is there; what is left has expired.
            pair.peer_shard.clear_expired(pair.dropped);
            self.roster.moves.change(id, |record| record.phase = MovePhase::Flipped);
            Ok((id, pair.me.view))
        });
        let (id, ownership) = flipped.map_err(refused)?;
        self.roster.broadcast(self.id, &[Claim { slot, ownership }]);
        Ok(Some(id))
    }

    /// NODE on the source, or on a node that has no part in the move.
    fn yield_slot(
        &self,
        slot: Slot,
        owner: NodeId,
        step_of: Option<MoveId>,
    ) -> Result<Option<MoveId>, AdminError> {
        let peer = self.roster.named(owner)?;
        let learned = self.roster.on_pair((self.member(), peer), slot, |pair| {
            expect_step(step_of, pair.me.state)?;
            let closed = node_on_source(&mut pair.me, &pair.peer)?;
            if let Some(closed) = closed {
                self.close(pair, closed);
            }
            Ok((closed, pair.peer.view))
        });
        let (closed, known) = learned.map_err(|error| AdminError::SetSlot { slot, error })?;
        if closed.is_none() {
            // A contact: the node hears what the named one claims, and nothing else.
            let claims = Arc::from([Claim { slot, ownership: known }]);
            self.roster.deliver(&Message { from: owner, to: self.id, claims });
        }
        Ok(closed.map(|closed| closed.id))
    }
}

/// A step that names a move is refused when the slot is not open under it.
fn expect_step(step_of: Option<MoveId>, state: SlotState) -> Result<(), SetSlotError> {
    match step_of {
        Some(id) if state.move_id() != Some(id) => Err(SetSlotError::NoSuchMove),
        Some(_) | None => Ok(()),
    }
}
