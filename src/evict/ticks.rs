//! `Ticks`: a node's own time, which goes on with what comes in. No clock is read.

use crate::sync::AtomicU64;
use crate::sync::CachePadded;
use crate::sync::Ordering;

/// So many ticks pass while as much comes in as there may be.
const TICKS_PER_BOUND: u64 = 512;

/// So many of them are one by which frequencies decay: of the 255 steps of a counter one goes
/// while half of the bound comes in.
const TICKS_PER_DECAY: u64 = TICKS_PER_BOUND / 2;

/// How many ticks have passed.
///
/// Relaxed throughout: ages are compared, nothing else. Apart from what is written with every entry
/// that comes in lies the tick, which every hit reads.
#[derive(Debug)]
pub(crate) struct Ticks {
    step: u64,
    came_in: CachePadded<AtomicU64>,
    tick: CachePadded<AtomicU64>,
}

impl Ticks {
    /// Those of a node that may hold so much.
    pub(crate) fn new(bound: u64) -> Self {
        let step = (bound / TICKS_PER_BOUND).max(1);
        Self { step, came_in: CachePadded::default(), tick: CachePadded::default() }
    }

    /// So much has come in.
    pub(crate) fn advance(&self, amount: u64) {
        let before = self.came_in.fetch_add(amount, Ordering::Relaxed);
        let (last, next) = (before / self.step, before.wrapping_add(amount) / self.step);
        if last != next {
            self.tick.fetch_max(next, Ordering::Relaxed);
        }
    }

    /// Goes round after 128 times the bound.
    #[inline]
    pub(crate) fn fine(&self) -> u16 {
        let [.., high, low] = self.tick.load(Ordering::Relaxed).to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Goes round after 128 times the bound.
    #[inline]
    pub(crate) fn coarse(&self) -> u8 {
        let [.., low] = (self.tick.load(Ordering::Relaxed) / TICKS_PER_DECAY).to_be_bytes();
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_what_comes_in_whatever_the_bound() {
        for bound in [0, 1, 100, 512, 1_000_000] {
            let ticks = Ticks::new(bound);
            (0..bound.clamp(1, 1_000)).for_each(|_| ticks.advance(bound / 1_000 + 1));
            let expected = bound.clamp(1, TICKS_PER_BOUND);
            let passed = u64::from(ticks.fine());
            assert!(passed.abs_diff(expected) <= expected / 2 + 1, "{passed} at {bound}");
            assert_eq!(u64::from(ticks.coarse()), passed / TICKS_PER_DECAY);
        }
    }
}
