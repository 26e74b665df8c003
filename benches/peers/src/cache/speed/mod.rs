//! Goals C4 to C6: how fast caches are while they evict, ours against moka and `quick_cache`.
//!
//! Keys of 20 bytes lie ready, values have 64; a read returns an owned value, which is held against
//! what was written. There are twice as many keys as there is room for, picked by Zipf's law; or
//! only keys that nobody has written before. Each cache is full when the rounds begin.

mod stage;

use std::time::Duration;

use crate::cache::speed::stage::Stage;
use crate::clients::Figure;
use crate::clients::Pace;
use crate::clients::Results;
use crate::clients::contest;
use crate::engine::names;
use crate::engine::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::load::Recipe;
use crate::load::Script;
use crate::load::Sizes;
use crate::load::zipf_table;
use crate::report::Bound::AtLeast;
use crate::report::Entry;
use crate::report::Goal;
use crate::report::Table;
use crate::report::Unit;

/// The goal on reads with a few writes.
pub const MOSTLY_READS: &str = "C4";

/// The goal on reads that write what they miss.
pub const FETCHES: &str = "C5";

/// The goal on new keys.
pub const NEW_KEYS: &str = "C6";

/// How many clients there are.
const CLIENTS: usize = 2;

/// How many of them take part; the lines are about all.
const CROWDS: [usize; 2] = [CLIENTS, 1];

/// Labels of new keys begin at this times the number of clients, so that no contest has those of
/// another one.
const LABELS: u16 = 1000;

/// What is read of everybody.
const READING: [(&str, Figure); 4] = [
    ("wall", Figure::Wall),
    ("CPU-second", Figure::Cpu),
    ("CPU/wall", Figure::Busy),
    ("hits", Figure::Hits),
];

/// The same where nothing is asked for that could be there.
const WRITING: [(&str, Figure); 3] =
    [("wall", Figure::Wall), ("CPU-second", Figure::Cpu), ("CPU/wall", Figure::Busy)];

/// How much is measured, and on what.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pace: Pace,
    /// How many entries a cache has room for; there are twice as many keys.
    room: u32,
    /// Steps of a script that picks keys: with few, its keys would not need more than the room.
    steps: usize,
    /// Steps of a script of new keys: more than anybody does in a turn.
    new_steps: usize,
}

impl Extent {
    /// Enough to judge.
    pub const FULL: Self = Self {
        pace: Pace { rounds: 9, turn: Duration::from_millis(120) },
        room: 1 << 19,
        steps: 1 << 22,
        new_steps: 1 << 20,
    };

    /// Enough to warn.
    pub const QUICK: Self = Self {
        pace: Pace { rounds: 5, turn: Duration::from_millis(15) },
        room: 1 << 16,
        steps: 1 << 19,
        new_steps: 1 << 18,
    };

    /// What is measured, as text.
    pub fn told(&self) -> String {
        let Self { pace: Pace { rounds, turn }, room, .. } = self;
        format!("{rounds} of {turn:?} after a dropped one, room for {room}, {} keys", self.keys())
    }

    fn keys(&self) -> u32 {
        2 * self.room
    }

    fn scripts(&self, keys: Keys, mix: Mix) -> Vec<Script> {
        let steps = match keys {
            Keys::Picked => self.steps,
            Keys::New => self.new_steps,
        };
        let (keys, picks) = (self.keys(), Picks::Zipf);
        let zipf = zipf_table(keys);
        Recipe { keys, zipf, picks, mix, steps, grouped: false }.scripts(CLIENTS)
    }
}

/// Which keys there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// Twice as many as there is room for.
    Picked,
    /// Those that nobody has written before.
    New,
}

/// A workload, with what is demanded there.
struct Cell {
    id: &'static str,
    title: &'static str,
    keys: Keys,
    mix: Mix,
    columns: &'static [(&'static str, Figure)],
    versus: &'static [Versus],
}

/// What is demanded of ours against a rival, and what is hoped for.
struct Versus {
    id: &'static str,
    rival: &'static str,
    demand: Option<f64>,
    aim: f64,
}

const fn versus(id: &'static str, rival: &'static str, demand: f64, aim: f64) -> Versus {
    Versus { id, rival, demand: Some(demand), aim }
}

/// Of a hundred steps five write.
const MOSTLY_READ: Cell = Cell {
    id: MOSTLY_READS,
    title: "95/5, zipf",
    keys: Keys::Picked,
    mix: Mix { sizes: Sizes::Least, ..Mix::writes(5) },
    columns: &READING,
    versus: &[versus("C4a", names::MOKA, 2.0, 4.0), versus("C4b", names::QUICK, 1.0, 1.3)],
};

/// Every step reads, and writes what it misses.
const FETCH: Cell = Cell {
    id: FETCHES,
    title: "get, insert on a miss, zipf",
    keys: Keys::Picked,
    mix: Mix { fetches: 100, sizes: Sizes::Least, ..Mix::READS },
    columns: &READING,
    versus: &[versus("C5a", names::MOKA, 2.0, 4.0), versus("C5b", names::QUICK, 1.0, 1.3)],
};

/// Every step writes a key that is new.
const INSERT: Cell = Cell {
    id: NEW_KEYS,
    title: "only new keys",
    keys: Keys::New,
    mix: Mix { inserts: 100, sizes: Sizes::Least, ..Mix::READS },
    columns: &WRITING,
    versus: &[Versus { id: NEW_KEYS, rival: names::QUICK, demand: None, aim: 0.8 }],
};

/// Of a hundred steps five write.
pub fn mostly_reads(extent: Extent) -> Vec<Entry> {
    MOSTLY_READ.entries(extent)
}

/// Every step reads, and writes what it misses.
pub fn fetches(extent: Extent) -> Vec<Entry> {
    FETCH.entries(extent)
}

/// Every step writes a key that is new.
pub fn new_keys(extent: Extent) -> Vec<Entry> {
    INSERT.entries(extent)
}

impl Cell {
    /// The figures of each crowd, how full the caches are after that, and the lines.
    fn entries(&self, extent: Extent) -> Vec<Entry> {
        let scripts = extent.scripts(self.keys, self.mix);
        // One script of new keys is as many as there are of those that are picked.
        let filling = match self.keys {
            Keys::Picked => &scripts[..],
            Keys::New => &scripts[..1],
        };
        let stage = Stage::filled(extent.room as usize, filling);
        let results = CROWDS.map(|clients| self.contest(extent.pace, clients, &stage, &scripts));
        let tables = CROWDS.iter().zip(&results).map(|(clients, results)| {
            let plural = if *clients == 1 { "" } else { "s" };
            let title = format!("{}, {clients} client{plural}", self.title);
            table(self.id, title, results, self.columns)
        });
        let mut entries: Vec<_> = tables.collect();
        entries.push(Entry::Table(Table {
            id: self.id,
            title: format!("{}, at the end", self.title),
            columns: vec![("of the room", Unit::Percent)],
            rows: stage.filling(),
        }));
        entries.extend(self.versus.iter().map(|one| one.line(self.title, &results[0])));
        entries
    }

    fn contest(&self, pace: Pace, clients: usize, stage: &Stage, scripts: &[Script]) -> Results {
        let contestants = match self.keys {
            Keys::Picked => stage.contestants(scripts),
            Keys::New => stage.newcomers(scripts, LABELS * u16::try_from(clients).expect("few")),
        };
        contest(pace, clients, true, &contestants)
    }
}

impl Versus {
    fn line(&self, measure: &str, results: &Results) -> Entry {
        let goal = Goal::free(self.id, measure).unit(Unit::Rate).aim(AtLeast(self.aim));
        let goal = Goal { demand: self.demand.map(AtLeast), ..goal };
        let of = |name| results.of(name, Figure::Wall);
        Entry::Line(Box::new(goal.judge(&of(names::OURS), self.rival, &of(self.rival))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_has_its_lines_and_says_what_was_found_and_how_full_everybody_is() {
        let pace = Pace { rounds: 1, turn: Duration::from_millis(1) };
        let extent = Extent { pace, room: 1 << 11, steps: 1 << 14, new_steps: 1 << 14 };
        let told = |entries: Vec<Entry>| -> Vec<_> {
            let table = |table: &Table| (table.id, table.columns.len());
            let told = entries.iter().map(|entry| match entry {
                Entry::Table(one) => table(one),
                Entry::Line(line) => (line.goal.id, 0),
                Entry::Gap(_) | Entry::Skip { .. } => unreachable!("it is timed"),
            });
            told.collect()
        };
        let lines = [("C4", 4), ("C4", 4), ("C4", 1), ("C4a", 0), ("C4b", 0)];
        assert_eq!(told(mostly_reads(extent)), lines);
        let lines = [("C5", 4), ("C5", 4), ("C5", 1), ("C5a", 0), ("C5b", 0)];
        assert_eq!(told(fetches(extent)), lines);
        assert_eq!(told(new_keys(extent)), [("C6", 3), ("C6", 3), ("C6", 1), ("C6", 0)]);
    }
}
