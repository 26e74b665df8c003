//! Who gives what to whom, pure: from a slot map to a list of moves.

use thiserror::Error;

use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::topology::NodeId;
use crate::topology::PlannedMove;
use crate::topology::SlotMap;

/// Why a plan cannot be made. Nothing was moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no such node.
    #[error("there is no {node}")]
    UnknownNode {
        /// The node that was named.
        node: NodeId,
    },
    /// A slot is to move to the node that owns it.
    #[error("{node} cannot move slots to itself")]
    MoveToSelf {
        /// The node.
        node: NodeId,
    },
    /// The slot is not the named source's.
    #[error("slot {slot} does not belong to {node}")]
    NotOwner {
        /// The slot.
        slot: Slot,
        /// The node that was named as the source.
        node: NodeId,
    },
    /// The slot is named twice.
    #[error("slot {slot} is to move twice")]
    MovedTwice {
        /// The slot.
        slot: Slot,
    },
    /// The node has nobody to give its slots to.
    #[error("{node} is the only node")]
    OnlyNode {
        /// The node.
        node: NodeId,
    },
}

/// The moves of named slots from one node to another.
///
/// # Errors
/// `MoveToSelf`, `NotOwner`.
pub fn plan_moves(
    map: &SlotMap,
    slots: &SlotSet,
    source: NodeId,
    target: NodeId,
) -> Result<Vec<PlannedMove>, PlanError> {
    if source == target {
        return Err(PlanError::MoveToSelf { node: source });
    }
    if let Some(slot) = slots.iter().find(|&slot| map.owner(slot) != Some(source)) {
        return Err(PlanError::NotOwner { slot, node: source });
    }
    Ok(slots.iter().map(|slot| PlannedMove { slot, source, target }).collect())
}

/// The moves that give `node` its share: as many slots as an even split among the owners and
/// `node` gives it, always from whoever has most, so that no slot moves without need.
pub fn plan_join(map: &SlotMap, node: NodeId) -> Vec<PlannedMove> {
    let mut owned: Vec<(NodeId, Vec<Slot>)> = slots_by_owner(map);
    let nodes = owned.iter().filter(|(owner, _)| *owner != node).count() + 1;
    let total: usize = owned.iter().map(|(_, slots)| slots.len()).sum();
    let mut has = map.slots_of(node).len();
    owned.retain(|(owner, _)| *owner != node);
    let mut moves = Vec::new();
    while has < total / nodes {
        let Some((source, slots)) = owned.iter_mut().max_by_key(|(_, slots)| slots.len()) else {
            break;
        };
        let Some(slot) = slots.pop() else { break };
        moves.push(PlannedMove { slot, source: *source, target: node });
        has += 1;
    }
    moves
}

/// The moves that take every slot from `node`, each to whoever of `others` has fewest.
///
/// # Errors
/// `OnlyNode` when `others` names nobody else.
pub fn plan_drain(
    map: &SlotMap,
    node: NodeId,
    others: &[NodeId],
) -> Result<Vec<PlannedMove>, PlanError> {
    let others = others.iter().filter(|&&other| other != node);
    let mut counts: Vec<_> = others.map(|&other| (map.slots_of(other).len(), other)).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut moves = Vec::new();
    for slot in &map.slots_of(node) {
        let fewest = counts.iter_mut().min().ok_or(PlanError::OnlyNode { node })?;
        fewest.0 += 1;
        moves.push(PlannedMove { slot, source: node, target: fewest.1 });
    }
    if counts.is_empty() { Err(PlanError::OnlyNode { node }) } else { Ok(moves) }
}

fn slots_by_owner(map: &SlotMap) -> Vec<(NodeId, Vec<Slot>)> {
    map.owners().into_iter().map(|node| (node, map.slots_of(node).iter().collect())).collect()
}
