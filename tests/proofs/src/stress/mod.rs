//! Stress: threads call a few keys of a few slots that never stop moving, and every answer counts.
//!
//! Clients record what they asked and heard with ticks of one counter and readings of the virtual
//! clock. Movers move the slots to and fro, turn round with keys on both sides, drop drivers and
//! take over. A thread moves the clock in small steps, onto deadlines and past them, while the
//! workers sweep. At the end the history of each key is checked for linearizability.

mod movers;
mod traffic;
mod verdict;

pub use self::verdict::{Failure, Report};

use std::collections::BTreeMap;
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use parking_lot::Mutex;
use slotkeep::{Cluster, Error, Fault, MoveId, MoveRecord, Ownership, SetOptions, Slot};

use self::movers::Mover;
use self::traffic::Traffic;

/// How far the clock jumps at once. Deadlines are whole multiples of it, so that it stops on them.
pub const CLOCK_STEP: Duration = Duration::from_millis(10);

const NODES: usize = 4;
const SLOTS: usize = 2;
const KEYS_PER_SLOT: usize = 5;

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
    /// What is broken on purpose.
    pub fault: Option<Fault>,
}

/// Runs a plan and checks all of it.
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
    let mut events: Vec<Vec<traffic::Recorded>> = vec![Vec::new(); SLOTS * KEYS_PER_SLOT];
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
        let clock = scope.spawn(|| arena.drive_clock());
        let clients: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        arena.stop.store(true, Ordering::SeqCst);
        let movers: Vec<_> = movers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let clock = clock.join();
        drop(ended);
        (clients, movers, clock)
    });
    let (clients, movers, clock) = joined;
    clock.map_err(|_| Failure::Panicked("the clock"))?;
    for client in clients {
        let (recorded, counted) = client.map_err(|_| Failure::Panicked("a client"))??;
        tally.add(&counted);
        for (key, event) in recorded {
            events[key].push(event);
        }
    }
    for mover in movers {
        tally.add(&mover.map_err(|_| Failure::Panicked("a mover"))??);
    }
    verdict::check(&arena, events, tally)
}

/// What all threads of a run share.
struct Arena {
    plan: Plan,
    cluster: Cluster<u64>,
    slots: Vec<Slot>,
    /// The keys of each slot, one slot after another.
    keys: Vec<String>,
    /// The wall clock's time when the cluster began.
    began: SystemTime,
    /// Drawn before each call and after it.
    ticks: AtomicU64,
    stop: AtomicBool,
    /// By slot: the open move that has sent keys, 0 for none. A hint, which the clients check.
    split: [AtomicU64; SLOTS],
    /// The moves that have ended.
    ended: Mutex<BTreeMap<MoveId, MoveRecord>>,
    /// What each client does, for the dump.
    doing: Mutex<Vec<(&'static str, usize)>>,
}

impl Arena {
    fn new(plan: Plan) -> Self {
        let builder = Cluster::builder().nodes(NODES).workers_per_node(1);
        let mut builder = builder.ownership(plan.ownership).stopped_clock().values::<u64>();
        if let Some(fault) = plan.fault {
            builder = builder.fault(fault);
        }
        let cluster = builder.build().expect("a cluster of four nodes");
        let keys: Vec<String> = (0..SLOTS * KEYS_PER_SLOT)
            .map(|key| format!("{{tag{}}}:{}", key / KEYS_PER_SLOT, key % KEYS_PER_SLOT))
            .collect();
        let slots: Vec<Slot> = keys.iter().step_by(KEYS_PER_SLOT).map(Slot::of).collect();
        Self {
            plan,
            began: began(&cluster).expect("a key of its own is served"),
            cluster,
            slots,
            keys,
            ticks: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            split: [const { AtomicU64::new(0) }; SLOTS],
            ended: Mutex::default(),
            doing: Mutex::new(vec![("nothing", 0); usize::from(plan.clients)]),
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

    fn drive_clock(&self) {
        let mut rng = Rng::with_seed(!self.plan.seed);
        while !self.is_over() {
            self.pause(rng.u64(20..80));
            self.cluster.advance(CLOCK_STEP);
        }
    }

    /// Ends the process when nobody gets on: threads that hang cannot be joined.
    fn watch(&self, ended: &Receiver<()>) {
        let mut seen = 0;
        while ended.recv_timeout(STALL) == Err(RecvTimeoutError::Timeout) {
            let ticks = self.ticks.load(Ordering::SeqCst);
            if ticks == seen {
                eprintln!("nobody got on for {STALL:?} after {ticks} ticks, {:?}", self.plan);
                eprintln!("clients, last call and key: {:?}", self.doing.lock());
                let open = self.cluster.moves();
                let open = open.iter().filter(|record| !record.phase.is_ended());
                open.for_each(|record| eprintln!("open: {record:?}"));
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
