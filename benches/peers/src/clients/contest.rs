//! Threads that call one contestant after the other, together, in an order that rotates.
//!
//! Every thread is bound to a core and knows the whole schedule; barriers keep the threads
//! together. A turn lasts a time and not a number of calls, so no thread waits for another one
//! while it is timed. Ratios are taken within a round.

use std::process;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::load::Tally;
use crate::machine;
use crate::measure::Spread;
use crate::measure::float;
use crate::measure::nanoseconds;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Rounds that count; one more runs before them and is dropped.
    pub rounds: usize,
    /// How long one contestant is called in a round.
    pub turn: Duration,
}

/// What one client did in one turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// What was done and found.
    pub tally: Tally,
    /// How long it took.
    pub wall: Duration,
    /// How long of that the thread ran.
    pub cpu: Duration,
    /// How long each call took, where that was looked at.
    pub latencies: Option<Histogram<u64>>,
}

/// One client of one contestant, on its thread: calls for a time.
pub type Seat<'a> = Box<dyn FnMut(Duration) -> Turn + 'a>;

/// A store with the work that is done on it.
pub struct Contestant<'a> {
    name: &'static str,
    take: Box<dyn Fn(usize) -> Seat<'a> + Sync + 'a>,
}

impl<'a> Contestant<'a> {
    /// `take` makes the client of a number, on that client's thread.
    pub fn new(name: &'static str, take: impl Fn(usize) -> Seat<'a> + Sync + 'a) -> Self {
        Self { name, take: Box::new(take) }
    }
}

/// What is read off a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Nanoseconds an operation of all clients together, by the clock.
    Wall,
    /// Nanoseconds an operation that a processor was busy.
    Cpu,
    /// How many processors were busy: their time over that of the clock.
    Busy,
    /// Which percentage of the keys that were read was found.
    Hits,
    /// What so many thousandths of the calls do not take longer than, in nanoseconds.
    Latency(u16),
}

/// What came out: by contestant and by round.
#[derive(Debug)]
pub struct Results {
    names: Vec<&'static str>,
    /// Of each contestant each round: the turn of each client.
    rounds: Vec<Vec<Vec<Turn>>>,
}

impl Results {
    /// The figures of all rounds of a contestant, by name.
    ///
    /// # Panics
    /// Nobody of that name took part.
    pub fn of(&self, name: &str, figure: Figure) -> Vec<f64> {
        let at = self.names.iter().position(|&one| one == name).expect("it took part");
        self.rounds[at].iter().map(|turns| figure.of(turns)).collect()
    }

    /// The median over the rounds of a contestant.
    pub fn median(&self, name: &str, figure: Figure) -> f64 {
        Spread::of(&self.of(name, figure)).median
    }

    /// Who of these has the least median.
    ///
    /// # Panics
    /// There is none.
    pub fn best<'n>(&self, names: &[&'n str], figure: Figure) -> &'n str {
        let least = |one: &&&str, other: &&&str| {
            self.median(one, figure).total_cmp(&self.median(other, figure))
        };
        names.iter().min_by(least).expect("somebody takes part")
    }

    /// Who took part.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Everybody's operations and what was found, over all rounds.
    fn check(&self, misses_allowed: bool) {
        for (name, rounds) in self.names.iter().zip(&self.rounds) {
            for Turn { tally, .. } in rounds.iter().flatten() {
                assert_eq!(tally.wrong, 0, "{name} read the value of another key");
                assert!(misses_allowed || tally.misses == 0, "{name} missed a key that is there");
            }
        }
    }
}

impl Figure {
    fn of(self, turns: &[Turn]) -> f64 {
        let operations = || turns.iter().map(|turn| float(turn.tally.operations));
        match self {
            Self::Wall => {
                let rate = |(turn, operations): (&Turn, f64)| operations / nanoseconds(turn.wall);
                1.0 / turns.iter().zip(operations()).map(rate).sum::<f64>()
            }
            Self::Cpu => {
                let busy: f64 = turns.iter().map(|turn| nanoseconds(turn.cpu)).sum();
                busy / operations().sum::<f64>()
            }
            Self::Busy => {
                let share = |turn: &Turn| nanoseconds(turn.cpu) / nanoseconds(turn.wall);
                turns.iter().map(share).sum()
            }
            Self::Hits => {
                let sum = |count: fn(&Tally) -> usize| -> f64 {
                    turns.iter().map(|turn| float(count(&turn.tally))).sum()
                };
                100.0 * sum(|tally| tally.hits) / sum(|tally| tally.hits + tally.misses)
            }
            Self::Latency(thousandths) => latency(turns, f64::from(thousandths) / 1000.0),
        }
    }
}

/// What all clients of a round felt.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a call are far below 2^52")]
fn latency(turns: &[Turn], quantile: f64) -> f64 {
    let mut seen = turns.iter().filter_map(|turn| turn.latencies.as_ref());
    let mut all = seen.next().expect("latencies were looked at").clone();
    seen.for_each(|more| all.add(more).expect("all have the same bounds"));
    all.value_at_quantile(quantile) as f64
}

/// Lets so many clients call every contestant in turn.
///
/// # Panics
/// A value was wrong, or a key was missing that had to be there.
pub fn contest(
    pace: Pace,
    clients: usize,
    misses_allowed: bool,
    contestants: &[Contestant<'_>],
) -> Results {
    let barrier = &Barrier::new(clients);
    let by_client: Vec<Vec<Vec<Turn>>> = thread::scope(|scope| {
        let start = |number| {
            let client = move || play(pace, number, contestants, barrier);
            thread::Builder::new().spawn_scoped(scope, client).expect("a thread")
        };
        let threads: Vec<_> = (0..clients).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no client fails")).collect()
    });
    let turns_of = |at: usize, round: usize| -> Vec<Turn> {
        by_client.iter().map(|of| of[at][round].clone()).collect()
    };
    let rounds_of = |at| (0..pace.rounds).map(|round| turns_of(at, round)).collect();
    let results = Results {
        names: contestants.iter().map(|one| one.name).collect(),
        rounds: (0..contestants.len()).map(rounds_of).collect(),
    };
    results.check(misses_allowed);
    results
}

/// All turns of one client: of each contestant each round.
fn play(
    pace: Pace,
    client: usize,
    contestants: &[Contestant<'_>],
    barrier: &Barrier,
) -> Vec<Vec<Turn>> {
    let guard = AbortOnPanic;
    // Where threads cannot be bound, they run where they like, for all contestants alike.
    let _ = machine::pin_client(client);
    let mut seats: Vec<_> = contestants.iter().map(|one| (one.take)(client)).collect();
    let mut turns = vec![Vec::with_capacity(pace.rounds); seats.len()];
    for round in 0..=pace.rounds {
        for step in 0..seats.len() {
            let at = (round + step) % seats.len();
            barrier.wait();
            let turn = seats[at](pace.turn);
            // The first round still pays for cold caches.
            if round > 0 {
                turns[at].push(turn);
            }
        }
    }
    drop(guard);
    turns
}

/// The other clients would wait for one that has failed.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(operations: usize) -> Seat<'static> {
        Box::new(move |lasts| Turn {
            tally: Tally { operations, ..Tally::default() },
            wall: lasts,
            cpu: lasts / 2,
            latencies: None,
        })
    }

    #[test]
    fn rates_are_those_of_all_clients_together() {
        let pace = Pace { rounds: 3, turn: Duration::from_micros(1) };
        let contestants = [
            Contestant::new("slow", |_| seat(10)),
            Contestant::new("fast", |client| seat(20 + 20 * client)),
        ];
        let results = contest(pace, 2, false, &contestants);
        assert_eq!(results.of("slow", Figure::Wall), [50.0; 3]);
        assert_eq!(results.of("slow", Figure::Cpu), [50.0; 3]);
        // 20 and 40 in a microsecond are 60.
        assert!((results.median("fast", Figure::Wall) - 1000.0 / 60.0).abs() < 1e-9);
        assert_eq!(results.best(&["slow", "fast"], Figure::Wall), "fast");
    }

    #[test]
    fn shares_are_those_of_all_clients_together() {
        let seat = |client: usize| -> Seat<'static> {
            let tally = match client {
                0 => Tally { operations: 40, hits: 10, misses: 20, ..Tally::default() },
                _ => Tally { operations: 10, hits: 10, misses: 0, ..Tally::default() },
            };
            let cpu = move |wall: Duration| if client == 0 { wall } else { wall / 2 };
            Box::new(move |lasts| Turn { tally, wall: lasts, cpu: cpu(lasts), latencies: None })
        };
        let pace = Pace { rounds: 1, turn: Duration::from_micros(1) };
        let results = contest(pace, 2, true, &[Contestant::new("one", seat)]);
        assert_eq!(results.of("one", Figure::Hits), [50.0]);
        assert_eq!(results.of("one", Figure::Busy), [1.5]);
    }

    #[test]
    fn latencies_of_all_clients_count() {
        let seat = |client: usize| -> Seat<'static> {
            let mut latencies = Histogram::new_with_bounds(1, 10_000, 3).expect("bounds");
            latencies.record(100 * (client as u64 + 1)).expect("in bounds");
            let latencies = Some(latencies);
            Box::new(move |lasts| Turn {
                tally: Tally::default(),
                wall: lasts,
                cpu: lasts,
                latencies: latencies.clone(),
            })
        };
        let pace = Pace { rounds: 1, turn: Duration::from_nanos(1) };
        let results = contest(pace, 2, false, &[Contestant::new("one", seat)]);
        assert_eq!(results.of("one", Figure::Latency(500)), [100.0]);
        assert_eq!(results.of("one", Figure::Latency(999)), [200.0]);
    }
}
