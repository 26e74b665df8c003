//! Whether a core does the work of one thread, or shares its units with a neighbour's.
//!
//! A host can run the thread of another machine beside ours on the same core. We see nothing of it
//! but time: chains of dependent instructions take as long as ever, and what fills the width of the
//! core takes up to twice as long. Ratios of one to the other are then those of half a core.
//! Neighbours come and go within milliseconds, for minutes.

use std::hint::black_box;
use std::time::Duration;

use crate::measure::now;
use crate::random::Random;

/// How many pairs of random numbers a look computes, each number from the one before: a few
/// microseconds.
const PAIRS: u64 = 320;

/// How many numbers a core of our own computes side by side in the same time, at least. A Zen 4
/// alone computes 7.3 for each pair, and beside a neighbour 4 to 6.5.
const NUMBERS: u64 = PAIRS * 20 / 3;

/// The core that this thread runs on, and how long to wait for it.
#[derive(Debug)]
pub struct Core {
    patience: Duration,
}

impl Core {
    /// `patience` is for all that is timed, together.
    pub fn new(patience: Duration) -> Self {
        Self { patience }
    }

    /// The time of a sample that nobody disturbed; when the patience is used up, that of any.
    pub fn undisturbed(&mut self, sample: impl FnMut() -> Duration) -> Duration {
        self.undisturbed_by(is_quiet, sample)
    }

    fn undisturbed_by(
        &mut self,
        is_quiet: impl Fn() -> bool,
        mut sample: impl FnMut() -> Duration,
    ) -> Duration {
        if self.patience.is_zero() {
            return sample();
        }
        let start = now();
        let is_over = || now() - start >= self.patience;
        let time = loop {
            while !is_quiet() && !is_over() {}
            let time = sample();
            if is_quiet() || is_over() {
                break time;
            }
        };
        // What an undisturbed sample takes has to be spent anyway.
        self.patience = self.patience.saturating_sub((now() - start).saturating_sub(time));
        time
    }
}

/// A look at the core: two amounts of the same work, of which a neighbour slows one only.
fn is_quiet() -> bool {
    let start = now();
    black_box((0..PAIRS).fold(0, |number, _| Random::of(number).next()));
    let middle = now();
    let mut random = Random::new();
    black_box((0..NUMBERS).fold(0, |sum, _| sum ^ random.next()));
    now() - middle <= middle - start
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SAMPLE: Duration = Duration::from_nanos(7);

    /// The time of a sample and how many there were, when these are the looks, and `true` later.
    fn undisturbed(core: &mut Core, looks: &[bool]) -> (Duration, u64) {
        let (look, samples) = (Cell::new(0), Cell::new(0));
        let is_quiet = || looks.get(look.replace(look.get() + 1)).copied().unwrap_or(true);
        let time = core.undisturbed_by(is_quiet, || {
            samples.set(samples.get() + 1);
            SAMPLE
        });
        (time, samples.get())
    }

    #[test]
    fn a_sample_counts_if_the_core_was_quiet_before_and_after() {
        let mut core = Core::new(Duration::from_secs(60));
        assert_eq!(undisturbed(&mut core, &[true, true]), (SAMPLE, 1));
        assert_eq!(undisturbed(&mut core, &[false, false, true, true]), (SAMPLE, 1));
        assert_eq!(undisturbed(&mut core, &[true, false, true, true]), (SAMPLE, 2));
        assert_eq!(undisturbed(&mut core, &[true, false, true, false, true]), (SAMPLE, 3));
    }

    #[test]
    fn without_patience_any_sample_counts() {
        let mut core = Core::new(Duration::from_millis(5));
        let samples = Cell::new(0);
        for _ in 0..3 {
            core.undisturbed_by(
                || false,
                || {
                    samples.set(samples.get() + 1);
                    Duration::ZERO
                },
            );
        }
        assert_eq!(core.patience, Duration::ZERO);
        assert_eq!(samples.get(), 3, "the first of them was waited for as long as it goes");
    }
}
