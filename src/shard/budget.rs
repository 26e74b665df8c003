//! `Budget`: what the shards of one node may take together, and what they take.

use crate::shard::Entry;
use crate::shard::Shard;
use crate::shard::Value;
use crate::sync::AtomicU64;
use crate::sync::CachePadded;
use crate::sync::Ordering;

/// What a budget counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Each entry is one.
    Entries,
    /// The weights of the entries.
    Weight,
}

/// What becomes of a write that would take more than there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtBound {
    /// It goes on, and other entries have to go.
    Overdraw,
    /// It takes what it needs beforehand, or is refused.
    Refuse,
}

/// The bound of one node, and how much of it is taken.
///
/// Relaxed throughout: the sum orders nothing. What a hold changed is settled before its token is
/// back, so that the sum is exact whenever no token is held. Where writes are refused, what one has
/// reserved counts as taken from then on, so that the sum never passes the bound by a write.
#[derive(Debug)]
pub(crate) struct Budget {
    unit: Unit,
    bound: u64,
    at_bound: AtBound,
    taken: CachePadded<AtomicU64>,
}

impl Budget {
    /// A budget of which nothing is taken.
    pub(crate) fn new(unit: Unit, bound: u64, at_bound: AtBound) -> Self {
        Self { unit, bound, at_bound, taken: CachePadded::default() }
    }

    /// How much there may be.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// How much is taken.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether more is taken than there may be.
    #[inline]
    pub(crate) fn is_exceeded(&self) -> bool {
        self.taken() > self.bound
    }

    /// Whether what would take too much is refused.
    pub(super) fn refuses(&self) -> bool {
        self.at_bound == AtBound::Refuse
    }

    /// Whether whatever is written is let in.
    pub(super) fn admits_all(&self) -> bool {
        !self.refuses() && self.counts_entries()
    }

    /// How much is free.
    pub(crate) fn free(&self) -> u64 {
        self.bound.saturating_sub(self.taken())
    }

    /// Takes so much, if that much is free.
    pub(super) fn try_reserve(&self, amount: u64) -> bool {
        let fits = |taken: u64| taken.checked_add(amount).filter(|&sum| sum <= self.bound);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Whether each entry is one, whatever it weighs.
    pub(crate) fn counts_entries(&self) -> bool {
        self.unit == Unit::Entries
    }

    /// What an entry of this weight takes.
    #[inline]
    pub(crate) fn cost(&self, weight: u64) -> u64 {
        match self.unit {
            Unit::Entries => 1,
            Unit::Weight => weight,
        }
    }

    /// What a shard takes.
    #[inline]
    pub(crate) fn cost_of<V: Value + ?Sized>(&self, shard: &Shard<V>) -> u64 {
        match self.unit {
            Unit::Entries => shard.len() as u64,
            Unit::Weight => shard.weight(),
        }
    }

    /// What an entry takes, if there is one.
    pub(super) fn cost_of_entry<V: Value + ?Sized>(&self, entry: Option<&Entry<V>>) -> u64 {
        entry.map_or(0, |entry| self.cost(entry.weight()))
    }

    /// Takes note that a shard takes another part of the budget now than before.
    #[inline]
    pub(super) fn settle(&self, before: u64, now: u64) {
        if now > before {
            self.taken.fetch_add(now - before, Ordering::Relaxed);
        } else if now < before {
            self.taken.fetch_sub(before - now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_reserved_than_is_free() {
        let budget = Budget::new(Unit::Weight, 10, AtBound::Refuse);
        assert!(budget.try_reserve(7));
        assert!(!budget.try_reserve(4) && !budget.try_reserve(u64::MAX));
        assert!(budget.try_reserve(3) && budget.free() == 0);
        budget.settle(5, 1);
        assert_eq!((budget.taken(), budget.free()), (6, 4));
    }
}
