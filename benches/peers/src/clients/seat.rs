//! Contestants: a store, and the loop in which its clients walk over their scripts.

use std::time::Duration;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::clients::contest::Contestant;
use crate::clients::contest::Turn;
use crate::clients::cpu;
use crate::load::Script;
use crate::load::Tally;
use crate::load::Unwatched;
use crate::load::Walk;
use crate::load::Watch;
use crate::load::in_batches;
use crate::load::one_by_one;
use crate::measure::now;
use crate::stores::Batches;
use crate::stores::Store;

/// The longest latency that is told from longer ones, in nanoseconds.
const LATENCY_MAX: u64 = 10_000_000_000;

/// How single calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Keys lie ready, as those of a request that came in.
    Ready,
    /// Each key is composed just before its call.
    Composed,
    /// Keys lie ready, and every call is timed.
    Watched,
}

/// Calls on one key each.
pub fn singles<'a, S: Store>(
    name: &'static str,
    store: &'a S,
    scripts: &'a [Script],
    way: Way,
) -> Contestant<'a> {
    Contestant::new(name, move |client| {
        let (calls, mut walk) = (store.client(), Walk::over(&scripts[client]));
        let mut latencies = Latencies::new();
        Box::new(move |lasts| match way {
            Way::Ready => {
                timed(|| one_by_one::<false, _>(&calls, &mut walk, lasts, &mut Unwatched))
            }
            Way::Composed => {
                timed(|| one_by_one::<true, _>(&calls, &mut walk, lasts, &mut Unwatched))
            }
            Way::Watched => {
                latencies.begin();
                let watch = &mut latencies;
                let turn = timed(|| one_by_one::<false, _>(&calls, &mut walk, lasts, watch));
                Turn { latencies: Some(latencies.seen.clone()), ..turn }
            }
        })
    })
}

/// Calls on `count` keys each.
pub fn batches<'a, S>(
    name: &'static str,
    store: &'a S,
    scripts: &'a [Script],
    count: usize,
) -> Contestant<'a>
where
    S: Store,
    S::Client<'a>: Batches,
{
    Contestant::new(name, move |client| {
        let (calls, mut walk) = (store.client(), Walk::over(&scripts[client]));
        Box::new(move |lasts| timed(|| in_batches(&calls, &mut walk, count, lasts)))
    })
}

/// Calls on one key each, which nobody has written before: under other labels in every turn, from
/// this one on.
///
/// # Panics
/// A turn was longer than its script.
pub fn newcomers<'a, S: Store>(
    name: &'static str,
    store: &'a S,
    scripts: &'a [Script],
    first_label: u16,
) -> Contestant<'a> {
    Contestant::new(name, move |client| {
        let (calls, mut script) = (store.client(), scripts[client].clone());
        let mut labels = first_label..;
        Box::new(move |lasts| {
            script.relabel(labels.next().expect("turns are few"));
            let mut walk = Walk::over(&script);
            let turn = timed(|| one_by_one::<false, _>(&calls, &mut walk, lasts, &mut Unwatched));
            assert!(turn.tally.operations <= script.steps().len(), "{name} wrote keys twice");
            turn
        })
    })
}

/// The turn that a loop makes.
fn timed(calls: impl FnOnce() -> (Tally, Duration)) -> Turn {
    let before = cpu::used();
    let (tally, wall) = calls();
    Turn { tally, wall, cpu: cpu::used().saturating_sub(before), latencies: None }
}

/// How long calls take: each from the end of the one before, so that the clock is read once a call.
struct Latencies {
    seen: Histogram<u64>,
    last: Instant,
}

impl Latencies {
    fn new() -> Self {
        let bounds = Histogram::new_with_bounds(1, LATENCY_MAX, 3);
        Self { seen: bounds.expect("three digits of any latency below ten seconds"), last: now() }
    }

    fn begin(&mut self) {
        self.seen.reset();
        self.last = now();
    }
}

impl Watch for Latencies {
    #[inline]
    fn note(&mut self) {
        let end = now();
        let took = u64::try_from((end - self.last).as_nanos()).unwrap_or(LATENCY_MAX);
        self.seen.saturating_record(took);
        self.last = end;
    }
}
