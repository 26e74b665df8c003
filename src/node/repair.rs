//! What every node holds of a slot, and the verbs that make one owner of several or of none.
//!
//! No verb of a move leaves what these repair; the verbs of Redis do, and so do lost claims.

use std::time::Duration;

use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::migration::ordinary_move;
use crate::node::AdminError;
use crate::node::Claim;
use crate::node::Member;
use crate::node::MovePhase;
use crate::node::MoveRecord;
use crate::node::Node;
use crate::node::Roster;
use crate::node::member::state_of;
use crate::node::pair::lock_pair;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Hold;
use crate::shard::Value;
use crate::shard::drop_copies;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::time::Now;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

/// What one node holds of a slot, read in one hold of its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The node.
    pub node: NodeId,
    /// Whether its header owns the slot, and so serves it.
    pub owns: bool,
    /// Who owns the slot in its view, and since when.
    pub view: SlotOwner,
    /// Its mark.
    pub state: SlotState,
    /// How many live keys of the slot lie there.
    pub live_keys: usize,
}

impl<V: Value + ?Sized> Roster<V> {
    /// What the nodes that may have to do with a slot hold of it, by id, one hold after another:
    /// whoever owns it in any view or has had a key or a mark there, and the peers that marks name.
    pub(crate) fn holdings(&self, slot: Slot) -> Result<Vec<Holding>, AdminError> {
        self.expect_open()?;
        let owner = self.truth.owner(slot);
        let mut holdings: Vec<_> = self
            .members()
            .filter(|member| Some(member.id) == owner || member.has_touched(slot))
            .map(|member| self.holding(member, slot))
            .collect();
        let peers: Vec<_> = holdings.iter().filter_map(|holding| holding.state.peer()).collect();
        for peer in peers {
            if let Err(place) = holdings.binary_search_by_key(&peer, |holding| holding.node) {
                holdings.insert(place, self.holding(self.named(peer)?, slot));
            }
        }
        Ok(holdings)
    }

    fn holding(&self, member: &Member<V>, slot: Slot) -> Holding {
        member.peek(slot, |body| Holding {
            node: member.id,
            owns: body.owned,
            view: member.view.get(slot),
            state: state_of(body),
            live_keys: body.live_len(&self.now()),
        })
    }

    /// Ends the record of a move one of whose marks is being overwritten.
    fn end_overwritten(&self, id: Option<MoveId>, owner: NodeId, now: &Now<'_>) {
        let Some(record) = id.and_then(|id| self.moves.get(id)) else { return };
        let phase = if record.target == owner { MovePhase::Completed } else { MovePhase::Aborted };
        self.moves.end(record.id, phase, Duration::from_nanos(now.nanos()));
    }
}

impl<V: Value + ?Sized> Node<V> {
    /// This node becomes the owner of a slot by an epoch that is drawn now, and tells everybody.
    ///
    /// For repairs: of the other headers it asks that of the owner which it replaces. `known` is
    /// what [`Cluster::slot_owner`] said when the caller saw that the slot has no owner, or that
    /// this node is the one that should go on to own it; when that has changed since, nothing is
    /// done. A mark that says that the slot comes here goes; one that says that its keys leave
    /// stays.
    ///
    /// [`Cluster::slot_owner`]: crate::Cluster::slot_owner
    ///
    /// # Errors
    /// [`AdminError::SlotBusy`] when the owner is another one by now, or the known one still serves
    /// the slot or has it reserved; `SetSlot` with `SlotIsOpen` for a slot that is reserved here;
    /// `UnknownNode`; `Worker` (`Busy`: come back). Nothing was changed.
    pub fn claim_slot(&self, slot: Slot, known: SlotOwner) -> Result<(), AdminError> {
        self.roster.expect_open()?;
        self.roster.expect_gate_open(slot)?;
        let ownership = match known.owner.filter(|&owner| owner != self.id) {
            None => self.claim_held(slot, known, &mut self.member().headers.get(slot).lock())?,
            Some(owner) => {
                let (mut mine, theirs) = lock_pair(self.member(), self.roster.named(owner)?, slot);
                if theirs.owned || matches!(state_of(&theirs), SlotState::Reserved { .. }) {
                    return Err(AdminError::SlotBusy { slot });
                }
                self.claim_held(slot, known, &mut mine)?
            }
        };
        self.roster.broadcast(self.id, &[Claim { slot, ownership }]);
        Ok(())
    }

    fn claim_held(
        &self,
        slot: Slot,
        known: SlotOwner,
        hold: &mut Hold<'_, V>,
    ) -> Result<SlotOwner, AdminError> {
        let member = self.member();
        let mut side = member.marks(slot, hold);
        if let SlotState::Reserved { id } = side.state {
            let error = SetSlotError::SlotIsOpen { node: self.id, id };
            return Err(AdminError::SetSlot { slot, error });
        }
        let ownership = SlotOwner::new(Some(self.id), self.roster.draw_epoch());
        if !self.roster.truth.replace(slot, known, ownership) {
            return Err(AdminError::SlotBusy { slot });
        }
        let comes_here =
            matches!(side.state, SlotState::Importing { .. } | SlotState::Retired { .. });
        if comes_here {
            self.roster.end_overwritten(side.state.move_id(), self.id, &self.roster.now());
            side.state = SlotState::Stable;
        }
        side.view = ownership;
        member.put_side(slot, hold, &side);
        Ok(ownership)
    }

    /// This node, the owner of a slot, takes back what lies at another node that has no right to
    /// it: a second claim to the slot, a mark that belongs to no move, keys that nobody finds.
    ///
    /// In one hold of both tokens the other node stops owning the slot, its mark goes, and copies
    /// of keys that are live here are dropped, for which that hold looks at every entry there. If
    /// keys are left, the two are marked like the sides of a move that is being aborted, and the
    /// id is returned: calls find all keys from then on, and [`Cluster::abort_step`] brings them
    /// home batch by batch. A mark of this node's that names the other one goes too; `from` may be
    /// this node, to clear a mark that names itself.
    ///
    /// [`Cluster::abort_step`]: crate::Cluster::abort_step
    ///
    /// # Errors
    /// [`AdminError::SetSlot`]: `NotOwner` when this node does not own the slot or the cluster's
    /// word names a third one; `SlotIsOpen` when a move that its own verbs can end is open between
    /// the two, when this node's mark names a third one, or when the slot is reserved on either.
    /// `UnknownNode`; `Worker` (`Busy`: come back). Nothing was changed.
    pub fn reclaim(&self, slot: Slot, from: NodeId) -> Result<Option<MoveId>, AdminError> {
        self.roster.expect_open()?;
        self.roster.expect_gate_open(slot)?;
        let peer = self.roster.named(from)?;
        let reclaimed = if from == self.id {
            self.clear_own_mark(slot).map(|()| None)
        } else {
            self.reclaim_from(peer, slot)
        };
        reclaimed.map_err(|error| AdminError::SetSlot { slot, error })
    }

    fn clear_own_mark(&self, slot: Slot) -> Result<(), SetSlotError> {
        let member = self.member();
        let mut hold = member.headers.get(slot).lock();
        let mut side = member.marks(slot, &hold);
        if !hold.owned {
            return Err(SetSlotError::NotOwner { node: self.id });
        }
        match side.state.move_id() {
            Some(id) if side.state.peer() != Some(self.id) => {
                Err(SetSlotError::SlotIsOpen { node: self.id, id })
            }
            id => {
                self.roster.end_overwritten(id, self.id, &self.roster.now());
                side.state = SlotState::Stable;
                member.put_side(slot, &mut hold, &side);
                Ok(())
            }
        }
    }

    fn reclaim_from(&self, peer: &Member<V>, slot: Slot) -> Result<Option<MoveId>, SetSlotError> {
        let member = self.member();
        let mut dropped = Dropped::new();
        let (mut mine, mut theirs) = lock_pair(member, peer, slot);
        let now = self.roster.now();
        let mut me = member.side(slot, &mine, &now);
        let mut other = peer.side(slot, &theirs, &now);
        let recorded = self.roster.truth.owner(slot);
        if !mine.owned || ![Some(self.id), Some(peer.id)].contains(&recorded) {
            return Err(SetSlotError::NotOwner { node: self.id });
        }
        self.expect_stray(&me, &other)?;
        for state in [me.state, other.state] {
            self.roster.end_overwritten(state.move_id(), self.id, &now);
        }
        let contradicts = other.view.epoch >= me.view.epoch && other.view != me.view;
        if contradicts || recorded != Some(self.id) {
            // A later epoch says so to all who believe the other one.
            me.view = self.roster.flip_to(slot, Some(self.id));
        }
        other.view = me.view;
        let mut context = Context::new(&now, &self.roster.hasher, &mut dropped);
        let keys_left = drop_copies(&mut theirs, &mine, &mut context);
        let opened = (keys_left > 0).then(|| {
            let id = self.roster.draw_move_id();
            let sides = (slot, self.id, peer.id);
            let record = MoveRecord::new(id, sides, MovePhase::Aborting, &now);
            self.roster.moves.begin(MoveRecord { keys_left: keys_left as u64, ..record });
            id
        });
        me.state =
            opened.map_or(SlotState::Stable, |id| SlotState::Aborting { target: peer.id, id });
        other.state =
            opened.map_or(SlotState::Stable, |id| SlotState::Retired { source: self.id, id });
        member.put_side(slot, &mut mine, &me);
        peer.put_side(slot, &mut theirs, &other);
        member.release(slot, mine);
        peer.release(slot, theirs);
        Ok(opened)
    }

    /// Refuses what the verbs of a move can end, what is reserved, and a mark of this node's in
    /// which a third one has a part.
    fn expect_stray(&self, me: &Side, other: &Side) -> Result<(), SetSlotError> {
        for (source, target) in [(me, other), (other, me)] {
            let id = ordinary_move(source, target);
            let record = id.and_then(|id| self.roster.moves.get(id));
            if record.is_some_and(|record| record.is_open_between(source.node, target.node)) {
                return open(source);
            }
        }
        if me.state.peer().is_some_and(|peer| peer != other.node) {
            return open(me);
        }
        let reserved = |side: &&Side| matches!(side.state, SlotState::Reserved { .. });
        [me, other].into_iter().find(reserved).map_or(Ok(()), open)
    }

    /// Forgets the kept conflicts about these slots that are none any more: this node knows the
    /// claim by now, or a later one. Returns how many there were.
    pub fn forget_resolved_conflicts(&self, slots: &SlotSet) -> usize {
        self.member().forget_resolved_conflicts(slots)
    }
}

/// The refusal to change a side that is marked.
fn open(side: &Side) -> Result<(), SetSlotError> {
    match side.state.move_id() {
        Some(id) => Err(SetSlotError::SlotIsOpen { node: side.node, id }),
        None => Ok(()),
    }
}
