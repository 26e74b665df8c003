//! `CacheBuilder`: what bounds a cache, and the other options.

use std::fmt;
use std::time::Duration;

use crate::cache::Cache;
use crate::cluster::Builder;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::evict::Policy;
use crate::node::Bound;
use crate::shard::Value;

/// Builds a [`Cache`]; see [`Cache::builder`].
#[must_use]
pub struct CacheBuilder<V: Value + ?Sized = [u8]> {
    builder: Builder<V>,
}

impl<V: Value + ?Sized> Clone for CacheBuilder<V> {
    fn clone(&self) -> Self {
        Self { builder: self.builder.clone() }
    }
}

impl<V: Value + ?Sized> fmt::Debug for CacheBuilder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheBuilder").field(&self.builder).finish()
    }
}

impl<V: Value + ?Sized> CacheBuilder<V> {
    pub(super) fn new() -> Self {
        Self { builder: Cluster::builder().workers_per_node(1).values() }
    }

    /// At most so many entries; 0 caches nothing. Of this and [`max_weight`](Self::max_weight) the
    /// last one that is called counts; without either the cache grows without bound.
    pub fn capacity(self, entries: u64) -> Self {
        Self { builder: self.builder.bound(Bound::Entries(entries)) }
    }

    /// Entries that weigh at most so much together: so many bytes of memory, unless there is a
    /// [`weigher`](Self::weigher). See [`Bound::Weight`].
    pub fn max_weight(self, weight: u64) -> Self {
        Self { builder: self.builder.bound(Bound::Weight(weight)) }
    }

    /// What entries weigh, for [`max_weight`](Self::max_weight): 0 counts as 1, and more than
    /// [`WEIGHT_MAX`](crate::limits::WEIGHT_MAX) as that. See [`Builder::weigher`] for where it
    /// runs.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::Cache;
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cache = Cache::<Vec<u8>>::builder()
    ///     .max_weight(100)
    ///     .weigher(|_key, value| value.len() as u64)
    ///     .build()?;
    /// cache.insert("a", vec![0; 60])?;
    /// cache.insert("b", vec![0; 60])?;
    /// assert_eq!(cache.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn weigher(self, weigh: impl Fn(&[u8], &V) -> u64 + Send + Sync + 'static) -> Self {
        Self { builder: self.builder.weigher(weigh) }
    }

    /// Every entry expires after this time, counted from when it is written, unless its writer says
    /// otherwise. [`Duration::MAX`], and whatever is too long to count in nanoseconds, is never.
    pub fn time_to_live(self, time: Duration) -> Self {
        Self { builder: self.builder.time_to_live(time) }
    }

    /// Entries expire up to this much before their [time to live](Self::time_to_live) is over,
    /// drawn for each, so that what was written together does not expire together. No entry lives
    /// longer for it, and none that is meant to live at all expires at once. A time to live that a
    /// writer asks for is kept to the nanosecond.
    pub fn jitter(self, at_most: Duration) -> Self {
        Self { builder: self.builder.jitter(at_most) }
    }

    /// Every entry expires when nobody has read or written it for this time, unless its writer says
    /// otherwise. A hit then costs a look at the clock.
    pub fn time_to_idle(self, time: Duration) -> Self {
        Self { builder: self.builder.time_to_idle(time) }
    }

    /// What the cache does when it is full: [`Policy::Adaptive`] unless told.
    pub fn policy(self, policy: Policy) -> Self {
        Self { builder: self.builder.policy(policy) }
    }

    /// Starts the cache.
    ///
    /// # Errors
    /// [`Error::Admin`] with `NoThread` when the system has no thread left.
    /// [`Error::Reentrant`] from inside a closure under a token.
    pub fn build(self) -> Result<Cache<V>, Error> {
        // The cluster ends with its last client.
        Ok(Cache { client: self.builder.build()?.client() })
    }
}
