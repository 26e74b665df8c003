//! The goals of the caches as entries of a report: the table, the verdicts, the drafts beside them.

use crate::cache::contender::Role;
use crate::cache::contest::Outcome;
use crate::cache::contest::Row;
use crate::cache::judge;
use crate::cache::trace::SHARES;
use crate::gap::Gap;
use crate::report::Entry;
use crate::report::Table;
use crate::report::Unit;

/// The number of the tables.
pub const FIGURES: &str = "C0";

/// The number of the goal on the mean over all traces.
pub const MEAN: &str = "C1";

/// The number of the goal on each trace.
pub const TRACES: &str = "C2";

/// The number of the lines about designs on paper.
pub const DRAFTS: &str = "C3";

/// The table that is printed: each trace's mean over its sizes.
pub fn table(outcome: &Outcome) -> Vec<Entry> {
    vec![table_of("hit ratio, mean of four sizes", outcome, Row::means)]
}

/// A table for each size of the cache.
pub fn table_of_each_size(outcome: &Outcome) -> Vec<Entry> {
    let tables = SHARES.into_iter().enumerate().map(|(at, share)| {
        let title = format!("hit ratio, room for {share} % of the keys");
        let figures = move |row: &Row| row.figures.iter().map(|sizes| sizes[at]).collect();
        table_of(&title, outcome, figures)
    });
    tables.collect()
}

/// Ours on the mean.
pub fn mean(outcome: &Outcome) -> Vec<Entry> {
    judged(MEAN, outcome, |ours| judge::mean(MEAN, outcome, ours).into_iter().collect())
}

/// Ours on each trace.
pub fn traces(outcome: &Outcome) -> Vec<Entry> {
    judged(TRACES, outcome, |ours| judge::traces(TRACES, outcome, ours))
}

/// Where the designs on paper would stand: on the mean, and where they are farthest behind.
pub fn drafts(outcome: &Outcome) -> Vec<Entry> {
    let lines_of = |at: usize, name: &str| {
        let farthest = judge::traces(DRAFTS, outcome, at)
            .into_iter()
            .min_by(|a, b| a.points().total_cmp(&b.points()));
        let lines = judge::mean(DRAFTS, outcome, at).into_iter().chain(farthest);
        let named = lines.map(|gap| {
            let measure = format!("{name}: {}", gap.measure);
            Entry::Gap(Gap { measure, ..gap.free(DRAFTS) })
        });
        named.collect::<Vec<_>>()
    };
    places(outcome, Role::Draft).flat_map(|(at, name)| lines_of(at, name)).collect()
}

/// The lines about ours, or what is missing for them.
fn judged(
    id: &'static str,
    outcome: &Outcome,
    lines: impl FnOnce(usize) -> Vec<Gap>,
) -> Vec<Entry> {
    let skip = |reason: &str| vec![Entry::Skip { id, reason: reason.to_owned() }];
    let Some((ours, _)) = places(outcome, Role::Ours).next() else {
        return skip("ours took no part");
    };
    let lines = lines(ours);
    if lines.is_empty() {
        skip("no rival took part")
    } else {
        lines.into_iter().map(Entry::Gap).collect()
    }
}

fn places(outcome: &Outcome, role: Role) -> impl Iterator<Item = (usize, &'static str)> {
    let all = outcome.contenders.iter().enumerate();
    all.filter(move |(_, (_, has))| *has == role).map(|(at, &(name, _))| (at, name))
}

fn table_of(title: &str, outcome: &Outcome, figures: impl Fn(&Row) -> Vec<f64>) -> Entry {
    let row = |row: &Row| (format!("{}: {}", row.name, row.note), figures(row));
    let mut rows: Vec<_> = outcome.rows.iter().map(row).collect();
    rows.push(("mean, without bytes".to_owned(), outcome.means_of(&figures)));
    let columns = outcome.contenders.iter().map(|&(name, _)| (name, Unit::Percent)).collect();
    Entry::Table(Table { id: FIGURES, title: title.to_owned(), columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(contenders: &[(&'static str, Role)]) -> Outcome {
        let row = Row {
            name: "a trace".to_owned(),
            note: "short".to_owned(),
            is_in_mean: true,
            figures: (10..).map(|at| [f64::from(at); 4]).take(contenders.len()).collect(),
        };
        Outcome { contenders: contenders.to_vec(), rows: vec![row] }
    }

    fn told(entries: &[Entry]) -> Vec<String> {
        entries.iter().map(Entry::to_string).collect()
    }

    #[test]
    fn goals_are_skipped_visibly_while_ours_or_every_rival_is_missing() {
        let nobody = outcome(&[("a rival", Role::Rival), ("a draft", Role::Draft)]);
        assert_eq!(told(&mean(&nobody)), ["C1   skip: ours took no part"]);
        assert_eq!(told(&traces(&nobody)), ["C2   skip: ours took no part"]);
        let alone = outcome(&[("ours", Role::Ours)]);
        assert_eq!(told(&traces(&alone)), ["C2   skip: no rival took part"]);
    }

    #[test]
    fn ours_is_judged_and_a_draft_is_only_told() {
        let all = outcome(&[("ours", Role::Ours), ("a draft", Role::Draft), ("r", Role::Rival)]);
        let (mean, traces, drafts) = (mean(&all), traces(&all), drafts(&all));
        assert!(mean.iter().chain(&traces).all(Entry::is_short), "two points below");
        assert!(!drafts.iter().any(Entry::is_short));
        assert_eq!(drafts.len(), 2);
    }

    #[test]
    fn the_table_names_traces_and_contenders_and_ends_with_the_mean() {
        let told = told(&table(&outcome(&[("one", Role::Rival), ("other", Role::Rival)]))).concat();
        for part in ["one", "other", "a trace: short", "mean, without bytes", "11.00 %"] {
            assert!(told.contains(part), "{part} in {told}");
        }
    }
}
