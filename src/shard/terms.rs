//! `Terms`: what a cluster was built to do with every entry that is written: how long it is kept,
//! and what it weighs.

use std::fmt;

use crate::limits::WEIGHT_MAX;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::Value;
use crate::sync::Arc;
use crate::sync::ClosureScope;
use crate::time::NEVER;
use crate::time::Now;

/// A caller's measure of keys and values.
type Weigher<V> = Arc<dyn Fn(&[u8], &V) -> u64 + Send + Sync>;

/// What applies to entries of which the caller says nothing else. Times are nanoseconds;
/// [`NEVER`] is none.
pub(crate) struct Terms<V: Value + ?Sized> {
    /// Without one an entry weighs what it takes of memory.
    pub(crate) weigher: Option<Weigher<V>>,
    /// How long an entry lives.
    pub(crate) ttl: u64,
    /// How much earlier it may expire, so that what came in together does not go together.
    pub(crate) jitter: u64,
    /// How long it lives while nobody reads it.
    pub(crate) idle: u64,
}

impl<V: Value + ?Sized> Clone for Terms<V> {
    fn clone(&self) -> Self {
        Self { weigher: self.weigher.as_ref().map(Arc::clone), ..*self }
    }
}

impl<V: Value + ?Sized> Default for Terms<V> {
    fn default() -> Self {
        Self { weigher: None, ttl: NEVER, jitter: 0, idle: NEVER }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Terms<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("weighs", &self.weigher.is_some())
            .field("ttl", &self.ttl)
            .field("jitter", &self.jitter)
            .field("idle", &self.idle)
            .finish()
    }
}

impl<V: Value + ?Sized> Terms<V> {
    /// Whether entries are kept for ever at the weight that is measured, as if there were none.
    pub(crate) fn are_plain(&self) -> bool {
        self.weigher.is_none() && self.ttl == NEVER && self.idle == NEVER
    }

    /// What an entry weighs, if somebody says so: 0 is what it takes of memory.
    ///
    /// Runs the caller's weigher, in which calls to any cluster are refused: it may run under a
    /// token.
    pub(crate) fn weight(&self, key: &[u8], value: &V) -> u64 {
        let Some(weigher) = &self.weigher else { return 0 };
        let scope = ClosureScope::enter();
        let weight = weigher(key, value);
        drop(scope);
        // An entry that weighs nothing would be bounded by nothing; the sum of some would overflow.
        weight.clamp(1, WEIGHT_MAX)
    }

    /// The deadline of a key that is written now.
    pub(crate) fn expires(&self, key: &Key<'_>, now: &Now<'_>) -> u64 {
        match self.ttl {
            NEVER => NEVER,
            ttl => {
                // Differs from key to key and from time to time; nothing else is asked of it.
                let drawn = (key.hash ^ now.nanos()).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1;
                // No more than leaves a nanosecond, or the entry would expire at once.
                let at_most = self.jitter.min(ttl.saturating_sub(1));
                let earlier = drawn % (at_most + 1);
                now.nanos().saturating_add(ttl - earlier)
            }
        }
    }

    /// How a key is kept that is written now and of which the caller says no more.
    pub(crate) fn kept(&self, key: &Key<'_>, weight: u64, now: &Now<'_>) -> Kept {
        Kept::until(self.expires(key, now)).unless_idle(self.idle, now).weighing(weight)
    }
}
