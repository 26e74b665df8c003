//! Maps and caches as one sort of thing, each compiled into the loops that time it.

mod caches;
mod maps;
mod ours;
mod redis;
mod value;

pub use caches::Moka;
pub use caches::QuickCache;
pub use maps::Dash;
pub use maps::Papaya;
pub use maps::Scc;
pub use ours::Ours;
pub use ours::Sort;
pub use redis::Redis;
pub use redis::Server;
pub use value::Kept;
pub use value::Stored;

use std::time::Duration;

use crate::load::Step;

/// What the figures depend on besides this package.
pub const PACKAGES: [&str; 8] =
    ["slotkeep", "dashmap", "papaya", "scc", "moka", "quick_cache", "redis", "ahash"];

/// How long an entry with a deadline lives: longer than any measurement.
pub const LIFETIME: Duration = Duration::from_secs(3600);

/// How many entries are written at once.
const FILL_BATCH: usize = 1024;

/// A map from keys to values, or a cache.
pub trait Store: Sync {
    /// What one thread calls; made once for each thread.
    type Client<'s>: Client
    where
        Self: 's;

    /// A client for the calling thread.
    fn client(&self) -> Self::Client<'_>;
}

/// A cache that evicts.
pub trait Bounded: Store {
    /// How many entries it holds once all upkeep is done.
    fn entries(&self) -> usize;
}

/// The calls of one thread. No call may fail.
pub trait Client {
    /// An owned value, which the caller may keep for as long as it likes.
    type Kept: Kept;

    /// Reads a value.
    fn get(&self, key: &[u8]) -> Option<Self::Kept>;

    /// Writes a value, in the way that is fastest here for a key that is mostly there.
    fn set(&self, key: &[u8], value: &[u8]);

    /// Reads a value; one that is not there is written.
    #[inline]
    fn fetch(&self, key: &[u8], value: &[u8]) -> Option<Self::Kept> {
        let kept = self.get(key);
        if kept.is_none() {
            self.set(key, value);
        }
        kept
    }

    /// Removes a key; whether it was there.
    fn remove(&self, key: &[u8]) -> bool;

    /// Reads a value and writes what is computed from it, at one instant; whether it was there.
    fn modify(&self, key: &[u8]) -> bool;

    /// Reads the values of neighbouring keys; how many were found as they should be.
    fn scan(&self, steps: &[Step]) -> usize {
        let is_right = |step: &&Step| self.get(step.key()).is_some_and(|v| v.holds(step.value()));
        steps.iter().filter(is_right).count()
    }
}

/// Calls on many keys at once.
pub trait Batches: Client {
    /// Reads values, in the order of the keys.
    fn get_many(&self, steps: &[Step]) -> Vec<Option<Self::Kept>>;

    /// Writes values.
    fn set_many(&self, steps: &[Step]);
}

/// Writes every step's value, as a client that does nothing else.
pub fn fill<S: Store>(store: &S, steps: impl IntoIterator<Item = Step>) {
    let client = store.client();
    for step in steps {
        client.set(step.key(), step.value());
    }
}

/// As [`fill`], by a client whose single calls are slow.
pub fn fill_many(client: &impl Batches, steps: &[Step]) {
    steps.chunks(FILL_BATCH).for_each(|some| client.set_many(some));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[track_caller]
    fn check<S: Store>(name: &str, store: &S) {
        let client = store.client();
        let [one, other] = [1, 2].map(Step::fill);
        assert!(client.fetch(one.key(), one.value()).is_none(), "{name}");
        assert!(client.fetch(one.key(), other.value()).is_some(), "{name}");
        client.set(one.key(), one.value());
        let kept = client.get(one.key());
        assert!(kept.as_ref().is_some_and(|kept| kept.holds(one.value())), "{name}");
        assert!(kept.is_some_and(|kept| !kept.holds(other.value())), "{name}");
        assert!(client.modify(one.key()) && !client.modify(other.key()), "{name}");
        client.set(other.key(), other.value());
        assert_eq!(client.scan(&[one, other, Step::fill(3)]), 2, "{name}");
        assert!(client.remove(one.key()) && !client.remove(one.key()), "{name}");
        assert!(client.get(one.key()).is_none(), "{name}");
        assert!(client.get(other.key()).is_some(), "{name}");
    }

    #[test]
    fn every_store_keeps_what_it_is_given_and_forgets_what_it_is_told_to() {
        check("ours", &Ours::<[u8]>::new());
        check("ours, numbers", &Ours::<u64>::new());
        check("ours, strict", &Ours::<[u8]>::strict());
        check("ours, deadlines", &Ours::<[u8]>::expiring());
        check("ours, bounded", &Ours::<[u8]>::bounded(100));
        check("dashmap", &Dash::<Arc<[u8]>>::new());
        check("dashmap, 1024 shards", &Dash::<u64>::sharded());
        check("papaya", &Papaya::<Arc<[u8]>>::new());
        check("scc", &Scc::<Arc<[u8]>>::new());
        check("moka", &Moka::<Arc<[u8]>>::new(100));
        check("moka, deadlines", &Moka::<u64>::expiring(100));
        check("quick_cache", &QuickCache::<Arc<[u8]>>::new(100));
    }

    #[test]
    fn a_cache_holds_what_it_is_bound_to_and_no_more() {
        #[track_caller]
        fn check<S: Bounded>(name: &str, cache: &S) {
            fill(cache, (0..20_000).map(Step::fill));
            let entries = cache.entries();
            assert!((1_980..=2_000).contains(&entries), "{name}: {entries}");
        }
        check("ours", &Ours::<[u8]>::bounded(2_000));
        check("moka", &Moka::<Arc<[u8]>>::bounded(2_000));
        check("quick_cache", &QuickCache::<Arc<[u8]>>::bounded(2_000));
    }

    #[test]
    fn batches_read_what_batches_wrote() {
        let store = Ours::<[u8]>::new();
        let client = store.client();
        let steps: Vec<_> = (0..40).map(Step::fill).collect();
        client.set_many(&steps);
        let values = client.get_many(&steps);
        assert_eq!(values.len(), steps.len());
        for (step, value) in steps.iter().zip(values) {
            assert!(value.is_some_and(|value| value.holds(step.value())));
        }
    }
}
