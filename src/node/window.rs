//! A window of a batch: the keys of a few slots, whose cache lines are asked for together and whose
//! tokens are held together, as far as they are free.

use crate::limits::BATCH_WINDOW;
use crate::limits::WINDOW_KEYS_MAX;
use crate::node::Member;
use crate::node::Roster;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Hold;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;

/// Visits of different slots.
pub(crate) type Window<'k, V> = [Option<Visit<'k, V>>; BATCH_WINDOW];

/// The keys of a batch that lie in one slot, at least one, and the node that is asked for them.
pub(crate) struct Visit<'k, V: Value + ?Sized> {
    member: &'k Member<V>,
    keys: &'k [Key<'k>],
}

impl<'k, V: Value + ?Sized> Visit<'k, V> {
    /// Plans a visit, and asks for the lines that it will read first.
    #[inline]
    pub(crate) fn new(member: &'k Member<V>, keys: &'k [Key<'k>]) -> Self {
        let visit = Self { member, keys };
        visit.first_keys().for_each(|key| member.headers.prefetch(key.slot, key.hash));
        visit
    }

    /// The keys of the visit.
    pub(crate) fn keys(&self) -> &'k [Key<'k>] {
        self.keys
    }

    /// The keys whose lines are worth asking for: of many the first few.
    #[inline]
    fn first_keys(&self) -> impl Iterator<Item = &'k Key<'k>> + use<'k, V> {
        self.keys.iter().take(BATCH_WINDOW)
    }

    /// Takes the token if it is free, the slot served here without a question, and the visit short.
    #[inline]
    fn hold(&self) -> Option<Hold<'k, V>> {
        if self.keys.len() > WINDOW_KEYS_MAX {
            return None;
        }
        let hold = self.member.headers.get(self.keys[0].slot).try_lock()?;
        (hold.is_settled() && self.member.is_up()).then_some(hold)
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Serves those visits that can be served at once, in their order, and says which they were.
    /// The others have to be called for one by one: the token was taken, the slot is open, foreign
    /// or down, or has more than [`WINDOW_KEYS_MAX`] of the keys.
    ///
    /// Each visit takes effect in its own hold. Tokens are never waited for, so that two windows
    /// cannot wait for each other.
    #[inline]
    pub(crate) fn serve_window(
        &self,
        window: &Window<'_, V>,
        mut serve: impl FnMut(usize, &mut Shard<V>, &mut Context<'_, V>),
    ) -> [bool; BATCH_WINDOW] {
        if !self.serves_at_once() {
            return [false; BATCH_WINDOW];
        }
        // Dropped after the holds, on whatever way out.
        let mut dropped = Dropped::new();
        let holds = window.each_ref().map(|visit| visit.as_ref().and_then(Visit::hold));
        let served = holds.each_ref().map(Option::is_some);
        // After all tokens: to take one waits for whatever was asked for before.
        for (visit, hold) in window.iter().flatten().zip(&holds) {
            if let Some(hold) = hold {
                visit.first_keys().for_each(|key| hold.prefetch(key));
            }
        }
        // One reading for all: they are all held when it is made.
        let now = self.now();
        let mut context = self.context(&now, &mut dropped);
        for (index, (visit, hold)) in window.iter().flatten().zip(holds).enumerate() {
            let Some(mut hold) = hold else { continue };
            hold.count_units(u32::try_from(visit.keys.len()).unwrap_or(u32::MAX));
            context.hit = visit.member.hit(visit.keys[0].slot, hold.unit_serial());
            serve(index, &mut hold, &mut context);
            visit.member.release(visit.keys[0].slot, hold);
        }
        served
    }
}
