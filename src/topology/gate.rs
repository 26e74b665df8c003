//! Move gates: a call that lost too many races against movers holds its slot still.

use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::AtomicU32;
use crate::sync::OnceLock;
use crate::sync::Ordering;
use crate::sync::fence;

/// One count for each slot of the cluster: 64 KiB, from the first call that enters on.
///
/// A call enters the gate of its slot after some redirects. Verbs that open, flip or abort the slot
/// look at the gate before they take tokens and answer `Busy` while somebody is inside, so a verb
/// that was past its look may still beat the call once, but never for ever.
pub(crate) struct Gate {
    inside: OnceLock<Box<[AtomicU32]>>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { inside: OnceLock::new() }
    }

    /// Whether no call is inside.
    pub(crate) fn is_open(&self, slot: Slot) -> bool {
        // Pairs with the fence of `enter`: a look that comes after an entry sees the call, also
        // the first one, which made the counts.
        fence(Ordering::SeqCst);
        // Acquire pairs with the Release of the pass that left.
        self.inside.get().is_none_or(|inside| inside[slot.index()].load(Ordering::Acquire) == 0)
    }

    /// Enters; the returned pass leaves when it is dropped.
    pub(crate) fn enter(&self, slot: Slot) -> GatePass<'_> {
        let none = || std::iter::repeat_with(|| AtomicU32::new(0)).take(usize::from(SLOT_COUNT));
        let count = &self.inside.get_or_init(|| none().collect())[slot.index()];
        count.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence of `is_open`.
        fence(Ordering::SeqCst);
        GatePass { count }
    }
}

/// A call's stay in a gate.
pub(crate) struct GatePass<'a> {
    count: &'a AtomicU32,
}

impl Drop for GatePass<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire of `is_open`.
        self.count.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_open_again_when_the_last_call_has_left() {
        let gate = Gate::new();
        assert!(gate.is_open(Slot::MIN));
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
