//! Move gates: a call that lost too many races against movers holds its slot still.

use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::AtomicU32;
use crate::sync::Ordering;

/// One count for each slot of the cluster: 64 KiB.
///
/// A call enters the gate of its slot after some redirects. Verbs that open, flip or abort the slot
/// look at the gate before they take tokens and answer `Busy` while somebody is inside, so a verb
/// that was past its look may still beat the call once, but never for ever.
pub(crate) struct Gate {
    inside: Box<[AtomicU32]>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let count = usize::from(SLOT_COUNT);
        Self { inside: std::iter::repeat_with(|| AtomicU32::new(0)).take(count).collect() }
    }

    /// Whether no call is inside.
    pub(crate) fn is_open(&self, slot: Slot) -> bool {
        // SeqCst, as in `enter`: a call that entered before a verb's look is seen by that look.
        self.inside[slot.index()].load(Ordering::SeqCst) == 0
    }

    /// Enters; the returned pass leaves when it is dropped.
    pub(crate) fn enter(&self, slot: Slot) -> GatePass<'_> {
        // SeqCst pairs with the load of `is_open`.
        self.inside[slot.index()].fetch_add(1, Ordering::SeqCst);
        GatePass { gate: self, slot }
    }
}

/// A call's stay in a gate.
pub(crate) struct GatePass<'a> {
    gate: &'a Gate,
    slot: Slot,
}

impl Drop for GatePass<'_> {
    fn drop(&mut self) {
        // SeqCst pairs with the load of `is_open`.
        self.gate.inside[self.slot.index()].fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_open_again_when_the_last_call_has_left() {
        let gate = Gate::new();
        let first = gate.enter(Slot::MIN);
        let second = gate.enter(Slot::MIN);
        assert!(!gate.is_open(Slot::MIN));
        assert!(gate.is_open(Slot::MAX));
        drop(first);
        assert!(!gate.is_open(Slot::MIN));
        drop(second);
        assert!(gate.is_open(Slot::MIN));
    }
}
