//! `Dropped`: what a shard lets go of under its token, and what is freed when the token is back.

use std::mem;

use crate::shard::Entry;
use crate::shard::Value;
use crate::shard::table::Table;

/// What a hold lets go of. Made before the token is taken, so that it is freed after it is given
/// back, on whatever way out.
///
/// Most holds let go of nothing or of one thing, so that the first one lies here. The others lie
/// behind a pointer, so that to drop nothing is two comparisons.
pub(crate) struct Dropped<V: Value + ?Sized> {
    first: Option<Garbage<V>>,
    others: Option<Box<Others<V>>>,
}

/// What a hold lets go of after the first thing.
struct Others<V: Value + ?Sized>(Vec<Garbage<V>>);

/// One thing to free.
#[expect(dead_code, reason = "garbage is only ever dropped")]
pub(crate) enum Garbage<V: Value + ?Sized> {
    Entry(Entry<V>),
    Value(V::Returned),
    Owned(V::Owned),
    Table(Table<V>),
}

impl<V: Value + ?Sized> Dropped<V> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { first: None, others: None }
    }

    /// Runs what takes tokens and gives them back, and frees what it let go of, on whatever way
    /// out: before its result becomes the caller's, which a drop that panics here would leak.
    #[inline]
    pub(crate) fn after<R>(holds: impl FnOnce(&mut Self) -> R) -> R {
        let mut dropped = Self::new();
        let result = holds(&mut dropped);
        dropped.free();
        // Nothing is left in it, for which the compiler would look once more.
        mem::forget(dropped);
        result
    }

    /// Takes something that is to be freed later.
    #[inline]
    pub(crate) fn push(&mut self, garbage: Garbage<V>) {
        let is_nothing = matches!(garbage, Garbage::Value(_)) && !mem::needs_drop::<V::Returned>();
        if is_nothing {
            // The compiler would ask once more what there is to drop.
            mem::forget(garbage);
        } else {
            self.push_some(garbage);
        }
    }

    #[inline(never)]
    fn push_some(&mut self, garbage: Garbage<V>) {
        if self.first.is_none() {
            self.first = Some(garbage);
        } else {
            self.others.get_or_insert_with(|| Box::new(Others(Vec::new()))).0.push(garbage);
        }
    }

    /// Frees all of it now.
    #[inline]
    pub(crate) fn free(&mut self) {
        if self.first.is_some() {
            self.free_some();
        }
    }

    #[inline(never)]
    fn free_some(&mut self) {
        drop(mem::replace(self, Self::new()));
    }
}

impl<V: Value + ?Sized> Extend<Garbage<V>> for Dropped<V> {
    #[inline]
    fn extend<I: IntoIterator<Item = Garbage<V>>>(&mut self, garbage: I) {
        garbage.into_iter().for_each(|one| self.push(one));
    }
}
