//! `cargo peers ycsb`: the six mixes of YCSB on ours and on published maps and caches.
//!
//! A: half writes. B: 5 % writes. C: reads. D: reads of what was inserted last, 5 % inserts.
//! E: scans, 5 % inserts. F: half of the reads go on to write what was computed from them, at one
//! instant. Keys are picked by Zipf's law with 0.99, in D with the newest key first.
//! Hash tables have no order to scan in: a scan reads 16 neighbouring keys by name, ours by one
//! `get_many`, the others one by one; it counts as one operation. A client inserts keys of its own,
//! and when its script is over it writes them again.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::ValueEnum;

use crate::clients::Figure;
use crate::clients::Way;
use crate::clients::contest;
use crate::command::Flags;
use crate::engine::Lab;
use crate::engine::RATES;
use crate::engine::names;
use crate::engine::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::machine;
use crate::plot;
use crate::random::SEED;
use crate::report::Entry;
use crate::report::Goal;
use crate::report::Unit;
use crate::stores::PACKAGES;

const CLIENTS: usize = 2;

/// What `cargo peers ycsb` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,
    /// Run only these mixes: `--mix a,c`.
    #[arg(long, value_enum, value_delimiter = ',')]
    mix: Vec<Letter>,
    /// Draw the tables to this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// The mixes, as YCSB names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Letter {
    /// 50 % reads, 50 % writes.
    A,
    /// 95 % reads, 5 % writes.
    B,
    /// Reads only.
    C,
    /// 95 % reads of the latest keys, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts.
    E,
    /// 50 % reads, 50 % reads that write.
    F,
}

/// Measures and prints; fails where the file system does.
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let lab = Lab::new(options.flags.plan().quick);
    machine::print(&PACKAGES);
    println!("entries    {}, {CLIENTS} clients, seed {SEED:#x}", lab.keys);
    println!("rounds     {} of {:?} after a dropped one", lab.pace.rounds, lab.pace.turn);
    println!();
    let asked = |letter: &&Letter| options.mix.is_empty() || options.mix.contains(letter);
    let letters = Letter::value_variants().iter().filter(asked);
    let lab = &lab;
    let goals = letters.map(|&letter| (letter.id(), move || letter.entries(lab)));
    let entries = options.flags.entries(goals)?;
    if let Some(path) = &options.plot {
        plot::draw(path, &entries)?;
    }
    options.flags.close(&machine::to_json(&PACKAGES), &entries)
}

impl Letter {
    fn id(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::A => "update heavy, 50/50",
            Self::B => "read mostly, 95/5",
            Self::C => "read only",
            Self::D => "read latest, 5 % inserts",
            Self::E => "scans of 16, 5 % inserts",
            Self::F => "read, modify, write",
        }
    }

    fn work(self) -> (Picks, Mix) {
        match self {
            Self::A => (Picks::Zipf, Mix::writes(50)),
            Self::B => (Picks::Zipf, Mix::writes(5)),
            Self::C => (Picks::Zipf, Mix::READS),
            Self::D => (Picks::Latest, Mix { inserts: 5, ..Mix::READS }),
            Self::E => (Picks::Zipf, Mix { scans: 95, inserts: 5, ..Mix::READS }),
            Self::F => (Picks::Zipf, Mix { modifies: 50, ..Mix::READS }),
        }
    }

    /// Everybody's figures, and ours against the best of the others.
    fn entries(self, lab: &Lab) -> Vec<Entry> {
        let (picks, mix) = self.work();
        let scripts = lab.scripts(CLIENTS, picks, mix);
        let mut contestants = lab.maps().contestants(&scripts, Way::Ready);
        contestants.extend(lab.caches().contestants(&scripts, Way::Ready));
        let results = contest(lab.pace, CLIENTS, false, &contestants);
        let rivals: Vec<_> =
            results.names().iter().copied().filter(|&name| name != names::OURS).collect();
        let best = results.best(&rivals, Figure::Wall);
        let of = |name| results.of(name, Figure::Wall);
        let goal = Goal::free(self.id(), self.title()).unit(Unit::Rate);
        let line = goal.judge(&of(names::OURS), best, &of(best));
        vec![table(self.id(), self.title(), &results, &RATES), Entry::Line(Box::new(line))]
    }
}
