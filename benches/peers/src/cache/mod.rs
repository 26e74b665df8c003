//! `cargo peers cache`: how much caches of a bounded size find, on traces of real systems and on
//! generated ones, and how fast they are.
//!
//! What is found is not timed: one thread asks for one key after the other, and what is missing is
//! offered to the cache. So these figures come out the same everywhere.

mod contender;
mod contest;
mod curves;
mod generate;
mod goals;
mod judge;
mod program;
mod reader;
mod speed;
mod trace;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cache::contender::CONTENDERS;
use crate::cache::contender::Contender;
use crate::cache::contest::Outcome;
use crate::cache::generate::Scale;
use crate::cache::program::Program;
use crate::cache::speed::Extent as SpeedExtent;
use crate::command::Flags;
use crate::machine;
use crate::report::Entry;
use crate::twice::twice;

/// What the figures depend on besides this package.
const PACKAGES: [&str; 4] = ["slotkeep", "moka", "quick_cache", "ahash"];

/// What `cargo peers cache` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,
    /// Read traces of real systems from this folder: gzip files NAME.keys.gz, one access a line,
    /// the key and perhaps the entry's weight. Without it only generated ones are played.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Draw the curves of hit ratios over sizes to this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Play only these traces, by name.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    trace: Vec<String>,
    /// Let only these take part, by name; the goals are then about these.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    contender: Vec<String>,
}

/// How much is played.
#[derive(Clone, Copy, Debug)]
struct Extent {
    generated: Scale,
    /// Accesses of a trace from a file, at most.
    accesses_max: usize,
    /// Caches whose hits depend on hashes are averaged over so many seeds.
    seeds: u64,
    speed: SpeedExtent,
}

const FULL: Extent =
    Extent { generated: Scale::FULL, accesses_max: usize::MAX, seeds: 3, speed: SpeedExtent::FULL };

/// A tenth or less: enough to warn.
const QUICK: Extent =
    Extent { generated: Scale::QUICK, accesses_max: 50_000, seeds: 1, speed: SpeedExtent::QUICK };

/// How a goal is told.
type Tell = fn(&Outcome) -> Vec<Entry>;

/// How a goal is timed.
type Measure = fn(SpeedExtent) -> Vec<Entry>;

/// A goal of either sort.
type Goal<'a> = (&'static str, Box<dyn FnOnce() -> Vec<Entry> + 'a>);

/// The goals on what is found, by number, in the order in which they are printed.
const FOUND: [(&str, Tell); 4] = [
    (goals::FIGURES, goals::table),
    (goals::MEAN, goals::mean),
    (goals::TRACES, goals::traces),
    (goals::DRAFTS, goals::drafts),
];

/// The goals on speed, which come after them.
const TIMED: [(&str, Measure); 3] = [
    (speed::MOSTLY_READS, speed::mostly_reads),
    (speed::FETCHES, speed::fetches),
    (speed::NEW_KEYS, speed::new_keys),
];

/// Plays, times and prints; fails where the file system does, or a file is no trace.
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let flags = &options.flags;
    let extent = if flags.plan().quick { QUICK } else { FULL };
    machine::print(&PACKAGES);
    println!("seeds      {} for each cache that hashes its keys by one", extent.seeds);
    println!("rounds     {}", extent.speed.told());
    let program = Program::of(options.traces.as_deref(), &options.trace)?;
    println!("traces     {}", program.told());
    let contenders = contenders(&options.contender)?;
    let is_played = options.plot.is_some() || FOUND.iter().any(|(id, _)| flags.asks_for(id));
    let outcome = if is_played { play(&program, &contenders, extent)? } else { Outcome::default() };
    println!();
    let (played, speed) = (&outcome, extent.speed);
    let found = FOUND.map(|(id, tell)| -> Goal<'_> { (id, Box::new(move || tell(played))) });
    let timed =
        TIMED.map(|(id, measure)| -> Goal<'_> { (id, Box::new(move || twice(|| measure(speed)))) });
    let mut entries = flags.entries(found.into_iter().chain(timed))?;
    if let Some(path) = &options.plot {
        curves::draw(path, played)?;
    }
    entries.extend(goals::table_of_each_size(&outcome));
    flags.close(&machine::to_json(&PACKAGES), &entries)
}

/// Those who take part: all, or these.
fn contenders(names: &[String]) -> Result<Vec<Contender>, Box<dyn Error>> {
    let is_known = |name: &&String| CONTENDERS.iter().any(|one| one.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("no contender is called {unknown}").into());
    }
    let is_asked_for = |one: &Contender| names.is_empty() || names.iter().any(|n| n == one.name);
    Ok(CONTENDERS.into_iter().filter(is_asked_for).collect())
}

fn play(
    program: &Program,
    contenders: &[Contender],
    extent: Extent,
) -> Result<Outcome, Box<dyn Error>> {
    let mut rows = Vec::new();
    for trace in program.traces(extent.generated, extent.accesses_max) {
        rows.extend(contest::rows(&trace?, contenders, extent.seeds));
    }
    let contenders = contenders.iter().map(|one| (one.name, one.role)).collect();
    Ok(Outcome { contenders, rows })
}
