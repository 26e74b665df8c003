//! `Census`: how many entries there are at the bound of a node.

use crate::node::Member;
use crate::shard::Budget;
use crate::shard::Value;
use crate::topology::SlotBits;

/// For each slot that a census looks at so many entries enter the window before the next one: a
/// look is a few hundredths of what they cost themselves.
const ENTERING_FOR_SLOT: u64 = 8;

/// However few slots there are, so many entries enter the window between two censuses.
const ENTERING_MIN: u64 = 512;

/// One count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Census {
    pub(super) entries: u64,
    /// When so many more have entered the window, it is time for another one.
    pub(super) entering: u64,
}

impl Census {
    /// Takes the token of each of these slots, one at a time, unless the bound says it.
    pub(super) fn take<V: Value + ?Sized>(
        member: &Member<V>,
        (occupied, budget): (&SlotBits, &Budget),
    ) -> Self {
        if budget.counts_entries() {
            return Self { entries: budget.bound(), entering: u64::MAX };
        }
        let (mut entries, mut slots) = (0, 0);
        for slot in occupied.from(0) {
            entries += member.peek(slot, |shard| shard.len() as u64);
            slots += 1;
        }
        Self { entries, entering: ENTERING_MIN.max(slots * ENTERING_FOR_SLOT) }
    }
}
