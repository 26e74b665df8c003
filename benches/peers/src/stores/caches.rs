//! Caches: moka and `quick_cache`, in the form that serves keys of bytes best.
//!
//! What reads and inserts on a miss in one call takes an owned key, so they are asked twice
//! instead.

use std::mem;

use ahash::RandomState;
use moka::ops::compute::Op;
use moka::sync::Cache as MokaCache;
use quick_cache::UnitWeighter;
use quick_cache::sync::Cache as QuickCacheMap;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::sync::EntryAction;
use quick_cache::sync::EntryResult;

use crate::stores::Bounded;
use crate::stores::Client;
use crate::stores::LIFETIME;
use crate::stores::Store;
use crate::stores::Stored;

/// A cache of moka.
#[derive(Debug)]
pub struct Moka<W>(MokaCache<Box<[u8]>, W, RandomState>)
where
    W: Stored;

impl<W: Stored> Moka<W> {
    /// Room for twice so many entries, so that none is evicted.
    pub fn new(entries: usize) -> Self {
        Self::bounded(2 * entries)
    }

    /// Room for so many entries.
    pub fn bounded(entries: usize) -> Self {
        let builder = MokaCache::builder().max_capacity(entries as u64);
        Self(builder.build_with_hasher(RandomState::new()))
    }

    /// Room for twice so many entries; each has a deadline.
    pub fn expiring(entries: usize) -> Self {
        let builder = MokaCache::builder().max_capacity(2 * entries as u64).time_to_live(LIFETIME);
        Self(builder.build_with_hasher(RandomState::new()))
    }
}

impl<W: Stored> Store for Moka<W> {
    type Client<'s> = &'s Self;

    fn client(&self) -> &Self {
        self
    }
}

impl<W: Stored> Client for &Moka<W> {
    type Kept = W;

    #[inline]
    fn get(&self, key: &[u8]) -> Option<W> {
        self.0.get(key)
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), W::of(value));
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    #[inline]
    fn modify(&self, key: &[u8]) -> bool {
        let mut is_there = false;
        self.0.entry(key.into()).and_compute_with(|found| {
            is_there = found.is_some();
            found.map_or(Op::Nop, |found| Op::Put(found.value().changed()))
        });
        is_there
    }
}

impl<W: Stored> Bounded for Moka<W> {
    fn entries(&self) -> usize {
        // One call does a bounded part of the upkeep that is due.
        loop {
            let before = self.0.entry_count();
            self.0.run_pending_tasks();
            if self.0.entry_count() == before {
                return usize::try_from(before).expect("they are in memory");
            }
        }
    }
}

/// A cache of `quick_cache`.
#[derive(Debug)]
pub struct QuickCache<W>(QuickCacheMap<Box<[u8]>, W, UnitWeighter, RandomState>);

impl<W: Stored> QuickCache<W> {
    /// Room for twice so many entries, so that none is evicted.
    pub fn new(entries: usize) -> Self {
        Self::bounded(2 * entries)
    }

    /// Room for so many entries.
    pub fn bounded(entries: usize) -> Self {
        Self(QuickCacheMap::with(
            entries,
            entries as u64,
            UnitWeighter,
            RandomState::new(),
            DefaultLifecycle::default(),
        ))
    }
}

impl<W: Stored> Store for QuickCache<W> {
    type Client<'s> = &'s Self;

    fn client(&self) -> &Self {
        self
    }
}

impl<W: Stored> Client for &QuickCache<W> {
    type Kept = W;

    #[inline]
    fn get(&self, key: &[u8]) -> Option<W> {
        self.0.get(key)
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), W::of(value));
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    #[inline]
    fn modify(&self, key: &[u8]) -> bool {
        let found = self.0.entry(&Box::from(key), None, |_, value| {
            let changed = value.changed();
            EntryAction::Retain(mem::replace(value, changed))
        });
        matches!(found, EntryResult::Retained(_))
    }
}

impl<W: Stored> Bounded for QuickCache<W> {
    fn entries(&self) -> usize {
        self.0.len()
    }
}
