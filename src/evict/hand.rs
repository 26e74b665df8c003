//! The hand: how far one has come in its walk over the slots, and how stale the marks on its way
//! are.

use crate::slot::Slot;

/// The whole, as the share of stale marks counts.
const WHOLE: u32 = 1 << 16;

/// Every mark that is met moves the share by a part of this of what it differs.
const MEMORY: u32 = 128;

/// A place among the slots and the buckets of their tables, and a running share.
#[derive(Debug)]
pub(crate) struct Hand {
    /// The slot under the hand.
    pub(crate) slot: Slot,
    /// The bucket of its table that is next.
    pub(crate) bucket: usize,
    /// The share of stale ones among the marked entries that were met last.
    stale: u32,
}

impl Hand {
    /// A hand at the first bucket of the first slot.
    pub(crate) fn new() -> Self {
        Self { slot: Slot::MIN, bucket: 0, stale: 0 }
    }

    /// Goes on at the first bucket of another slot.
    pub(crate) fn go_to(&mut self, slot: Slot) {
        (self.slot, self.bucket) = (slot, 0);
    }

    /// Counts a marked entry; it is stale if nobody hit it since a hand met it before.
    pub(crate) fn count(&mut self, is_stale: bool) {
        self.stale -= self.stale / MEMORY;
        if is_stale {
            self.stale += WHOLE / MEMORY;
        }
    }

    /// Whether more than half are stale: what was often used is no longer in use. While the keys
    /// that are asked for stay the same, a tenth to two fifths are.
    pub(crate) fn is_mostly_stale(&self) -> bool {
        self.stale > WHOLE / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_stale_marks_count_and_as_many_fresh_ones_between_them_do_not() {
        let mut hand = Hand::new();
        (0..80).for_each(|_| hand.count(true));
        assert!(!hand.is_mostly_stale());
        (80..100).for_each(|_| hand.count(true));
        assert!(hand.is_mostly_stale());
        (0..1000).for_each(|at| hand.count(at % 3 == 0));
        assert!(!hand.is_mostly_stale());
    }
}
