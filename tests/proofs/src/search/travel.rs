//! Keys travel under both tokens: what `src/node/migrate.rs` and `src/node/abort.rs` do.

use crate::migration;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::SlotState;
use crate::topology::NodeId;

use super::verbs::Verb;
use super::world::Entry;
use super::world::KEYS;
use super::world::KeyIndex;
use super::world::World;

/// Some of the keys, one bit each. A batch takes whichever come first in its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keys(u8);

impl Keys {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const BOTH: Self = Self(3);

    /// Every set that is not empty.
    pub(crate) const SOME: [Self; 3] = [Self(1), Self(2), Self::BOTH];

    pub(crate) fn iter(self) -> impl Iterator<Item = KeyIndex> {
        (0..KEYS).filter(move |key| self.0 & 1 << key != 0)
    }
}

impl World {
    /// `Node::migrate_batch`, two tokens: those of the source and of the peer that its mark names.
    pub(crate) fn batch(&mut self, source: NodeId, id: MoveId, keys: Keys) -> Verb {
        let Some(target) = self.node(source).state.peer() else {
            return Err(SetSlotError::NoSuchMove);
        };
        migration::check_batch(&self.marks(source), &self.marks(target), id)?;
        keys.iter().for_each(|key| self.travel(source, target, key));
        Ok(())
    }

    /// `transfer` of one key: what has expired is dropped where it lies.
    pub(crate) fn travel(&mut self, from: NodeId, to: NodeId, key: KeyIndex) {
        let entry = std::mem::take(&mut self.node_mut(from).entries[key]);
        if entry.is_live() {
            self.node_mut(to).entries[key] = entry;
        }
    }

    /// The first hold of `Roster::abort_hold`, two tokens: both marks turn round.
    pub(crate) fn abort_begin(&mut self, (source, target): (NodeId, NodeId), id: MoveId) -> Verb {
        if !matches!(self.node(source).state, SlotState::Migrating { .. }) {
            return Err(SetSlotError::NoSuchMove);
        }
        self.on_marks((source, target), |source, target| migration::abort_begin(source, target, id))
    }

    /// A later hold of `Roster::abort_hold`, two tokens: a batch comes back, and the hold that
    /// finds the target empty, of dead entries too, clears both marks.
    pub(crate) fn abort_back(
        &mut self,
        (source, target): (NodeId, NodeId),
        id: MoveId,
        keys: Keys,
    ) -> Verb {
        migration::check_pull_back(&self.marks(source), &self.marks(target), id)?;
        keys.iter().for_each(|key| self.travel(target, source, key));
        if self.node(target).entries != [Entry::Absent; KEYS] {
            return Ok(());
        }
        self.on_marks((source, target), |source, target| {
            migration::abort_end(source, target, id).map(drop)
        })
    }
}
