//! Small clusters, and moves of their slots, in one line each.

use std::error::Error;
use std::time::Duration;

use slotkeep::reshard::PlannedMove;
use slotkeep::{AdminError, Cluster, MoveId, Node, NodeId, SetSlot, SetSlotError, Slot, SlotState};

pub(crate) type Tested = Result<(), Box<dyn Error>>;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

pub(crate) fn key(tag: impl std::fmt::Display, number: usize) -> String {
    format!("{{{tag}}}:{number}")
}

pub(crate) fn three_nodes() -> Cluster {
    Cluster::builder().nodes(3).workers_per_node(1).build().expect("a small cluster")
}

/// A move of the slot from its owner to the next node.
pub(crate) fn onward(cluster: &Cluster, slot: Slot) -> PlannedMove {
    let source = cluster.slot_map().owner(slot).expect("every slot has an owner");
    let target = id((source.index() + 1) % cluster.node_count());
    PlannedMove { slot, source, target }
}

pub(crate) fn source_of(cluster: &Cluster, planned: PlannedMove) -> Node {
    cluster.node(planned.source).expect("a node of this cluster")
}

pub(crate) fn target_of(cluster: &Cluster, planned: PlannedMove) -> Node {
    cluster.node(planned.target).expect("a node of this cluster")
}

pub(crate) fn refused(slot: Slot, error: SetSlotError) -> AdminError {
    AdminError::SetSlot { slot, error }
}

/// Opens the classic move of a slot.
pub(crate) fn open(cluster: &Cluster, planned: PlannedMove) -> Result<MoveId, Box<dyn Error>> {
    let PlannedMove { slot, source, target } = planned;
    let importing = SetSlot::Importing { source };
    let id = target_of(cluster, planned).set_slot(slot, importing)?.ok_or("an id")?;
    source_of(cluster, planned).set_slot_step(slot, SetSlot::Migrating { target }, id)?;
    Ok(id)
}

/// Every node agrees on the owner, no node has a mark, and keys lie at the owner only.
#[track_caller]
pub(crate) fn check_settled(cluster: &Cluster, slot: Slot, owner: NodeId) {
    let known = cluster.node(owner).expect("a node of this cluster").slot_owner(slot);
    assert_eq!(known.owner, Some(owner));
    for node in cluster.nodes() {
        assert_eq!(node.slot_owner(slot), known, "as {} sees it", node.id());
        assert_eq!(node.slot_state(slot), Ok(SlotState::Stable), "on {}", node.id());
        let left = node.count_keys_in_slot(slot).expect("an open cluster");
        assert!(left == 0 || node.id() == owner, "{} keeps {left} keys", node.id());
    }
}

/// Three slots of different nodes, with keys.
pub(crate) fn three_slots(cluster: &Cluster) -> Result<Vec<PlannedMove>, Box<dyn Error>> {
    let client = cluster.client();
    let mut moves = Vec::new();
    for tag in ["a", "b", "c"] {
        for number in 0..10 {
            client.set(key(tag, number), tag.as_bytes()).map_err(slotkeep::Error::from)?;
        }
        moves.push(onward(cluster, Slot::of(key(tag, 0))));
    }
    Ok(moves)
}
