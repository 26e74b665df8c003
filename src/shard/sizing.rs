//! How many buckets a table has: twice as many when it is full, half as many when evictions have
//! left it sparse.
//!
//! Under a bound the number of entries of a slot goes up and down about its share. A table that
//! only grew would end at the size that its fullest moment asked for, and take up to twice the
//! memory while the bound says that there is no more of it.

use crate::limits::SHRINK_BUCKETS_MAX;
use crate::shard::Entry;
use crate::shard::KeyHasher;
use crate::shard::Shard;
use crate::shard::Value;
use crate::shard::table::Table;

/// So many entries are asked for ahead when a table is rehashed: about what a core's own caches
/// hold.
const PREFETCHED: usize = 4_096;

/// A smaller table is not worth the work.
const BUCKETS_MIN: usize = 16;

/// A table is sparse when it has at least so many buckets for each entry. With half of them it is
/// filled to two thirds, and grows at seven eighths: some way off, so that it does not go to and
/// fro with every few entries, and near enough to be met by as many as chance takes away.
const SPARSE: usize = 3;

impl<V: Value + ?Sized> Table<V> {
    /// Makes room for one more if there is none, and says whether the table grew for it, or was
    /// rehashed in place.
    pub(super) fn make_room(&mut self, hasher: &KeyHasher) -> bool {
        let is_full = self.entries.len() == self.entries.capacity();
        if is_full {
            self.prefetch_entries();
            self.entries.reserve(1, |entry| hasher.hash(entry.key()));
        }
        is_full
    }

    fn is_sparse(&self) -> bool {
        let buckets = self.entries.num_buckets();
        self.entries.len() <= buckets / SPARSE && buckets > BUCKETS_MIN
    }

    /// Gives half of the buckets back.
    fn halve(&mut self, hasher: &KeyHasher) {
        self.prefetch_entries();
        let capacity = self.entries.num_buckets() / 2 / 8 * 7;
        self.entries.shrink_to(capacity, |entry| hasher.hash(entry.key()));
    }

    /// All keys are hashed next. Asked for together they come faster than one by one.
    fn prefetch_entries(&self) {
        self.entries.iter().take(PREFETCHED).for_each(Entry::prefetch);
    }
}

impl<V: Value + ?Sized> Shard<V> {
    /// Gives half of the buckets back if an eviction has left the table sparse.
    #[inline]
    pub(super) fn fit(&mut self, hasher: &KeyHasher) {
        if self.table_ref().is_some_and(Table::is_sparse) {
            self.shrink(hasher);
        }
    }

    /// Does that, unless the table is so large that the token would be held for long, a hand is
    /// half way through it, which would meet entries twice, or keys are about to come in.
    #[cold]
    fn shrink(&mut self, hasher: &KeyHasher) {
        let is_moving = self.mark != 0;
        let Some((table, _, aside)) = self.parts() else { return };
        let is_large = table.entries.num_buckets() > SHRINK_BUCKETS_MAX;
        if is_moving || is_large || aside.hand != 0 {
            return;
        }
        table.halve(hasher);
        self.note_rehash();
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::shard::Context;
    use crate::shard::Dropped;
    use crate::shard::Kept;
    use crate::shard::Key;
    use crate::shard::Sweep;
    use crate::time::Clock;
    use crate::time::NEVER;
    use crate::time::Now;

    struct Zero;

    impl Clock for Zero {
        fn nanos(&self) -> u64 {
            0
        }
    }

    /// A shard with the keys 0, 1, 2 and so on, which expire one nanosecond after the other.
    struct Rig {
        shard: Shard<u64>,
        hasher: KeyHasher,
        dropped: Dropped<u64>,
    }

    impl Rig {
        /// With so many keys, of which those below `left` are left.
        fn new(keys: u64, left: u64) -> Self {
            Self::seeded(1, keys, left)
        }

        fn seeded(seed: u64, keys: u64, left: u64) -> Self {
            let (shard, dropped) = (Shard::default(), Dropped::new());
            let mut rig = Self { shard, hasher: KeyHasher::seeded(seed), dropped };
            for key in 0..keys {
                let entry = Entry::new(&key.to_le_bytes(), key, Kept::until(key + 1));
                let hash = rig.hasher.hash(entry.key());
                assert!(rig.shard.insert(entry, hash, &rig.hasher).is_none(), "a new key");
            }
            rig.remove(left..keys);
            rig.shard.take_news();
            rig
        }

        fn remove(&mut self, keys: impl Iterator<Item = u64>) {
            let now = Now::new(&Zero);
            let mut context = Context::new(&now, &self.hasher, &mut self.dropped);
            for key in keys {
                let bytes = key.to_le_bytes();
                let key = Key::new(&bytes, &self.hasher).expect("a short key");
                assert!(self.shard.remove(&key, &mut context).is_some(), "a key that is there");
            }
        }

        fn buckets(&self) -> usize {
            self.shard.table_ref().expect("there are keys").entries.num_buckets()
        }

        /// How many buckets there are when nothing can be given back any more.
        fn fitted(&mut self) -> usize {
            let steps = iter::from_fn(|| {
                let before = self.buckets();
                self.shard.fit(&self.hasher);
                (self.buckets() < before).then_some(())
            });
            steps.count();
            self.buckets()
        }

        #[track_caller]
        fn check_finds(&self, keys: u64) {
            let now = Now::new(&Zero);
            for key in 0..keys {
                let bytes = key.to_le_bytes();
                let key = Key::new(&bytes, &self.hasher).expect("a short key");
                assert!(self.shard.peek(&key, &now).is_some(), "a key that is there");
            }
        }
    }

    #[test]
    fn a_sparse_table_is_halved_until_it_is_none_and_says_so() {
        for (left, buckets) in [(342, 1024), (341, 512), (100, 256), (22, 64), (21, 32), (0, 16)] {
            let mut rig = Rig::new(800, left);
            assert_eq!(rig.buckets(), 1024);
            assert_eq!(rig.fitted(), buckets, "{left}");
            assert_eq!(rig.shard.take_news(), buckets < 1024);
            rig.check_finds(left);
        }
    }

    #[test]
    fn a_table_that_was_halved_does_not_grow_at_once() {
        for left in [11, 21, 42, 85, 170, 341] {
            let mut rig = Rig::new(800, left);
            let buckets = rig.fitted();
            let more = u64::try_from(buckets / 8).expect("few");
            for key in 1_000..1_000 + more {
                let entry = Entry::new(&key.to_le_bytes(), key, Kept::until(NEVER));
                let hash = rig.hasher.hash(entry.key());
                assert!(rig.shard.insert(entry, hash, &rig.hasher).is_none(), "a new key");
            }
            assert_eq!(rig.buckets(), buckets, "{left} and {more}");
        }
    }

    #[test]
    fn a_table_stays_as_it_is_while_a_move_is_open_or_a_hand_is_half_way_through_it() {
        let mut rig = Rig::new(800, 10);
        rig.shard.mark = 1;
        assert_eq!(rig.fitted(), 1024);
        rig.shard.mark = 0;
        rig.shard.aside().hand = 1;
        assert_eq!(rig.fitted(), 1024);
        rig.shard.aside().hand = 0;
        assert_eq!(rig.fitted(), 16);
    }

    #[test]
    fn a_table_that_would_hold_the_token_for_long_stays_as_it_is() {
        let keys = SHRINK_BUCKETS_MAX as u64;
        let mut rig = Rig::new(keys, 10);
        assert_eq!(rig.fitted(), 2 * SHRINK_BUCKETS_MAX);
        let mut rig = Rig::new(keys / 2, 10);
        assert_eq!(rig.fitted(), 16);
    }

    #[test]
    fn a_sweep_that_is_half_done_misses_no_entry_of_a_table_that_is_halved() {
        for seed in 0..64 {
            let mut rig = Rig::seeded(seed, 3_000, 1_000);
            assert_eq!(rig.shard.sweep(1, &mut rig.dropped), Sweep::More, "the first of several");
            assert_eq!(rig.fitted(), 2_048);
            while rig.shard.sweep(1, &mut rig.dropped) == Sweep::More {}
            let earliest = rig.shard.iter().map(Entry::deadline).min();
            let next = Some(rig.shard.next_deadline());
            assert!(next <= earliest, "seed {seed}: a deadline is forgotten");
        }
    }
}
