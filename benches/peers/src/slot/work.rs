//! Passes over keys: one call after the other, each waiting for the one before, cold, in batches.

use std::hint::black_box;

use crate::measure::Contestant;
use crate::slot::keys::Run;

/// Twice the first-level cache of the largest common cores, in cache lines.
const EVICT_LINES: usize = 1024;

/// How the calls of a pass follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// They may overlap: throughput.
    Overlapping,
    /// Each waits for the result of the one before: latency.
    Chained,
}

impl Pace {
    /// A pass over any keys.
    pub fn over<'a, F>(self, name: &str, keys: &'a [&'a [u8]], of: F) -> Contestant<'a>
    where
        F: Fn(&[u8]) -> u16 + 'a,
    {
        match self {
            Self::Overlapping => calls(name, keys, of),
            Self::Chained => chained(name, keys, of),
        }
    }
}

/// Calls that may overlap.
pub fn calls<'a, F>(name: &str, keys: &'a [&'a [u8]], of: F) -> Contestant<'a>
where
    F: Fn(&[u8]) -> u16 + 'a,
{
    Contestant::new(name, keys.len(), move || {
        let mut sum = 0;
        for key in black_box(keys) {
            sum ^= of(key);
        }
        u64::from(sum)
    })
}

/// Calls each of which takes its key from a place that depends on the last result.
fn chained<'a, F>(name: &str, keys: &'a [&'a [u8]], of: F) -> Contestant<'a>
where
    F: Fn(&[u8]) -> u16 + 'a,
{
    let zero = black_box(0);
    Contestant::new(name, keys.len(), move || {
        let keys = black_box(keys);
        let mut last = 0;
        for at in 0..keys.len() {
            last = of(keys[at + (usize::from(last) & zero)]);
        }
        u64::from(last)
    })
}

/// As [`chained`], over keys of one length, whose place is computed and not loaded.
pub fn chained_run<'a, F>(name: &str, run: &'a Run, of: F) -> Contestant<'a>
where
    F: Fn(&[u8]) -> u16 + 'a,
{
    let zero = black_box(0);
    Contestant::new(name, run.count(), move || {
        let run = black_box(run);
        let last = (0..run.count())
            .fold(0, |last, at| of(run.view(at * run.stride() + (usize::from(last) & zero))));
        u64::from(last)
    })
}

/// The same key again and again: for what depends on where a key lies.
pub fn repeated<'a, F>(name: &str, key: &'a [u8], of: F) -> Contestant<'a>
where
    F: Fn(&[u8]) -> u16 + 'a,
{
    const TIMES: usize = 256;
    Contestant::new(name, TIMES, move || {
        (0..TIMES).fold(0, |sum, _| sum ^ u64::from(of(black_box(key))))
    })
}

/// One call over all keys at once, with outputs of its own, which are `first` until the first pass.
pub fn batch<'a, O, F>(name: &str, keys: &'a [&'a [u8]], first: O, of: F) -> Contestant<'a>
where
    O: Clone + 'static,
    F: Fn(&[&[u8]], &mut [O]) + 'a,
{
    let out = vec![first; keys.len()].leak();
    Contestant::new(name, keys.len(), move || {
        of(black_box(keys), out);
        black_box(&mut *out);
        0
    })
}

/// A buffer larger than the first-level cache.
#[derive(Debug)]
pub struct Evictor {
    lines: Vec<[u64; 8]>,
}

impl Evictor {
    pub fn new() -> Self {
        Self { lines: vec![[1; 8]; EVICT_LINES] }
    }

    /// Touches every line, so that what was in the first-level cache is there no longer.
    #[inline(never)]
    fn walk(&self) -> u64 {
        black_box(&self.lines).iter().fold(0, |sum, line| sum ^ line[0])
    }
}

/// A call a key, with the first-level cache evicted before each.
pub fn cold<'a, F>(name: &str, keys: &'a [&'a [u8]], evictor: &'a Evictor, of: F) -> Contestant<'a>
where
    F: Fn(&[u8]) -> u16 + 'a,
{
    Contestant::new(name, keys.len(), move || {
        let mut sum = 0;
        for key in black_box(keys) {
            sum ^= evictor.walk();
            sum ^= u64::from(of(key));
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::measure::Plan;
    use crate::measure::contest;

    #[test]
    fn every_kind_of_pass_hands_over_every_key() {
        let run = Run::of(16);
        let keys = run.views();
        let seen = RefCell::new(Vec::new());
        let note = |key: &[u8]| {
            seen.borrow_mut().push(key.to_vec());
            u16::MAX
        };
        let evictor = Evictor::new();
        let passes = [
            calls("calls", &keys, note),
            chained("chained", &keys, note),
            chained_run("chained_run", &run, note),
            cold("cold", &keys, &evictor, note),
            batch("batch", &keys, (), |keys, out| {
                assert_eq!(keys.len(), out.len());
                for key in keys {
                    note(key);
                }
            }),
        ];
        let plan = Plan { rounds: 1, samples: 1, sample: std::time::Duration::ZERO, ..Plan::QUICK };
        for pass in passes {
            seen.borrow_mut().clear();
            let rounds = contest(plan, vec![pass]);
            let seen = seen.borrow();
            assert_eq!(seen[..keys.len()], keys, "{}", rounds.name(0));
            assert_eq!(seen.len() % keys.len(), 0, "{}", rounds.name(0));
        }
    }
}
