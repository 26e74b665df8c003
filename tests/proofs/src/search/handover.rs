//! Handovers: what `src/node/handover.rs` does.

use crate::migration;
use crate::migration::MoveId;
use crate::topology::NodeId;

use super::verbs::Verb;
use super::world::World;

impl World {
    /// `Roster::hand_over`, and `flip_reserved`, two tokens: marks, views and the whole table.
    pub(crate) fn hand_over(
        &mut self,
        (source, target): (NodeId, NodeId),
        reserved: Option<MoveId>,
    ) -> Verb {
        let own = self.drawn(Some(target));
        let handed = self.on_pair((source, target), |source, target| {
            migration::hand_over(source, target, reserved, || own)
        })?;
        self.word = own;
        let table = std::mem::take(&mut self.node_mut(source).entries);
        if handed.from_source {
            self.node_mut(target).entries = table;
        }
        Ok(())
    }

    /// `Roster::reserve`, two tokens.
    pub(crate) fn reserve(&mut self, (source, target): (NodeId, NodeId)) -> Verb {
        let id = self.drawn_id();
        self.on_pair((source, target), |source, target| migration::reserve(source, target, id))
    }

    /// `Roster::release_reserved`, two tokens.
    pub(crate) fn give_up(&mut self, (source, target): (NodeId, NodeId), id: MoveId) -> Verb {
        self.on_marks((source, target), |source, target| {
            migration::release(source, target, id).map(drop)
        })
    }
}
