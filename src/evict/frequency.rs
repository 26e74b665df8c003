//! `Frequency`: about how often an entry is hit, as Redis counts it.

/// The counter of an entry that comes in: not the first to go, so that it has the time to be hit.
/// Redis's `LFU_INIT_VAL`.
const INITIAL: u8 = 5;

/// The greater, the more hits it takes to count on. Redis's default for `lfu-log-factor`, by which
/// a million hits fill the counter.
const LOG_FACTOR: u32 = 10;

/// A counter that grows with the logarithm of the hits, and the tick at which it was changed last:
/// for every tick since then it is one less.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frequency(u16);

impl Frequency {
    /// That of an entry that comes in.
    pub(crate) const fn new(tick: u8) -> Self {
        Self::of(INITIAL, tick)
    }

    const fn of(counter: u8, tick: u8) -> Self {
        Self(u16::from_be_bytes([counter, tick]))
    }

    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The counter, less what has decayed until this tick.
    pub(crate) const fn count(self, tick: u8) -> u8 {
        let [counter, last] = self.0.to_be_bytes();
        counter.saturating_sub(tick.wrapping_sub(last))
    }

    /// With a hit at this tick. It counts with the probability of one in `LOG_FACTOR` times what
    /// the counter is above its initial value, plus one; `drawn` is any of 2^16 numbers.
    pub(crate) fn hit(self, tick: u8, drawn: u16) -> Self {
        let counter = self.count(tick);
        let one_in = u32::from(counter.saturating_sub(INITIAL)) * LOG_FACTOR + 1;
        let counts = u16::try_from(u32::from(drawn) * one_in).is_ok();
        Self::of(counter.saturating_add(u8::from(counts)), tick)
    }

    /// The same counter, as of a tick of another node.
    pub(crate) const fn seen_at(self, tick: u8) -> Self {
        let [counter, _] = self.0.to_be_bytes();
        Self::of(counter, tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers like those of a slot's operations.
    fn drawn() -> impl Iterator<Item = u16> {
        (0..u32::MAX).map(|number| {
            let [.., high, low] = (number.wrapping_mul(0x9E37_79B1) >> 16).to_be_bytes();
            u16::from_be_bytes([high, low])
        })
    }

    #[test]
    fn counters_grow_as_the_table_in_the_manual_of_redis_says() {
        for (hits, from, to) in [(100, 8, 13), (1_000, 15, 21), (100_000, 130, 155)] {
            let mut frequency = Frequency::new(0);
            drawn().take(hits).for_each(|drawn| frequency = frequency.hit(0, drawn));
            let count = frequency.count(0);
            assert!((from..=to).contains(&count), "{hits} hits make {count}");
        }
    }

    #[test]
    fn every_tick_takes_one_off_until_nothing_is_left() {
        let frequency = Frequency::of(7, 250);
        assert_eq!([250, 251, 255, 0, 1, 2].map(|tick| frequency.count(tick)), [7, 6, 2, 1, 0, 0]);
        assert_eq!(Frequency::of(0, 0).hit(0, u16::MAX), Frequency::of(1, 0), "the first counts");
        assert_eq!(Frequency::of(255, 0).hit(0, 0), Frequency::of(255, 0));
        assert_eq!(frequency.seen_at(9).count(10), 6);
    }
}
