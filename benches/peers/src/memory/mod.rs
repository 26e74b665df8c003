//! `cargo peers memory`: what an entry takes beyond its key and its value, and an empty engine.
//!
//! Each store is filled in a process of its own, at three sizes, because a table that has just
//! doubled takes nearly twice as much as one that is about to. Heap is what the allocator takes,
//! its rounding included; the resident set is what the system counts.

mod child;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::command::Flags;
use crate::engine::names;
use crate::load::KEY_BYTES;
use crate::load::VALUE_BYTES_MEAN;
use crate::machine;
use crate::measure::float;
use crate::memory::child::Child;
use crate::memory::child::Values;
use crate::memory::child::Weight;
use crate::plot;
use crate::report::Bound::AtMost;
use crate::report::Entry;
use crate::report::Goal;
use crate::report::Table;
use crate::report::Unit;
use crate::stores::PACKAGES;

/// What `cargo peers memory` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    flags: Flags,
    /// Draw the tables to this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Weigh one store in this process, and print what came out: for this command itself.
    #[arg(long, hide = true, requires = "entries")]
    child: Option<Child>,
    /// How many entries the child writes.
    #[arg(long, hide = true)]
    entries: Option<u32>,
}

/// How a goal's entries are made.
type Measure<'a> = Box<dyn FnOnce() -> Vec<Entry> + 'a>;

/// How many entries there are; the figures are means over these.
const SIZES: [u32; 3] = [700_000, 900_000, 1_050_000];

/// Quick runs weigh only so many of them: ours and `DashMap`. Fewer entries would weigh more, each
/// with its share of 16384 shards.
const QUICK: usize = 2;

/// What an empty engine of one node may take.
const EMPTY_BYTES_MAX: f64 = 1.1 * 1024.0 * 1024.0;

/// Who is weighed with numbers as values.
const WITH_NUMBERS: [&str; 5] =
    [names::OURS, names::DASH, names::SHARDED, names::PAPAYA, names::SCC];

/// Who is weighed with bytes as values.
const WITH_BYTES: [&str; 7] = [
    names::OURS,
    names::DASH,
    names::SHARDED,
    names::PAPAYA,
    names::SCC,
    names::MOKA,
    names::QUICK,
];

/// Measures and prints; fails where processes do.
pub fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    if let (Some(child), Some(entries)) = (&options.child, options.entries) {
        println!("{}", serde_json::to_string(&child.weigh(entries))?);
        return Ok(ExitCode::SUCCESS);
    }
    machine::print(&PACKAGES);
    println!("entries    {SIZES:?}\n");
    let is_quick = options.flags.plan().quick;
    let some = |names: &'static [&str]| if is_quick { &names[..QUICK] } else { names };
    let bytes = Scale::of(Values::Bytes, some(&WITH_BYTES))?;
    let numbers = Scale::of(Values::Numbers, some(&WITH_NUMBERS))?;
    let goals: [(_, Measure<'_>); 3] = [
        ("B1", Box::new(|| bytes.entries("B1", Some(0.6), 0.45))),
        ("B2", Box::new(|| numbers.entries("B2", None, 0.8))),
        ("B3", Box::new(|| bytes.empty("B3"))),
    ];
    let entries = options.flags.entries(goals)?;
    if let Some(path) = &options.plot {
        plot::draw(path, &entries)?;
    }
    options.flags.close(&machine::to_json(&PACKAGES), &entries)
}

/// What everybody weighs with one sort of values.
struct Scale {
    values: Values,
    weights: Vec<(&'static str, Mean)>,
}

/// Means over the sizes.
struct Mean {
    /// Bytes of heap an entry, and of the resident set.
    heap: f64,
    resident: f64,
    /// Seconds that the largest one takes to go.
    drop: f64,
    /// Bytes before the first entry.
    empty_heap: f64,
    empty_resident: f64,
}

impl Scale {
    fn of(values: Values, names: &[&'static str]) -> Result<Self, Box<dyn Error>> {
        let weigh = |&name: &&'static str| {
            let weights = SIZES.map(|entries| Child::new(name, values).run(entries));
            let weights = weights.into_iter().collect::<Result<Vec<_>, _>>()?;
            Ok::<_, Box<dyn Error>>((name, Mean::of(&SIZES, &weights)))
        };
        Ok(Self { values, weights: names.iter().map(weigh).collect::<Result<_, _>>()? })
    }

    fn mean(&self, name: &str) -> &Mean {
        let found = self.weights.iter().find(|(one, _)| *one == name);
        &found.expect("it was weighed").1
    }

    /// What an entry takes beyond its key and value.
    fn overhead(&self, name: &str) -> f64 {
        self.mean(name).heap - self.values.payload()
    }

    fn entries(&self, id: &'static str, demand: Option<f64>, aim: f64) -> Vec<Entry> {
        let row = |(name, mean): &(&'static str, Mean)| {
            let figures = vec![mean.heap, self.overhead(name), mean.resident, mean.drop];
            ((*name).to_owned(), figures)
        };
        let table = Table {
            id,
            title: format!("an entry, {}", self.values.tell()),
            columns: vec![
                ("heap", Unit::Bytes),
                ("overhead", Unit::Bytes),
                ("resident", Unit::Bytes),
                ("dropping all", Unit::Seconds),
            ],
            rows: self.weights.iter().map(row).collect(),
        };
        let measure = format!("overhead an entry, {}", self.values.tell());
        let goal = Goal::free(id, measure).unit(Unit::Bytes).aim(AtMost(aim));
        let goal = match demand {
            Some(most) => goal.demand(AtMost(most)),
            None => goal,
        };
        let of = |name| [self.overhead(name)];
        let line = goal.judge(&of(names::OURS), names::DASH, &of(names::DASH));
        vec![Entry::Table(table), Entry::Line(Box::new(line))]
    }

    /// The line about an engine without entries; stacks of workers are no heap.
    fn empty(&self, id: &'static str) -> Vec<Entry> {
        let row = |(name, mean): &(&'static str, Mean)| {
            ((*name).to_owned(), vec![mean.empty_heap, mean.empty_resident])
        };
        let table = Table {
            id,
            title: "no entry".to_owned(),
            columns: vec![("heap", Unit::Bytes), ("resident", Unit::Bytes)],
            rows: self.weights.iter().map(row).collect(),
        };
        let goal = Goal::free(id, "heap of an empty engine of one node").unit(Unit::Bytes);
        let goal = goal.demand(AtMost(1.0));
        let ours = [self.mean(names::OURS).empty_heap];
        let line = goal.judge(&ours, "the bound", &[EMPTY_BYTES_MAX]);
        vec![Entry::Table(table), Entry::Line(Box::new(line))]
    }
}

impl Mean {
    fn of(sizes: &[u32], weights: &[Weight]) -> Self {
        let count = float(weights.len());
        let mean = |of: fn(&Weight) -> f64| weights.iter().map(of).sum::<f64>() / count;
        let an_entry = |of: fn(&Weight) -> f64| {
            let each =
                weights.iter().zip(sizes).map(|(weight, &size)| of(weight) / f64::from(size));
            each.sum::<f64>() / count
        };
        Self {
            heap: an_entry(|weight| weight.heap),
            resident: an_entry(|weight| weight.resident),
            drop: weights.last().map_or(0.0, |weight| weight.drop_seconds),
            empty_heap: mean(|weight| weight.empty_heap),
            empty_resident: mean(|weight| weight.empty_resident),
        }
    }
}

impl Values {
    /// What the key and the value of an entry take.
    fn payload(self) -> f64 {
        let value = match self {
            Self::Bytes => VALUE_BYTES_MEAN,
            Self::Numbers => 8.0,
        };
        float(KEY_BYTES) + value
    }

    fn tell(self) -> &'static str {
        match self {
            Self::Bytes => "values of bytes",
            Self::Numbers => "u64 values",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_the_figures_of_one_entry() {
        let weight = |heap, drop_seconds| Weight {
            heap,
            resident: 2.0 * heap,
            drop_seconds,
            empty_heap: 10.0,
            empty_resident: 20.0,
        };
        let mean = Mean::of(&[10, 20], &[weight(1000.0, 1.0), weight(4000.0, 3.0)]);
        let is = |figure: f64, expected: f64| (figure - expected).abs() < 1e-9;
        assert!(is(mean.heap, 150.0) && is(mean.resident, 300.0) && is(mean.drop, 3.0));
        assert!(is(mean.empty_heap, 10.0) && is(mean.empty_resident, 20.0));
    }
}
