//! `Nodes`: the nodes of one cluster by their ids; room for many is taken when there are many.

use crate::limits::NODES_MAX;
use crate::sync::AtomicU32;
use crate::sync::OnceLock;
use crate::sync::Ordering;
use crate::topology::NodeId;

/// How many nodes have their places ready: 1 KiB, against 64 KiB for the others.
const NEAR: usize = 64;

type Place<M> = OnceLock<Box<M>>;

/// Nodes are added, never removed; a node's place is its id.
pub(crate) struct Nodes<M> {
    near: [Place<M>; NEAR],
    /// Where the 65th node lies, and every later one.
    far: OnceLock<Box<[Place<M>]>>,
    count: AtomicU32,
}

impl<M> Nodes<M> {
    pub(crate) fn new() -> Self {
        Self {
            near: std::array::from_fn(|_| OnceLock::new()),
            far: OnceLock::new(),
            count: AtomicU32::new(0),
        }
    }

    /// A node, if it exists.
    #[inline]
    pub(crate) fn get(&self, id: NodeId) -> Option<&M> {
        let place = match self.near.get(id.index()) {
            Some(near) => near,
            None => self.far.get()?.get(id.index() - NEAR)?,
        };
        place.get().map(Box::as_ref)
    }

    /// The one node, if there is no other.
    #[inline]
    pub(crate) fn only(&self) -> Option<&M> {
        // Relaxed: a node that was added meanwhile may be seen a little later.
        match self.count.load(Ordering::Relaxed) {
            1 => self.near[0].get().map(Box::as_ref),
            _ => None,
        }
    }

    /// The id of the node that is added next, if there may be another one.
    pub(crate) fn next_id(&self) -> Option<NodeId> {
        NodeId::new(self.count())
    }

    /// Adds a node at the next id. One thread at a time adds nodes.
    pub(crate) fn add(&self, node: M) {
        let index = self.count();
        let far = || self.far.get_or_init(Self::no_far_nodes);
        let place = self.near.get(index).unwrap_or_else(|| &far()[index - NEAR]);
        // The place is free: ids are never reused.
        place.get_or_init(|| Box::new(node));
        // Release pairs with the Acquire of `count`.
        self.count.store(u32::try_from(index + 1).unwrap_or(u32::MAX), Ordering::Release);
    }

    fn no_far_nodes() -> Box<[Place<M>]> {
        std::iter::repeat_with(OnceLock::new).take(NODES_MAX - NEAR).collect()
    }

    pub(crate) fn count(&self) -> usize {
        // Acquire pairs with the Release of `add`.
        self.count.load(Ordering::Acquire) as usize
    }

    /// Every node, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &M> + '_ {
        (0..self.count()).filter_map(NodeId::new).filter_map(|id| self.get(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_found_at_its_id_and_no_other() {
        let nodes = Nodes::new();
        for index in 0..NODES_MAX {
            let id = nodes.next_id().unwrap();
            assert_eq!((id.index(), nodes.get(id)), (index, None));
            nodes.add(index);
            assert_eq!((nodes.count(), nodes.get(id)), (index + 1, Some(&index)));
            assert_eq!(nodes.far.get().is_some(), index >= NEAR);
        }
        assert_eq!(nodes.next_id(), None);
        assert!(nodes.iter().copied().eq(0..NODES_MAX));
    }
}
