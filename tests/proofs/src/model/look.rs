//! What one node knows and holds of one slot. No thread holds a token here, so every look succeeds.

use slotkeep::{Node, Slot, SlotState};

pub(super) fn state_at(node: &Node, slot: Slot) -> SlotState {
    node.slot_state(slot).expect("no token is held")
}

/// How many entries lie there, expired ones included.
pub(super) fn stored_at(node: &Node, slot: Slot) -> usize {
    node.count_keys_in_slot(slot).expect("no token is held")
}

pub(super) fn live_at(node: &Node, slot: Slot) -> usize {
    node.count_live_keys_in_slot(slot).expect("no token is held")
}

/// The keys that lie there, expired ones included, in their order.
pub(super) fn keys_at(node: &Node, slot: Slot) -> Vec<Vec<u8>> {
    let keys = node.keys_in_slot(slot, usize::MAX).expect("no token is held");
    let mut keys: Vec<_> = keys.into_iter().map(<[u8]>::into_vec).collect();
    keys.sort();
    keys
}
