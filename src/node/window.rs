//! A window of a batch: a few operations in different slots, whose cache lines are asked for
//! together and whose tokens are held together, as far as they are free.

use smallvec::SmallVec;

use crate::command::Operation;
use crate::limits::BATCH_WINDOW;
use crate::node::Member;
use crate::node::Roster;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Hold;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::slot::Slot;

/// One operation of a window, and where it is to run. It stays here until it has run.
pub(crate) struct Visit<'m, V: Value + ?Sized, O> {
    pub(crate) member: &'m Member<V>,
    pub(crate) slot: Slot,
    pub(crate) operation: Option<O>,
}

impl<'m, V: Value + ?Sized, O: Operation<V>> Visit<'m, V, O> {
    /// The keys whose lines are worth asking for: of a long operation the first few.
    fn first_keys(&self) -> impl Iterator<Item = &Key<'_>> {
        self.operation.iter().flat_map(Operation::keys).take(BATCH_WINDOW)
    }

    /// Asks for the lines that the look-ups will read first.
    fn prefetch_table(&self) {
        self.first_keys().for_each(|key| self.member.headers.prefetch(key));
    }

    /// Takes the token if it is free and the slot served here without a question.
    fn hold(&self) -> Option<Hold<'m, V>> {
        let hold = self.member.headers.get(self.slot).try_lock()?;
        (hold.is_settled() && self.member.is_up()).then_some(hold)
    }

    /// Asks for the entries.
    fn prefetch_entries(&self, shard: &Shard<V>) {
        self.first_keys().for_each(|key| shard.prefetch(key));
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Runs what can be run at once of up to [`BATCH_WINDOW`] operations in different slots, in
    /// their order, and says what each answered. What is left has to be called for by itself: its
    /// token was taken, or its slot is open, foreign or down.
    ///
    /// Each operation takes effect in its own hold. Tokens are never waited for, so that two
    /// windows cannot wait for each other.
    pub(crate) fn execute_window<O: Operation<V>>(
        &self,
        visits: &mut [Visit<'_, V, O>],
        mut done: impl FnMut(usize, O::Output),
    ) {
        debug_assert!(visits.len() <= BATCH_WINDOW);
        if !self.serves_at_once() {
            // The calls will say why.
            return;
        }
        visits.iter().for_each(Visit::prefetch_table);
        // Dropped after the holds, on whatever way out.
        let mut dropped = Dropped::new();
        let holds: SmallVec<[Option<Hold<'_, V>>; BATCH_WINDOW]> =
            visits.iter().map(Visit::hold).collect();
        // After all tokens: to take one waits for whatever was asked for before.
        for (visit, hold) in visits.iter().zip(&holds) {
            if let Some(hold) = hold {
                visit.prefetch_entries(hold);
            }
        }
        // One reading for all: they are all held when it is made.
        let now = self.now();
        for (index, (visit, hold)) in visits.iter_mut().zip(holds).enumerate() {
            let Some(hold) = hold else { continue };
            let Some(operation) = visit.operation.take() else { continue };
            let context = Context { now: &now, hasher: &self.hasher, dropped: &mut dropped };
            done(index, self.run_held(visit.member, visit.slot, operation, (hold, context)));
        }
    }
}
