//! Contests: several ways to do the same work, timed in turn over many rounds in one process.
//!
//! A round times every contestant a few times, in an order that rotates, and keeps the least time
//! of each: what interrupts a sample only ever makes it longer.
//! Ratios are taken within a round, so that a slow minute of the machine slows both sides.

use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use serde::Serialize;

use crate::quiet::Core;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds that count; one more runs before them and is dropped.
    pub rounds: usize,
    /// Samples of each contestant in a round.
    pub samples: usize,
    /// What one sample takes at least.
    pub sample: Duration,
    /// How long a contest waits at most, all in all, for a core that has no neighbour.
    pub patience: Duration,
    /// Whether sweeps leave out lengths and long buffers.
    pub quick: bool,
}

impl Plan {
    /// About a minute for all goals of a command.
    pub const FULL: Self = Self {
        rounds: 21,
        samples: 9,
        sample: Duration::from_micros(200),
        patience: Duration::ZERO,
        quick: false,
    };

    /// A few seconds for all goals of a command: enough to warn, not to judge.
    pub const QUICK: Self = Self {
        rounds: 9,
        samples: 5,
        sample: Duration::from_micros(100),
        patience: Duration::ZERO,
        quick: true,
    };

    /// The same plan for what was measured without patience, and came out badly.
    pub fn patient(self) -> Self {
        Self { patience: Duration::from_secs(if self.quick { 1 } else { 10 }), ..self }
    }

    /// The same plan for passes whose order has to be learned: samples of many passes.
    pub fn for_orders(self) -> Self {
        Self { sample: self.sample * 10, ..self }
    }

    /// The same plan for one of hundreds of contests: shorter samples and waits, as many rounds.
    pub fn for_sweep(self) -> Self {
        Self { sample: self.sample / 3, patience: self.patience / 100, ..self }
    }
}

/// One way to do the work: a pass over it, and how many operations the pass does.
pub struct Contestant<'a> {
    name: String,
    operations: usize,
    pass: Box<dyn FnMut() -> u64 + 'a>,
}

impl<'a> Contestant<'a> {
    /// What `pass` returns is kept from the optimiser, so it has to depend on all of the work.
    pub fn new(name: impl Into<String>, operations: usize, pass: impl FnMut() -> u64 + 'a) -> Self {
        assert!(operations > 0, "a pass without operations");
        Self { name: name.into(), operations, pass: Box::new(pass) }
    }

    /// The time of `passes` passes.
    fn time(&mut self, passes: u32) -> Duration {
        let start = now();
        for _ in 0..passes {
            black_box((self.pass)());
        }
        now() - start
    }

    /// How many passes take at least `sample`; warms caches and predictors on the way.
    fn calibrate(&mut self, sample: Duration) -> u32 {
        let mut passes = 1;
        while self.time(passes) < sample && passes < 1 << 24 {
            passes *= 2;
        }
        passes
    }
}

/// What a contest measured: nanoseconds an operation, by contestant and by round.
#[derive(Debug)]
pub struct Rounds {
    names: Vec<String>,
    figures: Vec<Vec<f64>>,
}

impl Rounds {
    /// The rounds of a contestant, by its place in the contest.
    pub fn of(&self, contestant: usize) -> &[f64] {
        &self.figures[contestant]
    }

    /// The name of a contestant, by its place in the contest.
    pub fn name(&self, contestant: usize) -> &str {
        &self.names[contestant]
    }

    /// The median over the rounds of a contestant.
    pub fn median(&self, contestant: usize) -> f64 {
        Spread::of(self.of(contestant)).median
    }

    /// The place of the contestant with the least median, the first `skipped` left out.
    pub fn best_after(&self, skipped: usize) -> usize {
        (skipped..self.names.len())
            .min_by(|&a, &b| self.median(a).total_cmp(&self.median(b)))
            .expect("a contest has rivals")
    }
}

/// Times the contestants against each other.
pub fn contest(plan: Plan, contestants: Vec<Contestant<'_>>) -> Rounds {
    let mut contestants = Some(contestants);
    hold(plan, |_| contestants.take())
}

/// [`contest`] of contestants that are made anew every `stay` rounds: each time the same ones at
/// the same work, but for where in memory they do it.
pub fn contest_anew<'a>(
    plan: Plan,
    stay: usize,
    mut make: impl FnMut() -> Vec<Contestant<'a>>,
) -> Rounds {
    hold(plan, |round| round.is_multiple_of(stay).then(&mut make))
}

/// Times the contestants that there are before the first round, or who takes their places before a
/// later one.
fn hold<'a>(plan: Plan, mut relieve: impl FnMut(usize) -> Option<Vec<Contestant<'a>>>) -> Rounds {
    let mut contestants = relieve(0).expect("a contest begins with contestants");
    let passes: Vec<_> = contestants.iter_mut().map(|one| one.calibrate(plan.sample)).collect();
    let mut core = Core::new(plan.patience);
    let mut figures = vec![Vec::with_capacity(plan.rounds); contestants.len()];
    for round in 0..=plan.rounds {
        if round > 0
            && let Some(others) = relieve(round)
        {
            contestants = others;
        }
        let best = one_round((plan, round), &mut core, &mut contestants, &passes);
        // The first round still pays for cold caches and clocks.
        if round == 0 {
            continue;
        }
        for (at, best) in best.into_iter().enumerate() {
            let operations = float(contestants[at].operations) * f64::from(passes[at]);
            figures[at].push(nanoseconds(best) / operations);
        }
    }
    Rounds { names: contestants.into_iter().map(|one| one.name).collect(), figures }
}

/// The least time of each contestant over one round.
fn one_round(
    (plan, round): (Plan, usize),
    core: &mut Core,
    contestants: &mut [Contestant<'_>],
    passes: &[u32],
) -> Vec<Duration> {
    let mut best = vec![Duration::MAX; contestants.len()];
    for sample in 0..plan.samples {
        for step in 0..contestants.len() {
            let at = (round + sample + step) % contestants.len();
            let time = core.undisturbed(|| contestants[at].time(passes[at]));
            best[at] = best[at].min(time);
        }
    }
    best
}

/// The quartiles of a set of figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// A quarter of the figures lies below.
    pub lower: f64,
    /// Half of the figures lies below.
    pub median: f64,
    /// A quarter of the figures lies above.
    pub upper: f64,
}

impl Spread {
    /// Quartiles between two figures are interpolated.
    pub fn of(figures: &[f64]) -> Self {
        assert!(!figures.is_empty(), "quartiles of nothing");
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |quarters: usize| {
            let place = quarters * (sorted.len() - 1);
            let (below, part) = (place / 4, float(place % 4) / 4.0);
            let above = (below + 1).min(sorted.len() - 1);
            sorted[below] * (1.0 - part) + sorted[above] * part
        };
        Self { lower: at(1), median: at(2), upper: at(3) }
    }
}

/// Numbers of bytes, keys and rounds are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn float(count: usize) -> f64 {
    count as f64
}

/// A time as the figures have it.
pub fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The one reader of time in this package.
#[expect(clippy::disallowed_methods, reason = "a stopwatch reads the clock")]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_nine_rounds_are_the_third_fifth_and_seventh() {
        let spread = Spread::of(&[9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0]);
        assert_eq!(spread, Spread { lower: 3.0, median: 5.0, upper: 7.0 });
    }

    #[test]
    fn quartiles_between_two_figures_are_interpolated() {
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(spread, Spread { lower: 1.75, median: 2.5, upper: 3.25 });
        let spread = Spread::of(&[4.0]);
        assert_eq!(spread, Spread { lower: 4.0, median: 4.0, upper: 4.0 });
    }

    #[test]
    fn a_contest_times_every_contestant_in_every_round_but_the_first() {
        let plan = Plan { sample: Duration::from_nanos(1), ..Plan::QUICK };
        let work = |count: u64| (0..count).fold(0, |sum, n| black_box(sum ^ n));
        let contestants = vec![
            Contestant::new("much", 1, move || work(20_000)),
            Contestant::new("little", 1, move || work(200)),
            Contestant::new("half of much", 2, move || work(20_000)),
        ];
        let rounds = contest(plan, contestants);
        for at in 0..3 {
            assert_eq!(rounds.of(at).len(), plan.rounds, "{}", rounds.name(at));
        }
        assert!(rounds.median(0) > rounds.median(1), "{rounds:?}");
        assert!(rounds.median(0) > rounds.median(2), "{rounds:?}");
        assert_eq!(rounds.name(rounds.best_after(0)), "little");
        assert_eq!(rounds.name(rounds.best_after(2)), "half of much");
    }
}
