//! Repairs: whoever takes a move over can end it, whichever way and however far it has come.

use crate::migration::MoveId;
use crate::migration::SlotState;
use crate::topology::NodeId;

use super::travel::Keys;
use super::verbs::Verb;
use super::violation::Violation;
use super::world::World;

impl World {
    /// Each open move can be finished, or aborted unless it has flipped, by a driver that knows
    /// nothing but the marks; no key gets lost by that.
    pub(crate) fn check_repairs(&self) -> Result<(), Violation> {
        for node in self.ids() {
            match self.node(node).state {
                SlotState::Migrating { target, id } => {
                    self.check_repair(node, id, |world| world.finish((node, target), id))?;
                    if self.node(target).state.move_id() == Some(id) {
                        self.check_repair(node, id, |world| world.abort((node, target), id))?;
                    }
                }
                SlotState::Aborting { target, id } => {
                    self.check_repair(node, id, |world| {
                        world.abort_back((node, target), id, Keys::BOTH)
                    })?;
                }
                SlotState::Importing { source, id } => {
                    if self.node(source).state.move_id() != Some(id) {
                        self.check_repair(node, id, |world| world.stable(node))?;
                    }
                }
                SlotState::Reserved { id } if self.node(node).owned => {
                    let target = self.ids().find(|&other| {
                        other != node && self.node(other).state == self.node(node).state
                    });
                    let target = target.ok_or(Violation::Irreparable(node))?;
                    let sides = (node, target);
                    self.check_repair(node, id, |world| world.hand_over(sides, Some(id)))?;
                    self.check_repair(node, id, |world| world.give_up(sides, id))?;
                }
                SlotState::Stable | SlotState::Retired { .. } | SlotState::Reserved { .. } => {}
            }
        }
        Ok(())
    }

    fn check_repair(
        mut self,
        node: NodeId,
        id: MoveId,
        repair: impl FnOnce(&mut Self) -> Verb,
    ) -> Result<(), Violation> {
        let done = repair(&mut self).is_ok();
        let left = self.ids().any(|other| self.node(other).state.move_id() == Some(id));
        if !done || left {
            return Err(Violation::Irreparable(node));
        }
        self.check_homes()?;
        self.check_owners()
    }

    /// The rest of a move, from batches or from NODE on the source on.
    fn finish(&mut self, (source, target): (NodeId, NodeId), id: MoveId) -> Verb {
        if self.node(target).state.move_id() == Some(id) {
            self.batch(source, id, Keys::BOTH)?;
            self.take(target)?;
        }
        self.yield_to(source, target)
    }

    fn abort(&mut self, sides: (NodeId, NodeId), id: MoveId) -> Verb {
        self.abort_begin(sides, id)?;
        self.abort_back(sides, id, Keys::BOTH)
    }
}
