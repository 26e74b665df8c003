//! The active sweep: expired entries leave in bounded steps, without being touched.

use crate::limits::SWEEP_BUCKETS;
use crate::limits::SWEEP_NANOS_PER_BUCKET;
use crate::limits::SWEEP_PAUSE;
use crate::shard::Dropped;
use crate::shard::Garbage;
use crate::shard::Shard;
use crate::shard::Value;
use crate::shard::table::Aside;
use crate::time::NEVER;
use crate::time::nanos_of;

/// The deadlines of one table, and how far its sweep has come.
pub(super) struct Expiry {
    /// No entry expires before this time.
    pub(super) next_deadline: u64,
    /// The bucket at which the next step starts; 0 between two passes.
    bucket: usize,
    /// The earliest deadline that this pass has met or heard of.
    earliest: u64,
    /// When the last pass ended, plus the pause that follows it.
    not_before: u64,
}

impl Default for Expiry {
    fn default() -> Self {
        Self { next_deadline: NEVER, bucket: 0, earliest: NEVER, not_before: 0 }
    }
}

impl Expiry {
    /// The buckets of the entries may have changed: what was swept is to be swept again.
    pub(super) fn restart(&mut self) {
        self.bucket = 0;
    }

    /// An entry, which this pass may not meet any more, has this deadline. Whether none was nearer.
    pub(super) fn note(&mut self, deadline: u64) -> bool {
        self.earliest = self.earliest.min(deadline);
        let is_nearer = deadline < self.next_deadline;
        self.next_deadline = self.next_deadline.min(deadline);
        is_nearer
    }
}

/// What one step of a sweep found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sweep {
    /// The pass goes on.
    More,
    /// The pass is over, or was not due; the shard wants the next one at this time.
    Next(u64),
}

impl<V: Value + ?Sized> Shard<V> {
    /// Removes expired entries from the next few buckets, at most [`SWEEP_BUCKETS`].
    pub(crate) fn sweep(&mut self, now: u64, dropped: &mut Dropped<V>) -> Sweep {
        if self.next_deadline() == NEVER {
            return Sweep::Next(NEVER);
        }
        let Some((table, weight, aside)) = self.parts() else { return Sweep::Next(NEVER) };
        let Aside { expiry: sweep, tally, .. } = aside;
        if sweep.bucket == 0 {
            let due = sweep.next_deadline.max(sweep.not_before);
            if now < due {
                return Sweep::Next(due);
            }
            sweep.earliest = NEVER;
        }
        let buckets = table.entries.num_buckets();
        let end = buckets.min(sweep.bucket + SWEEP_BUCKETS);
        for bucket in sweep.bucket..end {
            let Ok(found) = table.entries.get_bucket_entry(bucket) else { continue };
            let deadline = found.get().deadline();
            if deadline <= now {
                *weight -= found.get().weight();
                dropped.push(Garbage::Entry(found.remove().0));
                tally.expired += 1;
            } else {
                sweep.earliest = sweep.earliest.min(deadline);
            }
        }
        if end < buckets {
            sweep.bucket = end;
            return Sweep::More;
        }
        if table.entries.is_empty() {
            self.clear(dropped);
            return Sweep::Next(NEVER);
        }
        sweep.bucket = 0;
        sweep.next_deadline = sweep.earliest;
        let pause = buckets as u64 * SWEEP_NANOS_PER_BUCKET + nanos_of(SWEEP_PAUSE);
        sweep.not_before = now.saturating_add(pause);
        match sweep.next_deadline {
            NEVER => Sweep::Next(NEVER),
            next => Sweep::Next(next.max(sweep.not_before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::shard::Context;
    use crate::shard::Entry;
    use crate::shard::Kept;
    use crate::shard::Key;
    use crate::shard::KeyHasher;
    use crate::time::Now;
    use crate::time::Still;

    /// How many holds a pass over the table takes.
    const HOLDS: usize = 8;
    const BUCKETS: usize = HOLDS * SWEEP_BUCKETS;

    /// Where the entries of a full table belong. There are more of them than buckets here, so that
    /// some lie farther back, and that a removal leaves a tombstone.
    const FRONT: Range<usize> = 0..BUCKETS * 3 / 4;
    const BACK: Range<usize> = FRONT.end..BUCKETS;

    /// Up to this length a table without a free bucket is rehashed in place, above it grows.
    const IN_PLACE_LEN: usize = BUCKETS * 7 / 16;

    const SEEDS: u64 = 16;
    const ROUNDS: usize = 4;

    /// No deadline is farther ahead.
    const FAR: u64 = 1_000_000_000_000;

    /// A shard that is swept now and then.
    struct Rig {
        shard: Shard<u64>,
        hasher: KeyHasher,
        seed: u64,
        random: fastrand::Rng,
        key: u64,
        now: u64,
        dropped: Dropped<u64>,
        /// How many insertions rehashed the table in place.
        in_place: usize,
    }

    impl Rig {
        fn new(seed: u64) -> Self {
            let random = fastrand::Rng::with_seed(seed);
            let (shard, dropped) = (Shard::default(), Dropped::new());
            let hasher = KeyHasher::seeded(seed);
            let (key, now, in_place) = (0, 0, 0);
            let mut rig = Self { shard, hasher, seed, random, key, now, dropped, in_place };
            while rig.table_size().0 < BUCKETS {
                rig.put(FRONT);
            }
            rig
        }

        /// How many buckets there are, entries, and entries that fit without a rehash.
        fn table_size(&mut self) -> (usize, usize, usize) {
            let Some(table) = self.shard.table_ref() else { return (0, 0, 0) };
            (table.entries.num_buckets(), table.entries.len(), table.entries.capacity())
        }

        /// Inserts a key that belongs into one of these buckets; of four one without a deadline.
        fn put(&mut self, belongs: Range<usize>) {
            let belongs = belongs.start as u64..belongs.end as u64;
            let hash = loop {
                self.key += 1;
                let hash = self.hasher.hash(&self.key.to_le_bytes());
                if belongs.contains(&(hash % BUCKETS as u64)) {
                    break hash;
                }
            };
            let ahead = self.random.u64(1..FAR);
            let deadline = if self.random.u8(..4) == 0 { NEVER } else { self.now + ahead };
            let (buckets, len, capacity) = self.table_size();
            let entry = Entry::new(&self.key.to_le_bytes(), self.key, Kept::until(deadline));
            assert!(self.shard.insert(entry, hash, &self.hasher).is_none(), "a new key");
            self.in_place += usize::from(len == capacity && buckets == self.table_size().0);
        }

        /// Inserts until nothing fits without a rehash.
        fn fill(&mut self) {
            while self.table_size().1 < self.table_size().2 {
                self.put(FRONT);
            }
        }

        /// Removes entries, whichever, until so many are left.
        fn thin_out(&mut self, left: usize) {
            let mut keys: Vec<u64> = self.shard.iter().map(|entry| *entry.value()).collect();
            self.random.shuffle(&mut keys);
            let now = Now::new(&Still(0));
            let (hasher, dropped) = (&self.hasher, &mut self.dropped);
            let mut context = Context::new(&now, hasher, dropped);
            for key in keys.into_iter().skip(left) {
                let bytes = key.to_le_bytes();
                let key = Key::new(&bytes, hasher).expect("a short key");
                let removed = self.shard.remove(&key, &mut context);
                assert!(removed.is_some(), "an entry that is not found");
            }
        }

        fn sweep(&mut self) -> Sweep {
            let swept = self.shard.sweep(self.now, &mut self.dropped);
            self.dropped.free();
            swept
        }

        /// Begins a pass that is due, and does not end it.
        fn sweep_partly(&mut self) {
            while let Sweep::Next(due) = self.sweep() {
                assert!(due != NEVER, "the table has deadlines");
                self.now = self.now.max(due);
            }
            for _ in 1..self.random.usize(1..HOLDS) {
                assert_eq!(self.sweep(), Sweep::More, "seed {}", self.seed);
            }
        }

        /// Sweeps whenever the shard wants it, until it does not want it any more.
        fn sweep_to_the_end(&mut self) {
            self.now += FAR;
            for _ in 0..10 * HOLDS {
                let Sweep::Next(due) = self.sweep() else { continue };
                let deadlines = self.shard.iter().map(Entry::deadline);
                let earliest = deadlines.min().unwrap_or(NEVER);
                let (next, seed) = (self.shard.next_deadline(), self.seed);
                assert!(next <= earliest, "seed {seed}: a deadline is forgotten");
                if due == NEVER {
                    assert_eq!(earliest, NEVER, "seed {seed}: an expired entry is never swept");
                    return;
                }
                self.now = self.now.max(due);
            }
            panic!("seed {}: the sweep comes to no end", self.seed);
        }
    }

    #[test]
    fn a_table_that_is_rehashed_in_place_during_a_pass_hides_no_entry_from_the_sweep() {
        for seed in 0..SEEDS {
            let mut rig = Rig::new(seed);
            for _ in 0..ROUNDS {
                rig.fill();
                rig.now += rig.random.u64(..FAR / 2);
                rig.sweep_partly();
                rig.thin_out(IN_PLACE_LEN / 2);
                let before = rig.in_place;
                while rig.in_place == before && rig.table_size().1 < IN_PLACE_LEN {
                    rig.put(BACK);
                }
                assert!(rig.in_place > before, "seed {seed}: nothing was rehashed in place");
                rig.sweep_to_the_end();
            }
        }
    }
}
