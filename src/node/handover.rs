//! Handover: a slot changes its owner with everything in it, under both tokens, in constant time.

use std::time::Duration;

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
use crate::node::Member;
use crate::node::MovePhase;
use crate::node::MoveRecord;
use crate::node::Node;
use crate::node::Roster;
use crate::node::handover_set::Next;
use crate::node::setslot::Pair;
use crate::shard::Value;
use crate::slot::Slot;
use crate::topology::NodeId;
use crate::topology::PlannedMove;

/// What a handover came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandedOver {
    /// The move: one that was open, or one that began and ended in this hold.
    pub id: MoveId,
    /// How many keys changed hands, expired ones that nobody met yet included.
    pub keys: u64,
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
    /// others or abort, then retry), `TargetHoldsKeys`; [`AdminError::UnknownNode`];
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
        self.roster.expect_open()?;
        let peer = self.roster.named(target)?;
        let refused = |error| AdminError::SetSlot { slot, error };
        if target == self.id {
            return Err(refused(SetSlotError::MoveToSelf { node: target }));
        }
        self.roster.expect_gate_open(slot)?;
        let sides = (self.member(), peer);
        let handed =
            self.roster.on_marks(sides, slot, |pair| self.roster.hand_over(slot, pair, None));
        let (handed, claim) = handed.map_err(refused)?;
        self.roster.broadcast(target, &[claim]);
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
    ) -> Result<(HandedOver, Claim), SetSlotError> {
        // Only an open pair asks whether the source has keys; else its entries are not looked at.
        if matches!(pair.me.state, SlotState::Migrating { .. }) {
            pair.me.has_keys = pair.my_shard.has_live(pair.now);
        }
        pair.peer.has_keys = pair.peer_shard.has_live(pair.now);
        let target = pair.peer.node;
        let own = || self.flip_to(slot, Some(target));
        let handed = hand_over(&mut pair.me, &mut pair.peer, reserved, own)?;
        let mut keys = 0;
        if handed.from_source {
            keys = pair.my_shard.len() as u64;
            pair.my_shard.hand_over_to(pair.peer_shard, pair.dropped);
        } else {
            pair.my_shard.clear(pair.dropped);
        }
        let id = handed.id.unwrap_or_else(|| {
            let id = self.draw_move_id();
            self.moves.begin(record_of(id, slot, pair, None));
            id
        });
        self.moves.change(id, |record| record.keys_moved += keys);
        self.end_move(Closed { id, flipped: true }, pair.now);
        Ok((HandedOver { id, keys }, Claim { slot, ownership: pair.peer.view }))
    }

    /// One hold of the handover of a set: a reservation, a flip or a release; at the end the claims
    /// of the set are made known.
    pub(crate) fn handover_step(&self, id: HandoverId) -> Result<HandoverStep, AdminError> {
        self.expect_open()?;
        let next = self.handovers.next(id).ok_or(AdminError::NoSuchHandover { id })?;
        let (slot, stepped) = match next {
            Next::Reserve(index, planned) => {
                let reserved = |()| HandoverStep::Reserved { slot: planned.slot };
                (planned.slot, self.reserve_next(id, (index, planned)).map(reserved))
            }
            Next::Flip(planned, move_id) => {
                self.expect_gate_open(planned.slot)?;
                let flipped = |keys| HandoverStep::Flipped { slot: planned.slot, keys };
                (planned.slot, self.flip_next(id, (planned, move_id)).map(flipped))
            }
            Next::Release(planned, move_id) => {
                let released = |()| HandoverStep::Released { slot: planned.slot };
                (planned.slot, self.release_next(id, (planned, move_id)).map(released))
            }
            Next::End { flipped } => {
                if flipped {
                    self.tell_of(id);
                }
                self.handovers.end(id);
                return Ok(HandoverStep::Done { flipped });
            }
        };
        stepped.or_else(|error| {
            if self.handovers.next(id) != Some(next) {
                // Another driver was faster.
                return Ok(HandoverStep::More);
            }
            let error = AdminError::SetSlot { slot, error };
            self.handovers.note_error(id, error);
            Err(error)
        })
    }

    fn sides_of(&self, planned: PlannedMove) -> (&Member<V>, &Member<V>) {
        (self.known(planned.source), self.known(planned.target))
    }

    /// Reserves a slot. It passes the gate: no call sees a reservation.
    fn reserve_next(
        &self,
        set: HandoverId,
        (index, planned): (usize, PlannedMove),
    ) -> Result<(), SetSlotError> {
        self.on_marks(self.sides_of(planned), planned.slot, |pair| {
            pair.peer.has_keys = pair.peer_shard.has_live(pair.now);
            let id = self.draw_move_id();
            reserve(&mut pair.me, &mut pair.peer, id)?;
            if !self.handovers.reserved(set, index, id) {
                // The set has turned round, or another driver has come this far: as if not tried.
                release(&mut pair.me, &mut pair.peer, id)?;
                return Err(SetSlotError::NoSuchMove);
            }
            self.moves.begin(record_of(id, planned.slot, pair, Some(set)));
            Ok(())
        })
    }

    fn flip_next(
        &self,
        set: HandoverId,
        (planned, id): (PlannedMove, MoveId),
    ) -> Result<u64, SetSlotError> {
        self.on_marks(self.sides_of(planned), planned.slot, |pair| {
            let (handed, _) = self.hand_over(planned.slot, pair, Some(id))?;
            self.handovers.flipped(set);
            Ok(handed.keys)
        })
    }

    /// Gives a reservation up. It passes the gate: no call sees it.
    fn release_next(
        &self,
        set: HandoverId,
        (planned, id): (PlannedMove, MoveId),
    ) -> Result<(), SetSlotError> {
        self.on_marks(self.sides_of(planned), planned.slot, |pair| {
            let closed = release(&mut pair.me, &mut pair.peer, id)?;
            self.handovers.released(set);
            self.end_move(closed, pair.now);
            Ok(())
        })
    }

    /// Tells everybody of a set's slots, in one message from each target. Slots that have moved on
    /// meanwhile were told of by their next owners.
    fn tell_of(&self, id: HandoverId) {
        let Some(record) = self.handovers.get(id) else { return };
        let mut moves = record.moves.to_vec();
        moves.sort_by_key(|planned| planned.target);
        for of_one in moves.chunk_by(|one, next| one.target == next.target) {
            let target = of_one[0].target;
            let view = &self.known(target).view;
            let claims = of_one
                .iter()
                .map(|planned| Claim { slot: planned.slot, ownership: view.get(planned.slot) });
            let claims: Vec<_> =
                claims.filter(|claim| claim.ownership.owner == Some(target)).collect();
            self.broadcast(target, &claims);
        }
    }
}

/// A move that begins with both sides known.
fn record_of<V: Value + ?Sized>(
    id: MoveId,
    slot: Slot,
    pair: &Pair<'_, V>,
    set: Option<HandoverId>,
) -> MoveRecord {
    MoveRecord {
        id,
        slot,
        source: pair.me.node,
        target: pair.peer.node,
        phase: MovePhase::Reserved,
        keys_moved: 0,
        keys_returned: 0,
        last_error: None,
        began: Duration::from_nanos(pair.now.nanos()),
        ended: None,
        set,
    }
}
