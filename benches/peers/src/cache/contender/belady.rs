//! The optimum of Belady: what is asked for again latest goes first, the new entry among the rest.
//!
//! With weights this is the usual greedy rule, and no bound: to find the best choice among entries
//! of several weights is a problem of another class.

use std::collections::BinaryHeap;

use crate::cache::contender::Cache;
use crate::cache::trace::Access;
use crate::cache::trace::Room;
use crate::cache::trace::Trace;

/// The next use of a key that is not asked for again.
const NEVER: u32 = u32::MAX;

/// A cache that knows what is asked for later.
#[derive(Debug)]
pub struct Belady {
    /// By access: when its key is asked for again.
    next_uses: Vec<u32>,
    now: usize,
    /// By key number: when the held entry is asked for again, and its weight.
    held: Vec<Option<(u32, u64)>>,
    /// The held entries, the latest next use first. An entry that was asked for stands there again
    /// with its new next use; the past one marks a place that no longer counts.
    latest: BinaryHeap<(u32, u32)>,
    room: u64,
    weight: u64,
}

impl Belady {
    /// An empty cache, which reads ahead in the trace.
    pub fn new(trace: &Trace, room: Room) -> Self {
        let mut seen = vec![NEVER; trace.distinct()];
        let mut next_uses = vec![NEVER; trace.len()];
        for (at, &number) in trace.numbers().iter().enumerate().rev() {
            next_uses[at] = seen[number as usize];
            seen[number as usize] = u32::try_from(at).expect("fewer accesses than u32::MAX");
        }
        Self {
            next_uses,
            now: 0,
            held: vec![None; trace.distinct()],
            latest: BinaryHeap::new(),
            room: room.weight,
            weight: 0,
        }
    }

    /// Drops what is asked for again latest until the rest fits.
    fn evict(&mut self) {
        while self.weight > self.room {
            let (next_use, number) = self.latest.pop().expect("what weighs is in the heap");
            let held = &mut self.held[number as usize];
            if let Some((_, weight)) = held.filter(|held| held.0 == next_use) {
                *held = None;
                self.weight -= weight;
            }
        }
    }
}

impl Cache for Belady {
    fn access(&mut self, access: Access<'_>) -> bool {
        let next_use = self.next_uses[self.now];
        self.now += 1;
        let held = &mut self.held[access.number as usize];
        let is_hit = held.is_some();
        if !is_hit {
            self.weight += access.weight;
        }
        *held = Some((next_use, access.weight));
        self.latest.push((next_use, access.number));
        self.evict();
        is_hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::contender::tests::hits;
    use crate::cache::contender::tests::room;
    use crate::cache::contender::tests::small;
    use crate::random::Random;

    /// The most hits that any choice of victims gives, by trying them all; `held` is a set of bits.
    fn most_hits(numbers: &[u32], held: u32, room: u32) -> usize {
        let Some((&number, rest)) = numbers.split_first() else {
            return 0;
        };
        let bit = 1 << number;
        if held & bit != 0 {
            return 1 + most_hits(rest, held, room);
        }
        let kept = |victim: u32| most_hits(rest, (held | bit) & !(1 << victim), room);
        if held.count_ones() < room {
            return most_hits(rest, held | bit, room);
        }
        let victims = (0..6).filter(|victim| (held | bit) & (1 << victim) != 0);
        victims.map(kept).max().expect("the new key at least")
    }

    #[test]
    fn no_choice_of_victims_hits_more() {
        let mut random = Random::new();
        for _ in 0..1000 {
            let trace = small(&mut random, false);
            let weight = 1 + random.below(4);
            let found = hits(&trace, &mut Belady::new(&trace, room(weight as u64)));
            let found = found.into_iter().filter(|&is_hit| is_hit).count();
            let most = most_hits(trace.numbers(), 0, u32::try_from(weight).expect("small"));
            assert_eq!(found, most, "room {weight}: {trace:?}");
        }
    }

    #[test]
    fn entries_of_any_weight_fit() {
        let mut random = Random::new();
        for _ in 0..1000 {
            let trace = small(&mut random, true);
            let mut cache = Belady::new(&trace, room(1 + random.below(8) as u64));
            for access in trace.accesses() {
                cache.access(access);
                let weight: u64 = cache.held.iter().flatten().map(|(_, weight)| weight).sum();
                assert_eq!(cache.weight, weight, "{trace:?}");
                assert!(weight <= cache.room, "{trace:?}");
            }
        }
    }
}
