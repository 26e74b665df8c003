//! `Followed`: how far a view has taken over those of the nodes, so that what it has is skipped.

use crate::sync::AtomicU64;
use crate::sync::Ordering;
use crate::topology::NodeId;
use crate::topology::View;
use crate::topology::chunk::CHUNKS;

/// For each chunk of a view, which node's chunk was merged into it last, and with how many of its
/// changes: 1 KiB.
///
/// Words of different chunks may tell of different nodes, and each stays true whatever else is
/// merged, by whatever thread: a view forgets nothing.
pub(crate) struct Followed(Box<[AtomicU64]>);

impl Followed {
    pub(crate) fn new() -> Self {
        Self(std::iter::repeat_with(|| AtomicU64::new(0)).take(CHUNKS).collect())
    }

    /// Merges the view of a node into `view`, which is always the same one. Chunks in which the
    /// node has changed nothing since they were merged are not looked at.
    pub(crate) fn merge(&self, view: &View, node: NodeId, of_node: &View) {
        for (index, followed) in self.0.iter().enumerate() {
            // Counted before the words are read: a change that comes meanwhile is merged again.
            let reached = of_node.changes_of(index) << 16 | node.packed();
            // Acquire pairs with the Release below: who skips a chunk has what was merged.
            if followed.load(Ordering::Acquire) != reached {
                view.merge_chunk(index, of_node);
                followed.store(reached, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Slot;
    use crate::topology::Epoch;
    use crate::topology::SlotOwner;

    #[test]
    fn whatever_a_node_hears_is_followed_in_whatever_order_nodes_are_asked() {
        let nodes = [View::new(), View::new()];
        let (view, followed) = (View::new(), Followed::new());
        let mut random = 7_u64;
        for epoch in 1..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = u16::try_from(random >> 60 << 6 | random >> 32 & 1).unwrap();
            let slot = Slot::new(number).unwrap();
            let asked = usize::from(random >> 40 & 3 != 0);
            let news = SlotOwner::new(NodeId::new(asked), Epoch::new(epoch));
            nodes[usize::from(random >> 44 & 1 != 0)].raise(slot, news);
            followed.merge(&view, NodeId::new(asked).unwrap(), &nodes[asked]);
            for (slot, known) in nodes[asked].iter().filter(|(_, known)| known.owner.is_some()) {
                assert!(view.get(slot).epoch >= known.epoch, "{slot} at {epoch}");
            }
        }
        followed.merge(&view, NodeId::new(0).unwrap(), &nodes[0]);
        let all = View::new();
        all.merge(&nodes[0]);
        all.merge(&nodes[1]);
        followed.merge(&view, NodeId::new(1).unwrap(), &nodes[1]);
        assert!(view.iter().eq(all.iter()));
    }
}
