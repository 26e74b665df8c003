//! Batches over any slots: hash all, prefetch, then run; atomic slot by slot only.

use crate::cluster::Client;
use crate::cluster::client::check_value;
use crate::command::Get;
use crate::command::GetAll;
use crate::command::RemoveAll;
use crate::command::SetAll;
use crate::error::Error;
use crate::limits::BATCH_KEYS_MAX;
use crate::limits::BATCH_WINDOW;
use crate::migration::Semantics;
use crate::shard::Handle;
use crate::shard::Key;
use crate::shard::Value;
use crate::shard::prefetch_read;

impl<V: Value + ?Sized> Client<V> {
    /// Reads any keys, in their order. The keys of one slot are read at one instant; by a client of
    /// [`Semantics::Redis`] one by one.
    ///
    /// # Errors
    /// The first error that a slot answered; see [`Error`].
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Handle<V>>>, Error> {
        let keys = self.hash_all(keys)?;
        let mut found: Vec<Option<Handle<V>>> = vec![None; keys.len()];
        self.each_slot(&keys, |group, places| {
            if let ([key], [place]) = (group, places) {
                found[*place] = self.call(key.slot, Get { key: *key })?;
                return Ok(());
            }
            let values = self.call(group[0].slot, GetAll { keys: group.into() })?;
            places.iter().zip(values).for_each(|(&place, value)| found[place] = value);
            Ok(())
        })?;
        Ok(found)
    }

    /// Writes any keys and clears their deadlines. The keys of one slot are written at one instant;
    /// by a client of [`Semantics::Redis`] one by one. Of two values of one key the later stays.
    ///
    /// # Errors
    /// The first error that a slot answered; what comes before it, in ascending order of the slots,
    /// is written. Repeating the call is harmless. See [`Error`].
    pub fn set_many<'v, K: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V::Source<'v>)>,
    ) -> Result<(), Error> {
        let (names, values): (Vec<K>, Vec<V::Source<'v>>) =
            entries.into_iter().take(BATCH_KEYS_MAX + 1).unzip();
        values.iter().try_for_each(check_value::<V>)?;
        let keys = self.hash_all(&names)?;
        let mut values: Vec<_> = values.into_iter().map(Some).collect();
        self.each_slot(&keys, |group, places| {
            let values = places.iter().filter_map(|&place| values[place].take()).collect();
            self.call(group[0].slot, SetAll { keys: group.into(), values })
        })
    }

    /// Removes any keys; how many were there. The keys of one slot are removed at one instant; by a
    /// client of [`Semantics::Redis`] one by one.
    ///
    /// # Errors
    /// The first error that a slot answered; what comes before it, in ascending order of the slots,
    /// is removed. Repeating the call is harmless. See [`Error`].
    pub fn remove_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<usize, Error> {
        let keys = self.hash_all(keys)?;
        let mut count = 0;
        self.each_slot(&keys, |group, _| {
            count += self.call(group[0].slot, RemoveAll { keys: group.into() })?;
            Ok(())
        })?;
        Ok(count)
    }

    fn hash_all<'k>(&self, keys: &'k [impl AsRef<[u8]>]) -> Result<Vec<Key<'k>>, Error> {
        if keys.len() > BATCH_KEYS_MAX {
            return Err(Error::TooManyKeys { keys: keys.len() });
        }
        Key::all(keys, &self.roster.hasher).map_err(|bytes| Error::KeyTooLong { bytes })
    }

    /// Visits the keys slot by slot, ascending, with their places in the call, in the order of the
    /// call; prefetches the headers of the slots that come next. As in Redis, where a move may
    /// split the keys of a slot, each key is visited alone.
    fn each_slot<'k>(
        &self,
        keys: &[Key<'k>],
        mut visit: impl FnMut(&[Key<'k>], &[usize]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut places: Vec<usize> = (0..keys.len()).collect();
        places.sort_by_key(|&place| keys[place].slot);
        let sorted: Vec<Key<'k>> = places.iter().map(|&place| keys[place]).collect();
        let prefetch = |key: &Key<'k>| {
            let member = self.first_member(key.slot);
            prefetch_read(std::ptr::from_ref(member.headers.get(key.slot)));
        };
        sorted.iter().take(BATCH_WINDOW).for_each(prefetch);
        let mut start = 0;
        let together = self.semantics == Semantics::Pull;
        for group in sorted.chunk_by(|one, next| together && one.slot == next.slot) {
            let end = start + group.len();
            let ahead = (start + BATCH_WINDOW)..(end + BATCH_WINDOW);
            sorted.iter().take(ahead.end).skip(ahead.start).for_each(prefetch);
            visit(group, &places[start..end])?;
            start = end;
        }
        Ok(())
    }
}
