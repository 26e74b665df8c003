//! A caller's closure under the token: compute, update, update in place.

use std::slice;

use crate::command::Access;
use crate::command::CommandError;
use crate::command::Operation;
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
use crate::time::NEVER;

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

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        let present = shard.get(&self.key, context);
        let decision = {
            let _scope = ClosureScope::enter();
            (self.closure)(present.as_deref().map(Entry::value))
        };
        match decision {
            Compute::Keep => Ok(present.map(|entry| entry.handle())),
            Compute::Replace(value) => {
                if let Err(error) = check_value_bytes(V::owned_bytes(&value)) {
                    context.dropped.push(Garbage::Owned(value));
                    return Err(error);
                }
                Ok(Some(publish(shard, &self.key, value, context)))
            }
            Compute::Remove => {
                let removed = shard.remove(&self.key, context);
                context.dropped.extend(removed.map(Garbage::Entry));
                Ok(None)
            }
        }
    }
}

/// Writes a value over what is there, in place when nobody can see it change, and keeps the
/// deadline.
fn publish<V: Value + ?Sized>(
    shard: &mut Shard<V>,
    key: &Key<'_>,
    value: V::Owned,
    context: &mut Context<'_, V>,
) -> Handle<V> {
    let (value, deadline, access) = match shard.get(key, context) {
        Some(entry) => {
            entry.touch();
            match entry.try_overwrite_owned(value) {
                Ok(old) => {
                    context.dropped.push(Garbage::Value(old));
                    return entry.handle();
                }
                Err(value) => (value, entry.deadline(), entry.access()),
            }
        }
        None => (value, NEVER, 0),
    };
    let entry = Entry::from_owned(key.bytes, value, deadline);
    entry.set_access(access);
    let handle = entry.handle();
    let replaced = shard.insert(entry, key.hash, context.hasher);
    context.dropped.extend(replaced.map(Garbage::Entry));
    handle
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

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        // The scope is left last: what a closure that panics or is not run holds is dropped inside.
        let _scope = ClosureScope::enter();
        let Self { key, closure } = self;
        let Some(entry) = shard.get(&key, context) else { return Ok(None) };
        let mut copy = entry.value().to_owned_value();
        let returned = closure(&mut copy);
        if let Err(error) = check_value_bytes(V::owned_bytes(&copy)) {
            context.dropped.push(Garbage::Owned(copy));
            return Err(error);
        }
        drop(publish(shard, &key, copy, context));
        Ok(Some(returned))
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
        let Some(entry) = shard.remove(&key, context) else { return Ok(None) };
        if !entry.is_unique() {
            shard.insert(entry, key.hash, context.hasher);
            return Err(CommandError::Shared);
        }
        entry.touch();
        let mut half_done = RemovedOnPanic { entry: Some(entry), dropped: context.dropped };
        let value = half_done.entry.as_mut().and_then(Entry::value_mut);
        let returned = value.map(closure);
        if let Some(entry) = half_done.entry.take() {
            shard.insert(entry, key.hash, context.hasher);
        }
        Ok(returned)
    }
}

/// Sends an entry whose update panicked to where it is freed after the token.
struct RemovedOnPanic<'d, V: Value + ?Sized> {
    entry: Option<Entry<V>>,
    dropped: &'d mut Dropped<V>,
}

impl<V: Value + ?Sized> Drop for RemovedOnPanic<'_, V> {
    fn drop(&mut self) {
        self.dropped.extend(self.entry.take().map(Garbage::Entry));
    }
}
