//! The rivals, with all upkeep done when an access returns: moka, and `quick_cache` of one shard.

use ahash::RandomState;
use moka::sync::Cache as MokaCache;
use quick_cache::OptionsBuilder;
use quick_cache::Weighter;
use quick_cache::sync::Cache as QuickCache;
use quick_cache::sync::DefaultLifecycle;

use crate::cache::contender::Cache;
use crate::cache::trace::Access;
use crate::cache::trace::Room;
use crate::cache::trace::Trace;

/// A cache of moka.
#[derive(Debug)]
pub struct Moka(MokaCache<u32, u64, RandomState>);

impl Moka {
    /// An empty one. It is told of weights only where there are some: its sketch of frequencies is
    /// smaller then.
    pub fn new(trace: &Trace, room: Room, seed: u64) -> Self {
        // A weight of moka has 32 bits; what is heavier is taken for as heavy as that.
        let weigh = |_: &u32, weight: &u64| u32::try_from(*weight).unwrap_or(u32::MAX);
        let builder = MokaCache::builder().max_capacity(room.weight);
        let builder = if trace.is_weighted() { builder.weigher(weigh) } else { builder };
        Self(builder.build_with_hasher(hasher(seed)))
    }
}

impl Cache for Moka {
    fn access(&mut self, access: Access<'_>) -> bool {
        let is_hit = self.0.get(&access.number).is_some();
        if !is_hit {
            self.0.insert(access.number, access.weight);
        }
        self.0.run_pending_tasks();
        is_hit
    }
}

/// A cache of `quick_cache`.
#[derive(Debug)]
pub struct Quick(QuickCache<u32, u64, Weigh, RandomState>);

/// Values are weights.
#[derive(Clone, Debug)]
struct Weigh;

impl Weighter<u32, u64> for Weigh {
    fn weight(&self, _: &u32, weight: &u64) -> u64 {
        *weight
    }
}

impl Quick {
    /// An empty one.
    pub fn new(room: Room, seed: u64) -> Self {
        let mut options = OptionsBuilder::new();
        options.shards(1).weight_capacity(room.weight).estimated_items_capacity(room.entries);
        let options = options.build().expect("all that is asked for is set");
        Self(QuickCache::with_options(options, Weigh, hasher(seed), DefaultLifecycle::default()))
    }
}

impl Cache for Quick {
    fn access(&mut self, access: Access<'_>) -> bool {
        let is_hit = self.0.get(&access.number).is_some();
        if !is_hit {
            self.0.insert(access.number, access.weight);
        }
        is_hit
    }
}

/// The same hashes for the same seed, whatever the machine.
fn hasher(seed: u64) -> RandomState {
    RandomState::with_seeds(seed, !seed, seed << 32, seed ^ 0x51)
}
