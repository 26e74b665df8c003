//! Time: deadlines pass, and what has expired is swept.

use crate::topology::NodeId;

use super::wording::Wording;
use super::world::Entry;
use super::world::KeyIndex;
use super::world::World;

impl World {
    /// The deadline of a key's entries passes, wherever they are. Whether there were any.
    pub(crate) fn expire(&mut self, key: KeyIndex, wording: Wording) -> bool {
        let mut expired = false;
        for node in &mut self.nodes[..self.count] {
            let entry = &mut node.entries[key];
            if entry.expires() {
                expired = true;
                self.acknowledged[key] &= !entry.is_current();
                *entry = Entry::Dead;
            }
        }
        if expired && wording == Wording::ClockBeforeTheToken {
            for call in self.clients.iter_mut().filter_map(|client| client.call.as_mut()) {
                call.late_for[key] = true;
            }
        }
        expired
    }

    /// `Shard::sweep` meets an entry, one token. Whether it was dead.
    pub(crate) fn sweep(&mut self, node: NodeId, key: KeyIndex) -> bool {
        let entry = &mut self.node_mut(node).entries[key];
        let dead = *entry == Entry::Dead;
        if dead {
            *entry = Entry::Absent;
        }
        dead
    }
}
