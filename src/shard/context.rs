//! `Context`: what work on a shard takes along for the time of one hold.

use crate::shard::Dropped;
use crate::shard::KeyHasher;
use crate::shard::Value;
use crate::time::Now;

/// What is needed besides a shard, under its token.
pub(crate) struct Context<'a, V: Value + ?Sized> {
    /// The time of this hold.
    pub(crate) now: &'a Now<'a>,
    /// The engine's: a table that grows hashes its keys again.
    pub(crate) hasher: &'a KeyHasher,
    /// What is removed goes here; it is freed when the token is back.
    pub(crate) dropped: &'a mut Dropped<V>,
}

impl<V: Value + ?Sized> Context<'_, V> {
    /// The same for a shorter time, to be given away.
    pub(crate) fn reborrow(&mut self) -> Context<'_, V> {
        Context { now: self.now, hasher: self.hasher, dropped: self.dropped }
    }
}
