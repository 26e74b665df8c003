//! A node joins a cluster under load, and nothing is lost, stale, duplicated or left unanswered.
//!
//! Client threads read, write, count, append and remove; meanwhile slots move. Each key has one
//! writer, and its life is written down beforehand (`script`), so that every read is checked
//! while it runs (`ledger`, `load`) and everything again at the end (`verify`). The last line
//! counts what went wrong, and the exit code is 1 if anything did. Slots move in both ways that the
//! engine has, one half of the time each, unless one is asked for.

mod keys;
mod latency;
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
use slotkeep::reshard::MoveKind;
use slotkeep::{Cluster, Node};

use keys::Keys;
use ledger::Ledger;
use load::Load;
use moves::{Way, keep_moving};
use plant::Plant;
use report::{Part, Summary, Tally, plural};
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

    /// How slots move: whole, key by key, or each for one half of the time
    #[arg(long = "move", value_name = "WAY", default_value = "both")]
    way: Way,

    /// How long traffic runs; longer, until the moves that are on their way have ended
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
    /// How slots move, each for its part of the time.
    kinds: &'static [MoveKind],
    /// Which of them is at work.
    part: AtomicUsize,
    /// Traffic does not end before the moves do.
    moves_over: AtomicBool,
    /// The number of the slot that is moving: a part of the traffic goes there.
    moving: AtomicU16,
}

/// When traffic ends, and when faults are planted, by the cluster's clock.
#[derive(Clone, Copy)]
struct Hours {
    plants: Duration,
    ends: Duration,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let nodes = plural(args.nodes.into(), "node");
    eprintln!("{nodes}, {CLIENTS} client threads, {} s", args.seconds);
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
        kinds: args.way.kinds(),
        part: AtomicUsize::new(0),
        moves_over: AtomicBool::new(false),
        moving: AtomicU16::new(0),
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
    let keys = run.ledger.keys.len();
    let there = if keys == 1 { "is" } else { "are" };
    eprintln!("{} {there} there; node {} joins", plural(keys as u64, "key"), args.nodes);
    let (begins, lasts) = (run.clock.uptime(), Duration::from_secs(args.seconds));
    let part = lasts / u32::try_from(run.kinds.len())?;
    let hours = Hours { plants: begins + lasts / 3, ends: begins + lasts };
    let (tallies, moved) = thread::scope(|scope| {
        let mover = spawn(scope, "mover", || {
            let _over = OnDrop(|| run.moves_over.store(true, Ordering::Release));
            keep_moving(run, CLIENTS, part)
        });
        let tallies = on_clients(run, |load| load.run(hours));
        Ok::<_, Box<dyn Error>>((tallies?, mover.join().map_err(|_| "the mover has panicked")?))
    })?;
    let elapsed = run.clock.uptime().saturating_sub(begins);
    if let Some(plant) = run.plant {
        plant.after_traffic(&run.cluster, &run.ledger)?;
    }
    verify(run, CLIENTS + 1);
    let parts = run.kinds.iter().zip(tallies).zip(moved);
    let parts = parts.map(|((&kind, tally), moved)| Part { kind, tally, moved }).collect();
    Ok(Summary { keys, nodes: args.nodes.into(), threads: CLIENTS, elapsed, parts })
}

/// Runs `work` on every client thread and adds up their tallies, part by part.
fn on_clients(
    run: &Run,
    work: impl Fn(&mut Load<'_>) + Sync,
) -> Result<Vec<Tally>, Box<dyn Error>> {
    let work = &work;
    let threads = thread::scope(|scope| {
        let thread = |index| {
            spawn(scope, "client", move || {
                let mut load = Load::new(run, index);
                work(&mut load);
                load.tallies
            })
        };
        let threads: Vec<_> = (0..CLIENTS).map(thread).collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut sums = vec![Tally::default(); run.kinds.len()];
    for tallies in threads {
        let tallies = tallies.map_err(|_| "a client thread has panicked")?;
        sums.iter_mut().zip(&tallies).for_each(|(sum, tally)| sum.add(tally));
    }
    Ok(sums)
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
