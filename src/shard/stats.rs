//! `Stats`: what became of the keys of a slot, a worker, a node or a cluster, in numbers.

use std::iter::Sum;
use std::ops::Add;
use std::ops::AddAssign;

/// What operations found and did, and what is there.
///
/// A call counts once for each key that it names, where it is served; what is refused before it
/// reaches the key, or panics, counts nowhere. All counts begin at 0 and only grow, but for
/// `entries` and `weight`, which are of now. For every slot of every node, and so for each sum,
/// `entries` is `inserts + moved_in - moved_out` without the [`removals`](Self::removals).
///
/// # Examples
/// ```
/// # fn main() -> Result<(), slotkeep::Error> {
/// let cache = slotkeep::Cache::<u64>::new(1_000);
/// cache.insert("a", 1)?;
/// cache.insert("a", 2)?;
/// assert!(cache.get("a")?.is_some() && cache.get("b")?.is_none());
/// let stats = cache.stats()?;
/// assert_eq!((stats.inserts, stats.updates, stats.entries), (1, 1, 1));
/// assert_eq!((stats.hits, stats.misses, stats.hit_ratio()), (1, 1, Some(0.5)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Keys that were read and found: by `get`, `mget`, `get_many`, and `compute` that keeps.
    pub hits: u64,
    /// Keys that were read and not found, or met expired: by the same, and by `update` and
    /// `update_in_place`.
    pub misses: u64,
    /// Keys that were written and not there before.
    pub inserts: u64,
    /// Values that were replaced by others of the same key, in place or not.
    pub updates: u64,
    /// Entries that calls removed, and second copies of a key that were dropped.
    pub removed: u64,
    /// Entries that were let go of because they had expired, when a call met them or a sweep did.
    pub expired: u64,
    /// Entries that made room for others.
    pub evicted: u64,
    /// Entries that went with their whole slot: by `clear`, `clear_slot`, or with copies that a
    /// move had left.
    pub cleared: u64,
    /// Entries that came from another node by a move.
    pub moved_in: u64,
    /// Entries that went to another node by a move.
    pub moved_out: u64,
    /// Entries that are there, expired ones that nobody met yet included.
    pub entries: u64,
    /// The sum of their weights: bytes, unless the builder was given a weigher. What handles keep
    /// of entries that are gone is not in it, but in [`pinned_bytes`](crate::pinned_bytes).
    pub weight: u64,
}

impl Stats {
    /// Entries that went, for whatever cause, but for moves.
    pub fn removals(&self) -> u64 {
        self.removed + self.expired + self.evicted + self.cleared
    }

    /// Which part of the keys that were read was found, from 0 to 1; nothing when none was read.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of counts beyond 2^53 is as good")]
    pub fn hit_ratio(&self) -> Option<f64> {
        let reads = self.hits + self.misses;
        (reads > 0).then(|| self.hits as f64 / reads as f64)
    }
}

impl Add for Stats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            inserts: self.inserts + other.inserts,
            updates: self.updates + other.updates,
            removed: self.removed + other.removed,
            expired: self.expired + other.expired,
            evicted: self.evicted + other.evicted,
            cleared: self.cleared + other.cleared,
            moved_in: self.moved_in + other.moved_in,
            moved_out: self.moved_out + other.moved_out,
            entries: self.entries + other.entries,
            weight: self.weight + other.weight,
        }
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Stats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

impl<'s> Sum<&'s Self> for Stats {
    fn sum<I: Iterator<Item = &'s Self>>(all: I) -> Self {
        all.copied().sum()
    }
}
