//! The verdict: ours against whichever rival is best, on the mean and on each trace.

use crate::cache::contender::Role;
use crate::cache::contest::Outcome;
use crate::cache::contest::Row;
use crate::gap::Gap;

/// On the mean over all traces, ours is at least the best rival.
const MEAN_LEAST: f64 = 0.0;

/// On a single trace, ours is at most a point below the rival that is best there.
const TRACE_LEAST: f64 = -1.0;

/// Holds a contender against the rivals on the mean over all traces; `None` if no rival took part.
pub fn mean(id: &'static str, outcome: &Outcome, ours: usize) -> Option<Gap> {
    let measure = "mean over all traces".to_owned();
    let figures = outcome.means_of(Row::means);
    let (rival, rivals) = best_rival(outcome, &figures)?;
    Some(Gap { id, measure, ours: figures[ours], rival, rivals, demand: Some(MEAN_LEAST) })
}

/// Holds a contender against the rivals on each trace, averaged over the sizes.
pub fn traces(id: &'static str, outcome: &Outcome, ours: usize) -> Vec<Gap> {
    let line = |row: &Row| {
        let measure = format!("{}, mean of its sizes", row.name);
        let figures = row.means();
        let (rival, rivals) = best_rival(outcome, &figures)?;
        Some(Gap { id, measure, ours: figures[ours], rival, rivals, demand: Some(TRACE_LEAST) })
    };
    outcome.rows.iter().filter_map(line).collect()
}

/// The name and figure of the rival that has the highest.
fn best_rival(outcome: &Outcome, figures: &[f64]) -> Option<(String, f64)> {
    let all = outcome.contenders.iter().zip(figures);
    let rivals = all.filter(|((_, role), _)| *role == Role::Rival);
    let best = rivals.max_by(|a, b| a.1.total_cmp(b.1));
    best.map(|(&(name, _), &figure)| (name.to_owned(), figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    /// Two rivals, the optimum, and ours, on traces of these figures.
    fn outcome(rows: &[[f64; 4]]) -> Outcome {
        let row = |(at, figures): (usize, &[f64; 4])| Row {
            name: format!("trace {at}"),
            note: String::new(),
            is_in_mean: true,
            figures: figures
                .iter()
                .map(|&figure| [figure - 3.0, figure, figure, figure + 3.0])
                .collect(),
        };
        let contenders = vec![
            ("ours", Role::Ours),
            ("one", Role::Rival),
            ("other", Role::Rival),
            ("optimum", Role::Optimum),
        ];
        Outcome { contenders, rows: rows.iter().enumerate().map(row).collect() }
    }

    #[track_caller]
    fn check_mean(rows: &[[f64; 4]], rival: &str, points: f64, verdict: Verdict) {
        let gap = mean("C1", &outcome(rows), 0).expect("there are rivals");
        assert_eq!((gap.rival.as_str(), gap.verdict()), (rival, verdict), "{gap}");
        assert!((gap.points() - points).abs() < 1e-9, "{gap}");
    }

    #[test]
    fn the_mean_is_held_against_the_rival_with_the_best_mean() {
        check_mean(&[[50.0, 49.0, 40.0, 90.0]], "one", 1.0, Verdict::Met);
        // Each rival is better on one trace; what counts is the better mean of one of them.
        let rows = [[50.0, 60.0, 30.0, 90.0], [50.0, 30.0, 68.0, 90.0]];
        check_mean(&rows, "other", 1.0, Verdict::Met);
        let rows = [[50.0, 60.0, 30.0, 90.0], [50.0, 42.0, 68.0, 90.0]];
        check_mean(&rows, "one", -1.0, Verdict::Short);
        check_mean(&[[50.0, 50.0, 50.0, 90.0]], "other", 0.0, Verdict::Met);
    }

    #[test]
    fn each_trace_is_held_against_the_rival_that_is_best_there() {
        let rows = [[50.0, 51.0, 0.0, 90.0], [50.0, 0.0, 51.1, 90.0], [50.0, 10.0, 20.0, 90.0]];
        let lines = traces("C2", &outcome(&rows), 0);
        let told: Vec<_> = lines.iter().map(|gap| (gap.rival.as_str(), gap.verdict())).collect();
        let expected = [("one", Verdict::Met), ("other", Verdict::Short), ("other", Verdict::Met)];
        assert_eq!(told, expected);
    }

    #[test]
    fn without_rivals_nothing_is_judged() {
        let mut outcome = outcome(&[[50.0, 51.0, 0.0, 90.0]]);
        outcome.contenders.iter_mut().for_each(|(_, role)| *role = Role::Draft);
        assert_eq!(mean("C1", &outcome, 0), None);
        assert_eq!(traces("C2", &outcome, 0), []);
    }
}
