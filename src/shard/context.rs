//! `Context`: what work on a shard takes along for the time of one hold.

use crate::evict::Entrance;
use crate::evict::Entrants;
use crate::evict::Hit;
use crate::shard::Dropped;
use crate::shard::Entry;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::KeyHasher;
use crate::shard::Room;
use crate::shard::Terms;
use crate::shard::Value;
use crate::time::NEVER;
use crate::time::Now;

/// What is needed besides a shard, under its token.
pub(crate) struct Context<'a, V: Value + ?Sized> {
    /// The time of this hold.
    pub(crate) now: &'a Now<'a>,
    /// The engine's: a table that grows hashes its keys again.
    pub(crate) hasher: &'a KeyHasher,
    /// What is removed goes here; it is freed when the token is back.
    pub(crate) dropped: &'a mut Dropped<V>,
    /// Where new entries are noted, which enter the window then; without it they come in with the
    /// main ones.
    pub(crate) entrants: Option<&'a mut Entrants>,
    /// What a hit leaves behind, as eviction sees it.
    pub(crate) hit: Hit,
    /// What applies to entries of which a caller says nothing else, if it is anything.
    pub(crate) terms: Option<&'a Terms<V>>,
    /// What has to be asked before an entry comes in or grows. Whoever knows beforehand what an
    /// operation writes has asked for it; what is known later asks then.
    pub(crate) room: Option<&'a Room<'a>>,
    /// Whether room is to be made for what a closure has not yet decided.
    pub(crate) guesses: bool,
}

impl<'a, V: Value + ?Sized> Context<'a, V> {
    /// A context in which new entries come in with the main ones and are kept for ever, and nothing
    /// is refused.
    pub(crate) fn new(
        now: &'a Now<'a>,
        hasher: &'a KeyHasher,
        dropped: &'a mut Dropped<V>,
    ) -> Self {
        Self {
            now,
            hasher,
            dropped,
            entrants: None,
            hit: Hit::Mark,
            terms: None,
            room: None,
            guesses: true,
        }
    }

    /// How a key is kept that is written now and of which its writer says nothing.
    pub(crate) fn kept(&self, key: &Key<'_>, value: &V) -> Kept {
        self.kept_at(key, self.weight(key, value))
    }

    /// How a key is kept that is written now, of which its writer says no more than the weight.
    pub(crate) fn kept_at(&self, key: &Key<'_>, weight: u64) -> Kept {
        match self.terms {
            None => Kept::until(NEVER),
            Some(terms) => terms.kept(key, weight, self.now),
        }
    }

    /// What the value of a key weighs, if somebody says so.
    pub(crate) fn weight(&self, key: &Key<'_>, value: &V) -> u64 {
        self.terms.map_or(0, |terms| terms.weight(key.bytes, value))
    }

    /// The same for a shorter time, to be given away.
    pub(crate) fn reborrow(&mut self) -> Context<'_, V> {
        Context { dropped: self.dropped, entrants: self.entrants.as_deref_mut(), ..*self }
    }

    /// An entry that comes in under this hash, as eviction sees it. One that enters the window is
    /// noted, at what it weighs now.
    ///
    /// Takes the entry along, so that callers need not free it should this panic.
    #[inline]
    pub(crate) fn let_in(&mut self, entry: Entry<V>, hash: u64) -> Entry<V> {
        if self.entrants.is_some() {
            return self.noted(entry, hash);
        }
        entry.set_trace(self.hit.entered(Entrance::Main));
        entry
    }

    // Not part of its callers, which for most nodes note nothing.
    #[inline(never)]
    fn noted(&mut self, entry: Entry<V>, hash: u64) -> Entry<V> {
        if let Some(entrants) = &mut self.entrants {
            let entrance = entrants.note(hash, entry.weight());
            entry.set_trace(self.hit.entered(entrance));
        }
        entry
    }
}
