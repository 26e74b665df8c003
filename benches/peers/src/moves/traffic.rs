//! Goal M3: what a client feels of moves: the latency of its gets while slots go to and fro.
//!
//! One thread gets keys at random, out of all of them; a second one moves the slots of one node to
//! another and back, or, in the run that is compared with, only burns a core.
//! So both runs share the machine with as busy a thread, and what differs is the moves.
//! The client is bound to the last core; the second thread, and the workers on which batches of
//! keys run, are bound to another one, in all runs alike.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::Scope;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use slotkeep::Client;
use slotkeep::Cluster;
use slotkeep::Node;
use slotkeep::SlotSet;
use slotkeep::reshard::MoveKind;
use slotkeep::reshard::Reshard;

use crate::machine;
use crate::measure::Plan;
use crate::measure::Spread;
use crate::measure::float;
use crate::measure::nanoseconds;
use crate::measure::now;
use crate::moves::stage::VALUE;
use crate::random::Random;
use crate::report::Bound::AtMost;
use crate::report::Goal;
use crate::report::Line;

/// How many keys there are, over all slots.
const KEYS: usize = 100_000;

/// Rounds that count.
pub const ROUNDS: usize = 9;

/// How long the runs of the dropped round last.
const WARM_UP: Duration = Duration::from_millis(300);

/// The longest latency that is told from longer ones, in nanoseconds.
const LATENCY_MAX: u64 = 10_000_000_000;

/// What the second thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Burn,
    Move(MoveKind),
}

/// The runs of a round: the one that is compared with comes first.
const RUNS: [Beside; 3] =
    [Beside::Burn, Beside::Move(MoveKind::Handover), Beside::Move(MoveKind::Classic)];

/// Every round of one sort of run.
#[derive(Default)]
struct Felt {
    /// Nanoseconds of a get: the middle one, the mean, and what 1 % and 0.1 % take longer than.
    p50: Vec<f64>,
    mean: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    /// How many of a hundred gets were sent on.
    redirected: Vec<f64>,
    /// Nanoseconds of the move of a slot.
    slot: Vec<f64>,
}

/// What a client has seen in one run.
struct Gets {
    latencies: Histogram<u64>,
    /// Nanoseconds of a call, with what the loop around it takes.
    mean: f64,
    /// How many of a hundred calls were sent on to another node.
    redirected: f64,
}

/// What a client and the moves beside it share.
struct Rig {
    cluster: Cluster,
    client: Client,
    keys: Vec<String>,
    home: Node,
    away: Node,
    /// The slots of `home`, which go to and fro.
    slots: SlotSet,
}

/// The lines of the goal, for both kinds of moves.
pub fn lines(plan: Plan) -> Vec<Line> {
    let rig = Rig::new();
    let mut felt = RUNS.map(|_| Felt::default());
    for round in 0..=ROUNDS {
        for step in 0..RUNS.len() {
            let at = (round + step) % RUNS.len();
            let (gets, slot) = rig.run(RUNS[at], if round == 0 { WARM_UP } else { lasts(plan) });
            // The first round still pays for cold caches.
            if round > 0 {
                felt[at].note(&gets, slot);
            }
        }
    }
    let [burn, handover, classic] = &felt;
    let mut lines = against_burnt(["M3a", "M3b", "M3c", "M3d"], "handovers", (handover, burn));
    lines.extend(against_burnt(["M3e", "M3f", "M3g", "M3h"], "classic", (classic, burn)));
    let goal = format!("a handover beside gets, {} slots/s", rate(&handover.slot));
    let rival = format!("classic, {}/s", rate(&classic.slot));
    lines.push(Goal::free("M3i", goal).judge(&handover.slot, &rival, &classic.slot));
    lines
}

/// How long a run lasts.
fn lasts(plan: Plan) -> Duration {
    Duration::from_millis(if plan.quick { 500 } else { 5000 })
}

/// What gets took beside moves, held against what they took beside a burnt core.
fn against_burnt(ids: [&'static str; 4], name: &str, (moves, burn): (&Felt, &Felt)) -> Vec<Line> {
    let [p99, p50, p999, mean] = ids;
    let goal =
        |id, figure: &str| Goal::free(id, format!("get beside {name}, {figure}")).aim(AtMost(1.5));
    let rival = "a burnt core";
    let mean_rival = format!("burnt core, {}/s", rate(&burn.mean));
    let redirected = Spread::of(&moves.redirected).median;
    let p99_figure = format!("p99, {redirected:.1} % redirected");
    let mean_figure = format!("mean, {} calls/s", rate(&moves.mean));
    vec![
        goal(p99, &p99_figure).demand(AtMost(3.0)).judge(&moves.p99, rival, &burn.p99),
        goal(p50, "p50").judge(&moves.p50, rival, &burn.p50),
        goal(p999, "p99.9").judge(&moves.p999, rival, &burn.p999),
        goal(mean, &mean_figure).judge(&moves.mean, &mean_rival, &burn.mean),
    ]
}

/// How many a second there are of what takes so many nanoseconds, in the median.
fn rate(nanoseconds: &[f64]) -> String {
    match 1e9 / Spread::of(nanoseconds).median {
        many if many >= 1e6 => format!("{:.1} M", many / 1e6),
        some => format!("{:.1} k", some / 1e3),
    }
}

impl Felt {
    fn note(&mut self, gets: &Gets, slot: Option<f64>) {
        let at = |quantile| float_of(gets.latencies.value_at_quantile(quantile));
        self.p50.push(at(0.5));
        self.p99.push(at(0.99));
        self.p999.push(at(0.999));
        self.mean.push(gets.mean);
        self.redirected.push(gets.redirected);
        self.slot.extend(slot);
    }
}

impl Rig {
    /// Three nodes, so that a third one hears of the moves; its workers are where movers are.
    fn new() -> Self {
        thread::scope(|scope| {
            let built =
                start(scope, machine::pin_apart, || Self::build().expect("a cluster with keys"));
            built.join().expect("the cluster is built")
        })
    }

    fn build() -> Result<Self, slotkeep::Error> {
        let cluster = Cluster::builder().nodes(3).build()?;
        let client = cluster.client();
        let keys: Vec<_> = (0..KEYS).map(|number| format!("name:{number:015}")).collect();
        for key in &keys {
            client.set(key, &VALUE)?;
        }
        let mut nodes = cluster.nodes().into_iter();
        let [home, away] = [(); 2].map(|()| nodes.next().expect("there are three nodes"));
        let slots = home.slots();
        Ok(Self { cluster, client, keys, home, away, slots })
    }

    /// One run; the latencies of the gets, and the time of a slot's move.
    fn run(&self, beside: Beside, lasts: Duration) -> (Gets, Option<f64>) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let second = start(scope, machine::pin_apart, || match beside {
                Beside::Burn => burn(&over),
                Beside::Move(kind) => Some(self.move_until(kind, &over)),
            });
            let gets = start(scope, machine::pin, || self.get_for(lasts)).join();
            over.store(true, Ordering::Relaxed);
            (gets.expect("the gets end"), second.join().expect("the second thread ends"))
        })
    }

    fn get_for(&self, lasts: Duration) -> Gets {
        let mut random = Random::new();
        let bounds = Histogram::new_with_bounds(1, LATENCY_MAX, 3);
        let mut latencies = bounds.expect("three digits of any latency below ten seconds");
        let (before, start) = (self.cluster.redirect_count(), now());
        loop {
            let key = &self.keys[random.below(self.keys.len())];
            let began = now();
            let value = self.client.get(key).expect("it is served");
            let ended = now();
            assert!(value.is_some(), "every key is there");
            latencies.saturating_record(whole(ended - began));
            if ended - start >= lasts {
                let calls = float_of(latencies.len());
                let redirects = float_of(self.cluster.redirect_count() - before);
                let mean = nanoseconds(ended - start) / calls;
                return Gets { latencies, mean, redirected: 100.0 * redirects / calls };
            }
        }
    }

    /// Moves the slots away and back until it is over; then brings those back that are away.
    /// Returns what the move of a slot took.
    fn move_until(&self, kind: MoveKind, over: &AtomicBool) -> f64 {
        let (mut moved, start) = (0, now());
        let mut ends = [&self.home, &self.away];
        while !over.load(Ordering::Relaxed) {
            moved += self.one_way(kind, ends, || over.load(Ordering::Relaxed));
            ends.reverse();
        }
        let slot = nanoseconds(now() - start) / float(moved);
        self.one_way(MoveKind::Handover, [&self.away, &self.home], || false);
        slot
    }

    /// Moves those of the slots that are at the first end to the other one; how many went.
    fn one_way(&self, kind: MoveKind, ends: [&Node; 2], is_over: impl Fn() -> bool) -> usize {
        let [source, target] = ends;
        let slots = self.slots.intersection(&source.slots());
        let reshard = Reshard::of(&self.cluster).by(kind);
        let planned = reshard.move_slots(&slots, source.id(), target.id());
        let moves = planned.expect("the slots are the source's").on_progress(|_| {
            if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        moves.run().expect("the slots move").slots_moved
    }
}

/// A thread that is bound by `pin` first.
fn start<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    pin: fn() -> Option<usize>,
    work: impl FnOnce() -> T + Send + 's,
) -> ScopedJoinHandle<'s, T> {
    let pinned = move || {
        // Where threads cannot be bound, they run where they like, in all runs alike.
        let _ = pin();
        work()
    };
    thread::Builder::new().spawn_scoped(scope, pinned).expect("a thread")
}

/// Computes until it is over, in the processor alone.
fn burn(over: &AtomicBool) -> Option<f64> {
    let mut random = Random::new();
    while !over.load(Ordering::Relaxed) {
        black_box(random.next());
    }
    None
}

/// Nanoseconds of a latency; longer than the longest is as long.
fn whole(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX)
}

/// Counts of calls and latencies in nanoseconds are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn float_of(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_move_beside_gets_and_are_back_home_after_the_run() {
        let rig = Rig::new();
        for kind in [MoveKind::Handover, MoveKind::Classic] {
            let (gets, slot) = rig.run(Beside::Move(kind), Duration::from_millis(50));
            assert!(!gets.latencies.is_empty(), "{kind:?}");
            assert!(slot.is_some_and(f64::is_finite), "{kind:?} moved no slot");
            assert_eq!(rig.home.slots(), rig.slots, "{kind:?}");
        }
    }

    #[test]
    fn rates_are_written_with_their_magnitude() {
        assert_eq!(rate(&[250.0, 250.0, 9.0]), "4.0 M");
        assert_eq!(rate(&[20_000.0]), "50.0 k");
    }
}
