//! Several keys of one slot in one hold: mget, mset, remove.

use std::borrow::Cow;

use crate::command::Access;
use crate::command::Operation;
use crate::shard::Context;
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
        let mut read = |key| {
            let entry = shard.get(key, context)?;
            entry.touch();
            Some(entry.handle())
        };
        self.keys.iter().map(&mut read).collect()
    }
}

/// Writes several keys at one instant and clears their deadlines. Of two values of one key the
/// later one stays.
pub(crate) struct SetAll<'k, 'v, V: Value + ?Sized> {
    pub(crate) keys: Cow<'k, [Key<'k>]>,
    pub(crate) values: Vec<V::Source<'v>>,
}

impl<V: Value + ?Sized> Operation<V> for SetAll<'_, '_, V> {
    type Output = ();
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        &self.keys
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) {
        for (key, value) in self.keys.iter().zip(self.values) {
            shard.put(key, value, context);
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
        for key in self.keys.iter() {
            let removed = shard.remove(key, context);
            count += usize::from(removed.is_some());
            context.dropped.extend(removed.map(Garbage::Entry));
        }
        count
    }
}
