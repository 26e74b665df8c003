//! Handover: a slot changes its owner with everything in it, under both tokens, in constant time.

use crate::migration::Closed;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::SlotState;
use crate::migration::hand_over;
use crate::migration::release;
use crate::migration::reserve;
use crate::node::AdminError;
use crate::node::Claim;
use crate::node::HandoverId;
use crate::node::HandoverStep;
use crate::node::MovePhase;
use crate::node::MoveRecord;
use crate::node::Node;
use crate::node::Roster;
use crate::node::handover_set::Change;
use crate::node::handover_set::Next;
use crate::node::handover_set::Reservation;
use crate::node::setslot::Pair;
use crate::shard::Room;
use crate::shard::Value;
use crate::slot::Slot;
use crate::testing::Fault;
use crate::topology::NodeId;

/// What a handover came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandedOver {
    /// The move: one that was open, or one that began and ended in this hold.
    pub id: MoveId,
    /// How many keys changed hands, expired ones that nobody met yet included.
    pub keys: u64,
}

/// What a handover had to go through before its record begins.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tried {
    /// How many tries were refused, or found the slot held still for a call.
    pub(crate) retries: u64,
    /// Why the last one that was refused was refused.
    pub(crate) last_error: Option<AdminError>,
}

impl Tried {
    /// A try that came to nothing.
    pub(crate) fn note(&mut self, error: AdminError) {
        self.retries += 1;
        if !matches!(error, AdminError::Worker(_)) {
            self.last_error = Some(error);
        }
    }
}

impl<V: Value + ?Sized> Node<V> {
    /// Hands a slot of this node over to `target`, with every key in it, at one instant: one hold
    /// of both tokens, on the calling thread, which takes the same short time whatever the slot
    /// holds.
    ///
    /// Every call is served by this node or by `target`, never by neither: no ASK, no TRYAGAIN, no
    /// pause. A client whose map is old is sent on once. Values, deadlines and identities stay.
    ///
    /// A move of the slot between the same two nodes is completed by this, if all of its keys lie
    /// on one of the two sides.
    ///
    /// # Errors
    /// [`AdminError::SetSlot`]: `NotOwner`, `MoveToSelf`, `SlotIsOpen` for a slot that is open or
    /// reserved otherwise, `KeysSplit` for an open move whose keys lie on both sides (send the
    /// others or abort, then retry), `TargetHoldsKeys`; [`AdminError::TargetFull`];
    /// [`AdminError::UnknownNode`];
    /// [`AdminError::Worker`]: `Busy` while a call that lost too many races holds the slot still
    /// (come back), `Closed`, `Reentrant`. Nothing was changed.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::{Cluster, Slot};
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cluster = Cluster::builder().nodes(2).build()?;
    /// let client = cluster.client();
    /// client.set("user:1000", b"Ada")?;
    /// let slot = Slot::of("user:1000");
    /// let [first, second] = [0, 1].map(|index| cluster.nodes()[index].clone());
    /// let (source, target) =
    ///     if first.slots().contains(slot) { (first, second) } else { (second, first) };
    /// assert_eq!(source.hand_over(slot, target.id())?.keys, 1);
    /// assert!(target.slots().contains(slot));
    /// assert_eq!(client.get("user:1000")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn hand_over(&self, slot: Slot, target: NodeId) -> Result<HandedOver, AdminError> {
        self.hand_over_after(Tried::default(), slot, target)
    }

    /// [`hand_over`](Self::hand_over) by a driver that has tried before.
    pub(crate) fn hand_over_after(
        &self,
        tried: Tried,
        slot: Slot,
        target: NodeId,
    ) -> Result<HandedOver, AdminError> {
        self.roster.expect_open()?;
        let peer = self.roster.named(target)?;
        if target == self.id {
            let error = SetSlotError::MoveToSelf { node: target };
            return Err(AdminError::SetSlot { slot, error });
        }
        self.roster.expect_gate_open(slot)?;
        let sides = (self.member(), peer);
        let (handed, claim) = self.roster.with_room_at(peer, || {
            self.roster.on_marks(sides, slot, |pair| self.roster.hand_over(slot, pair, None, tried))
        })?;
        self.roster.broadcast(target, &[claim]);
        // What has come over may be more than the target may hold.
        self.roster.make_room(peer, None);
        Ok(handed)
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// The hold of a handover: marks, views, table and record. The caller makes the claim known.
    fn hand_over(
        &self,
        slot: Slot,
        pair: &mut Pair<'_, V>,
        reserved: Option<MoveId>,
        tried: Tried,
    ) -> Result<(HandedOver, Claim), AdminError> {
        // Only an open pair asks whether the source has keys; else its entries are not looked at.
        if matches!(pair.me.state, SlotState::Migrating { .. }) {
            pair.me.has_keys = pair.my_shard.has_live(pair.now);
        }
        pair.peer.has_keys =
            pair.peer_shard.has_live(pair.now) && !self.faults.has(Fault::HandoverOverKeys);
        let (before, target) = (pair.me, pair.peer.node);
        let own = || self.flip_to(slot, Some(target));
        if let (None, false, Some(room)) = (reserved, pair.peer.has_keys, pair.peer_room) {
            let admitted = room.admit_all_of(pair.my_shard);
            admitted.map_err(|refusal| AdminError::target_full(slot, refusal))?;
        }
        let handed = hand_over(&mut pair.me, &mut pair.peer, reserved, own)
            .map_err(|error| AdminError::SetSlot { slot, error })?;
        if self.faults.has(Fault::HandoverOneSide) {
            pair.me = before;
        }
        let mut keys = 0;
        if handed.from_source {
            keys = pair.my_shard.len() as u64;
            pair.my_shard.hand_over_to(pair.peer_shard, pair.dropped);
        } else {
            pair.my_shard.clear_expired(pair.dropped);
        }
        let id = match handed.id {
            Some(id) => {
                self.moves.change(id, |record| {
                    record.keys_moved += keys;
                    record.retries += tried.retries;
                    record.last_error = tried.last_error.or(record.last_error);
                });
                self.end_move(Closed { id, flipped: true }, pair.now);
                id
            }
            None => self.note_whole_move(slot, pair, keys, tried),
        };
        Ok((HandedOver { id, keys }, Claim { slot, ownership: pair.peer.view }))
    }

    /// Writes the record of a move that began and ended in one hold.
    fn note_whole_move(&self, slot: Slot, pair: &Pair<'_, V>, keys: u64, tried: Tried) -> MoveId {
        let began = record_of(self.draw_move_id(), slot, pair, None);
        self.moves.note_ended(MoveRecord {
            phase: MovePhase::Completed,
            keys_moved: keys,
            retries: tried.retries,
            last_error: tried.last_error,
            ended: Some(began.began),
            ..began
        });
        began.id
    }

    /// One hold of the handover of a set: a reservation, a flip or a release; at the end the claims
    /// of the set are made known.
    pub(crate) fn handover_step(&self, id: HandoverId) -> Result<HandoverStep, AdminError> {
        self.expect_open()?;
        let Some(next) = self.handovers.next(id) else {
            // Another driver was faster, and this one comes to the same end.
            let flipped = self.handovers.ended(id).ok_or(AdminError::NoSuchHandover { id })?;
            return Ok(HandoverStep::Done { flipped });
        };
        let (planned, change) = match next {
            Next::Change(planned, change) => (planned, change),
            Next::End { flipped } => {
                if flipped {
                    self.tell_of(id);
                }
                self.handovers.end(id, flipped);
                return Ok(HandoverStep::Done { flipped });
            }
        };
        let slot = planned.slot;
        if let Change::Flip(reserved) = change {
            // The others pass the gate: no call sees a reservation come or go.
            self.expect_gate_open(slot).inspect_err(|_| self.moves.waited(reserved.id))?;
        }
        let sides = (self.known(planned.source), self.known(planned.target));
        let step = |pair: &mut Pair<'_, V>| match change {
            Change::Reserve => self.reserve(id, slot, pair),
            Change::Flip(reserved) => self.flip_reserved(id, (slot, reserved), pair),
            Change::Release(reserved) => self.release_reserved(id, (slot, reserved), pair),
        };
        let stepped = self.with_room_at(sides.1, || self.on_marks(sides, slot, step));
        if stepped.is_ok() {
            self.make_room(sides.1, None);
        }
        stepped.or_else(|error| {
            if self.handovers.next(id) != Some(next) {
                // Another driver was faster.
                return Ok(HandoverStep::More);
            }
            self.handovers.note_error(id, error);
            if let Change::Flip(reserved) | Change::Release(reserved) = change {
                self.moves.refused(reserved.id, error);
            }
            Err(error)
        })
    }

    fn reserve(
        &self,
        set: HandoverId,
        slot: Slot,
        pair: &mut Pair<'_, V>,
    ) -> Result<HandoverStep, AdminError> {
        let refused = |error| AdminError::SetSlot { slot, error };
        pair.peer.has_keys = pair.peer_shard.has_live(pair.now);
        let id = self.draw_move_id();
        if let Some(peer_room) = pair.peer_room {
            let admitted = peer_room.admit_all_of(pair.my_shard);
            admitted.map_err(|refusal| AdminError::target_full(slot, refusal))?;
        }
        reserve(&mut pair.me, &mut pair.peer, id).map_err(refused)?;
        let reserved = Reservation { id, room: pair.peer_room.map_or(0, Room::set_aside) };
        if !self.handovers.reserved(set, reserved) {
            // The set has turned round meanwhile: as if not tried.
            take_in(pair, reserved);
            release(&mut pair.me, &mut pair.peer, id).map_err(refused)?;
            return Err(refused(SetSlotError::NoSuchMove));
        }
        self.moves.begin(record_of(id, slot, pair, Some(set)));
        Ok(HandoverStep::Reserved { slot })
    }

    fn flip_reserved(
        &self,
        set: HandoverId,
        (slot, reserved): (Slot, Reservation),
        pair: &mut Pair<'_, V>,
    ) -> Result<HandoverStep, AdminError> {
        let (HandedOver { keys, .. }, _) =
            self.hand_over(slot, pair, Some(reserved.id), Tried::default())?;
        take_in(pair, reserved);
        self.handovers.flipped(set);
        Ok(HandoverStep::Flipped { slot, keys })
    }

    fn release_reserved(
        &self,
        set: HandoverId,
        (slot, reserved): (Slot, Reservation),
        pair: &mut Pair<'_, V>,
    ) -> Result<HandoverStep, AdminError> {
        let closed = release(&mut pair.me, &mut pair.peer, reserved.id)
            .map_err(|error| AdminError::SetSlot { slot, error })?;
        take_in(pair, reserved);
        // In this order: who hears that the set has ended finds that its records have, too.
        self.end_move(closed, pair.now);
        self.handovers.released(set);
        Ok(HandoverStep::Released { slot })
    }

    /// Tells everybody what the targets of a set know of its slots, in one message from each.
    fn tell_of(&self, id: HandoverId) {
        let Some(record) = self.handovers.get(id) else { return };
        let mut moves = record.moves.to_vec();
        moves.sort_by_key(|planned| planned.target);
        for of_one in moves.chunk_by(|one, next| one.target == next.target) {
            let target = of_one[0].target;
            let view = &self.known(target).view;
            let claim = |slot| Claim { slot, ownership: view.get(slot) };
            let claims: Vec<_> = of_one.iter().map(|planned| claim(planned.slot)).collect();
            self.broadcast(target, &claims);
        }
    }
}

/// Brings what was reserved at the target into this hold, at the end of which it is settled: with
/// what has come, or because nothing has.
fn take_in<V: Value + ?Sized>(pair: &Pair<'_, V>, reserved: Reservation) {
    if let Some(room) = pair.peer_room {
        room.take_in(reserved.room);
    }
}

/// A move that begins with both sides known.
fn record_of<V: Value + ?Sized>(
    id: MoveId,
    slot: Slot,
    pair: &Pair<'_, V>,
    set: Option<HandoverId>,
) -> MoveRecord {
    let sides = (slot, pair.me.node, pair.peer.node);
    MoveRecord { set, ..MoveRecord::new(id, sides, MovePhase::Reserved, pair.now) }
}
