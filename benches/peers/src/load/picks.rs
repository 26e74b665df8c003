//! Which keys are picked: evenly, by Zipf's law, the latest ones, or one only.

use crate::measure::float;
use crate::random::Random;

/// The exponent of Zipf's law, as in YCSB.
const THETA: f64 = 0.99;

/// Spreads the ranks over all keys; a prime that divides no number of keys in use.
const SCATTER: u64 = 7_368_787;

/// How keys are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picks {
    /// Each as often as the others.
    Uniform,
    /// The one of rank n as often as 1 to the power 0.99 of n; neighbours in rank are none in
    /// number.
    Zipf,
    /// Those that were inserted last, by the same law.
    Latest,
    /// One only.
    One,
}

/// What Zipf's law needs to know of a number of keys; takes a pass over them.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    keys: f64,
    zeta: f64,
    eta: f64,
}

/// The table of Zipf's law over so many keys.
pub fn zipf_table(keys: u32) -> Zipf {
    let zeta_of = |count: u32| (1..=count).map(|rank| f64::from(rank).powf(-THETA)).sum::<f64>();
    let zeta = zeta_of(keys);
    let two = 1.0 - (2.0 / f64::from(keys)).powf(1.0 - THETA);
    Zipf { keys: f64::from(keys), zeta, eta: two / (1.0 - zeta_of(2) / zeta) }
}

impl Zipf {
    /// A rank, from 0; by the method of Gray and others, as in YCSB.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below `keys`")]
    pub fn rank(&self, random: &mut Random) -> u32 {
        let even = float(random.below(1 << 30)) / f64::from(1 << 30);
        let part = even * self.zeta;
        if part < 1.0 {
            return 0;
        }
        if part < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let rank = self.keys * (self.eta * even - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        rank.min(self.keys - 1.0) as u32
    }
}

/// The number of the key of a rank.
pub fn scattered(rank: u32, keys: u32) -> u32 {
    let number = u64::from(rank) * SCATTER % u64::from(keys);
    u32::try_from(number).expect("below a u32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ranks_are_as_frequent_as_the_law_says() {
        let keys = 100_000;
        let (zipf, mut random) = (zipf_table(keys), Random::new());
        let mut counts = [0_u32; 2];
        let draws = 200_000;
        for _ in 0..draws {
            let rank = zipf.rank(&mut random);
            assert!(rank < keys);
            if let Some(count) = counts.get_mut(rank as usize) {
                *count += 1;
            }
        }
        for (rank, count) in (1..).zip(counts) {
            let expected = f64::from(rank).powf(-THETA) / zipf.zeta * f64::from(draws);
            let share = f64::from(count) / expected;
            assert!((0.9..1.1).contains(&share), "rank {rank}: {count}, not {expected}");
        }
    }

    #[test]
    fn scattering_picks_every_key_once() {
        for keys in [1000, 262_144, 1_000_000] {
            let mut numbers: Vec<_> = (0..keys).map(|rank| scattered(rank, keys)).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..keys), "{keys}");
        }
    }
}
