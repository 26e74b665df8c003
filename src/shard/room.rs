//! `Room`: what one hold may add to its shard, reserved before anything changes.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::shard::Budget;
use crate::shard::Entry;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;

/// Why something is not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It takes more of the budget than is free.
    Full { needed: u64, free: u64 },
    /// One entry would take more than the whole bound.
    TooHeavy { weight: u64, bound: u64 },
}

/// An entry that is about to be written or removed.
#[derive(Clone, Copy)]
pub(crate) struct Write<'k> {
    pub(crate) key: Key<'k>,
    /// What it will weigh; nothing when it is removed.
    pub(crate) weight: Option<u64>,
}

/// The writes of an operation; nearly always one.
pub(crate) type Writes<'k> = SmallVec<[Write<'k>; 2]>;

/// What a shard takes of its node's budget, and what was reserved for it on top.
///
/// Who adds entries asks first. At the end of the hold the reservation is settled with it; if a
/// panic comes between, it is given back.
#[derive(Debug)]
pub(crate) struct Room<'b> {
    budget: &'b Budget,
    /// What the shard took when the token was taken.
    spent: u64,
    // Invariant: `spent` and what was reserved.
    covered: Cell<u64>,
    /// What was missing when something was refused last.
    missed: Cell<Option<Refusal>>,
}

impl<'b> Room<'b> {
    /// That of a shard that took so much when its token was taken.
    pub(super) fn new(budget: &'b Budget, spent: u64) -> Self {
        Self { budget, spent, covered: Cell::new(spent), missed: Cell::new(None) }
    }

    /// Whether nobody needs to ask.
    pub(crate) fn admits_all(&self) -> bool {
        self.budget.admits_all()
    }

    /// Asks for everything that is about to be written, under a key several times perhaps, of which
    /// any may be what stays.
    pub(crate) fn admit<V: Value + ?Sized>(
        &self,
        shard: &Shard<V>,
        mut writes: Writes<'_>,
    ) -> Result<(), Refusal> {
        let weights = || writes.iter().filter_map(|write| write.weight);
        weights().try_for_each(|weight| self.check(weight))?;
        if !self.budget.refuses() {
            return Ok(());
        }
        writes.sort_unstable_by_key(|write| write.key.bytes);
        let (mut entering, mut leaving) = (0_u64, 0);
        for of_one in writes.chunk_by(|one, next| one.key.bytes == next.key.bytes) {
            let costs = of_one.iter().filter_map(|write| write.weight);
            entering += costs.map(|weight| self.budget.cost(weight)).max().unwrap_or(0);
            let key = of_one[0].key;
            leaving += self.budget.cost_of_entry(shard.find(key.hash, key.bytes));
        }
        self.cover((self.budget.cost_of(shard) + entering).saturating_sub(leaving))
    }

    /// Asks for all that another shard holds, in place of what this one does.
    pub(crate) fn admit_all_of<V: Value + ?Sized>(&self, other: &Shard<V>) -> Result<(), Refusal> {
        self.cover(self.budget.cost_of(other))
    }

    /// For entries that come to a shard one by one.
    pub(super) fn arrivals<V: Value + ?Sized>(&self, shard: &Shard<V>) -> Arrivals<'_> {
        Arrivals { room: self, cost: self.budget.cost_of(shard) }
    }

    /// Refuses what can never fit. Where there may be nothing at all, nothing is kept, and nothing
    /// is wrong with that.
    fn check(&self, weight: u64) -> Result<(), Refusal> {
        let bound = self.budget.bound();
        if bound > 0 && self.budget.cost(weight) > bound {
            return Err(Refusal::TooHeavy { weight, bound });
        }
        Ok(())
    }

    /// Sees to it that the shard may take so much.
    fn cover(&self, cost: u64) -> Result<(), Refusal> {
        let covered = self.covered.get();
        if cost <= covered || !self.budget.refuses() {
            return Ok(());
        }
        if !self.budget.try_reserve(cost - covered) {
            // As if nothing had been reserved: that will have been given back.
            let free = self.budget.free().saturating_add(covered - self.spent);
            let refusal = Refusal::Full { needed: cost - self.spent, free };
            self.missed.set(Some(refusal));
            return Err(refusal);
        }
        self.covered.set(cost);
        Ok(())
    }

    /// What was refused for want of room, if anything was.
    pub(crate) fn missed(&self) -> Option<Refusal> {
        self.missed.get()
    }

    /// Takes what was reserved out of this hold, for one that is to come.
    pub(crate) fn set_aside(&self) -> u64 {
        self.hand_over() - self.spent
    }

    /// Takes in what an earlier hold has set aside.
    pub(crate) fn take_in(&self, reserved: u64) {
        self.covered.set(self.covered.get() + reserved);
    }

    /// What is covered; from now on somebody else has to settle it.
    pub(super) fn hand_over(&self) -> u64 {
        self.covered.replace(self.spent)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.budget.settle(self.covered.get(), self.spent);
    }
}

/// Entries that are to come to a shard, in addition to what is there.
pub(super) struct Arrivals<'r> {
    room: &'r Room<'r>,
    /// What the shard will take with all of them that were admitted.
    cost: u64,
}

impl Arrivals<'_> {
    /// Asks for room for one more.
    pub(super) fn admit<V: Value + ?Sized>(&mut self, entry: &Entry<V>) -> Result<(), Refusal> {
        let cost = self.cost + self.room.budget.cost(entry.weight());
        self.room.cover(cost)?;
        self.cost = cost;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::AtBound;
    use crate::shard::Kept;
    use crate::shard::KeyHasher;
    use crate::shard::Unit;
    use crate::time::NEVER;

    fn writes<'k>(keys: &'k [&'k str], hasher: &KeyHasher) -> Writes<'k> {
        let write = |key: &&'k str| {
            let key = Key::new(key.as_bytes(), hasher).expect("a short key");
            Write { key, weight: Some(8) }
        };
        keys.iter().map(write).collect()
    }

    #[test]
    fn a_key_counts_once_and_what_it_replaces_does_not() {
        let (hasher, mut shard) = (KeyHasher::seeded(1), Shard::<u64>::default());
        let budget = Budget::new(Unit::Entries, 2, AtBound::Refuse);
        shard.insert(Entry::new(b"a", 1, Kept::until(NEVER)), hasher.hash(b"a"), &hasher);
        budget.settle(0, 1);
        let room = Room::new(&budget, 1);
        assert_eq!(room.admit(&shard, writes(&["b", "a", "b"], &hasher)), Ok(()));
        assert_eq!(budget.taken(), 2, "one is reserved");
        // Nothing was written yet, so that the reservation still serves.
        assert_eq!(room.admit(&shard, writes(&["c"], &hasher)), Ok(()));
        let full = Refusal::Full { needed: 2, free: 1 };
        assert_eq!(room.admit(&shard, writes(&["b", "c"], &hasher)), Err(full));
        assert_eq!(budget.taken(), 2, "what is refused reserves nothing");
        drop(room);
        assert_eq!(budget.taken(), 1, "what is not settled is given back");
    }

    #[test]
    fn what_is_set_aside_stays_reserved_until_it_is_taken_in() {
        let budget = Budget::new(Unit::Entries, 2, AtBound::Refuse);
        let mut other = Shard::<u64>::default();
        let hasher = KeyHasher::seeded(1);
        for key in [b"a", b"b"] {
            other.insert(Entry::new(key, 1, Kept::until(NEVER)), hasher.hash(key), &hasher);
        }
        let room = Room::new(&budget, 0);
        assert_eq!(room.admit_all_of(&other), Ok(()));
        assert_eq!(room.set_aside(), 2);
        drop(room);
        assert_eq!(budget.taken(), 2);
        let room = Room::new(&budget, 0);
        assert_eq!(room.admit_all_of(&other), Err(Refusal::Full { needed: 2, free: 0 }));
        room.take_in(2);
        assert_eq!(room.admit_all_of(&other), Ok(()));
        drop(room);
        assert_eq!(budget.taken(), 0);
    }
}
