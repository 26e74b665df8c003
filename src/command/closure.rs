//! A caller's closure under the token: compute, update, update in place.

use std::slice;

use crate::command::Access;
use crate::command::CommandError;
use crate::command::Operation;
use crate::command::admit_write;
use crate::command::check_value_bytes;
use crate::shard::CloneValue;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Handle;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::sync::ClosureScope;

/// What a closure given to `compute` wants to become of the entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compute<O> {
    /// It stays as it is.
    Keep,
    /// It gets this value; the deadline stays.
    Replace(O),
    /// It is removed.
    Remove,
}

/// Runs a closure on what is there and does as it says. A panic changes nothing.
pub(crate) struct ComputeEntry<'k, F> {
    pub(crate) key: Key<'k>,
    pub(crate) closure: F,
}

impl<V, F> Operation<V> for ComputeEntry<'_, F>
where
    V: Value + ?Sized,
    F: FnOnce(Option<&V>) -> Compute<V::Owned>,
{
    /// What is there afterwards.
    type Output = Result<Option<Handle<V>>, CommandError>;
    const ACCESS: Access = Access::Write;
    const DECIDES_LATE: bool = true;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        // The scope is left last: a value that cannot be weighed is dropped inside.
        let _scope = ClosureScope::enter();
        let present = shard.get(&self.key, context);
        match (self.closure)(present.as_deref().map(Entry::value)) {
            Compute::Keep => {
                let found = present.map(|entry| {
                    entry.touch(context.hit, context.now);
                    entry.handle()
                });
                if found.is_none() {
                    shard.tally().misses += 1;
                }
                Ok(found)
            }
            Compute::Replace(value) => publish(shard, &self.key, value, context).map(Some),
            Compute::Remove => {
                let removed = shard.remove(&self.key, context);
                context.dropped.extend(removed.map(Garbage::Entry));
                Ok(None)
            }
        }
    }
}

/// Writes a value over what is there, in place when nobody can see it change, and keeps the
/// deadline; one that is too long, or for which there is no room, is dropped.
fn publish<V: Value + ?Sized>(
    shard: &mut Shard<V>,
    key: &Key<'_>,
    value: V::Owned,
    context: &mut Context<'_, V>,
) -> Result<Handle<V>, CommandError> {
    let kept = match shard.get(key, context) {
        Some(entry) => {
            let before = entry.kept(context.now);
            before.weighing(context.weight(key, V::of_owned(&value)))
        }
        None => context.kept(key, V::of_owned(&value)),
    };
    let bytes = V::owned_bytes(&value);
    let weight = Entry::<V>::weight_of(key.bytes, bytes, kept);
    let admitted = check_value_bytes(bytes).and_then(|()| admit_write(shard, key, weight, context));
    if let Err(error) = admitted {
        shard.tally().others += 1;
        context.dropped.push(Garbage::Owned(value));
        return Err(error);
    }
    let value = match shard.overwrite_owned(key, value, kept, context) {
        Ok(handle) => return Ok(handle),
        Err(value) => value,
    };
    let entry = Entry::from_owned(key.bytes, value, kept);
    let handle = entry.handle();
    let replaced = shard.write(entry, key.hash, context);
    context.dropped.extend(replaced.map(Garbage::Entry));
    Ok(handle)
}

/// Runs a closure on a copy and publishes the copy. A panic changes nothing.
pub(crate) struct Update<'k, F> {
    pub(crate) key: Key<'k>,
    pub(crate) closure: F,
}

impl<V, F, R> Operation<V> for Update<'_, F>
where
    V: CloneValue + ?Sized,
    F: FnOnce(&mut V::Owned) -> R,
{
    /// What the closure returned; nothing when there is no such key.
    type Output = Result<Option<R>, CommandError>;
    const ACCESS: Access = Access::Write;
    const DECIDES_LATE: bool = true;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        // The scope is left last: what a closure that panics or is not run holds is dropped inside.
        let _scope = ClosureScope::enter();
        let Self { key, closure } = self;
        let Some(entry) = shard.get(&key, context) else {
            shard.tally().misses += 1;
            return Ok(None);
        };
        let mut copy = entry.value().to_owned_value();
        let returned = closure(&mut copy);
        publish(shard, &key, copy, context).map(|_| Some(returned))
    }
}

/// Runs a closure on the value itself, when no handle is out. A panic removes the entry, because
/// the value may be half changed.
pub(crate) struct UpdateInPlace<'k, F> {
    pub(crate) key: Key<'k>,
    pub(crate) closure: F,
}

impl<V, F, R> Operation<V> for UpdateInPlace<'_, F>
where
    V: Value + ?Sized,
    F: FnOnce(&mut V) -> R,
{
    /// What the closure returned; nothing when there is no such key.
    type Output = Result<Option<R>, CommandError>;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        // The scope is left last: what a closure that panics or is not run holds is dropped inside.
        let _scope = ClosureScope::enter();
        let Self { key, closure } = self;
        // The entry is taken out, so that a panic leaves the shard without it.
        let Some(entry) = shard.take_live(&key, context) else {
            shard.tally().misses += 1;
            return Ok(None);
        };
        if !entry.is_unique() {
            shard.tally().others += 1;
            shard.insert(entry, key.hash, context.hasher);
            return Err(CommandError::Shared);
        }
        entry.touch(context.hit, context.now);
        let mut half_done = RemovedOnPanic { entry: Some(entry), shard, dropped: context.dropped };
        let value = half_done.entry.as_mut().and_then(Entry::value_mut);
        let returned = value.map(closure);
        if let (Some(entry), Some(terms)) = (&half_done.entry, context.terms) {
            let weight = terms.weight(key.bytes, entry.value());
            entry.keep(entry.kept(context.now).weighing(weight));
        }
        let changed = half_done.entry.take();
        drop(half_done);
        if let Some(entry) = changed {
            let admitted = admit_write(shard, &key, entry.weight(), context);
            if let Err(error @ CommandError::TooHeavy { .. }) = admitted {
                shard.tally().removed += 1;
                context.dropped.push(Garbage::Entry(entry));
                return Err(error);
            }
            // Without room for what it has grown by it stays all the same: its old value is gone.
            shard.insert(entry, key.hash, context.hasher);
            shard.count_update();
        }
        Ok(returned)
    }
}

/// Sends an entry whose update panicked to where it is freed after the token.
struct RemovedOnPanic<'d, V: Value + ?Sized> {
    entry: Option<Entry<V>>,
    shard: &'d mut Shard<V>,
    dropped: &'d mut Dropped<V>,
}

impl<V: Value + ?Sized> Drop for RemovedOnPanic<'_, V> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            // What panics is no unit; the entry is gone all the same.
            self.shard.tally().discard();
            self.dropped.push(Garbage::Entry(entry));
        }
    }
}
