//! Generated traces: each a way of access by itself, the same in every run.

use crate::cache::trace::Recorder;
use crate::cache::trace::Trace;
use crate::random::Random;

/// The generated traces, by name.
const RECIPES: [(&str, Recipe); 9] = [
    ("zipf080", |scale, random, take| zipf(0.8, scale, random, take)),
    ("zipf099", |scale, random, take| zipf(0.99, scale, random, take)),
    ("zipf110", |scale, random, take| zipf(1.1, scale, random, take)),
    ("scanzipf", scan_zipf),
    ("genloop", repeat),
    ("drift", drift),
    ("phase", phase),
    ("again", again),
    ("loops", loops),
];

/// Keys by number, one access after the other.
type Recipe = fn(Scale, &mut Random, &mut dyn FnMut(usize));

/// How long a trace is, and over how many keys.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    accesses: usize,
    keys: usize,
}

impl Scale {
    /// What figures are told from.
    pub const FULL: Self = Self { accesses: 500_000, keys: 50_000 };

    /// A tenth: enough to warn.
    pub const QUICK: Self = Self { accesses: 50_000, keys: 5_000 };
}

/// The names of the generated traces.
pub fn names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|&(name, _)| name)
}

/// The generated trace of a name.
pub fn trace(name: &str, scale: Scale) -> Option<Trace> {
    let (number, &(name, recipe)) = (0..).zip(&RECIPES).find(|(_, (known, _))| *known == name)?;
    let mut recorder = Recorder::new(name);
    recipe(scale, &mut Random::of(number), &mut |key| recorder.access(&key.to_string()));
    Some(recorder.finish())
}

/// The key of rank n as often as 1 to the power `exponent` of n.
fn zipf(exponent: f64, scale: Scale, random: &mut Random, take: &mut dyn FnMut(usize)) {
    let law = Law::new(exponent, scale.keys);
    (0..scale.accesses).for_each(|_| take(law.rank(random)));
}

/// Four accesses of five by Zipf's law; the fifth is of scans, each of which asks once for the next
/// fiftieth of as many other keys.
fn scan_zipf(scale: Scale, random: &mut Random, take: &mut dyn FnMut(usize)) {
    let law = Law::new(0.99, scale.keys);
    let scan = scale.keys / 50;
    let mut next = 0;
    let mut taken = 0;
    while taken < scale.accesses {
        if random.below(4 * scan) == 0 {
            (next..next + scan).for_each(|key| take(scale.keys + key % scale.keys));
            next += scan;
            taken += scan;
        } else {
            take(law.rank(random));
            taken += 1;
        }
    }
}

/// A fifth of the keys, again and again in the same order.
fn repeat(scale: Scale, _random: &mut Random, take: &mut dyn FnMut(usize)) {
    (0..scale.accesses).for_each(|at| take(at % (scale.keys / 5)));
}

/// By Zipf's law, of keys that become known at the top and sink by a rank every ten accesses.
fn drift(scale: Scale, random: &mut Random, take: &mut dyn FnMut(usize)) {
    let law = Law::new(0.99, scale.keys);
    for at in 0..scale.accesses {
        let newest = scale.keys + at / 10;
        take(newest - law.rank(random));
    }
}

/// By Zipf's law, over other keys in the second half than in the first.
fn phase(scale: Scale, random: &mut Random, take: &mut dyn FnMut(usize)) {
    let keys = scale.keys / 2;
    let law = Law::new(0.99, keys);
    for at in 0..scale.accesses {
        let is_second = 2 * at >= scale.accesses;
        take(law.rank(random) + if is_second { keys } else { 0 });
    }
}

/// Every key twice: once when it is new, and once more after up to a tenth of `scale.keys` new
/// ones.
fn again(scale: Scale, random: &mut Random, take: &mut dyn FnMut(usize)) {
    let most = scale.keys / 10;
    for newest in most..most + scale.accesses / 2 {
        take(newest);
        take(newest - random.below(most));
    }
}

/// Three loops of different lengths, each for a few accesses in turn.
fn loops(scale: Scale, random: &mut Random, take: &mut dyn FnMut(usize)) {
    let lengths = [100, 25, 5].map(|part| scale.keys / part);
    let mut taken = [0; 3];
    for _ in 0..scale.accesses.div_ceil(25) {
        let one = random.below(lengths.len());
        for _ in 0..25 {
            take(one * scale.keys + taken[one] % lengths[one]);
            taken[one] += 1;
        }
    }
}

/// Zipf's law over so many ranks: for each the share of those up to it.
struct Law(Vec<f64>);

impl Law {
    fn new(exponent: f64, keys: usize) -> Self {
        let keys = u32::try_from(keys).expect("few keys");
        let shares = (1..=keys).scan(0.0, |sum, rank| {
            *sum += f64::from(rank).powf(-exponent);
            Some(*sum)
        });
        Self(shares.collect())
    }

    /// A rank, from 0.
    #[expect(clippy::cast_precision_loss, reason = "even numbers of 52 bits are enough")]
    fn rank(&self, random: &mut Random) -> usize {
        let whole = self.0[self.0.len() - 1];
        let part = (random.next() >> 12) as f64 / (1_u64 << 52) as f64 * whole;
        self.0.partition_point(|&share| share <= part).min(self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: &str) -> Vec<u32> {
        trace(name, Scale::QUICK).expect("a known name").numbers().to_vec()
    }

    #[test]
    fn a_trace_is_the_same_in_every_run_and_as_long_as_asked() {
        for name in names() {
            let first = numbers(name);
            assert_eq!(first, numbers(name), "{name}");
            assert!((50_000..50_100).contains(&first.len()), "{name}: {}", first.len());
        }
        assert!(trace("unknown", Scale::QUICK).is_none());
    }

    #[test]
    fn ranks_are_as_frequent_as_the_law_says() {
        for exponent in [0.8, 1.1] {
            let (law, mut random) = (Law::new(exponent, 1000), Random::new());
            let draws = 200_000;
            let mut counts = [0_u32; 1000];
            (0..draws).for_each(|_| counts[law.rank(&mut random)] += 1);
            for (rank, count) in (1..).zip(counts).take(4) {
                let expected = f64::from(rank).powf(-exponent) / law.0[999] * f64::from(draws);
                let share = f64::from(count) / expected;
                assert!((0.95..1.05).contains(&share), "rank {rank}: {count}, not {expected}");
            }
        }
    }

    #[test]
    fn phases_share_no_key() {
        let numbers = numbers("phase");
        let (first, second) = numbers.split_at(numbers.len() / 2);
        let last = first.iter().max().expect("accesses");
        assert!(second.iter().all(|number| number > last));
    }
}
