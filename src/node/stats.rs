//! What was counted on a node, slot by slot.

use crate::node::Member;
use crate::node::Node;
use crate::shard::Stats;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::holds_token;
use crate::worker::WorkerError;

impl<V: Value + ?Sized> Member<V> {
    /// The counts of every slot of which something may have happened here, ascending; each is read
    /// under its token, one after another.
    pub(crate) fn slot_stats(&self) -> impl Iterator<Item = (Slot, Stats)> + '_ {
        let slots: Vec<_> = self.touched_slots().iter().collect();
        slots.into_iter().map(|slot| (slot, self.headers.get(slot).lock().stats()))
    }
}

impl<V: Value + ?Sized> Node<V> {
    /// What was counted on this node, of all slots that it ever had together. Costs the token of
    /// each of them, one after another; the counts of each are of one instant.
    ///
    /// # Errors
    /// [`WorkerError::Reentrant`] from inside a closure under a token.
    pub fn stats(&self) -> Result<Stats, WorkerError> {
        if holds_token() {
            return Err(WorkerError::Reentrant);
        }
        Ok(self.member().slot_stats().map(|(_, stats)| stats).sum())
    }
}
