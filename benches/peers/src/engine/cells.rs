//! Goals E1 to E5: single operations and batches of two clients, evenly and by Zipf's law.
//!
//! In a batch all keys are read or all are written, so the mix is one of batches.

use crate::clients::Figure;
use crate::clients::Results;
use crate::clients::Way;
use crate::clients::batches;
use crate::clients::contest;
use crate::clients::singles;
use crate::engine::lab::Lab;
use crate::engine::lab::names;
use crate::engine::table::RATES;
use crate::engine::table::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::report::Bound::AtLeast;
use crate::report::Entry;
use crate::report::Goal;
use crate::report::Unit;

/// How many clients there are.
const CLIENTS: usize = 2;

/// Ours, with many keys a call.
const OF_8: &str = "ours, by 8";
const OF_32: &str = "ours, by 32";

/// A workload, with what is demanded there.
struct Cell {
    id: &'static str,
    title: &'static str,
    picks: Picks,
    sets: usize,
    /// What single operations are compared by.
    figure: Figure,
    versus: &'static [Versus],
    /// What is demanded of batches of eight, by the clock.
    batch: Option<Versus>,
}

/// What is demanded of ours against one rival, or against the best of them, and what is hoped for.
struct Versus {
    id: &'static str,
    rival: Option<&'static str>,
    demand: f64,
    aim: f64,
}

const fn versus(id: &'static str, rival: &'static str, demand: f64, aim: f64) -> Versus {
    Versus { id, rival: Some(rival), demand, aim }
}

const fn versus_best(id: &'static str, demand: f64, aim: f64) -> Versus {
    Versus { id, rival: None, demand, aim }
}

/// Reads only, evenly.
const READS: Cell = Cell {
    id: "E1",
    title: "reads, uniform",
    picks: Picks::Uniform,
    sets: 0,
    figure: Figure::Wall,
    versus: &[versus("E1a", names::PAPAYA, 0.9, 1.2), versus("E1b", names::DASH, 1.05, 1.3)],
    batch: None,
};

/// 95 reads to 5 writes, evenly; against the caches as well.
const MOSTLY_READS: Cell = Cell {
    id: "E2",
    title: "95/5, uniform",
    picks: Picks::Uniform,
    sets: 5,
    figure: Figure::Wall,
    versus: &[
        versus("E2a", names::DASH, 1.12, 1.4),
        versus("E2b", names::SHARDED, 1.03, 1.25),
        versus("E2c", names::PAPAYA, 1.1, 1.4),
        versus("E2d", names::SCC, 1.05, 1.3),
        versus("E2e", names::MOKA, 3.0, 5.0),
        versus("E2f", names::QUICK, 1.5, 1.8),
    ],
    batch: Some(versus_best("E2g", 2.2, 3.0)),
};

/// As many writes as reads, evenly.
const HALF_WRITES: Cell = Cell {
    id: "E3",
    title: "50/50, uniform",
    picks: Picks::Uniform,
    sets: 50,
    figure: Figure::Wall,
    versus: &[
        versus("E3a", names::DASH, 1.5, 1.8),
        versus("E3b", names::SHARDED, 1.2, 1.4),
        versus("E3c", names::SCC, 1.4, 1.7),
        versus("E3d", names::PAPAYA, 2.5, 3.2),
    ],
    batch: Some(versus_best("E3e", 2.5, 3.5)),
};

/// 95 reads to 5 writes, by Zipf's law; by processor time.
const MOSTLY_READS_ZIPF: Cell = Cell {
    id: "E4",
    title: "95/5, zipf",
    picks: Picks::Zipf,
    sets: 5,
    figure: Figure::Cpu,
    versus: &[
        versus("E4a", names::DASH, 1.15, 1.4),
        versus("E4b", names::SCC, 1.05, 1.3),
        versus("E4c", names::PAPAYA, 1.3, 1.6),
    ],
    batch: Some(versus_best("E4d", 1.5, 2.2)),
};

/// As many writes as reads, by Zipf's law.
const HALF_WRITES_ZIPF: Cell = Cell {
    id: "E5",
    title: "50/50, zipf",
    picks: Picks::Zipf,
    sets: 50,
    figure: Figure::Wall,
    versus: &[versus("E5a", names::DASH, 1.5, 1.75), versus("E5b", names::SHARDED, 1.25, 1.4)],
    batch: Some(versus_best("E5c", 1.5, 2.2)),
};

/// Reads only, evenly.
pub fn reads(lab: &Lab) -> Vec<Entry> {
    READS.entries(lab)
}

/// 95 reads to 5 writes, evenly; against the caches as well.
pub fn mostly_reads(lab: &Lab) -> Vec<Entry> {
    MOSTLY_READS.entries(lab)
}

/// As many writes as reads, evenly.
pub fn half_writes(lab: &Lab) -> Vec<Entry> {
    HALF_WRITES.entries(lab)
}

/// 95 reads to 5 writes, by Zipf's law; by processor time.
pub fn mostly_reads_zipf(lab: &Lab) -> Vec<Entry> {
    MOSTLY_READS_ZIPF.entries(lab)
}

/// As many writes as reads, by Zipf's law.
pub fn half_writes_zipf(lab: &Lab) -> Vec<Entry> {
    HALF_WRITES_ZIPF.entries(lab)
}

impl Cell {
    fn entries(&self, lab: &Lab) -> Vec<Entry> {
        let mix = Mix::writes(self.sets);
        let scripts = lab.scripts(CLIENTS, self.picks, mix);
        let grouped = lab.grouped(CLIENTS, self.picks, mix);
        let stage = lab.maps();
        let mut contestants = stage.contestants(&scripts, Way::Ready);
        contestants.push(batches(OF_8, &stage.ours, &grouped, 8));
        contestants.push(batches(OF_32, &stage.ours, &grouped, 32));
        let takes_part = |name| self.versus.iter().any(|versus| versus.rival == Some(name));
        if takes_part(names::MOKA) {
            contestants.push(singles(names::BOUNDED, lab.bounded(), &scripts, Way::Ready));
            contestants.extend(lab.caches().contestants(&scripts, Way::Ready));
        }
        let results = contest(lab.pace, CLIENTS, false, &contestants);
        let composed = stage.contestants(&scripts, Way::Composed);
        let composed = contest(lab.pace, CLIENTS, false, &composed);

        let mut entries = vec![
            table(self.id, format!("{}, {CLIENTS} clients", self.title), &results, &RATES),
            table(self.id, format!("{}, K", self.title), &composed, &RATES),
        ];
        let by = if self.figure == Figure::Cpu { ", a CPU-second" } else { "" };
        let single = format!("{}{by}", self.title);
        entries.extend(
            self.versus.iter().map(|one| one.line(&results, (one.ours(), self.figure), &single)),
        );
        let by_8 = format!("batches of 8, {}", self.title);
        entries
            .extend(self.batch.iter().map(|one| one.line(&results, (OF_8, Figure::Wall), &by_8)));
        entries
    }
}

impl Versus {
    /// Which of ours is held against the rival: caches have a bound to keep to.
    fn ours(&self) -> &'static str {
        match self.rival {
            Some(names::MOKA | names::QUICK) => names::BOUNDED,
            _ => names::OURS,
        }
    }

    fn line(&self, results: &Results, ours: (&str, Figure), measure: &str) -> Entry {
        let (ours, figure) = ours;
        let rival = self.rival.unwrap_or_else(|| results.best(&names::MAPS, figure));
        let goal = Goal::free(self.id, measure).unit(Unit::Rate);
        let goal = goal.demand(AtLeast(self.demand)).aim(AtLeast(self.aim));
        let line = goal.judge(&results.of(ours, figure), rival, &results.of(rival, figure));
        Entry::Line(Box::new(line))
    }
}
