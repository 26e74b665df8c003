//! Writes over the value of an entry that is kept on terms: its weight and its time change with it.

use crate::evict::Hit;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Handle;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::time::Now;

impl<V: Value + ?Sized> Shard<V> {
    /// [`put`](Self::put) where entries are kept on terms of the cluster.
    #[inline(never)]
    pub(super) fn put_on_terms(
        &mut self,
        key: &Key<'_>,
        value: V::Source<'_>,
        kept: Kept,
        context: &mut Context<'_, V>,
    ) {
        if let Err(value) = self.overwrite(key, value, kept, context) {
            let old = self.write(Entry::new(key.bytes, value, kept), key.hash, context);
            context.dropped.extend(old.map(Garbage::Entry));
        }
    }

    /// Writes a value over that of a live entry, in place, which is a hit.
    ///
    /// # Errors
    /// Gives the value back when there is no such entry, a handle is out, or it does not fit.
    pub(crate) fn overwrite<'v>(
        &mut self,
        key: &Key<'_>,
        value: V::Source<'v>,
        kept: Kept,
        context: &mut Context<'_, V>,
    ) -> Result<(), V::Source<'v>> {
        let Some(present) = self.get(key, context) else { return Err(value) };
        if !present.can_keep(kept) {
            return Err(value);
        }
        let old = present.try_overwrite(value)?;
        context.dropped.push(Garbage::Value(old));
        let weights = rekeep(present, kept, (context.hit, context.now));
        self.reweigh(weights, kept);
        self.count_update();
        Ok(())
    }

    /// [`overwrite`](Self::overwrite) by a value that stands alone; a handle to it.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn overwrite_owned(
        &mut self,
        key: &Key<'_>,
        value: V::Owned,
        kept: Kept,
        context: &mut Context<'_, V>,
    ) -> Result<Handle<V>, V::Owned> {
        let Some(present) = self.get(key, context) else { return Err(value) };
        if !present.can_keep(kept) {
            return Err(value);
        }
        let old = present.try_overwrite_owned(value)?;
        context.dropped.push(Garbage::Value(old));
        let weights = rekeep(present, kept, (context.hit, context.now));
        let handle = present.handle();
        self.reweigh(weights, kept);
        self.count_update();
        Ok(handle)
    }

    /// An entry weighs what it did not before, and may expire earlier.
    fn reweigh(&mut self, (before, after): (u64, u64), kept: Kept) {
        self.weight = self.weight - before + after;
        self.note_deadline(kept.deadline());
    }
}

/// A hit by which an entry is kept for another time and at another weight; its weight before and
/// after.
fn rekeep<V: Value + ?Sized>(
    entry: &Entry<V>,
    kept: Kept,
    (hit, now): (Hit, &Now<'_>),
) -> (u64, u64) {
    let before = entry.weight();
    entry.keep(kept);
    entry.touch(hit, now);
    (before, entry.weight())
}
