//! Calls on one key: get, set, remove, expiry, compute and update.

use std::time::Duration;
use std::time::SystemTime;

use crate::cluster::Client;
use crate::cluster::SetOptions;
use crate::cluster::SetOutcome;
use crate::cluster::call::Call;
use crate::cluster::client::check_value;
use crate::command::Compute;
use crate::command::ComputeEntry;
use crate::command::Condition;
use crate::command::Contains;
use crate::command::Deadline;
use crate::command::Expiry;
use crate::command::Get;
use crate::command::GetDeadline;
use crate::command::Idle;
use crate::command::Put;
use crate::command::Remove;
use crate::command::RemoveSame;
use crate::command::Set;
use crate::command::SetDeadline;
use crate::command::SetResult;
use crate::command::Take;
use crate::command::Update;
use crate::command::UpdateInPlace;
use crate::error::Error;
use crate::error::Refused;
use crate::shard::CloneValue;
use crate::shard::Handle;
use crate::shard::Key;
use crate::shard::Value;
use crate::time::NEVER;
use crate::worker::Patience;

impl<V: Value + ?Sized> Client<V> {
    /// Reads a value. The handle keeps the value it was given, holds no lock and may be kept,
    /// sent and dropped anywhere. No copy; one count up.
    ///
    /// # Errors
    /// See [`Error`]; a read is never applied.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cluster = slotkeep::Cluster::builder().nodes(3).build()?;
    /// let client = cluster.client();
    /// client.set("user:1000", b"Ada")?;
    /// assert_eq!(client.get("user:1000")?.as_deref(), Some(&b"Ada"[..]));
    /// assert!(client.get("user:1001")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Handle<V>>, Error> {
        let key = self.key(key.as_ref())?;
        self.call(key.slot, Get { key })
    }

    /// [`get`](Self::get) that does not wait.
    ///
    /// # Errors
    /// [`Error::Busy`] when the token is taken or the mailbox is full; see [`Error`].
    pub fn try_get(&self, key: impl AsRef<[u8]>) -> Result<Option<Handle<V>>, Error> {
        let key = self.key(key.as_ref())?;
        self.try_call(key.slot, Get { key })
    }

    /// Writes a value and clears the key's deadline, or sets the one that the cluster was built to
    /// give. Overwrites in place when no handle is out and
    /// the size fits; else one allocation.
    ///
    /// # Errors
    /// [`Refused`] hands a sized value back; see [`Error`].
    #[inline]
    pub fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: V::Source<'_>,
    ) -> Result<(), Refused<V::Returned>> {
        self.put(key.as_ref(), value, self.patience)
    }

    /// [`set`](Self::set) that does not wait.
    ///
    /// # Errors
    /// [`Error::Busy`] when the token is taken or the mailbox is full; see [`Error`].
    pub fn try_set(
        &self,
        key: impl AsRef<[u8]>,
        value: V::Source<'_>,
    ) -> Result<(), Refused<V::Returned>> {
        self.put(key.as_ref(), value, Patience::Try)
    }

    /// Writes a value with options: expiry, a condition, the old value returned.
    ///
    /// # Errors
    /// [`Refused`] hands a sized value back; see [`Error`].
    pub fn set_with(
        &self,
        key: impl AsRef<[u8]>,
        value: V::Source<'_>,
        options: &SetOptions<'_, V>,
    ) -> Result<SetOutcome<V>, Refused<V::Returned>> {
        let (key, value) = self.key_with(key.as_ref(), value)?;
        let set = Set {
            key,
            weight: self.weigh(&key, &value),
            value,
            deadline: self.deadline(options.asked_expiry()),
            idle: options.asked_idle(),
            condition: options.condition(),
            return_old: options.wants_old(),
        };
        Ok(match self.set_as(set)? {
            SetResult::Done(old) => SetOutcome::Set { old },
            SetResult::Unmet(value, current) => {
                SetOutcome::NotSet { value: V::give_back(value), current }
            }
        })
    }

    fn set_as<'v>(
        &self,
        set: Set<'_, 'v, '_, V>,
    ) -> Result<SetResult<V, V::Source<'v>>, Refused<V::Returned>> {
        self.run(set.key.slot, set).map_err(|(error, set)| refused::<V>(error, set.value))
    }

    #[inline]
    fn put(
        &self,
        key: &[u8],
        value: V::Source<'_>,
        patience: Patience,
    ) -> Result<(), Refused<V::Returned>> {
        if !self.roster.plain {
            return self.put_otherwise(key, value, patience);
        }
        let (key, value) = self.key_with(key, value)?;
        Call::begin(self, (key.slot, patience), Put { key, value })
            .map_err(|(error, put)| refused::<V>(error, put.value))
    }

    /// [`put`](Self::put) where the cluster may have terms: a weigher runs before the token is
    /// taken.
    #[cold]
    #[inline(never)]
    fn put_otherwise(
        &self,
        key: &[u8],
        value: V::Source<'_>,
        patience: Patience,
    ) -> Result<(), Refused<V::Returned>> {
        let (key, value) = self.key_with(key, value)?;
        if self.roster.terms.is_none() {
            let put = Call::begin_otherwise(self, (key.slot, patience), Put { key, value });
            return put.map_err(|(error, put)| refused::<V>(error, put.value));
        }
        let weight = self.weigh(&key, &value);
        let (deadline, idle, condition) = (Deadline::Default, Idle::Default, Condition::Always);
        let set = Set { key, value, deadline, idle, weight, condition, return_old: false };
        let put = Call::begin_otherwise(self, (key.slot, patience), set);
        put.map(drop).map_err(|(error, set)| refused::<V>(error, set.value))
    }

    /// What the value of a key weighs, if somebody says so.
    pub(crate) fn weigh(&self, key: &Key<'_>, value: &V::Source<'_>) -> u64 {
        let terms = self.roster.terms.as_deref();
        terms.map_or(0, |terms| terms.weight(key.bytes, V::of_source(value)))
    }

    /// What the values of several keys weigh, in their order; nothing where nobody says so.
    pub(crate) fn weigh_all(&self, keys: &[Key<'_>], values: &[V::Source<'_>]) -> Vec<u64> {
        if self.roster.terms.as_deref().is_none_or(|terms| terms.weigher.is_none()) {
            return Vec::new();
        }
        keys.iter().zip(values).map(|(key, value)| self.weigh(key, value)).collect()
    }

    /// Hashes a key that a value is written to, unless one of them is too long.
    #[inline]
    fn key_with<'k, 'v>(
        &self,
        key: &'k [u8],
        value: V::Source<'v>,
    ) -> Result<(Key<'k>, V::Source<'v>), Refused<V::Returned>> {
        match self.key(key).and_then(|key| Ok(check_value::<V>(&value).map(|()| key)?)) {
            Ok(key) => Ok((key, value)),
            Err(error) => Err(refused::<V>(error, value)),
        }
    }

    fn deadline(&self, expiry: Expiry) -> Deadline {
        match expiry {
            Expiry::Default => Deadline::Default,
            Expiry::Never => Deadline::At(NEVER),
            Expiry::Keep => Deadline::Keep,
            Expiry::In(wait) => Deadline::After(wait),
            Expiry::At(time) => Deadline::At(self.roster.clock.deadline_at(time)),
        }
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// See [`Error`].
    #[inline]
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = self.key(key.as_ref())?;
        self.call(key.slot, Remove { key })
    }

    /// [`remove`](Self::remove) that does not wait.
    ///
    /// # Errors
    /// [`Error::Busy`] when the token is taken or the mailbox is full; see [`Error`].
    pub fn try_remove(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = self.key(key.as_ref())?;
        self.try_call(key.slot, Remove { key })
    }

    /// Removes a key and returns what was there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Handle<V>>, Error> {
        let key = self.key(key.as_ref())?;
        self.call(key.slot, Take { key })
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let key = self.key(key.as_ref())?;
        self.call(key.slot, Contains { key })
    }

    /// Writes a value if the entry is still the one of a handle, and keeps its deadline; whether
    /// it was.
    ///
    /// # Errors
    /// [`Refused`] hands a sized value back; see [`Error`]. A value that was not written because
    /// the entry changed is dropped; [`set_with`](Self::set_with) hands it back.
    pub fn replace(
        &self,
        seen: &Handle<V>,
        value: V::Source<'_>,
    ) -> Result<bool, Refused<V::Returned>> {
        let (key, value) = self.key_with(Handle::key(seen), value)?;
        let weight = self.weigh(&key, &value);
        let (deadline, idle, condition) = (Deadline::Keep, Idle::Keep, Condition::Same(seen));
        let set = Set { key, value, deadline, idle, weight, condition, return_old: false };
        let done = self.set_as(set)?;
        Ok(matches!(done, SetResult::Done(_)))
    }

    /// Removes an entry if it is still the one of a handle: nobody has written it since. Whether it
    /// was.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn remove_same(&self, seen: &Handle<V>) -> Result<bool, Error> {
        let key = self.key(Handle::key(seen))?;
        self.call(key.slot, RemoveSame { key, seen })
    }

    /// When a key expires: `None` when it is not there, `Some(None)` when it never does.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Option<SystemTime>>, Error> {
        let key = self.key(key.as_ref())?;
        let found = self.call(key.slot, GetDeadline { key })?;
        Ok(found.map(|(deadline, _)| match deadline {
            NEVER => None,
            deadline => self.roster.clock.time_of(deadline),
        }))
    }

    /// The time that a key has left: `None` when it is not there, `Some(None)` when it never
    /// expires.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Option<Duration>>, Error> {
        let key = self.key(key.as_ref())?;
        let found = self.call(key.slot, GetDeadline { key })?;
        Ok(found.map(|(_, left)| (left != NEVER).then(|| Duration::from_nanos(left))))
    }

    /// Gives a key another deadline; whether the key was there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set_expiry(&self, key: impl AsRef<[u8]>, expiry: Expiry) -> Result<bool, Error> {
        Ok(self.change_deadline(key.as_ref(), self.deadline(expiry))?.is_some())
    }

    /// Lets a key expire after this time; whether the key was there. Zero is at once.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn expire(&self, key: impl AsRef<[u8]>, wait: Duration) -> Result<bool, Error> {
        self.set_expiry(key, Expiry::In(wait))
    }

    /// Lets a key expire at this time of the wall clock; whether the key was there. A time that has
    /// passed is at once.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn expire_at(&self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool, Error> {
        self.set_expiry(key, Expiry::At(time))
    }

    /// Clears the deadline of a key; whether it had one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let old = self.change_deadline(key.as_ref(), Deadline::At(NEVER))?;
        Ok(old.is_some_and(|deadline| deadline != NEVER))
    }

    fn change_deadline(&self, key: &[u8], deadline: Deadline) -> Result<Option<u64>, Error> {
        let key = self.key(key)?;
        self.call(key.slot, SetDeadline { key, deadline })
    }

    /// Shows a closure what is there, and does as it says; returns what is there afterwards.
    ///
    /// The closure runs under the shard's token: it must be short, and calls to any cluster inside
    /// it answer [`Error::Reentrant`]. A panic changes nothing and goes on in the caller. A value
    /// that is replaced keeps its deadline.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`] for a value that is too long, which is dropped; see [`Error`].
    ///
    /// # Examples
    /// ```
    /// use slotkeep::{Cluster, Compute};
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cluster = Cluster::builder().values::<u64>().build()?;
    /// let client = cluster.client();
    /// for _ in 0..3 {
    ///     client.compute("visits", |seen| Compute::Replace(seen.map_or(1, |seen| seen + 1)))?;
    /// }
    /// assert_eq!(client.get("visits")?.as_deref(), Some(&3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn compute(
        &self,
        key: impl AsRef<[u8]>,
        closure: impl FnOnce(Option<&V>) -> Compute<V::Owned> + Send,
    ) -> Result<Option<Handle<V>>, Error> {
        let key = self.key(key.as_ref())?;
        Ok(self.call(key.slot, ComputeEntry { key, closure })??)
    }

    /// Lets a closure change the value itself, and returns what the closure returned; nothing when
    /// the key is not there. No copy.
    ///
    /// Runs only when no handle is out. The closure runs under the shard's token: it must be short,
    /// and calls to any cluster inside it answer [`Error::Reentrant`]. If it panics the entry is
    /// removed, because its value may be half changed, and the panic goes on in the caller.
    ///
    /// # Errors
    /// [`Error::TooHeavy`] when the value has become heavier than the whole bound; the entry is
    /// removed, because its old value is gone. Where writes are refused, one that has grown stays.
    /// [`Error::Shared`] when a handle is out: [`update`](Self::update) works on a copy.
    /// See [`Error`].
    pub fn update_in_place<R: Send>(
        &self,
        key: impl AsRef<[u8]>,
        closure: impl FnOnce(&mut V) -> R + Send,
    ) -> Result<Option<R>, Error> {
        let key = self.key(key.as_ref())?;
        Ok(self.call(key.slot, UpdateInPlace { key, closure })??)
    }
}

impl<V: CloneValue + ?Sized> Client<V> {
    /// Lets a closure change a copy of the value, publishes the copy, and returns what the closure
    /// returned; nothing when the key is not there. Keeps the deadline.
    ///
    /// Handles that are out keep the value that they were given. The closure runs under the shard's
    /// token: it must be short, and calls to any cluster inside it answer [`Error::Reentrant`]. A
    /// panic changes nothing and goes on in the caller.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`]; see [`Error`].
    pub fn update<R: Send>(
        &self,
        key: impl AsRef<[u8]>,
        closure: impl FnOnce(&mut V::Owned) -> R + Send,
    ) -> Result<Option<R>, Error> {
        let key = self.key(key.as_ref())?;
        Ok(self.call(key.slot, Update { key, closure })??)
    }
}

/// Hands a value back that was not written.
#[cold]
fn refused<V: Value + ?Sized>(error: Error, value: V::Source<'_>) -> Refused<V::Returned> {
    Refused { error, value: V::give_back(value) }
}
