//! A goal that came out SHORT is measured once more before it counts: on a host that is shared, a
//! neighbour can disturb one measurement, and seldom disturbs the next one in the same place. What
//! a neighbour of minutes disturbs needs [`again_by`] and a second measurement with patience.

use crate::report::Entry;
use crate::report::Line;

/// Measures a goal, and once more if a line of it is SHORT. The second measurement decides about
/// the lines that were SHORT, and those say so; its tables are shown; all other lines stay.
pub fn twice(measure: impl Fn() -> Vec<Entry>) -> Vec<Entry> {
    again_by(&measure, &measure)
}

/// [`twice`], where the second measurement is one that takes more care.
pub fn again_by(measure: impl Fn() -> Vec<Entry>, again: impl Fn() -> Vec<Entry>) -> Vec<Entry> {
    let first = measure();
    if !first.iter().any(Entry::is_short) {
        return first;
    }
    let mut second = again().into_iter();
    first.into_iter().map(|entry| decide(entry, second.next())).collect()
}

/// What counts of two entries at the same place. A line that the second measurement does not have,
/// as when a rival's server did not start again, stays SHORT.
fn decide(first: Entry, second: Option<Entry>) -> Entry {
    match (first, second) {
        (Entry::Line(first), Some(Entry::Line(second)))
            if first.is_short() && first.goal.id == second.goal.id =>
        {
            Entry::Line(Box::new(Line { first_ratio: Some(first.ratio), ..*second }))
        }
        (Entry::Table(_), Some(second @ Entry::Table(_))) => second,
        (first, _) => first,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::report::Bound;
    use crate::report::Goal;
    use crate::report::Table;

    fn line(id: &'static str, ratio: f64) -> Entry {
        let goal = Goal::free(id, "a test").demand(Bound::AtLeast(1.0));
        Entry::Line(Box::new(goal.judge(&[1.0], "a rival", &[ratio])))
    }

    fn table(title: &str) -> Entry {
        Entry::Table(Table { id: "0", title: title.to_owned(), columns: vec![], rows: vec![] })
    }

    /// The entries as they are printed.
    fn told(entries: &[Entry]) -> Vec<String> {
        entries.iter().map(Entry::to_string).collect()
    }

    /// What [`twice`] makes of a goal that is measured as these say, one after the other; every one
    /// of them must be asked for.
    #[track_caller]
    fn measured<const RUNS: usize>(runs: [fn() -> Vec<Entry>; RUNS]) -> Vec<Entry> {
        let run = Cell::new(0);
        let entries = twice(|| runs[run.replace(run.get() + 1)]());
        assert_eq!(run.get(), RUNS, "measurements");
        entries
    }

    #[test]
    fn what_is_met_is_measured_once() {
        let entries = measured([|| vec![line("1a", 1.0), line("1b", 2.0)]]);
        assert_eq!(told(&entries), told(&[line("1a", 1.0), line("1b", 2.0)]));
    }

    #[test]
    fn only_what_was_short_is_replaced_by_the_second_run() {
        let entries = measured([
            || vec![line("1a", 0.5), line("1b", 2.0)],
            || vec![line("1a", 3.0), line("1b", 0.1)],
        ]);
        assert!(!entries.iter().any(Entry::is_short));
        assert!(told(&entries)[0].contains("3.00x"), "{}", entries[0]);
        assert_eq!(entries[1].to_string(), line("1b", 2.0).to_string());
    }

    #[test]
    fn a_line_that_is_short_in_both_runs_counts() {
        let entries = measured([|| vec![line("1", 0.5)], || vec![line("1", 0.75)]]);
        assert!(entries[0].is_short());
        assert!(entries[0].to_string().contains("0.75x"), "{}", entries[0]);
    }

    #[test]
    fn a_line_says_that_it_was_measured_twice_and_what_came_out_first() {
        let entries = measured([
            || vec![line("1a", 0.5), line("1b", 2.0)],
            || vec![line("1a", 3.0), line("1b", 3.0)],
        ]);
        let first = "ok, measured twice: first 0.50x [0.50 .. 0.50] SHORT";
        assert!(entries[0].to_string().ends_with(first), "{}", entries[0]);
        assert!(entries[0].was_short() && !entries[1].was_short());
    }

    #[test]
    fn a_line_without_a_second_measurement_stays_short() {
        for second in [
            || vec![],
            || vec![Entry::Skip { id: "1", reason: "no server".to_owned() }],
            || vec![line("2", 3.0)],
        ] {
            let entries = measured([|| vec![line("1", 0.5)], second]);
            assert_eq!(told(&entries), told(&[line("1", 0.5)]));
        }
    }

    #[test]
    fn tables_are_those_of_the_second_run() {
        let entries = measured([
            || vec![table("the first"), line("1", 0.5)],
            || vec![table("the second"), line("1", 3.0)],
        ]);
        assert_eq!(entries[0].to_string(), table("the second").to_string());
    }
}
