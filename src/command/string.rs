//! Single values: get, set with its conditions, take, remove.

use std::slice;

use crate::command::Access;
use crate::command::Deadline;
use crate::command::Idle;
use crate::command::Operation;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Handle;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::time::NEVER;

/// Reads a value.
pub(crate) struct Get<'k> {
    pub(crate) key: Key<'k>,
}

impl<V: Value + ?Sized> Operation<V> for Get<'_> {
    type Output = Option<Handle<V>>;
    const ACCESS: Access = Access::Read;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    #[expect(clippy::inline_always, reason = "what a call is made of stays in registers")]
    #[inline(always)]
    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        let Some(entry) = shard.get(&self.key, context) else {
            shard.tally().misses += 1;
            return None;
        };
        entry.touch(context.hit, context.now);
        Some(entry.handle())
    }
}

/// Removes an entry and returns its value.
pub(crate) struct Take<'k> {
    pub(crate) key: Key<'k>,
}

impl<V: Value + ?Sized> Operation<V> for Take<'_> {
    type Output = Option<Handle<V>>;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        let entry = shard.remove(&self.key, context)?;
        Some(entry.handle())
    }
}

/// Removes an entry.
pub(crate) struct Remove<'k> {
    pub(crate) key: Key<'k>,
}

impl<V: Value + ?Sized> Operation<V> for Remove<'_> {
    type Output = bool;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    #[inline]
    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> bool {
        let removed = shard.remove(&self.key, context);
        let found = removed.is_some();
        context.dropped.extend(removed.map(Garbage::Entry));
        found
    }
}

/// Removes an entry if it is still the one of a handle.
pub(crate) struct RemoveSame<'k, 'h, V: Value + ?Sized> {
    pub(crate) key: Key<'k>,
    pub(crate) seen: &'h Handle<V>,
}

impl<V: Value + ?Sized> Operation<V> for RemoveSame<'_, '_, V> {
    type Output = bool;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> bool {
        let Self { key, seen } = self;
        let present = shard.get(&key, context);
        if Condition::Same(seen).is_met(present.as_deref()) {
            return Remove { key }.run(shard, context);
        }
        shard.tally().others += 1;
        false
    }
}

/// Writes a value, whatever is there, and clears the key's deadline.
pub(crate) struct Put<'k, 'v, V: Value + ?Sized> {
    pub(crate) key: Key<'k>,
    pub(crate) value: V::Source<'v>,
}

impl<V: Value + ?Sized> Operation<V> for Put<'_, '_, V> {
    type Output = ();
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn each_write<'o>(
        &'o self,
        _shard: &Shard<V>,
        context: &Context<'_, V>,
        mut each: impl FnMut(Key<'o>, u64),
    ) {
        let kept = context.kept(&self.key, V::of_source(&self.value));
        let bytes = V::source_bytes(&self.value);
        each(self.key, Entry::<V>::weight_of(self.key.bytes, bytes, kept));
    }

    #[expect(clippy::inline_always, reason = "what a call is made of stays in registers")]
    #[inline(always)]
    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) {
        shard.put(&self.key, self.value, 0, context);
    }
}

/// When a `set` applies.
pub(crate) enum Condition<'h, V: Value + ?Sized> {
    Always,
    Absent,
    Present,
    /// The entry is still the one of this handle.
    Same(&'h Handle<V>),
}

impl<V: Value + ?Sized> Condition<'_, V> {
    fn is_met(&self, present: Option<&Entry<V>>) -> bool {
        match (self, present) {
            (Self::Always, _) | (Self::Absent, None) | (Self::Present, Some(_)) => true,
            (Self::Same(handle), Some(entry)) => entry.is(handle),
            (Self::Absent, Some(_)) | (Self::Present | Self::Same(_), None) => false,
        }
    }
}

/// Writes a value, with options.
pub(crate) struct Set<'k, 'v, 'h, V: Value + ?Sized> {
    pub(crate) key: Key<'k>,
    pub(crate) value: V::Source<'v>,
    pub(crate) deadline: Deadline,
    pub(crate) idle: Idle,
    /// What somebody says that the entry weighs; 0 is what it takes of memory.
    pub(crate) weight: u64,
    pub(crate) condition: Condition<'h, V>,
    /// Whether the value that was there is wanted.
    pub(crate) return_old: bool,
}

/// What a `set` did.
pub(crate) enum SetResult<V: Value + ?Sized, S> {
    /// It was written; what was there, if that was wanted.
    Done(Option<Handle<V>>),
    /// The condition was not met; the value comes back, with what is there, if that was wanted.
    Unmet(S, Option<Handle<V>>),
}

impl<'v, V: Value + ?Sized> Operation<V> for Set<'_, 'v, '_, V> {
    type Output = SetResult<V, V::Source<'v>>;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn each_write<'o>(
        &'o self,
        shard: &Shard<V>,
        context: &Context<'_, V>,
        mut each: impl FnMut(Key<'o>, u64),
    ) {
        let present = shard.peek(&self.key, context.now);
        if !self.condition.is_met(present) {
            return;
        }
        let idle = self.idle.resolve(present.map(|entry| entry.kept(context.now)), context);
        let kept = Kept::until(NEVER).unless_idle(idle, context.now).weighing(self.weight);
        let bytes = V::source_bytes(&self.value);
        each(self.key, Entry::<V>::weight_of(self.key.bytes, bytes, kept));
    }

    #[inline]
    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        let Self { key, value, deadline, idle, weight, condition, return_old } = self;
        let present = shard.get(&key, context);
        if !condition.is_met(present.as_deref()) {
            let current = present.filter(|_| return_old).map(|entry| entry.handle());
            shard.tally().others += 1;
            return SetResult::Unmet(value, current);
        }
        let before = present.as_deref().map(|entry| entry.kept(context.now));
        let expires = deadline.resolve(before, &key, context);
        let idle = idle.resolve(before, context);
        let kept = Kept::until(expires).unless_idle(idle, context.now).weighing(weight);
        let value = if present.is_some() && !return_old {
            match shard.overwrite(&key, value, kept, context) {
                Ok(()) => return SetResult::Done(None),
                Err(value) => value,
            }
        } else {
            value
        };
        let entry = Entry::new(key.bytes, value, kept);
        let old = shard.write(entry, key.hash, context);
        let handle = old.as_ref().filter(|_| return_old).map(Entry::handle);
        context.dropped.extend(old.map(Garbage::Entry));
        SetResult::Done(handle)
    }
}
