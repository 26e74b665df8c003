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
    /// Looks at each of these slots, one at a time, unless the bound says it. A slot whose token is
    /// taken is not waited for: it counts as the others do on average.
    pub(super) fn take<V: Value + ?Sized>(
        member: &Member<V>,
        (occupied, budget): (&SlotBits, &Budget),
    ) -> Self {
        if budget.counts_entries() {
            return Self { entries: budget.bound(), entering: u64::MAX };
        }
        let (mut entries, mut seen, mut slots) = (0_u64, 0, 0);
        for slot in occupied.from(0) {
            slots += 1;
            if let Some(shard) = member.headers.get(slot).try_lock_bare() {
                entries += shard.len() as u64;
                seen += 1;
            }
        }
        let unseen = (slots - seen) * (entries / seen.max(1));
        let entering = ENTERING_MIN.max(slots * ENTERING_FOR_SLOT);
        Self { entries: entries + unseen, entering }
    }
}
