//! Atomic calls on several keys of one slot: mget, mset, remove, transactions.

use crate::cluster::Client;
use crate::cluster::client::check_value;
use crate::command::GetAll;
use crate::command::RemoveAll;
use crate::command::SetAll;
use crate::command::Transact;
use crate::command::Transaction;
use crate::error::Error;
use crate::limits::CALL_KEYS_MAX;
use crate::shard::Handle;
use crate::shard::Key;
use crate::shard::Keys;
use crate::shard::Value;
use crate::slot::Slot;

impl<V: Value + ?Sized> Client<V> {
    /// Reads several keys of one slot at one instant, in their order.
    ///
    /// # Errors
    /// [`Error::CrossSlot`], [`Error::NoKeys`], [`Error::TooManyKeys`]; [`Error::TryAgain`] to a
    /// client of [`Semantics::Redis`](crate::Semantics); see [`Error`].
    pub fn mget(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Handle<V>>>, Error> {
        let (slot, keys) = self.keys_of_one_slot(keys)?;
        self.call(slot, GetAll { keys: (&*keys).into() })
    }

    /// Writes several keys of one slot at one instant and clears their deadlines. Of two values of
    /// one key the later one stays.
    ///
    /// # Errors
    /// As [`mget`](Self::mget). Nothing was written.
    pub fn mset<'v, K: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V::Source<'v>)>,
    ) -> Result<(), Error> {
        let (names, values): (Vec<K>, Vec<V::Source<'v>>) =
            entries.into_iter().take(CALL_KEYS_MAX + 1).unzip();
        values.iter().try_for_each(check_value::<V>)?;
        let (slot, keys) = self.keys_of_one_slot(&names)?;
        let weights = self.weigh_all(&keys, &values);
        self.call(slot, SetAll { keys: (&*keys).into(), values, weights })
    }

    /// Removes several keys of one slot at one instant; how many were there.
    ///
    /// # Errors
    /// As [`mget`](Self::mget).
    pub fn remove_all(&self, keys: &[impl AsRef<[u8]>]) -> Result<usize, Error> {
        let (slot, keys) = self.keys_of_one_slot(keys)?;
        self.call(slot, RemoveAll { keys: (&*keys).into() })
    }

    /// Runs a closure over keys of one slot at one instant. Its writes are staged, and applied
    /// together when it returns `Ok`; an `Err` or a panic applies none.
    ///
    /// All keys are named up front; another one inside is
    /// [`UndeclaredKey`](crate::CommandError::UndeclaredKey). The closure runs under the shard's
    /// token: it must be short, and calls to any cluster inside it answer [`Error::Reentrant`].
    ///
    /// # Errors
    /// As [`mget`](Self::mget); what the closure returned is the inner result.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::{Cluster, CommandError};
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cluster = Cluster::builder().values::<u64>().build()?;
    /// let client = cluster.client();
    /// client.mset([("{acct:58}:a", 100_u64), ("{acct:58}:b", 0)])?;
    /// let moved: Result<(), CommandError> =
    ///     client.transaction(&["{acct:58}:a", "{acct:58}:b"], |both| {
    ///         let a = *both.get("{acct:58}:a")?.unwrap();
    ///         let b = *both.get("{acct:58}:b")?.unwrap();
    ///         both.set("{acct:58}:a", a - 30)?;
    ///         both.set("{acct:58}:b", b + 30)
    ///     })?;
    /// assert!(moved.is_ok());
    /// assert_eq!(client.get("{acct:58}:b")?.as_deref(), Some(&30));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction<R: Send, E: Send>(
        &self,
        keys: &[impl AsRef<[u8]>],
        closure: impl FnOnce(&mut Transaction<'_, V>) -> Result<R, E> + Send,
    ) -> Result<Result<R, E>, Error> {
        let (slot, keys) = self.keys_of_one_slot(keys)?;
        Ok(self.call(slot, Transact { keys: &keys, closure })??)
    }

    /// Hashes keys, each asked for its bytes once, and wants them in one slot.
    pub(crate) fn keys_of_one_slot<'k>(
        &self,
        keys: &'k [impl AsRef<[u8]>],
    ) -> Result<(Slot, Keys<'k>), Error> {
        if keys.len() > CALL_KEYS_MAX {
            return Err(Error::TooManyKeys { keys: keys.len() });
        }
        let keys =
            Key::all(keys, &self.roster.hasher).map_err(|bytes| Error::KeyTooLong { bytes })?;
        let slot = keys.first().ok_or(Error::NoKeys)?.slot;
        if keys.iter().any(|key| key.slot != slot) {
            return Err(Error::CrossSlot);
        }
        Ok((slot, keys))
    }
}
