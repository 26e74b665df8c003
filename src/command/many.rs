//! Several keys of one slot in one hold: mget, mset, remove.

use std::borrow::Cow;
use std::iter;

use crate::command::Access;
use crate::command::Get;
use crate::command::Operation;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Handle;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;

/// Reads the values of several keys at one instant.
pub(crate) struct GetAll<'k> {
    pub(crate) keys: Cow<'k, [Key<'k>]>,
}

impl<V: Value + ?Sized> Operation<V> for GetAll<'_> {
    type Output = Vec<Option<Handle<V>>>;
    const ACCESS: Access = Access::Read;

    fn keys(&self) -> &[Key<'_>] {
        &self.keys
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        let read = |(index, &key)| {
            shard.count_key(index);
            Get { key }.run(shard, context)
        };
        self.keys.iter().enumerate().map(read).collect()
    }
}

/// Writes several keys at one instant and clears their deadlines. Of two values of one key the
/// later one stays.
pub(crate) struct SetAll<'k, 'v, V: Value + ?Sized> {
    pub(crate) keys: Cow<'k, [Key<'k>]>,
    pub(crate) values: Vec<V::Source<'v>>,
    /// What somebody says that the values weigh; empty where nobody does.
    pub(crate) weights: Vec<u64>,
}

impl<V: Value + ?Sized> Operation<V> for SetAll<'_, '_, V> {
    type Output = ();
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        &self.keys
    }

    fn each_write<'o>(
        &'o self,
        _shard: &Shard<V>,
        context: &Context<'_, V>,
        mut each: impl FnMut(Key<'o>, u64),
    ) {
        let weights = self.weights.iter().copied().chain(iter::repeat(0));
        for ((&key, value), weight) in self.keys.iter().zip(&self.values).zip(weights) {
            let kept = context.kept_at(&key, weight);
            each(key, Entry::<V>::weight_of(key.bytes, V::source_bytes(value), kept));
        }
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) {
        let weights = self.weights.into_iter().chain(iter::repeat(0));
        let entries = self.keys.iter().zip(self.values).zip(weights);
        for (index, ((key, value), weight)) in entries.enumerate() {
            shard.count_key(index);
            shard.put(key, value, weight, context);
        }
    }
}

/// Removes several keys at one instant; answers how many were there.
pub(crate) struct RemoveAll<'k> {
    pub(crate) keys: Cow<'k, [Key<'k>]>,
}

impl<V: Value + ?Sized> Operation<V> for RemoveAll<'_> {
    type Output = usize;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        &self.keys
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> usize {
        let mut count = 0;
        for (index, key) in self.keys.iter().enumerate() {
            shard.count_key(index);
            let removed = shard.remove(key, context);
            count += usize::from(removed.is_some());
            context.dropped.extend(removed.map(Garbage::Entry));
        }
        count
    }
}
