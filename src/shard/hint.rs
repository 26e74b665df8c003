//! `Hints`: where the lines of the tables of a node lie, for who prefetches without the token.

use crate::shard::Value;
use crate::shard::header::zeroed_words;
use crate::shard::prefetch_read;
use crate::shard::table::Entries;
use crate::shard::table::Table;
use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::AtomicUsize;
use crate::sync::OnceLock;
use crate::sync::Ordering;

/// Above these bits of an address lies the logarithm of the number of buckets.
const ADDRESS_BITS: u32 = usize::BITS - 8;

/// A word for every slot, 128 KiB, made with the first table.
///
/// Each is the address of the table's control bytes, and above it the logarithm of its buckets; 0
/// knows of no table. It is prefetched and never dereferenced, so that a stale one costs only time.
///
/// Relaxed throughout: nothing is read through the address, so that nothing has to be seen before.
#[derive(Default)]
pub(super) struct Hints(OnceLock<Box<[AtomicUsize]>>);

impl Hints {
    /// Asks for the lines that a look-up of this hash reads first: the control bytes where the
    /// search begins, and the element that is probably meant.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "tables are found by the low bits of a hash"
    )]
    pub(super) fn prefetch(&self, slot: Slot, hash: u64) {
        let Some(controls) = self.0.get() else { return };
        let control = controls[slot.index()].load(Ordering::Relaxed);
        for address in lines_of(control, hash as usize) {
            prefetch_read(std::ptr::without_provenance::<u8>(address));
        }
    }

    /// Takes note of where the table of a slot lies by now, if there is one.
    pub(super) fn learn<V: Value + ?Sized>(&self, slot: Slot, table: Option<&Table<V>>) {
        let unknown = || zeroed_words(usize::from(SLOT_COUNT));
        let control = table.map_or(0, |table| control_of(&table.entries));
        self.0.get_or_init(unknown)[slot.index()].store(control, Ordering::Relaxed);
    }
}

/// Where a look-up of this hash begins, and the element that lies in that bucket.
#[inline]
fn lines_of(control: usize, hash: usize) -> [usize; 2] {
    let address = control & ((1 << ADDRESS_BITS) - 1);
    let bucket = hash & ((1 << (control >> ADDRESS_BITS)) - 1);
    let element = (bucket + 1) * size_of::<usize>();
    [address.wrapping_add(bucket), address.wrapping_sub(element)]
}

/// Where the control bytes lie: right behind the elements, which lie there backwards. That is the
/// layout of the hash table behind its interface, found by where one of its elements lies; should
/// it change, the wrong lines are asked for.
fn control_of<V: Value + ?Sized>(entries: &Entries<V>) -> usize {
    let first = entries.iter_buckets().next();
    let element = first.and_then(|bucket| Some((bucket, entries.get_bucket(bucket)?)));
    let Some((bucket, any)) = element else { return 0 };
    let address = std::ptr::from_ref(any).addr() + (bucket + 1) * size_of::<usize>();
    // Some systems tag the upper bits of an address.
    let address = address & ((1 << ADDRESS_BITS) - 1);
    address | (entries.num_buckets().ilog2() as usize) << ADDRESS_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Entry;
    use crate::shard::Kept;
    use crate::time::NEVER;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "as in the hint")]
    fn the_lines_of_most_keys_are_where_the_hint_says() {
        let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
        let hash_of = |entry: &Entry<[u8]>| hasher.hash_one(entry.key());
        let mut entries = Entries::<[u8]>::default();
        for count in 1..=20_000_usize {
            let key = count.to_le_bytes();
            let entry = Entry::new(&key, &b"value"[..], Kept::until(NEVER));
            entries.insert_unique(hash_of(&entry), entry, hash_of);
            if !(count.is_power_of_two() || count == 20_000) {
                continue;
            }
            let control = control_of(&entries);
            let is_close = |entry: &&Entry<[u8]>| {
                let [start, element] = lines_of(control, hash_of(entry) as usize);
                let same = |other: &Entry<[u8]>| std::ptr::eq(other, *entry);
                let bucket = entries.find_bucket_index(hash_of(entry), same).unwrap();
                let byte = (control & ((1 << ADDRESS_BITS) - 1)) + bucket;
                let at = std::ptr::from_ref(*entry).addr();
                // The search reads sixteen control bytes from its start on.
                (start..start + 16).contains(&byte) && element.abs_diff(at) < 128
            };
            let close = entries.iter().filter(is_close).count();
            assert!(close * 10 >= count * 8, "{close} of {count} keys");
        }
    }

    #[test]
    fn no_table_is_no_hint() {
        assert_eq!(control_of(&Entries::<[u8]>::default()), 0);
    }
}
