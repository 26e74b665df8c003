//! Keys and their deadlines: presence, ttl, expire, persist.

use std::slice;

use crate::command::Access;
use crate::command::Deadline;
use crate::command::Operation;
use crate::shard::Context;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::time::NEVER;

/// Whether a key is there.
pub(crate) struct Contains<'k> {
    pub(crate) key: Key<'k>,
}

impl<V: Value + ?Sized> Operation<V> for Contains<'_> {
    type Output = bool;
    const ACCESS: Access = Access::Read;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> bool {
        shard.tally().others += 1;
        shard.get(&self.key, context).is_some()
    }
}

/// When a key expires.
pub(crate) struct GetDeadline<'k> {
    pub(crate) key: Key<'k>,
}

impl<V: Value + ?Sized> Operation<V> for GetDeadline<'_> {
    /// The deadline, and the time left at the moment of the call; nothing when there is no key.
    type Output = Option<(u64, u64)>;
    const ACCESS: Access = Access::Read;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        shard.tally().others += 1;
        let deadline = shard.get(&self.key, context)?.deadline();
        let left =
            if deadline == NEVER { NEVER } else { deadline.saturating_sub(context.now.nanos()) };
        Some((deadline, left))
    }
}

/// Gives a key another deadline.
pub(crate) struct SetDeadline<'k> {
    pub(crate) key: Key<'k>,
    pub(crate) deadline: Deadline,
}

impl<V: Value + ?Sized> Operation<V> for SetDeadline<'_> {
    /// The deadline that the key had, however long nobody has read it; nothing when there is no
    /// key.
    type Output = Option<u64>;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        shard.tally().others += 1;
        let entry = shard.get(&self.key, context)?;
        let present = entry.kept(context.now);
        let expires = self.deadline.resolve(Some(present), &self.key, context);
        let kept = present.expiring(expires);
        entry.keep(kept);
        shard.note_deadline(kept.deadline());
        Some(present.expires)
    }
}
