//! Eviction by a policy of Redis: a few neighbouring entries are looked at, and one of them goes.

use crate::evict::By;
use crate::evict::Choice;
use crate::evict::Hit;
use crate::evict::Judge;
use crate::evict::Ticks;
use crate::limits::SAMPLED_SLOTS;
use crate::node::Member;
use crate::node::Roster;
use crate::node::hands::Hands;
use crate::shard::Budget;
use crate::shard::Candidate;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Samples;
use crate::shard::Value;
use crate::shard::Walk;
use crate::slot::Slot;
use crate::sync::AtomicU64;
use crate::sync::CachePadded;
use crate::sync::Ordering;

/// How many entries are looked at. Among 16 the oldest is nearly as good as the oldest of all;
/// Redis takes 5, and keeps the best ones in mind.
const SAMPLES: u32 = 16;

/// 2^64 divided by the golden ratio: its multiples are spread evenly.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// What a node that evicts by samples keeps besides its entries.
#[derive(Debug)]
pub(super) struct Sampler {
    pub(super) choice: Choice,
    pub(super) ticks: Ticks,
    hands: Hands<Place>,
    /// How many numbers were drawn. Relaxed: they only have to differ.
    draws: CachePadded<AtomicU64>,
}

/// Where a hand takes its next samples.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: Slot,
    walk: Walk,
}

impl Place {
    /// The first one of a slot.
    fn of(slot: Slot) -> Self {
        Self { slot, walk: Walk::default() }
    }
}

impl Sampler {
    /// That of an empty node.
    pub(super) fn new(choice: Choice, bound: u64) -> Self {
        Self {
            choice,
            ticks: Ticks::new(bound),
            hands: Hands::all_at(Place::of(Slot::MIN)),
            draws: CachePadded::default(),
        }
    }

    /// What a hit leaves behind in a hold with this serial, of this slot. The serials of a slot
    /// follow one another, so that a multiple of them is as good as drawn.
    #[inline]
    pub(super) fn hit(&self, slot: Slot, serial: u16) -> Hit {
        match self.choice.by {
            By::Recency => Hit::Recent { tick: self.ticks.fine() },
            By::Frequency => {
                let number = u64::from(slot.number()) << 16 | u64::from(serial);
                let [high, low, ..] = number.wrapping_mul(SPREAD).to_be_bytes();
                Hit::Frequent { tick: self.ticks.coarse(), drawn: u16::from_be_bytes([high, low]) }
            }
            By::Chance | By::Deadline => Hit::Mark,
        }
    }

    fn judge(&self) -> Judge {
        let (fine, coarse) = (self.ticks.fine(), self.ticks.coarse());
        let drawn = if self.choice.by == By::Chance { self.draw() } else { 0 };
        Judge { choice: self.choice, fine, coarse, drawn }
    }

    fn draw(&self) -> u64 {
        let number = self.draws.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD);
        (number ^ number >> 32).wrapping_mul(SPREAD)
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Evicts one entry, or finds that it has gone by itself. Whether there may be another one:
    /// nothing is found only when a round over all slots has met none that may go.
    ///
    /// Takes one token at a time; called while the thread has none.
    #[inline(never)]
    pub(super) fn evict_sampled(&self, member: &Member<V>, sampler: &Sampler) -> bool {
        let Some((slot, candidate)) = self.candidate(member, sampler) else { return false };
        Dropped::after(|dropped| {
            let now = self.now();
            let mut context = Context::new(&now, &self.hasher, dropped);
            let mut hold = member.headers.get(slot).lock();
            hold.evict(candidate, &mut context);
            member.release(slot, hold);
        });
        true
    }

    /// Evicts entries until so much of the budget is free; whether it is.
    pub(super) fn evict_for(
        &self,
        member: &Member<V>,
        (sampler, budget): (&Sampler, &Budget),
        needed: u64,
    ) -> bool {
        while needed <= budget.bound() {
            if budget.free() >= needed {
                return true;
            }
            if !self.evict_sampled(member, sampler) {
                // Others may have evicted what was to be found.
                return budget.free() >= needed;
            }
        }
        false
    }

    /// The best of the next few entries. The hand goes on behind them, so that every entry is
    /// looked at as often as any other, however unevenly they lie in the slots.
    fn candidate(&self, member: &Member<V>, sampler: &Sampler) -> Option<(Slot, Candidate)> {
        let (now, judge) = (self.now(), sampler.judge());
        // Where only entries with a deadline go, only shards that have any are looked at.
        let slots = if judge.choice.spares_lasting { &member.deadlines } else { &member.populated };
        let mut hand = sampler.hands.take();
        let (start, mut is_round) = (hand.slot, false);
        let mut samples = Samples { wanted: SAMPLES, best: None };
        let mut best: Option<(Candidate, Slot)> = None;
        let mut slots_seen = 0;
        while slots_seen < SAMPLED_SLOTS || best.is_none() {
            let slot = hand.slot;
            let more = slots.contains(slot) && {
                let mut hold = member.headers.get(slot).lock();
                let is_whole = hand.walk.is_at_start();
                let more = hold.sample(&mut hand.walk, &mut samples, &judge, &now);
                if is_whole && !more && samples.best.is_none() && judge.choice.spares_lasting {
                    // The round after this one need not look here again.
                    hold.forget_deadlines();
                    member.deadlines.remove(slot);
                }
                more
            };
            best = best.max(samples.best.take().map(|candidate| (candidate, slot)));
            if samples.wanted == 0 {
                break;
            }
            if !more {
                let next = slots.from(u32::from(slot.number()) + 1).next();
                if is_round && next.is_none_or(|next| next > start) {
                    break;
                }
                is_round |= next.is_none();
                *hand = Place::of(next.unwrap_or(Slot::MIN));
                slots_seen += 1;
            }
        }
        best.map(|(candidate, slot)| (slot, candidate))
    }
}
