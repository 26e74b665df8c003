//! The figures of everybody who took part, as one table.

use crate::clients::Figure;
use crate::clients::Results;
use crate::report::Entry;
use crate::report::Table;
use crate::report::Unit;

/// What rates are told: by the clock, and for each second that a processor was busy.
pub const RATES: [(&str, Figure); 2] = [("wall", Figure::Wall), ("CPU-second", Figure::Cpu)];

/// What latencies are told.
pub const LATENCIES: [(&str, Figure); 4] = [
    ("p50", Figure::Latency(500)),
    ("p99", Figure::Latency(990)),
    ("p99.9", Figure::Latency(999)),
    ("wall", Figure::Wall),
];

/// A table of medians.
pub fn table(
    id: &'static str,
    title: impl Into<String>,
    results: &Results,
    columns: &[(&'static str, Figure)],
) -> Entry {
    let row = |&name: &&'static str| {
        let figures = columns.iter().map(|&(_, figure)| results.median(name, figure));
        (name.to_owned(), figures.collect())
    };
    Entry::Table(Table {
        id,
        title: title.into(),
        columns: columns.iter().map(|&(name, figure)| (name, unit(figure))).collect(),
        rows: results.names().iter().map(row).collect(),
    })
}

/// How a figure is told.
fn unit(figure: Figure) -> Unit {
    match figure {
        Figure::Wall | Figure::Cpu => Unit::Rate,
        Figure::Latency(_) => Unit::Time,
        Figure::Busy => Unit::Times,
        Figure::Hits => Unit::Percent,
    }
}
