//! `Cache`: one node of bounded size, for who wants a cache and nothing else.

mod builder;

use std::fmt;

use crate::cluster::Client;
use crate::cluster::Iter;
use crate::cluster::SetOptions;
use crate::cluster::SetOutcome;
use crate::command::Compute;
use crate::error::Error;
use crate::error::Refused;
use crate::node::Bound;
use crate::shard::CloneValue;
use crate::shard::Handle;
use crate::shard::Stats;
use crate::shard::Value;

pub use builder::CacheBuilder;

/// A concurrent cache of bounded size: keys are bytes, values of any type.
///
/// Cheap to clone; clones are the same cache, and its thread ends with the last of them. When it is
/// full, what is written makes room by evicting entries that are not likely to be asked for. The
/// page [`cache_guide`](crate::cache_guide) has what is exact and what it costs, and how to change
/// over from moka, `quick_cache` and `DashMap`.
///
/// It is a cluster of one node: [`client`](Self::client) can do whatever a [`Client`] can, such as
/// batches and transactions.
///
/// # Errors
/// Calls answer [`Error::Reentrant`] from inside a closure or a weigher of any cache or cluster,
/// which would wait for itself, and [`Error::KeyTooLong`] for a key of more than
/// [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX). What else they answer is named at each.
///
/// # Examples
/// ```
/// use slotkeep::Cache;
/// # fn main() -> Result<(), slotkeep::Error> {
/// let cache = Cache::<String>::new(10_000);
/// cache.insert("user:1000", "Ada".to_owned())?;
/// assert_eq!(cache.get("user:1000")?.as_deref().map(String::as_str), Some("Ada"));
/// # Ok(())
/// # }
/// ```
pub struct Cache<V: Value + ?Sized = [u8]> {
    client: Client<V>,
}

impl<V: Value + ?Sized> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone() }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("bound", &self.bound()).finish_non_exhaustive()
    }
}

impl<V: Value + ?Sized> Cache<V> {
    /// A cache of at most `capacity` entries. 0 caches nothing: what is written is gone when the
    /// call returns.
    ///
    /// Starts one thread, which sleeps until something expires; room is made by the threads that
    /// write.
    ///
    /// # Panics
    /// When the system has no thread left, and from inside a closure of a cache or a cluster;
    /// [`CacheBuilder::build`] answers an error instead.
    pub fn new(capacity: u64) -> Self {
        Self::builder().capacity(capacity).build().expect("a thread for the worker of a cache")
    }

    /// A builder, for more than a capacity.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use slotkeep::Cache;
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let pages = Cache::<str>::builder()
    ///     .max_weight(64 << 20)
    ///     .time_to_live(Duration::from_secs(300))
    ///     .jitter(Duration::from_secs(30))
    ///     .build()?;
    /// pages.insert("/index.html", "<p>Welcome.</p>")?;
    /// assert_eq!(pages.max_weight(), Some(64 << 20));
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> CacheBuilder<V> {
        CacheBuilder::new()
    }

    /// Reads a value, which is a hit: the entry becomes less likely to be evicted, and its time to
    /// idle begins anew.
    ///
    /// The handle keeps the value that it was given, holds no lock, and may be kept, sent and
    /// dropped anywhere; it derefs to the value. Costs no copy and no allocation, one count up.
    ///
    /// # Errors
    /// Those of [every call](Self#errors).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Handle<V>>, Error> {
        self.client.get(key)
    }

    /// Writes a value, whatever was there, on the cache's terms: its time to live and to idle begin
    /// anew.
    ///
    /// At the bound, other entries are evicted for it before the call returns, unless the policy
    /// refuses it with [`Error::OutOfMemory`]; a new entry may be
    /// the next to go. Overwrites in place when no handle is out and the size fits; else one
    /// allocation.
    ///
    /// # Errors
    /// [`Refused`] hands a sized value back. [`Error::ValueTooLong`] for bytes or text of more than
    /// [`VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX); [`Error::TooHeavy`] for an entry that
    /// weighs more than the whole bound; else those of [every call](Self#errors). What was there
    /// stays.
    ///
    /// # Panics
    /// When the weigher does; nothing is written.
    #[inline]
    pub fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: V::Source<'_>,
    ) -> Result<(), Refused<V::Returned>> {
        self.client.set(key, value)
    }

    /// Writes a value with options: its own time to live or to idle, a condition, the old value
    /// returned.
    ///
    /// # Errors
    /// As [`insert`](Self::insert). A condition that is not met is no error, but
    /// [`SetOutcome::NotSet`], with the value.
    ///
    /// # Panics
    /// When the weigher does; nothing is written.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use slotkeep::{Cache, SetOptions};
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cache = Cache::<str>::new(10_000);
    /// let session = SetOptions::new().if_absent().expire_idle(Duration::from_secs(600));
    /// assert!(cache.insert_with("session:7", "open", &session)?.is_set());
    /// assert!(!cache.insert_with("session:7", "stolen", &session)?.is_set());
    /// assert_eq!(cache.get("session:7")?.as_deref(), Some("open"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_with(
        &self,
        key: impl AsRef<[u8]>,
        value: V::Source<'_>,
        options: &SetOptions<'_, V>,
    ) -> Result<SetOutcome<V>, Refused<V::Returned>> {
        self.client.set_with(key, value, options)
    }

    /// Removes a key and returns what was there.
    ///
    /// # Errors
    /// Those of [every call](Self#errors).
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Handle<V>>, Error> {
        self.client.take(key)
    }

    /// Whether a key is there. It is no hit: nothing is put off.
    ///
    /// # Errors
    /// Those of [every call](Self#errors).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.client.contains_key(key)
    }

    /// Shows a closure what is there, and does as it says: keeps, replaces or removes it. Returns
    /// what is there afterwards. It is a hit.
    ///
    /// No other call on this key runs meanwhile, so this counts, inserts if absent, and removes if
    /// something holds, in one step. The closure runs under the token of the key's slot, which a
    /// 16384th of all keys share: it must be short, and calls to any cache inside it answer
    /// [`Error::Reentrant`]. A value that is replaced keeps its time to live; a new one gets the
    /// cache's.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`] and [`Error::TooHeavy`] for a value that is too long or too heavy,
    /// which is dropped; else those of [every call](Self#errors).
    ///
    /// # Panics
    /// When the closure or the weigher does; nothing is changed.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::{Cache, Compute};
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let visits = Cache::<u64>::new(10_000);
    /// for _ in 0..3 {
    ///     visits.compute("page:7", |seen| Compute::Replace(seen.map_or(1, |seen| seen + 1)))?;
    /// }
    /// assert_eq!(visits.get("page:7")?.as_deref(), Some(&3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn compute(
        &self,
        key: impl AsRef<[u8]>,
        closure: impl FnOnce(Option<&V>) -> Compute<V::Owned> + Send,
    ) -> Result<Option<Handle<V>>, Error> {
        self.client.compute(key, closure)
    }

    /// Removes every entry that the predicate does not want to stay; how many.
    ///
    /// The predicate runs without any lock: it may take its time and call this cache. An entry that
    /// was written after the predicate has seen it stays, and is not shown again; one that comes
    /// meanwhile may be missed. Looking at an entry is no hit. Costs what [`iter`](Self::iter)
    /// does, and a call for each entry that goes.
    ///
    /// # Errors
    /// Those of [every call](Self#errors); what was removed before is gone.
    ///
    /// # Panics
    /// When the predicate does; what was removed before is gone.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::Cache;
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cache = Cache::<u64>::new(10_000);
    /// for (number, key) in ["user:1", "user:2", "page:3"].iter().enumerate() {
    ///     cache.insert(key, number as u64)?;
    /// }
    /// assert_eq!(cache.retain(|key, &number| key.starts_with(b"page:") || number == 0)?, 1);
    /// assert!(!cache.contains_key("user:2")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retain(&self, stays: impl FnMut(&[u8], &V) -> bool) -> Result<usize, Error> {
        self.client.retain(stays)
    }

    /// Iterates over the entries, as handles; [`Handle::key`] tells the keys. Looking at an entry
    /// is no hit.
    ///
    /// An entry that is there for the whole pass is seen exactly once, one that comes, goes or is
    /// written meanwhile at most once. Handles of one slot are held at a time, and the token of
    /// that slot while they are made. An error comes once, in place of an entry, and ends the
    /// iteration.
    pub fn iter(&self) -> Iter<V> {
        self.client.iter()
    }

    /// How many entries there are, expired ones that nobody met yet included; see
    /// [`live`](Self::live). Looks at every slot, of which there are 16384, and at no entry.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn len(&self) -> Result<usize, Error> {
        self.client.len()
    }

    /// Whether there is no entry, not even an expired one that nobody met yet. Costs what
    /// [`len`](Self::len) does.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn is_empty(&self) -> Result<bool, Error> {
        self.client.is_empty()
    }

    /// How many entries a [`get`](Self::get) would find. Looks at every entry of a slot in which
    /// some may have expired.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn live(&self) -> Result<usize, Error> {
        self.client.live()
    }

    /// What the entries weigh together, expired ones that nobody met yet included: what the weigher
    /// says, or bytes of memory. Costs what [`len`](Self::len) does.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn weight(&self) -> Result<u64, Error> {
        self.client.weight()
    }

    /// How many entries there may be; `None` where [`max_weight`](Self::max_weight) bounds the
    /// cache, or nothing does.
    pub fn capacity(&self) -> Option<u64> {
        match self.bound()? {
            Bound::Entries(count) => Some(count),
            Bound::Weight(_) => None,
        }
    }

    /// How much the entries may weigh together; `None` where [`capacity`](Self::capacity) bounds
    /// the cache, or nothing does.
    pub fn max_weight(&self) -> Option<u64> {
        match self.bound()? {
            Bound::Entries(_) => None,
            Bound::Weight(weight) => Some(weight),
        }
    }

    /// Removes every entry; how many there were, expired ones included. An entry that is written
    /// meanwhile may stay.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn clear(&self) -> Result<usize, Error> {
        self.client.clear()
    }

    /// What was counted since the cache began: hits, misses, writes, removals by their causes, and
    /// what is there. Takes one token after another: about a millisecond for a large cache.
    ///
    /// # Errors
    /// [`Error::Reentrant`].
    pub fn stats(&self) -> Result<Stats, Error> {
        Ok(self.client.stats()?.total())
    }

    /// The client underneath, which can do more: batches, calls on several keys of one slot at one
    /// instant, expiry of single keys, and calls that do not wait.
    pub fn client(&self) -> &Client<V> {
        &self.client
    }

    fn bound(&self) -> Option<Bound> {
        self.client.roster.bound()
    }
}

impl<V: CloneValue + ?Sized> Cache<V> {
    /// Lets a closure change a copy of the value, publishes the copy, and returns what the closure
    /// returned; nothing when the key is not there. Keeps the time to live. It is a hit.
    ///
    /// Handles that are out keep the value that they were given. The closure runs as that of
    /// [`compute`](Self::compute) does.
    ///
    /// # Errors
    /// As [`compute`](Self::compute).
    ///
    /// # Panics
    /// When the closure or the weigher does; nothing is changed.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::Cache;
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let carts = Cache::<Vec<u32>>::new(10_000);
    /// carts.insert("cart:7", vec![1, 2])?;
    /// let len = carts.update("cart:7", |cart| {
    ///     cart.push(3);
    ///     cart.len()
    /// })?;
    /// assert_eq!(len, Some(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update<R: Send>(
        &self,
        key: impl AsRef<[u8]>,
        closure: impl FnOnce(&mut V::Owned) -> R + Send,
    ) -> Result<Option<R>, Error> {
        self.client.update(key, closure)
    }
}

impl<V: Value + ?Sized> IntoIterator for &Cache<V> {
    type Item = Result<Handle<V>, Error>;
    type IntoIter = Iter<V>;

    fn into_iter(self) -> Iter<V> {
        self.iter()
    }
}
