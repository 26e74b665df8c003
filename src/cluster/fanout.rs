//! Batches over any slots: hash all, prefetch, then run; atomic slot by slot only.

use smallvec::SmallVec;

use crate::cluster::Client;
use crate::cluster::client::check_value;
use crate::command::GetAll;
use crate::command::Operation;
use crate::command::RemoveAll;
use crate::command::SetAll;
use crate::error::Error;
use crate::limits::BATCH_KEYS_MAX;
use crate::limits::BATCH_WINDOW;
use crate::migration::Semantics;
use crate::node::Visit;
use crate::shard::Handle;
use crate::shard::KEYS_INLINE;
use crate::shard::Key;
use crate::shard::Keys;
use crate::shard::Value;
use crate::shard::prefetch_read;

/// What a batch holds for each of its keys.
type Inline<T> = SmallVec<[T; KEYS_INLINE]>;

/// The keys of a batch by slot, and their places in the call; in the order of the call where slots
/// are the same.
struct Sorted<'k> {
    keys: Keys<'k>,
    places: Inline<usize>,
}

impl<V: Value + ?Sized> Client<V> {
    /// Reads any keys, in their order. The keys of one slot are read at one instant; by a client of
    /// [`Semantics::Redis`] one by one.
    ///
    /// # Errors
    /// The first error that a slot answered; see [`Error`].
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Handle<V>>>, Error> {
        let keys = self.sort(keys)?;
        let mut found: Vec<Option<Handle<V>>> = vec![None; keys.places.len()];
        self.each_slot(
            &keys,
            |group, _| GetAll { keys: group.into() },
            |places, values| {
                places.iter().zip(values).for_each(|(&place, value)| found[place] = value);
            },
        )?;
        Ok(found)
    }

    /// Writes any keys and clears their deadlines. The keys of one slot are written at one instant;
    /// by a client of [`Semantics::Redis`] one by one. Of two values of one key the later stays.
    ///
    /// # Errors
    /// The first error that a slot answered; what comes before it, in ascending order of the slots,
    /// is written, and so may be what comes in the next [`BATCH_WINDOW`] slots. Repeating the call
    /// is harmless. See [`Error`].
    pub fn set_many<'v, K: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V::Source<'v>)>,
    ) -> Result<(), Error> {
        let (names, values): (Inline<K>, Inline<V::Source<'v>>) =
            entries.into_iter().take(BATCH_KEYS_MAX + 1).unzip();
        values.iter().try_for_each(check_value::<V>)?;
        let keys = self.sort(&names)?;
        let mut values: Inline<_> = values.into_iter().map(Some).collect();
        self.each_slot(
            &keys,
            |group, places| {
                let values = places.iter().filter_map(|&place| values[place].take()).collect();
                SetAll { keys: group.into(), values }
            },
            |_, ()| (),
        )
    }

    /// Removes any keys; how many were there. The keys of one slot are removed at one instant; by a
    /// client of [`Semantics::Redis`] one by one.
    ///
    /// # Errors
    /// The first error that a slot answered; what comes before it, in ascending order of the slots,
    /// is removed, and so may be what comes in the next [`BATCH_WINDOW`] slots. Repeating the call
    /// is harmless. See [`Error`].
    pub fn remove_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<usize, Error> {
        let keys = self.sort(keys)?;
        let mut count = 0;
        self.each_slot(
            &keys,
            |group, _| RemoveAll { keys: group.into() },
            |_, removed| count += removed,
        )?;
        Ok(count)
    }

    fn sort<'k>(&self, keys: &'k [impl AsRef<[u8]>]) -> Result<Sorted<'k>, Error> {
        if keys.len() > BATCH_KEYS_MAX {
            return Err(Error::TooManyKeys { keys: keys.len() });
        }
        let keys =
            Key::all(keys, &self.roster.hasher).map_err(|bytes| Error::KeyTooLong { bytes })?;
        let mut places: Inline<usize> = (0..keys.len()).collect();
        places.sort_by_key(|&place| keys[place].slot);
        let keys = places.iter().map(|&place| keys[place]).collect();
        Ok(Sorted { keys, places })
    }

    /// Runs an operation for the keys of each slot, ascending, and says what it answered; both hear
    /// the places of these keys in the call. As in Redis, where a move may split the keys of a
    /// slot, each key of a client of [`Semantics::Redis`] goes alone.
    fn each_slot<'s, O>(
        &self,
        sorted: &'s Sorted<'_>,
        mut operation: impl FnMut(&'s [Key<'s>], &'s [usize]) -> O,
        mut done: impl FnMut(&'s [usize], O::Output),
    ) -> Result<(), Error>
    where
        O: Operation<V> + Send,
        O::Output: Send,
    {
        let keys: &'s [Key<'s>] = &sorted.keys;
        self.prefetch_headers(keys.iter().take(BATCH_WINDOW));
        let together = self.semantics == Semantics::Pull;
        let mut groups = keys.chunk_by(|one, next| together && one.slot == next.slot);
        let mut places = &sorted.places[..];
        let mut behind = keys;
        loop {
            let mut window: SmallVec<[&'s [usize]; BATCH_WINDOW]> = SmallVec::new();
            let mut visits: SmallVec<[Visit<'_, V, O>; BATCH_WINDOW]> = SmallVec::new();
            for group in groups.by_ref().take(BATCH_WINDOW) {
                let (here, rest) = places.split_at(group.len());
                (places, behind) = (rest, &behind[group.len()..]);
                let slot = group[0].slot;
                let member = self.first_member(slot);
                visits.push(Visit { member, slot, operation: Some(operation(group, here)) });
                window.push(here);
            }
            if visits.is_empty() {
                return Ok(());
            }
            self.prefetch_headers(behind.iter().take(BATCH_WINDOW));
            if self.goes_in_windows() {
                self.roster.execute_window(&mut visits, |index, output| {
                    done(window[index], output);
                });
            }
            for (visit, here) in visits.into_iter().zip(window) {
                let Some(operation) = visit.operation else { continue };
                done(here, self.call(visit.slot, operation)?);
            }
        }
    }

    /// Whether nobody looks at this client's hops, and its keys need not go one by one.
    fn goes_in_windows(&self) -> bool {
        self.trace.is_none() && self.pinned.is_none() && self.semantics == Semantics::Pull
    }

    fn prefetch_headers<'s>(&self, keys: impl Iterator<Item = &'s Key<'s>>) {
        for key in keys {
            let member = self.first_member(key.slot);
            prefetch_read(std::ptr::from_ref(member.headers.get(key.slot)));
        }
    }
}
