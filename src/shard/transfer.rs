//! Entries travel between two shards of one slot, by pointer, under both tokens.

use crate::limits::MIGRATE_BUCKETS;
use crate::shard::Dropped;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::time::Now;

/// Which entries travel.
#[derive(Clone, Copy)]
pub(crate) enum Batch<'b> {
    /// Up to so many, whichever come first; perhaps fewer, though more are there.
    Any(usize),
    /// The named keys.
    Named(&'b [Key<'b>]),
}

/// What happens when a live entry of the same key is at the destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Nothing of the batch travels.
    Refuse,
    /// It is replaced.
    Replace,
}

/// What a transfer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    /// So many live entries travelled.
    Moved(usize),
    /// A live entry of the same key is at the destination; nothing travelled.
    Busy,
}

/// Moves entries from `from` to `to`: all of the batch or nothing. An expired entry of either side
/// is dropped where it lies, and never put over a live one. Deadlines and identities stay.
pub(crate) fn transfer<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &mut Shard<V>,
    (batch, existing): (Batch<'_>, Existing),
    now: &Now<'_>,
    dropped: &mut Dropped<V>,
) -> Transfer {
    let mut travelling = match batch {
        Batch::Any(count) => from.take_any(count, now, dropped),
        Batch::Named(keys) => {
            keys.iter().filter_map(|key| from.remove(key, now, dropped)).collect()
        }
    };
    if existing == Existing::Refuse && travelling.iter().any(|entry| to.has_same(entry, now)) {
        for entry in travelling.drain(..) {
            from.insert(entry);
        }
        return Transfer::Busy;
    }
    let count = travelling.len();
    for entry in travelling {
        dropped.extend(to.insert(entry).map(Garbage::Entry));
    }
    if from.len() == 0 {
        from.clear(dropped);
    }
    Transfer::Moved(count)
}

impl<V: Value + ?Sized> Shard<V> {
    /// Whether a live entry of the same key is here.
    pub(crate) fn has_same(&mut self, entry: &Entry<V>, now: &Now<'_>) -> bool {
        let Some(table) = self.table() else { return false };
        let found = table.entries.find(entry.hash(), |other| other.key() == entry.key());
        found.is_some_and(|other| !now.is_past(other.deadline()))
    }

    /// Takes up to `count` live entries out of the next [`MIGRATE_BUCKETS`] buckets, and drops the
    /// expired ones on the way.
    fn take_any(&mut self, count: usize, now: &Now<'_>, dropped: &mut Dropped<V>) -> Vec<Entry<V>> {
        let Some(table) = self.table() else { return Vec::new() };
        let mut taken = Vec::with_capacity(count.min(table.entries.len()));
        let buckets = table.entries.num_buckets();
        if table.cursor >= buckets {
            table.cursor = 0;
        }
        // Two runs: from the cursor to the end, then from the start to the cursor.
        let start = table.cursor;
        for bucket in (start..buckets).chain(0..start).take(MIGRATE_BUCKETS) {
            if taken.len() == count || table.entries.is_empty() {
                break;
            }
            table.cursor = bucket + 1;
            let Ok(found) = table.entries.get_bucket_entry(bucket) else { continue };
            let entry = found.remove().0;
            if now.is_past(entry.deadline()) {
                dropped.push(Garbage::Entry(entry));
            } else {
                taken.push(entry);
            }
        }
        taken
    }
}

/// What the fault of that name does.
#[cfg(feature = "testing")]
impl<V: Value + ?Sized> Shard<V> {
    /// Puts every entry into `other` as well and keeps it here.
    pub(crate) fn share_into(&self, other: &mut Self, dropped: &mut Dropped<V>) {
        for entry in self.iter() {
            dropped.extend(other.insert(entry.share()).map(Garbage::Entry));
        }
    }
}
