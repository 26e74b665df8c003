//! Stress: threads call a few keys of a few slots that never stop moving, and every answer counts.
//!
//! Clients record what they asked and heard with ticks of one counter and readings of the virtual
//! clock. Movers take the slots to and fro, key by key, in one hold or in sets; they turn round
//! with keys on both sides, drop drivers, take over and repair. A thread moves the clock in small
//! steps, onto deadlines and past them, while the workers sweep, and lets messages between the
//! nodes come late or never. Nodes may be bounded, so that they evict all the time. At the end the
//! history of each key is checked for linearizability.
//!
//! A long run is a series of rounds, each with a cluster and a seed of its own, so that what is
//! recorded stays small: every round is checked before the next one begins.

mod handovers;
mod movers;
mod report;
mod traffic;
mod verdict;
mod weather;

pub use self::report::Report;
pub use self::verdict::Failure;

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use parking_lot::Mutex;
use slotkeep::{Bound, Cluster, Error, Fault, MoveId, MoveRecord, Ownership, SetOptions, Slot};

use self::movers::Mover;
use self::traffic::Recorded;
use self::traffic::Traffic;

/// How far the clock jumps at once. Deadlines are whole multiples of it, so that it stops on them.
pub const CLOCK_STEP: Duration = Duration::from_millis(10);

/// How many calls a round of a long run makes: what is recorded of them takes some 30 MB.
pub const ROUND_CALLS: u64 = 250_000;

const NODES: usize = 4;
const SLOTS: usize = 3;
const KEYS_PER_SLOT: usize = 3;
const KEYS: usize = SLOTS * KEYS_PER_SLOT;

/// A history for each key, then one for the pair of keys of each slot.
const HISTORIES: usize = KEYS + SLOTS;

/// How long nobody may get on before the run is given up.
const STALL: Duration = Duration::from_secs(60);

/// A pause ends after so many yields, whether or not others got on.
const YIELDS_MAX: u32 = 60;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides what is called; the order of the threads is the machine's.
    pub seed: u64,
    /// Threads that call.
    pub clients: u8,
    /// Threads that move slots.
    pub movers: u8,
    /// How many calls all clients make.
    pub calls: u64,
    /// Who runs operations.
    pub ownership: Ownership,
    /// How many entries each node may hold; unbounded without it.
    pub bound: Option<u64>,
    /// What is broken on purpose.
    pub fault: Option<Fault>,
}

/// Runs the plan of each seed, and checks each round before the next one.
///
/// # Errors
/// The first thing that was not right; what was printed last names the seed of its round.
///
/// # Panics
/// As [`run`].
pub fn run_rounds(plan_of: fn(u64) -> Plan, seeds: Range<u64>) -> Result<Report, Failure> {
    let mut total = Report::default();
    for seed in seeds {
        let round = run(&plan_of(seed))?;
        total.add(&round);
        let (calls, moves, faults) = (total.calls, total.moves(), total.faults());
        println!("up to seed {seed}: {calls} calls, {moves} moves, {faults} faults");
    }
    Ok(total)
}

/// Runs one round and checks all of it.
///
/// # Errors
/// The first thing that was not right.
///
/// # Panics
/// When no cluster or thread can be made. When nobody gets on for a minute the process ends, with a
/// dump.
pub fn run(plan: &Plan) -> Result<Report, Failure> {
    println!("{plan:?}");
    let arena = Arena::new(*plan);
    let mut rng = Rng::with_seed(plan.seed);
    let mut tally = Report::default();
    let mut histories: Vec<Vec<Recorded>> = vec![Vec::new(); HISTORIES];
    let (ended, watched) = channel::<()>();
    let joined = thread::scope(|scope| {
        let arena = &arena;
        scope.spawn(move || arena.watch(&watched));
        let clients: Vec<_> = (0..plan.clients)
            .map(|number| (number, rng.fork()))
            .map(|(number, rng)| scope.spawn(move || Traffic::new(arena, number, rng).run()))
            .collect();
        let movers: Vec<_> = (0..plan.movers)
            .map(|_| rng.fork())
            .map(|rng| scope.spawn(move || Mover::new(arena, rng).run()))
            .collect();
        let weather = scope.spawn(|| weather::run(arena));
        let clients: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        arena.stop.store(true, Ordering::SeqCst);
        let movers: Vec<_> = movers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let weather = weather.join();
        drop(ended);
        (clients, movers, weather)
    });
    let (clients, movers, weather) = joined;
    tally.add(&weather.map_err(|_| Failure::Panicked("the weather"))?);
    for client in clients {
        let (recorded, counted) = client.map_err(|_| Failure::Panicked("a client"))??;
        tally.add(&counted);
        for (history, event) in recorded {
            histories[history].push(event);
        }
    }
    for mover in movers {
        tally.add(&mover.map_err(|_| Failure::Panicked("a mover"))??);
    }
    verdict::check(&arena, histories, tally)
}

/// What all threads of a round share.
struct Arena {
    plan: Plan,
    cluster: Cluster<u64>,
    slots: Vec<Slot>,
    /// The keys of each slot, one slot after another.
    keys: Vec<String>,
    /// By slot: two more keys, which are only ever written together, with one value.
    pairs: Vec<[String; 2]>,
    /// The wall clock's time when the cluster began.
    began: SystemTime,
    /// Drawn before each call and after it.
    ticks: AtomicU64,
    stop: AtomicBool,
    /// By slot: the open move that has sent keys, 0 for none. A hint, which the others check.
    split: [AtomicU64; SLOTS],
    /// The moves that have ended.
    ended: Mutex<BTreeMap<MoveId, MoveRecord>>,
    /// What each client does, for the dump.
    doing: Vec<Mutex<(&'static str, usize)>>,
}

impl Arena {
    fn new(plan: Plan) -> Self {
        let builder = Cluster::builder().nodes(NODES).workers_per_node(1);
        let mut builder = builder.ownership(plan.ownership).stopped_clock().values::<u64>();
        if let Some(entries) = plan.bound {
            builder = builder.bound(Bound::Entries(entries));
        }
        if let Some(fault) = plan.fault {
            builder = builder.fault(fault);
        }
        let cluster = builder.build().expect("a cluster of four nodes");
        let keys: Vec<String> = (0..KEYS)
            .map(|key| format!("{{tag{}}}:{}", key / KEYS_PER_SLOT, key % KEYS_PER_SLOT))
            .collect();
        let pair = |slot| ["one", "other"].map(|half| format!("{{tag{slot}}}:{half}"));
        Self {
            plan,
            began: began(&cluster).expect("a key of its own is served"),
            cluster,
            slots: keys.iter().step_by(KEYS_PER_SLOT).map(Slot::of).collect(),
            keys,
            pairs: (0..SLOTS).map(pair).collect(),
            ticks: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            split: [const { AtomicU64::new(0) }; SLOTS],
            ended: Mutex::default(),
            doing: (0..plan.clients).map(|_| Mutex::new(("nothing", 0))).collect(),
        }
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.cluster.now().as_nanos()).expect("a run of less than 500 years")
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Lets others get on by so many ticks.
    fn pause(&self, ticks: u64) {
        let goal = self.ticks.load(Ordering::SeqCst).saturating_add(ticks);
        for _ in 0..YIELDS_MAX {
            if self.ticks.load(Ordering::SeqCst) >= goal || self.is_over() {
                return;
            }
            thread::yield_now();
        }
    }

    /// What history `index` is about.
    fn name_of(&self, history: usize) -> &str {
        self.keys.get(history).unwrap_or_else(|| &self.pairs[history - KEYS][0])
    }

    /// What a pair holds, which an eviction may have taken one half of.
    fn joined(&self, [one, other]: [Option<u64>; 2]) -> Result<Option<u64>, Failure> {
        let may_lack_half = self.plan.bound.is_some();
        match (one, other) {
            (None, half) | (half, None) if may_lack_half => Ok(half),
            _ if one == other => Ok(one),
            _ => Err(Failure::Torn(one, other)),
        }
    }

    fn note_end(&self, id: Option<MoveId>) {
        let record = id.and_then(|id| self.cluster.move_record(id));
        if let Some(record) = record.filter(|record| record.phase.is_ended()) {
            self.ended.lock().insert(record.id, record);
        }
    }

    /// Ends the process when nobody gets on: threads that hang cannot be joined.
    fn watch(&self, ended: &Receiver<()>) {
        let mut seen = 0;
        while ended.recv_timeout(STALL) == Err(RecvTimeoutError::Timeout) {
            let ticks = self.ticks.load(Ordering::SeqCst);
            if ticks == seen {
                eprintln!("nobody got on for {STALL:?} after {ticks} ticks, {:?}", self.plan);
                eprintln!("clients, last call and history: {:?}", self.doing);
                let open = self.cluster.moves();
                let open = open.iter().filter(|record| !record.phase.is_ended());
                open.for_each(|record| eprintln!("open: {record:?}"));
                eprintln!("open sets: {:?}", self.cluster.handovers());
                exit(1);
            }
            seen = ticks;
        }
    }
}

/// When a cluster began, by the wall clock: a deadline there, less what is left of it.
fn began(cluster: &Cluster<u64>) -> Result<SystemTime, Error> {
    let (client, far) = (cluster.client(), SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 32));
    client.set_with("began", 0, &SetOptions::new().expire_at(far))?;
    let left = client.ttl("began")?.flatten().expect("a deadline");
    client.remove("began")?;
    Ok(far - left - cluster.now())
}
