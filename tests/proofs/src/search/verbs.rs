//! The verbs of SETSLOT, each one hold: what `src/node/setslot.rs` does around the transitions.

use crate::migration;
use crate::migration::SetSlotError;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::topology::NodeId;

use super::world::World;

/// What a hold of an operator came to: a refusal changes nothing.
pub(crate) type Verb = Result<(), SetSlotError>;

impl World {
    /// `Roster::on_marks`: a transition under both tokens, which writes back what it changed.
    pub(crate) fn on_marks<R>(
        &mut self,
        (me, peer): (NodeId, NodeId),
        transition: impl FnOnce(&mut Side, &mut Side) -> Result<R, SetSlotError>,
    ) -> Result<R, SetSlotError> {
        self.write_back((self.marks(me), self.marks(peer)), transition)
    }

    /// `Roster::on_pair`: the same for transitions that ask which side has live keys.
    pub(crate) fn on_pair<R>(
        &mut self,
        (me, peer): (NodeId, NodeId),
        transition: impl FnOnce(&mut Side, &mut Side) -> Result<R, SetSlotError>,
    ) -> Result<R, SetSlotError> {
        self.write_back((self.side(me), self.side(peer)), transition)
    }

    fn write_back<R>(
        &mut self,
        (mut me, mut peer): (Side, Side),
        transition: impl FnOnce(&mut Side, &mut Side) -> Result<R, SetSlotError>,
    ) -> Result<R, SetSlotError> {
        let result = transition(&mut me, &mut peer)?;
        self.put(&me);
        self.put(&peer);
        Ok(result)
    }

    /// `Node::set_importing`, one token.
    pub(crate) fn importing(&mut self, target: NodeId, source: NodeId) -> Verb {
        let mut side = self.side(target);
        migration::importing(&mut side, source, self.drawn_id())?;
        self.put(&side);
        Ok(())
    }

    /// `Node::set_migrating`, two tokens.
    pub(crate) fn migrating(&mut self, source: NodeId, target: NodeId) -> Verb {
        self.on_pair((source, target), migration::migrating)?;
        Ok(())
    }

    /// `Node::set_stable`, two tokens: those of the node and of the peer that its mark names. The
    /// mark was read in a hold before, and the verb is refused when it has changed since.
    pub(crate) fn stable(&mut self, node: NodeId) -> Verb {
        let state = self.node(node).state;
        let Some(peer) = state.peer() else {
            return match state.move_id() {
                // Its claim goes out again: a step of the bus.
                None => Ok(()),
                Some(id) => Err(SetSlotError::SlotIsOpen { node, id }),
            };
        };
        let closed = self.on_pair((node, peer), migration::stable)?;
        if closed.is_some() {
            self.close(node, peer);
        }
        Ok(())
    }

    /// `Node::close`: what lies on a side that does not own the slot and has no mark is dead.
    fn close(&mut self, me: NodeId, peer: NodeId) {
        for node in [me, peer] {
            let side = self.marks(node);
            if !side.owns() && !side.state.is_open() {
                self.node_mut(node).clear();
            }
        }
    }

    /// `Node::take_slot`: NODE on the target, two tokens. On an owner it is a step of the bus.
    pub(crate) fn take(&mut self, target: NodeId) -> Verb {
        if self.node(target).view.owner == Some(target) {
            return Err(SetSlotError::AlreadyOwner { node: target });
        }
        let SlotState::Importing { source, .. } = self.node(target).state else {
            return Err(SetSlotError::WrongOrder);
        };
        let own = self.drawn(Some(target));
        self.on_pair((target, source), |target, source| migration::flip(source, target, || own))?;
        self.word = own;
        // No live key is there; what is left has expired.
        self.node_mut(source).clear();
        Ok(())
    }

    /// `Node::yield_slot`: NODE on any node but the named one, two tokens. What it hears when it
    /// has no part in the move is a step of the bus.
    pub(crate) fn yield_to(&mut self, node: NodeId, owner: NodeId) -> Verb {
        let closed =
            self.on_pair((node, owner), |node, owner| migration::node_on_source(node, owner))?;
        if closed.is_some() {
            self.close(node, owner);
        }
        Ok(())
    }
}
