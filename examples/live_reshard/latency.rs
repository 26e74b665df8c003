//! How long calls took: counts by magnitude, exact to a sixteenth, in a fixed amount of memory.

use std::time::Duration;

/// Magnitudes are powers of two, in so many steps each.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.ilog2();

/// Shorter ones have a count of their own each, then come the steps of every longer power of two.
const COUNTS: usize = STEPS * (u64::BITS - STEP_BITS + 1) as usize;

/// The latencies of many calls.
#[derive(Clone)]
pub struct Latencies {
    counts: Box<[u64]>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; COUNTS].into() }
    }
}

impl Latencies {
    pub fn note(&mut self, took: Duration) {
        self.counts[place_of(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// What all but one call in so many took at most, up to a sixteenth more; zero of no calls.
    pub fn all_but_one_in(&self, calls: u64) -> Duration {
        let mut rest = self.counts.iter().sum::<u64>() / calls;
        let longest = self.counts.iter().rposition(|&count| {
            let found = count > rest;
            rest = rest.saturating_sub(count);
            found
        });
        longest.map_or(Duration::ZERO, |place| Duration::from_nanos(end_of(place)))
    }
}

/// The place of a number of nanoseconds: its leading bits.
fn place_of(nanos: u64) -> usize {
    let exponent = nanos.max(1).ilog2().saturating_sub(STEP_BITS);
    exponent as usize * STEPS + narrow(nanos >> exponent)
}

/// The greatest number at a place.
fn end_of(place: usize) -> u64 {
    let exponent = (place / STEPS).saturating_sub(1);
    let leading = (place - exponent * STEPS) as u64;
    (leading << exponent) | ((1 << exponent) - 1)
}

/// Leading bits: less than twice the steps.
fn narrow(leading: u64) -> usize {
    usize::try_from(leading).unwrap_or_else(|_| unreachable!("below {}", 2 * STEPS))
}
