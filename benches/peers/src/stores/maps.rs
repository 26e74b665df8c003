//! Concurrent maps: `DashMap` with its own and with many shards, papaya and scc.
//!
//! Keys are `Box<[u8]>`, the table hash is that of ahash. A write looks the key up first where the
//! map can, so that a key that is there is not allocated again, and lets go of the old value when
//! the lock is free.

use std::mem;

use ahash::RandomState;
use dashmap::DashMap;
use papaya::HashMap as PapayaMap;
use scc::HashMap as SccMap;

use crate::stores::Client;
use crate::stores::Store;
use crate::stores::Stored;

/// As many shards as keep clients apart.
const SHARDS: usize = 1024;

/// A `DashMap`.
#[derive(Debug)]
pub struct Dash<W>(DashMap<Box<[u8]>, W, RandomState>);

impl<W: Stored> Dash<W> {
    /// With four shards for each core, as it comes.
    pub fn new() -> Self {
        Self(DashMap::with_hasher(RandomState::new()))
    }

    /// With 1024 shards.
    pub fn sharded() -> Self {
        Self(DashMap::with_hasher_and_shard_amount(RandomState::new(), SHARDS))
    }
}

impl<W: Stored> Store for Dash<W> {
    type Client<'s> = &'s Self;

    fn client(&self) -> &Self {
        self
    }
}

impl<W: Stored> Client for &Dash<W> {
    type Kept = W;

    #[inline]
    fn get(&self, key: &[u8]) -> Option<W> {
        self.0.get(key).map(|found| found.value().clone())
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) {
        let value = W::of(value);
        if let Some(mut found) = self.0.get_mut(key) {
            let old = mem::replace(found.value_mut(), value);
            drop(found);
            drop(old);
        } else {
            self.0.insert(key.into(), value);
        }
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    #[inline]
    fn modify(&self, key: &[u8]) -> bool {
        let change = |mut found: dashmap::mapref::one::RefMut<'_, _, W>| {
            let changed = found.value().changed();
            mem::replace(found.value_mut(), changed)
        };
        self.0.get_mut(key).map(change).is_some()
    }
}

/// A map of papaya.
#[derive(Debug)]
pub struct Papaya<W>(PapayaMap<Box<[u8]>, W, RandomState>);

impl<W: Stored> Papaya<W> {
    /// As it comes.
    pub fn new() -> Self {
        Self(PapayaMap::with_hasher(RandomState::new()))
    }
}

impl<W: Stored> Store for Papaya<W> {
    type Client<'s> = &'s Self;

    fn client(&self) -> &Self {
        self
    }
}

impl<W: Stored> Client for &Papaya<W> {
    type Kept = W;

    #[inline]
    fn get(&self, key: &[u8]) -> Option<W> {
        self.0.pin().get(key).cloned()
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) {
        self.0.pin().insert(key.into(), W::of(value));
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.pin().remove(key).is_some()
    }

    #[inline]
    fn modify(&self, key: &[u8]) -> bool {
        self.0.pin().update(key.into(), W::changed).is_some()
    }
}

/// A map of scc.
pub struct Scc<W>(SccMap<Box<[u8]>, W, RandomState>);

impl<W: Stored> Scc<W> {
    /// As it comes.
    pub fn new() -> Self {
        Self(SccMap::with_hasher(RandomState::new()))
    }
}

impl<W: Stored> Store for Scc<W> {
    type Client<'s> = &'s Self;

    fn client(&self) -> &Self {
        self
    }
}

impl<W: Stored> Client for &Scc<W> {
    type Kept = W;

    #[inline]
    fn get(&self, key: &[u8]) -> Option<W> {
        self.0.read_sync(key, |_, value| value.clone())
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) {
        let mut value = W::of(value);
        // What is swapped out lies in `value` and goes when the bucket is free.
        let found = self.0.update_sync(key, |_, found| mem::swap(found, &mut value));
        if found.is_none() {
            self.0.upsert_sync(key.into(), value);
        }
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove_sync(key).is_some()
    }

    #[inline]
    fn modify(&self, key: &[u8]) -> bool {
        let changed = self.0.update_sync(key, |_, found| {
            let changed = found.changed();
            mem::replace(found, changed)
        });
        changed.is_some()
    }
}
