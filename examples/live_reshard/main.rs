//! A node joins a cluster under load, and nothing is lost, stale, duplicated or left unanswered.
//!
//! Client threads read, write, count, append and remove; meanwhile slots move. Each key has one
//! writer, and its life is written down beforehand (`script`), so that every read is checked
//! while it runs (`ledger`, `load`) and everything again at the end (`verify`). The last line
//! counts what went wrong, and the exit code is 1 if anything did.

mod keys;
mod ledger;
mod load;
mod moves;
mod plant;
mod report;
mod script;
mod verify;
mod watchdog;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, value_parser};
use slotkeep::{Cluster, Node};

use keys::Keys;
use ledger::Ledger;
use load::Load;
use moves::keep_moving;
use plant::Plant;
use report::{Summary, Tally};
use verify::verify;
use watchdog::Watchdog;

/// How many client threads there are.
const CLIENTS: usize = 4;

/// A node joins a cluster under load; every read and every acknowledged write is checked.
#[derive(Parser)]
#[command(name = "live_reshard")]
struct Args {
    /// Take keys from a file, one a line; `-` is stdin. A second column is ignored
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    keys: Option<PathBuf>,

    /// How many keys to make up
    #[arg(long, default_value_t = 50_000, value_parser = value_parser!(u32).range(1..=1 << 21))]
    count: u32,

    /// How long traffic runs; longer, if the join takes longer
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// How many nodes there are before one joins
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u16).range(1..=256))]
    nodes: u16,

    /// Print the summary once more as JSON, on the line before the last
    #[arg(long)]
    json: bool,

    /// Break the run on purpose: the count of that name must not be 0 at the end
    #[arg(long)]
    plant: Option<Plant>,
}

/// What the threads of a run share.
struct Run {
    cluster: Cluster,
    ledger: Ledger,
    watchdog: Watchdog,
    /// The cluster's clock is the run's.
    clock: Node,
    plant: Option<Plant>,
    /// Traffic does not end before the node has joined.
    joined: AtomicBool,
    /// The number of the slot that is moving: a part of the traffic goes there.
    moving: AtomicU16,
    /// How many client threads are running; moves do not end before they do.
    running: AtomicUsize,
}

/// When traffic ends, and when faults are planted, by the cluster's clock.
#[derive(Clone, Copy)]
struct Hours {
    plants: Duration,
    ends: Duration,
}

fn main() -> ExitCode {
    let args = Args::parse();
    eprintln!("{} nodes, {CLIENTS} client threads, {} s", args.nodes, args.seconds);
    let keys = args.keys.as_deref().map_or_else(|| Ok(Keys::made_up(args.count)), read_keys);
    let keys = match keys {
        Ok(keys) => keys,
        Err(error) => Args::command().error(ErrorKind::Io, error).exit(),
    };
    match run(&args, keys) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("the run could not be made: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read_keys(path: &Path) -> io::Result<Keys> {
    Keys::read(path).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot take keys from {}: {error}", path.display()))
    })
}

fn run(args: &Args, keys: Keys) -> Result<ExitCode, Box<dyn Error>> {
    let cluster = Cluster::builder().nodes(args.nodes.into()).build()?;
    let clock = cluster.nodes().into_iter().next().ok_or("a cluster has a node")?;
    let run = Run {
        cluster,
        ledger: Ledger::new(keys, CLIENTS),
        // The mover and the verifier call as well.
        watchdog: Watchdog::new(CLIENTS + 2, Plant::patience(args.plant)),
        clock,
        plant: args.plant,
        joined: AtomicBool::new(false),
        moving: AtomicU16::new(0),
        running: AtomicUsize::new(CLIENTS),
    };
    let findings = &run.ledger.findings;
    let summary = thread::scope(|scope| {
        let _stopped = OnDrop(|| run.watchdog.stop());
        spawn(scope, "watchdog", || run.watchdog.watch(&run.clock, findings));
        watched(&run, args)
    })?;
    summary.print();
    if args.json {
        summary.print_json(findings);
    }
    println!("{}", findings.line());
    let clean = findings.counts().iter().all(|&count| count == 0);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fill, traffic and moves, verification.
fn watched(run: &Run, args: &Args) -> Result<Summary, Box<dyn Error>> {
    on_clients(run, |load: &mut Load<'_>| load.fill())?;
    eprintln!("{} keys are there; node {} joins", run.ledger.keys.len(), args.nodes);
    let (began, lasts) = (run.clock.uptime(), Duration::from_secs(args.seconds));
    let hours = Hours { plants: began + lasts / 3, ends: began + lasts };
    let (tally, moved) = thread::scope(|scope| {
        let mover = spawn(scope, "mover", || {
            let _joined = OnDrop(|| run.joined.store(true, Ordering::Release));
            keep_moving(run, CLIENTS)
        });
        let tally = on_clients(run, |load| {
            let _ended = OnDrop(|| {
                run.running.fetch_sub(1, Ordering::Release);
            });
            load.run(hours);
        });
        Ok::<_, Box<dyn Error>>((tally?, mover.join().map_err(|_| "the mover has panicked")?))
    })?;
    let elapsed = run.clock.uptime().saturating_sub(began);
    if let Some(plant) = run.plant {
        plant.after_traffic(&run.cluster, &run.ledger)?;
    }
    verify(run, CLIENTS + 1);
    let counters = run.cluster.counters();
    Ok(Summary {
        keys: run.ledger.keys.len(),
        nodes: args.nodes.into(),
        threads: CLIENTS,
        elapsed,
        tally,
        moved,
        redirects: counters.redirects,
        try_agains: counters.try_agains,
    })
}

/// Runs `work` on every client thread and adds up their tallies.
fn on_clients(run: &Run, work: impl Fn(&mut Load<'_>) + Sync) -> Result<Tally, Box<dyn Error>> {
    let work = &work;
    let threads = thread::scope(|scope| {
        let thread = |index| {
            spawn(scope, "client", move || {
                let mut load = Load::new(run, index);
                work(&mut load);
                load.tally
            })
        };
        let threads: Vec<_> = (0..CLIENTS).map(thread).collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut sum = Tally::default();
    for tally in threads {
        sum.add(&tally.map_err(|_| "a client thread has panicked")?);
    }
    Ok(sum)
}

/// A named thread. Without its threads there is no run, and others may wait for this one.
fn spawn<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 's,
) -> ScopedJoinHandle<'s, T> {
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).unwrap_or_else(|error| {
        eprintln!("no thread for the {name}: {error}");
        std::process::exit(1)
    })
}

/// Runs a closure at the end of a scope, a panic included, so that nobody waits for ever.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
