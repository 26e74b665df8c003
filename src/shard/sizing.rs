//! How many buckets a table has: twice as many when it is full, half as many when evictions have
//! left it sparse.
//!
//! Under a bound the number of entries of a slot goes up and down about its share. Tables that only
//! grew would end at the size that their fullest moment asked for, and what a node takes would grow
//! for long after it has come to its bound.

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

/// A table is sparse when it has at least so many buckets for each entry: when it is a third full.
/// Halved it is two thirds full, and grows at seven eighths, so that it does not go to and fro with
/// every few entries. When it has grown it is seven sixteenths full, so near to a third that chance
/// alone brings many tables back that it has made grow.
const SPARSE: usize = 3;

impl<V: Value + ?Sized> Table<V> {
    /// Makes room for one more if there is none, and says whether the table grew for it, or was
    /// rehashed in place.
    pub(super) fn grow_if_full(&mut self, hasher: &KeyHasher) -> bool {
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
        let buckets = self.entries.num_buckets() / 2;
        // As many entries as make the hash table grow to so many buckets, and no further.
        self.entries.shrink_to(buckets / 8 * 7, |entry| hasher.hash(entry.key()));
        debug_assert_eq!(self.entries.num_buckets(), buckets, "tables are filled to seven eighths");
    }

    /// All keys are hashed next. Asked for together they come faster than one by one.
    fn prefetch_entries(&self) {
        self.entries.iter().take(PREFETCHED).for_each(Entry::prefetch);
    }
}

impl<V: Value + ?Sized> Shard<V> {
    /// Gives half of the buckets back if an eviction has left the table sparse, but not while a
    /// move is open, which may bring keys, and not while the hand is half way through the table: it
    /// would meet some entries twice, and others not at all. A table is left alone as well when it
    /// is so large that the token would be held for long.
    #[inline]
    pub(super) fn halve_if_sparse(&mut self, hasher: &KeyHasher) {
        if self.table_ref().is_some_and(Table::is_sparse) && self.mark == 0 {
            self.halve_if_idle(hasher);
        }
    }

    #[cold]
    fn halve_if_idle(&mut self, hasher: &KeyHasher) {
        let Some((table, _, aside)) = self.parts() else { return };
        if aside.hand != 0 || table.entries.num_buckets() > SHRINK_BUCKETS_MAX {
            return;
        }
        table.halve(hasher);
        self.note_rehash();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evict::By;
    use crate::evict::Choice;
    use crate::evict::Judge;
    use crate::shard::Context;
    use crate::shard::Dropped;
    use crate::shard::Kept;
    use crate::shard::Key;
    use crate::shard::Samples;
    use crate::shard::Sweep;
    use crate::shard::Walk;
    use crate::time::NEVER;
    use crate::time::Now;
    use crate::time::Still;

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
            let now = Now::new(&Still(0));
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
            loop {
                let before = self.buckets();
                self.shard.halve_if_sparse(&self.hasher);
                if self.buckets() == before {
                    return before;
                }
            }
        }

        #[track_caller]
        fn check_finds(&self, keys: u64) {
            let now = Now::new(&Still(0));
            for key in 0..keys {
                let bytes = key.to_le_bytes();
                let key = Key::new(&bytes, &self.hasher).expect("a short key");
                assert!(self.shard.peek(&key, &now).is_some(), "a key that is there");
            }
        }
    }

    #[test]
    fn a_table_is_halved_until_it_is_sparse_no_more_and_says_so() {
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
        for left in [10, 21, 42, 85, 170, 341] {
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

    #[test]
    fn samples_that_are_half_taken_miss_no_entry_of_a_table_that_is_halved() {
        let choice = Choice { by: By::Deadline, spares_lasting: true };
        let judge = Judge { choice, fine: 0, coarse: 0, drawn: 0 };
        let now = Now::new(&Still(0));
        let mut halved = 0;
        for seed in 0..64 {
            let mut rig = Rig::seeded(seed, 800, 300);
            let Some((table, ..)) = rig.shard.parts() else { panic!("there are keys") };
            // Of the first one alone a sample can be taken.
            let others = table.entries.iter_mut().filter(|entry| *entry.value() != 0);
            others.for_each(|entry| entry.keep(Kept::until(NEVER)));
            let (mut walk, mut samples) = (Walk::default(), Samples { wanted: 1, best: None });
            assert!(rig.shard.sample(&mut walk, &mut samples, &judge, &now), "the first half");
            if samples.best.is_some() {
                continue;
            }
            halved += 1;
            assert_eq!(rig.fitted(), 512);
            rig.shard.sample(&mut walk, &mut samples, &judge, &now);
            assert!(samples.best.is_some(), "seed {seed}: an entry is missed");
        }
        assert!(halved > 20, "{halved}");
    }
}
