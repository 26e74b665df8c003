//! ADDSLOTS, DELSLOTS, FLUSHSLOTS, BUMPEPOCH: slots get and lose owners outside of moves.

use crate::migration::SetSlotError;
use crate::migration::SlotState;
use crate::node::AdminError;
use crate::node::Claim;
use crate::node::Node;
use crate::node::member::set_state;
use crate::node::member::state_of;
use crate::shard::Dropped;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::SlotRange;
use crate::slot::SlotSet;
use crate::topology::Epoch;
use crate::topology::SlotOwner;

/// What BUMPEPOCH answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BumpEpoch {
    /// The node's config epoch is this one now.
    Bumped(Epoch),
    /// It was the greatest of the cluster already.
    Still(Epoch),
}

impl<V: Value + ?Sized> Node<V> {
    /// ADDSLOTS: this node becomes the owner of slots that nobody owns. All or nothing.
    ///
    /// # Errors
    /// [`AdminError::SlotBusy`] for a slot with an owner, wherever; `SlotListedTwice`; `SetSlot`
    /// with `SlotIsOpen` for a slot that is marked here; `Worker`. Nothing was changed.
    pub fn add_slots(&self, slots: &[Slot]) -> Result<(), AdminError> {
        let slots = distinct(slots)?;
        self.roster.expect_open()?;
        let mut reserved = Vec::with_capacity(slots.len());
        for slot in &slots {
            match self.reserve(slot) {
                Ok(ownership) => reserved.push(Claim { slot, ownership }),
                Err(error) => {
                    let released: Vec<_> =
                        reserved.iter().map(|&claim| self.release_reserved(claim)).collect();
                    self.roster.broadcast(self.id, &released);
                    return Err(error);
                }
            }
        }
        // From here on nothing can fail.
        for &claim in &reserved {
            self.own_reserved(claim);
        }
        self.roster.broadcast(self.id, &reserved);
        Ok(())
    }

    /// [`add_slots`](Self::add_slots) by ranges.
    ///
    /// # Errors
    /// As `add_slots`; overlapping ranges list a slot twice.
    pub fn add_slot_ranges(&self, ranges: &[SlotRange]) -> Result<(), AdminError> {
        self.add_slots(&flatten(ranges))
    }

    /// DELSLOTS: slots that this node owns get no owner. All or nothing.
    ///
    /// # Errors
    /// [`AdminError::SlotUnassigned`] for a slot that is not this node's, `SlotHoldsKeys` for one
    /// with live keys (Redis would strand them), `SlotListedTwice`, `SetSlot` with `SlotIsOpen`,
    /// `Worker`. Nothing was changed.
    pub fn del_slots(&self, slots: &[Slot]) -> Result<(), AdminError> {
        let slots = distinct(slots)?;
        self.roster.expect_open()?;
        let mut reserved = Vec::with_capacity(slots.len());
        for slot in &slots {
            match self.reserve_owned(slot) {
                Ok(()) => reserved.push(slot),
                Err(error) => {
                    for &slot in &reserved {
                        self.keep_owned(slot);
                    }
                    return Err(error);
                }
            }
        }
        let claims: Vec<_> = reserved.iter().map(|&slot| self.disown(slot)).collect();
        self.roster.broadcast(self.id, &claims);
        Ok(())
    }

    /// [`del_slots`](Self::del_slots) by ranges.
    ///
    /// # Errors
    /// As `del_slots`; overlapping ranges list a slot twice.
    pub fn del_slot_ranges(&self, ranges: &[SlotRange]) -> Result<(), AdminError> {
        self.del_slots(&flatten(ranges))
    }

    /// FLUSHSLOTS: [`del_slots`](Self::del_slots) of every slot of this node.
    ///
    /// # Errors
    /// As `del_slots`.
    pub fn flush_slots(&self) -> Result<(), AdminError> {
        let slots: Vec<_> = self.slots().iter().collect();
        self.del_slots(&slots)
    }

    /// BUMPEPOCH: gives the node the greatest config epoch, unless it has it already.
    ///
    /// For display and for the wire: it changes no claim to a slot.
    ///
    /// # Errors
    /// [`AdminError::Worker`].
    pub fn bump_epoch(&self) -> Result<BumpEpoch, AdminError> {
        self.roster.expect_open()?;
        let present = self.config_epoch();
        if present == self.roster.last_epoch() && present != Epoch::ZERO {
            return Ok(BumpEpoch::Still(present));
        }
        let epoch = self.roster.draw_epoch();
        self.member().bump_epoch(epoch);
        Ok(BumpEpoch::Bumped(epoch))
    }

    /// Reserves an unowned slot: the word of the whole cluster decides between rivals, and the
    /// mark keeps verbs away until the slot is owned.
    fn reserve(&self, slot: Slot) -> Result<SlotOwner, AdminError> {
        let member = self.member();
        let mut hold = member.headers.get(slot).lock();
        let known = self.roster.truth.get(slot);
        if known.owner.is_some() {
            return Err(AdminError::SlotBusy { slot });
        }
        if let Some(id) = state_of(&hold).move_id() {
            let error = SetSlotError::SlotIsOpen { node: self.id, id };
            return Err(AdminError::SetSlot { slot, error });
        }
        let ownership = SlotOwner::new(Some(self.id), self.roster.draw_epoch());
        if !self.roster.truth.replace(slot, known, ownership) {
            return Err(AdminError::SlotBusy { slot });
        }
        set_state(&mut *hold, SlotState::Reserved { id: self.roster.draw_move_id() });
        Ok(ownership)
    }

    fn own_reserved(&self, Claim { slot, ownership }: Claim) {
        let member = self.member();
        let mut hold = member.headers.get(slot).lock();
        set_state(&mut *hold, SlotState::Stable);
        hold.owned = true;
        member.view.raise(slot, ownership);
        member.saw_epoch(ownership.epoch);
    }

    /// Gives a reserved slot up. The claim tells a node that joined meanwhile.
    fn release_reserved(&self, Claim { slot, .. }: Claim) -> Claim {
        let member = self.member();
        let mut hold = member.headers.get(slot).lock();
        set_state(&mut *hold, SlotState::Stable);
        let ownership = self.roster.flip_to(slot, None);
        member.view.raise(slot, ownership);
        Claim { slot, ownership }
    }

    /// Reserves a slot that this node owns and holds no key of. It gains no key from here on: until
    /// it is disowned, or kept after all, requests hear that the slot is not served.
    fn reserve_owned(&self, slot: Slot) -> Result<(), AdminError> {
        let mut dropped = Dropped::new();
        let member = self.member();
        let mut hold = member.headers.get(slot).lock();
        let now = self.roster.now();
        if !hold.owned {
            return Err(AdminError::SlotUnassigned { slot });
        }
        if let Some(id) = state_of(&hold).move_id() {
            let error = SetSlotError::SlotIsOpen { node: self.id, id };
            return Err(AdminError::SetSlot { slot, error });
        }
        if hold.has_live(&now) {
            return Err(AdminError::SlotHoldsKeys { slot });
        }
        hold.clear_expired(&mut dropped);
        set_state(&mut *hold, SlotState::Reserved { id: self.roster.draw_move_id() });
        member.set_owned(slot, &mut hold, false);
        Ok(())
    }

    fn keep_owned(&self, slot: Slot) {
        let mut hold = self.member().headers.get(slot).lock();
        set_state(&mut *hold, SlotState::Stable);
        hold.owned = true;
    }

    fn disown(&self, slot: Slot) -> Claim {
        let member = self.member();
        let mut hold = member.headers.get(slot).lock();
        set_state(&mut *hold, SlotState::Stable);
        let ownership = self.roster.flip_to(slot, None);
        member.view.raise(slot, ownership);
        member.saw_epoch(ownership.epoch);
        Claim { slot, ownership }
    }
}

pub(super) fn distinct(slots: &[Slot]) -> Result<SlotSet, AdminError> {
    let mut set = SlotSet::new();
    for &slot in slots {
        if !set.insert(slot) {
            return Err(AdminError::SlotListedTwice { slot });
        }
    }
    Ok(set)
}

fn flatten(ranges: &[SlotRange]) -> Vec<Slot> {
    ranges.iter().flat_map(|range| range.iter()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Message;
    use crate::node::Roster;
    use crate::node::RosterOptions;
    use crate::sync::Arc;

    /// A slot that nobody owns at first, and two that come after it.
    const FIRST: Slot = Slot::MIN;
    const NEXT: Slot = Slot::of_const(b"next");
    const LAST: Slot = Slot::MAX;

    /// How often a test looks, giving way in between, before it calls that for ever.
    const LOOKS: u32 = 50_000_000;

    fn two_nodes() -> (Arc<Roster<[u8]>>, [Node; 2]) {
        let roster = Arc::new(Roster::new(RosterOptions::of_unit_tests()));
        let nodes = [(); 2].map(|()| {
            let id = roster.add_node().unwrap();
            Node::new(Arc::clone(&roster), id).unwrap()
        });
        (roster, nodes)
    }

    /// Whether a header says that its node owns the slot, and its mark.
    fn header(node: &Node, slot: Slot) -> (bool, SlotState) {
        node.member().peek(slot, |body| (body.owned, state_of(body)))
    }

    #[test]
    fn no_claim_that_arrives_while_a_slot_is_given_up_makes_the_header_own_it_again() {
        let (roster, [me, peer]) = two_nodes();
        peer.add_slots(&[FIRST]).unwrap();
        let stale = peer.slot_owner(FIRST);
        peer.del_slots(&[FIRST]).unwrap();
        for heard in ["a stale claim", "the own claim", "a newer claim"] {
            me.add_slots(&[FIRST]).unwrap();
            assert_eq!(header(&me, FIRST), (true, SlotState::Stable));
            me.reserve_owned(FIRST).unwrap();
            let ownership = match heard {
                "a stale claim" => stale,
                "the own claim" => me.slot_owner(FIRST),
                _ => SlotOwner::new(Some(peer.id), roster.draw_epoch()),
            };
            let claims = Arc::new([Claim { slot: FIRST, ownership }]);
            roster.deliver(&Message { from: peer.id, to: me.id, claims });
            let (owned, state) = header(&me, FIRST);
            assert!(!owned && matches!(state, SlotState::Reserved { .. }), "{heard}: {state:?}");
            me.disown(FIRST);
            assert_eq!(header(&me, FIRST), (false, SlotState::Stable), "{heard}");
            assert_eq!(me.slot_owner(FIRST).owner, None, "{heard}");
        }
    }

    #[test]
    fn a_node_that_joins_during_an_addslots_that_is_refused_hears_of_it() {
        let (roster, [me, peer]) = two_nodes();
        peer.add_slots(&[LAST]).unwrap();
        // The verb has reserved the first slot, and waits for the token of the next one.
        let next = me.member().headers.get(NEXT).lock();
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| me.add_slots(&[FIRST, NEXT, LAST]));
            let reserved = || roster.truth.get(FIRST).owner == Some(me.id);
            let looked = (0..LOOKS).find(|_| {
                std::thread::yield_now();
                reserved()
            });
            assert!(looked.is_some(), "the first slot is never reserved");
            let joined = roster.add_node().unwrap();
            assert_eq!(roster.known(joined).view.owner(FIRST), Some(me.id));
            drop(next);
            let refused = refused.join().unwrap();
            assert_eq!(refused, Err(AdminError::SlotBusy { slot: LAST }));
        });
        for member in roster.members() {
            for slot in [FIRST, NEXT] {
                assert_eq!(member.view.get(slot), roster.truth.get(slot), "{slot}, {}", member.id);
                assert_eq!(member.view.owner(slot), None, "{slot} as {} sees it", member.id);
            }
        }
        me.add_slots(&[FIRST, NEXT]).unwrap();
    }
}
