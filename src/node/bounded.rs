//! A node of bounded size: what is written asks for room, or makes room before its call returns.

use crate::command::Operation;
use crate::evict::Entrants;
use crate::evict::Hit;
use crate::evict::Policy;
use crate::evict::Ticket;
use crate::limits::CLOSURE_VALUE_BYTES;
use crate::limits::MAKE_ROOM_TRIES;
use crate::node::AdminError;
use crate::node::Attempt;
use crate::node::Attempted;
use crate::node::Executed;
use crate::node::Member;
use crate::node::Roster;
use crate::node::evict::Evictor;
use crate::node::execute::Ran;
use crate::node::sample::Sampler;
use crate::shard::AtBound;
use crate::shard::Budget;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Hold;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::Refusal;
use crate::shard::Room;
use crate::shard::Shard;
use crate::shard::Unit;
use crate::shard::Value;
use crate::shard::Write;
use crate::shard::Writes;
use crate::slot::Slot;
use crate::sync::EvictingScope;
use crate::time::NEVER;

/// How much a node may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Bound {
    /// So many entries.
    Entries(u64),
    /// Entries of so much weight together: of so many bytes, unless the builder was given a
    /// weigher.
    ///
    /// The bytes are what the entries take of memory, with their keys and values and their share of
    /// the tables. What a sized value keeps on the heap by itself does not count, because the
    /// engine does not know of it. More than
    /// [`BOUND_WEIGHT_MAX`](crate::limits::BOUND_WEIGHT_MAX) counts as that.
    Weight(u64),
}

impl Bound {
    /// The budget of a node that is empty.
    pub(super) fn budget(self, policy: Policy) -> Budget {
        let at_bound = if policy.refuses() { AtBound::Refuse } else { AtBound::Overdraw };
        match self {
            Self::Entries(count) => Budget::new(Unit::Entries, count, at_bound),
            Self::Weight(weight) => Budget::new(Unit::Weight, weight, at_bound),
        }
    }
}

/// In which order a node evicts.
#[derive(Debug)]
pub(super) enum Order {
    /// By its window, ghost and hands.
    Adaptive(Box<Evictor>),
    /// By samples.
    Sampled(Box<Sampler>),
    /// Nothing is evicted.
    Nothing,
}

impl Order {
    /// That of an empty node.
    pub(super) fn new(policy: Policy, bound: u64) -> Self {
        match policy.choice() {
            Some(choice) => Self::Sampled(Box::new(Sampler::new(choice, bound))),
            None if policy.refuses() => Self::Nothing,
            None => Self::Adaptive(Box::new(Evictor::new())),
        }
    }

    /// What a hit leaves behind in a hold with this serial.
    #[inline]
    pub(super) fn hit(&self, slot: Slot, serial: u16) -> Hit {
        match self {
            Self::Sampled(sampler) => sampler.hit(slot, serial),
            Self::Adaptive(_) | Self::Nothing => Hit::Mark,
        }
    }

    /// Notes that a slot, whose token the caller holds, has a table.
    pub(super) fn note_table(&self, slot: Slot) {
        match self {
            Self::Adaptive(evictor) => evictor.note_table(slot),
            Self::Sampled(_) | Self::Nothing => {}
        }
    }

    /// Asks for what is read about the first of these keys once it has come in.
    #[inline]
    fn prefetch(&self, keys: &[Key<'_>]) {
        if let (Self::Adaptive(evictor), [key, ..]) = (self, keys) {
            evictor.prefetch_ghost(key.hash);
        }
    }

    /// For the entries that come in by a hold with this serial, if they enter a window.
    fn entrants(&self, budget: Option<&Budget>, serial: u16) -> Option<Entrants> {
        match (self, budget) {
            (Self::Adaptive(evictor), Some(budget)) => {
                evictor.is_window_open(budget).then(|| Entrants::new(serial))
            }
            (Self::Adaptive(_) | Self::Sampled(_) | Self::Nothing, _) => None,
        }
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Runs an operation that writes under the token, if there is room for it, gives the token
    /// back, and makes room for what was written.
    #[inline(never)]
    pub(super) fn run_bounded<O: Operation<V>>(
        &self,
        (member, order): (&Member<V>, &Order),
        slot: Slot,
        operation: O,
        (mut hold, mut context): (Hold<'_, V>, Context<'_, V>),
    ) -> Ran<O, O::Output> {
        hold.prefetch_tally();
        order.prefetch(operation.keys());
        let room = hold.room();
        if let Some(room) = &room
            && let Err(refusal) = ask(&operation, (&hold, order), &context, room)
        {
            // Keys may have been pulled here before.
            member.release(slot, hold);
            return Err((refusal, operation));
        }
        // Differs from hold to hold of this slot, for as long as tickets live.
        let serial = hold.unit_serial();
        let mut entrants = order.entrants(member.headers.budget(), serial);
        let hit = order.hit(slot, serial);
        let mut context =
            Context { entrants: entrants.as_mut(), hit, room: room.as_ref(), ..context.reborrow() };
        let output = operation.run(&mut hold, &mut context);
        let cost = hold.cost_added();
        if let Some(room) = &room {
            hold.settle_with(room);
        }
        Self::count_and_release(member, slot, hold);
        if let Order::Sampled(sampler) = order {
            sampler.ticks.advance(cost);
        }
        if let (Order::Adaptive(evictor), Some(entrants), Some(budget)) =
            (order, entrants, member.headers.budget())
        {
            let cost = |weight| budget.cost(weight);
            entrants.each_ticket(slot, cost, |ticket| self.enter((member, evictor), ticket));
        }
        if let Some(refusal) = room.as_ref().and_then(Room::missed) {
            // A closure that has run does not run again; the next one finds room.
            self.makes_room_for(member, refusal);
        }
        self.make_room(member, None);
        Ok(output)
    }

    /// Runs an operation that reads, where a hit leaves something else than marks.
    #[inline(never)]
    pub(super) fn run_traced<O: Operation<V>>(
        (member, order): (&Member<V>, &Order),
        slot: Slot,
        operation: O,
        (hold, mut context): (Hold<'_, V>, Context<'_, V>),
    ) -> O::Output {
        context.hit = order.hit(slot, hold.unit_serial());
        Self::run_and_release(member, slot, operation, (hold, context))
    }

    /// Attempts an operation until there is room for it, or nothing is left that may go for it.
    pub(super) fn making_room<O: Operation<V>, T>(
        &self,
        member: &Member<V>,
        mut attempt: Attempt,
        mut operation: O,
        run: impl Fn(Attempt, O) -> Attempted<O, T>,
    ) -> Attempted<O, T> {
        let mut tries = 0;
        loop {
            let executed = run(attempt, operation)?;
            let Executed::NoRoom(refusal, back) = executed else { return Ok(executed) };
            tries += 1;
            let is_made = tries <= MAKE_ROOM_TRIES && self.makes_room_for(member, refusal);
            if !is_made && (attempt.is_last || !O::DECIDES_LATE) {
                return Ok(Executed::NoRoom(refusal, back));
            }
            attempt.is_last |= !is_made;
            operation = back;
        }
    }

    /// Attempts what brings keys to `target` until there is room for them, or nothing is left there
    /// that may go for them.
    pub(super) fn with_room_at<R>(
        &self,
        target: &Member<V>,
        bring: impl Fn() -> Result<R, AdminError>,
    ) -> Result<R, AdminError> {
        for _ in 0..MAKE_ROOM_TRIES {
            match bring() {
                Err(AdminError::TargetFull { needed, free, .. })
                    if self.makes_room_for(target, Refusal::Full { needed, free }) => {}
                brought => return brought,
            }
        }
        bring()
    }

    /// Evicts what stands in the way of something that was refused; whether it has room now.
    pub(super) fn makes_room_for(&self, member: &Member<V>, refusal: Refusal) -> bool {
        match (&member.order, member.headers.budget(), refusal) {
            (Some(Order::Sampled(sampler)), Some(budget), Refusal::Full { needed, .. }) => {
                // What a value writes here when it is dropped has the room that there is.
                EvictingScope::enter(budget)
                    .is_some_and(|_scope| self.evict_for(member, (sampler, budget), needed))
            }
            _ => false,
        }
    }

    /// Evicts entries until the node holds no more than it may. `entering` is the ticket of
    /// an entry that enters the window, which is not yet in there.
    ///
    /// Takes one token at a time; called while the thread has none.
    #[inline]
    pub(super) fn make_room(&self, member: &Member<V>, entering: Option<&Ticket>) {
        let (Some(order), Some(budget)) = (&member.order, member.headers.budget()) else {
            return;
        };
        if !budget.is_exceeded() {
            return;
        }
        // A value that writes here when it is dropped leaves it to the loop that evicted it.
        let Some(_scope) = EvictingScope::enter(budget) else { return };
        match order {
            Order::Adaptive(evictor) => {
                while budget.is_exceeded() && self.evict_one(member, (evictor, budget), entering) {}
            }
            Order::Sampled(sampler) => {
                while budget.is_exceeded() && self.evict_sampled(member, sampler) {}
            }
            Order::Nothing => {}
        }
    }
}

/// Asks for room for what an operation is about to write, as far as that is known.
fn ask<V: Value + ?Sized, O: Operation<V>>(
    operation: &O,
    (shard, order): (&Shard<V>, &Order),
    context: &Context<'_, V>,
    room: &Room<'_>,
) -> Result<(), Refusal> {
    if room.admits_all() {
        return Ok(());
    }
    if O::DECIDES_LATE {
        // Room that nobody can make need not be asked for.
        let asks = context.guesses && matches!(order, Order::Sampled(_));
        return if asks {
            room.admit(shard, guess(operation.keys(), shard, context))
        } else {
            Ok(())
        };
    }
    let mut writes = Writes::new();
    operation.each_write(shard, context, |key, weight| {
        writes.push(Write { key, weight: Some(weight) });
    });
    if writes.is_empty() { Ok(()) } else { room.admit(shard, writes) }
}

/// What a closure may well write under these keys.
fn guess<'k, V: Value + ?Sized>(
    keys: &'k [Key<'k>],
    shard: &Shard<V>,
    context: &Context<'_, V>,
) -> Writes<'k> {
    let guessed = |key: &Key<'k>| {
        let present = shard.peek(key, context.now);
        let kept = present.map_or(Kept::until(NEVER), |entry| entry.kept(context.now));
        let bytes = present.map_or(0, |entry| V::size_bytes(entry.value()) * 2);
        let bytes = if V::IS_SIZED { bytes / 2 } else { bytes.max(CLOSURE_VALUE_BYTES) };
        Write { key: *key, weight: Some(Entry::<V>::weight_of(key.bytes, bytes, kept)) }
    };
    keys.iter().map(guessed).collect()
}
