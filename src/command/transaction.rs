//! Transactions over declared keys of one slot: writes are staged and applied together.

use crate::command::Access;
use crate::command::CommandError;
use crate::command::Deadline;
use crate::command::Idle;
use crate::command::Operation;
use crate::command::check_value_bytes;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::shard::Write;
use crate::sync::ClosureScope;

/// A staged write of one declared key.
enum Staged<V: Value + ?Sized> {
    Write(Entry<V>),
    Remove,
}

/// What a transaction's closure works on: the declared keys of one slot, at one instant.
///
/// Reads see the transaction's own writes. Writes are applied when the closure returns `Ok`; a
/// panic or an `Err` applies none. A key that was not declared is
/// [`CommandError::UndeclaredKey`].
pub struct Transaction<'t, V: Value + ?Sized> {
    keys: &'t [Key<'t>],
    /// Indexes of `keys`, by their bytes.
    order: Vec<usize>,
    staged: Vec<Option<Staged<V>>>,
    shard: &'t mut Shard<V>,
    context: Context<'t, V>,
}

impl<'t, V: Value + ?Sized> Transaction<'t, V> {
    fn new(keys: &'t [Key<'t>], shard: &'t mut Shard<V>, context: Context<'t, V>) -> Self {
        let mut order: Vec<_> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&index| (keys[index].bytes, index));
        order.dedup_by_key(|index| keys[*index].bytes);
        let staged = std::iter::repeat_with(|| None).take(keys.len()).collect();
        Self { keys, order, staged, shard, context }
    }

    fn index(&self, key: &[u8]) -> Result<usize, CommandError> {
        let place = self.order.binary_search_by_key(&key, |&index| self.keys[index].bytes);
        place.map(|place| self.order[place]).map_err(|_| CommandError::UndeclaredKey)
    }

    /// The value of a declared key, as this transaction sees it.
    ///
    /// # Errors
    /// [`CommandError::UndeclaredKey`]: declare the key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<&V>, CommandError> {
        let found = self.find(self.index(key.as_ref())?);
        Ok(found.map(|entry| {
            entry.touch(self.context.hit, self.context.now);
            entry.value()
        }))
    }

    /// Whether a declared key is there, as this transaction sees it.
    ///
    /// # Errors
    /// [`CommandError::UndeclaredKey`]: declare the key.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, CommandError> {
        Ok(self.find(self.index(key.as_ref())?).is_some())
    }

    /// The entry of a declared key, as this transaction sees it.
    fn find(&self, index: usize) -> Option<&Entry<V>> {
        match &self.staged[index] {
            Some(Staged::Write(entry)) => Some(entry),
            Some(Staged::Remove) => None,
            None => self.shard.peek(&self.keys[index], self.context.now),
        }
    }

    /// Stages a value for a declared key and clears its deadline.
    ///
    /// # Errors
    /// [`CommandError::UndeclaredKey`] and [`CommandError::ValueTooLong`]; nothing is staged.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: V::Source<'_>) -> Result<(), CommandError> {
        self.stage(key.as_ref(), value, (Deadline::Default, Idle::Default))
    }

    /// Stages a value for a declared key and keeps its deadline.
    ///
    /// # Errors
    /// [`CommandError::UndeclaredKey`] and [`CommandError::ValueTooLong`]; nothing is staged.
    pub fn set_keep_expiry(
        &mut self,
        key: impl AsRef<[u8]>,
        value: V::Source<'_>,
    ) -> Result<(), CommandError> {
        self.stage(key.as_ref(), value, (Deadline::Keep, Idle::Keep))
    }

    fn stage(
        &mut self,
        key: &[u8],
        value: V::Source<'_>,
        (deadline, idle): (Deadline, Idle),
    ) -> Result<(), CommandError> {
        let index = self.index(key)?;
        check_value_bytes(V::source_bytes(&value))?;
        let key = &self.keys[index];
        let before = self.find(index).map(|present| present.kept(self.context.now));
        let expires = deadline.resolve(before, key, &self.context);
        let idle = idle.resolve(before, &self.context);
        let weight = self.context.weight(key, V::of_source(&value));
        let kept = Kept::until(expires).unless_idle(idle, self.context.now).weighing(weight);
        let entry = Entry::new(key.bytes, value, kept);
        self.put(index, Staged::Write(entry));
        Ok(())
    }

    /// Stages the removal of a declared key; answers whether it was there.
    ///
    /// # Errors
    /// [`CommandError::UndeclaredKey`]: declare the key.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<bool, CommandError> {
        let index = self.index(key.as_ref())?;
        let found = self.find(index).is_some();
        self.put(index, Staged::Remove);
        Ok(found)
    }

    fn put(&mut self, index: usize, staged: Staged<V>) {
        if let Some(Staged::Write(entry)) = self.staged[index].replace(staged) {
            self.context.dropped.push(Garbage::Entry(entry));
        }
    }

    /// Asks for room for all that is staged.
    fn admit(&self) -> Result<(), CommandError> {
        let Some(room) = self.context.room else { return Ok(()) };
        let writes = self.keys.iter().zip(&self.staged).filter_map(|(&key, staged)| {
            let weight = match staged.as_ref()? {
                Staged::Write(entry) => Some(entry.weight()),
                Staged::Remove => None,
            };
            Some(Write { key, weight })
        });
        Ok(room.admit(self.shard, writes.collect())?)
    }

    fn apply(self) {
        let mut context = self.context;
        for (index, (key, staged)) in self.keys.iter().zip(self.staged).enumerate() {
            self.shard.count_key(index);
            let old = match staged {
                Some(Staged::Write(entry)) => self.shard.write(entry, key.hash, &mut context),
                Some(Staged::Remove) => self.shard.remove(key, &mut context),
                None => {
                    self.shard.tally().others += 1;
                    None
                }
            };
            context.dropped.extend(old.map(Garbage::Entry));
        }
    }

    fn discard(self) {
        // As many units as keys; none of them did anything.
        let tally = self.shard.tally();
        tally.others += self.keys.len() as u64;
        tally.extra += self.keys.len() as u64 - 1;
        let writes = self.staged.into_iter().flatten().filter_map(|staged| match staged {
            Staged::Write(entry) => Some(Garbage::Entry(entry)),
            Staged::Remove => None,
        });
        self.context.dropped.extend(writes);
    }
}

impl<V: Value + ?Sized> std::fmt::Debug for Transaction<'_, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// Runs a closure over declared keys and applies what it staged.
pub(crate) struct Transact<'k, F> {
    pub(crate) keys: &'k [Key<'k>],
    pub(crate) closure: F,
}

impl<V, F, R, E> Operation<V> for Transact<'_, F>
where
    V: Value + ?Sized,
    F: FnOnce(&mut Transaction<'_, V>) -> Result<R, E>,
{
    /// What the closure returned, unless there was no room for what it staged.
    type Output = Result<Result<R, E>, CommandError>;
    const ACCESS: Access = Access::Write;
    const DECIDES_LATE: bool = true;

    fn keys(&self) -> &[Key<'_>] {
        self.keys
    }

    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output {
        // The scope is left last, so that what a panicking closure staged is dropped inside.
        let _scope = ClosureScope::enter();
        let mut transaction = Transaction::new(self.keys, shard, context.reborrow());
        let outcome = (self.closure)(&mut transaction);
        let admitted = if outcome.is_ok() { transaction.admit() } else { Ok(()) };
        if outcome.is_ok() && admitted.is_ok() {
            transaction.apply();
        } else {
            transaction.discard();
        }
        admitted.map(|()| outcome)
    }
}
