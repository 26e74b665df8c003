//! ADDSLOTS and DELSLOTS, hold by hold, of one token each: what `src/node/slots.rs` does.
//!
//! What fails after its first hold, for another slot's sake, gives up what it reserved.

use crate::migration::SetSlotError;
use crate::migration::SlotState;
use crate::topology::NodeId;

use super::verbs::Verb;
use super::world::World;
use super::world::raise;

impl World {
    /// `Node::reserve`: the word of the whole cluster decides between rivals.
    pub(crate) fn reserve_unowned(&mut self, node: NodeId) -> Verb {
        refuse_unless(self.word.owner.is_none() && !self.node(node).state.is_open())?;
        self.word = self.drawn(Some(node));
        self.node_mut(node).state = SlotState::Reserved { id: self.drawn_id() };
        Ok(())
    }

    /// `Node::own_reserved`.
    pub(crate) fn own_reserved(&mut self, node: NodeId) -> Verb {
        refuse_unless(self.is_adding(node))?;
        let word = self.word;
        let owner = self.node_mut(node);
        (owner.state, owner.owned) = (SlotState::Stable, true);
        raise(&mut owner.view, word);
        Ok(())
    }

    /// `Node::release_reserved`.
    pub(crate) fn release_reserved(&mut self, node: NodeId) -> Verb {
        refuse_unless(self.is_adding(node))?;
        self.unassign(node);
        Ok(())
    }

    /// `Node::reserve_owned`: the slot gains no key from here on.
    pub(crate) fn reserve_owned(&mut self, node: NodeId) -> Verb {
        let id = self.drawn_id();
        let owner = self.node_mut(node);
        refuse_unless(owner.owned && !owner.state.is_open() && !owner.has_live())?;
        owner.clear();
        (owner.state, owner.owned) = (SlotState::Reserved { id }, false);
        Ok(())
    }

    /// `Node::disown`.
    pub(crate) fn disown(&mut self, node: NodeId) -> Verb {
        refuse_unless(self.is_deleting(node))?;
        self.unassign(node);
        Ok(())
    }

    /// `Node::keep_owned`.
    pub(crate) fn keep_owned(&mut self, node: NodeId) -> Verb {
        refuse_unless(self.is_deleting(node))?;
        let owner = self.node_mut(node);
        (owner.state, owner.owned) = (SlotState::Stable, true);
        Ok(())
    }

    fn unassign(&mut self, node: NodeId) {
        let nobody = self.drawn(None);
        self.word = nobody;
        let owner = self.node_mut(node);
        owner.state = SlotState::Stable;
        raise(&mut owner.view, nobody);
    }

    /// Reserved, and about to own: the view does not say so yet.
    fn is_adding(&self, node: NodeId) -> bool {
        let is_given = self.word.owner == Some(node);
        self.is_unserved(node) && is_given && self.node(node).view.owner != Some(node)
    }

    /// Reserved, and about to lose the slot: the view says that it owns still.
    fn is_deleting(&self, node: NodeId) -> bool {
        self.is_unserved(node) && self.node(node).view.owner == Some(node)
    }

    fn is_unserved(&self, node: NodeId) -> bool {
        let node = self.node(node);
        matches!(node.state, SlotState::Reserved { .. }) && !node.owned
    }
}

/// A refusal; nobody reads which.
fn refuse_unless(legal: bool) -> Verb {
    if legal { Ok(()) } else { Err(SetSlotError::NoSuchMove) }
}
