//! Small clusters, and checks of what the verbs say.

use slotkeep::{
    AdminError, Cluster, Error, MoveId, Node, NodeId, SetSlot, SetSlotError, Slot, SlotRange,
};

/// A key of slot 3300, which the first of two or three nodes owns.
pub(crate) const KEY: &str = "{b}:key";
pub(crate) const OTHER: &str = "{b}:other";

pub(crate) fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

pub(crate) fn one() -> NodeId {
    id(0)
}

pub(crate) fn two() -> NodeId {
    id(1)
}

pub(crate) fn three() -> NodeId {
    id(2)
}

/// An id that no node of these clusters has.
pub(crate) fn nobody() -> NodeId {
    id(9)
}

pub(crate) fn slot(number: u16) -> Slot {
    Slot::new(number).expect("a slot")
}

pub(crate) fn slots(numbers: impl IntoIterator<Item = u16>) -> Vec<Slot> {
    numbers.into_iter().map(slot).collect()
}

pub(crate) fn range(text: &str) -> SlotRange {
    text.parse().expect("a range")
}

/// Nodes that share out the slots, and the first three of them.
pub(crate) fn assigned(nodes: usize) -> (Cluster, Vec<Node>) {
    let cluster = Cluster::builder().nodes(nodes).workers_per_node(1).build().expect("nodes");
    let nodes = cluster.nodes();
    (cluster, nodes)
}

/// Nodes without slots, which serve whatever they get.
pub(crate) fn unassigned(nodes: usize) -> (Cluster, Vec<Node>) {
    let builder = Cluster::builder().nodes(nodes).workers_per_node(1).unassigned();
    let cluster = builder.full_coverage(false).build().expect("nodes");
    let nodes = cluster.nodes();
    (cluster, nodes)
}

pub(crate) fn open(source: &Node, target: &Node, slot: Slot) -> MoveId {
    let importing = SetSlot::Importing { source: source.id() };
    let id = target.set_slot(slot, importing).expect("IMPORTING").expect("an id");
    let migrating = SetSlot::Migrating { target: target.id() };
    assert_eq!(source.set_slot(slot, migrating), Ok(Some(id)));
    id
}

pub(crate) fn refused(slot: Slot, error: SetSlotError) -> AdminError {
    AdminError::SetSlot { slot, error }
}

pub(crate) fn is_open(slot: Slot, node: NodeId, id: MoveId) -> AdminError {
    refused(slot, SetSlotError::SlotIsOpen { node, id })
}

/// Checks a refusal and what a Redis node would say.
#[track_caller]
pub(crate) fn check<T: std::fmt::Debug>(
    done: Result<T, AdminError>,
    expected: AdminError,
    text: &str,
) {
    let error = done.expect_err("this is to be refused");
    assert_eq!(error, expected);
    assert_eq!(error.redis_text(), text);
    assert_eq!(Error::from(error).redis_text(), text, "the umbrella says the same");
}
