//! Goals as lines: figures of both sides, their ratio, what is demanded of it, and the verdict.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use serde_json::json;

use crate::gap::Gap;
use crate::measure::Spread;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Nanoseconds an operation, which are told as millions of operations a second.
    Rate,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Hundredths of a whole.
    Percent,
    /// How many times as much.
    Times,
}

impl Unit {
    /// A figure with its unit and three digits or so.
    pub fn tell(self, figure: f64) -> String {
        match self {
            Self::Time => time(figure),
            Self::Rate => format!("{:.*} M/s", digits(1e3 / figure), 1e3 / figure),
            Self::Bytes if figure >= 1e5 => format!("{:.2} MiB", figure / f64::from(1 << 20)),
            Self::Bytes => format!("{figure:.1} B"),
            Self::Seconds => format!("{figure:.3} s"),
            Self::Percent => format!("{figure:.2} %"),
            Self::Times => format!("{figure:.2}x"),
        }
    }
}

/// What is asked of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The rival's time over ours, at least this much.
    AtLeast(f64),
    /// Our time over the rival's, at most this much.
    AtMost(f64),
}

impl Bound {
    /// The ratio of one round, in the direction that the bound is about.
    fn ratio(self, ours: f64, rival: f64) -> f64 {
        match self {
            Self::AtLeast(_) => rival / ours,
            Self::AtMost(_) => ours / rival,
        }
    }

    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
        }
    }

    /// The quartile that speaks for us.
    fn kinder_quartile(self, spread: Spread) -> f64 {
        match self {
            Self::AtLeast(_) => spread.upper,
            Self::AtMost(_) => spread.lower,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least}x"),
            Self::AtMost(most) => write!(f, "<= {most}x"),
        }
    }
}

/// What the rounds say about a goal, from bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// Even the kinder quartile misses the demand.
    #[serde(rename = "SHORT")]
    Short,
    /// The median misses the demand, the kinder quartile meets it.
    #[serde(rename = "NOISE")]
    Noise,
    /// The median meets the demand.
    #[serde(rename = "ok")]
    Met,
    /// Nothing is demanded.
    #[serde(rename = "-")]
    Free,
}

impl Verdict {
    /// The verdict over the ratios of all rounds.
    pub fn of(demand: Option<Bound>, spread: Spread) -> Self {
        let Some(demand) = demand else {
            return Self::Free;
        };
        if demand.is_met(spread.median) {
            Self::Met
        } else if demand.is_met(demand.kinder_quartile(spread)) {
            Self::Noise
        } else {
            Self::Short
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Short => "SHORT",
            Self::Noise => "NOISE",
            Self::Met => "ok",
            Self::Free => "-",
        })
    }
}

/// What a goal is about, before anything is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// The goal's number, with a letter where it has several lines.
    pub id: &'static str,
    /// What is measured.
    pub measure: String,
    /// What the figures of both sides count.
    pub unit: Unit,
    /// What has to be reached; `None` for lines that only inform.
    pub demand: Option<Bound>,
    /// What is hoped for.
    pub aim: Option<Bound>,
}

impl Goal {
    /// A line that nothing is asked of.
    pub fn free(id: &'static str, measure: impl Into<String>) -> Self {
        Self { id, measure: measure.into(), unit: Unit::Time, demand: None, aim: None }
    }

    /// Says what the figures count, if not nanoseconds.
    #[must_use]
    pub fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Adds what has to be reached.
    #[must_use]
    pub fn demand(self, demand: Bound) -> Self {
        Self { demand: Some(demand), ..self }
    }

    /// Adds what is hoped for.
    #[must_use]
    pub fn aim(self, aim: Bound) -> Self {
        Self { aim: Some(aim), ..self }
    }

    /// Holds the rounds of both sides against the goal.
    pub fn judge(self, ours: &[f64], rival: &str, rival_rounds: &[f64]) -> Line {
        let direction = self.demand.or(self.aim).unwrap_or(Bound::AtLeast(1.0));
        let ratios: Vec<_> = ours
            .iter()
            .zip(rival_rounds)
            .map(|(&ours, &rival)| direction.ratio(ours, rival))
            .collect();
        let ratio = Spread::of(&ratios);
        Line {
            verdict: Verdict::of(self.demand, ratio),
            first_ratio: None,
            aim_met: self.aim.map(|aim| aim.is_met(ratio.median)),
            ours: Spread::of(ours).median,
            rival: rival.to_owned(),
            rivals: Spread::of(rival_rounds).median,
            ratio,
            goal: self,
        }
    }
}

/// A goal and what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What was asked.
    #[serde(flatten)]
    pub goal: Goal,
    /// Our median, in the goal's unit.
    pub ours: f64,
    /// The rival's name.
    pub rival: String,
    /// The rival's median, in the goal's unit.
    pub rivals: f64,
    /// The quartiles of the rounds' ratios.
    pub ratio: Spread,
    /// Whether the median reaches the aim, where there is one.
    pub aim_met: Option<bool>,
    /// How the rounds stand to the demand.
    pub verdict: Verdict,
    /// The ratios of a first measurement, where that was SHORT and all else is of a second.
    pub first_ratio: Option<Spread>,
}

impl Line {
    /// Whether the demand was missed beyond noise.
    pub fn is_short(&self) -> bool {
        self.verdict == Verdict::Short
    }

    /// The line that speaks for all of a sweep: the worst verdict, and among those the ratio that
    /// is worst.
    pub fn worst(lines: Vec<Self>) -> Self {
        let badness = |line: &Self| match line.goal.demand {
            Some(Bound::AtMost(_)) => -line.ratio.median,
            Some(Bound::AtLeast(_)) | None => line.ratio.median,
        };
        lines
            .into_iter()
            .min_by(|a, b| a.verdict.cmp(&b.verdict).then(badness(a).total_cmp(&badness(b))))
            .expect("a sweep has lines")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: Option<Bound>| bound.map_or_else(|| "-".to_owned(), |b| b.to_string());
        let aim = bound(self.goal.aim) + if self.aim_met == Some(true) { " met" } else { "" };
        write!(
            f,
            "{:<4} {:<44} {:>9}  {:<19} {:>9}  {:>6}x {}",
            self.goal.id,
            self.goal.measure,
            self.goal.unit.tell(self.ours),
            self.rival,
            self.goal.unit.tell(self.rivals),
            times(self.ratio.median),
            quartiles(self.ratio),
        )?;
        write!(f, "  {:<9} {:<12} {}", bound(self.goal.demand), aim, self.verdict)?;
        match self.first_ratio {
            Some(first) => {
                let (median, quartiles) = (times(first.median), quartiles(first));
                write!(f, ", measured twice: first {median}x {quartiles} {}", Verdict::Short)
            }
            None => Ok(()),
        }
    }
}

/// Figures of all contestants, side by side, of which nothing is asked.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The number of the goal that the figures belong to.
    pub id: &'static str,
    /// What was measured.
    pub title: String,
    /// What each column holds.
    pub columns: Vec<(&'static str, Unit)>,
    /// Each contestant's name and figures.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:<4} {:<44}", self.id, self.title)?;
        for (column, _) in &self.columns {
            write!(f, " {column:>14}")?;
        }
        for (name, figures) in &self.rows {
            write!(f, "\n       {name:<42}")?;
            for ((_, unit), &figure) in self.columns.iter().zip(figures) {
                write!(f, " {:>14}", unit.tell(figure))?;
            }
        }
        Ok(())
    }
}

/// One entry of a report.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A goal that was measured.
    Line(Box<Line>),
    /// A goal in points, which comes out the same in every run.
    Gap(Gap),
    /// Figures of all contestants.
    Table(Table),
    /// A goal that this machine cannot answer.
    Skip {
        /// The goal's number.
        id: &'static str,
        /// Why it was not measured.
        reason: String,
    },
}

impl Entry {
    /// Whether the entry is a goal that was missed beyond noise.
    pub fn is_short(&self) -> bool {
        match self {
            Self::Line(line) => line.is_short(),
            Self::Gap(gap) => gap.verdict() == Verdict::Short,
            Self::Table(_) | Self::Skip { .. } => false,
        }
    }

    /// Whether the entry is a goal that was missed beyond noise, and was measured once more.
    pub fn was_short(&self) -> bool {
        matches!(self, Self::Line(line) if line.first_ratio.is_some())
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Line(line) => json!(line),
            Self::Gap(gap) => gap.to_json(),
            Self::Table(table) => json!(table),
            Self::Skip { id, reason } => json!({ "id": id, "verdict": "skip", "reason": reason }),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => line.fmt(f),
            Self::Gap(gap) => gap.fmt(f),
            Self::Table(table) => table.fmt(f),
            Self::Skip { id, reason } => write!(f, "{id:<4} skip: {reason}"),
        }
    }
}

/// The heading of the columns that [`Line`] prints.
pub fn heading() -> String {
    format!(
        "{:<4} {:<44} {:>9}  {:<19} {:>9}  {:>7} {}\n{}",
        "goal",
        "measure",
        "ours",
        "rival",
        "its time",
        "ratio",
        "[quartiles]  demand  aim  verdict",
        "-".repeat(144)
    )
}

/// Everything as one JSON document; `machine` says where the figures come from.
pub fn to_json(machine: &Value, entries: &[Entry]) -> Value {
    json!({
        "machine": machine,
        "goals": entries.iter().map(Entry::to_json).collect::<Vec<_>>(),
    })
}

/// A ratio with three figures or so.
fn times(ratio: f64) -> String {
    match ratio {
        small if small < 10.0 => format!("{small:.2}"),
        large if large < 1000.0 => format!("{large:.1}"),
        huge => format!("{huge:.0}"),
    }
}

/// The outer quartiles of a ratio.
fn quartiles(ratio: Spread) -> String {
    format!("[{} .. {}]", times(ratio.lower), times(ratio.upper))
}

/// How many digits after the point a figure is told with.
fn digits(figure: f64) -> usize {
    if figure < 1.0 { 3 } else { 2 }
}

/// A time with three figures or so.
fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 100.0 => format!("{ns:.2} ns"),
        ns if ns < 10_000.0 => format!("{ns:.0} ns"),
        ns if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_LEAST_TWO: Bound = Bound::AtLeast(2.0);
    const AT_MOST_TWO: Bound = Bound::AtMost(2.0);

    /// Judges rounds in which we always take one nanosecond and the rival takes `rival`.
    fn line(demand: Bound, rival: &[f64]) -> Line {
        let ours = vec![1.0; rival.len()];
        Goal::free("0", "a test").demand(demand).judge(&ours, "a rival", rival)
    }

    #[track_caller]
    fn check(demand: Bound, rival: &[f64], verdict: Verdict) {
        let line = line(demand, rival);
        assert_eq!(line.verdict, verdict, "{line}");
    }

    #[test]
    fn a_median_at_the_demand_is_ok() {
        check(AT_LEAST_TWO, &[1.0, 1.0, 2.0, 2.0, 9.0], Verdict::Met);
        check(AT_LEAST_TWO, &[3.0; 9], Verdict::Met);
        // At most twice the rival's time: a rival of 0.5 takes half of ours.
        check(AT_MOST_TWO, &[0.1, 0.1, 0.5, 0.6, 0.9], Verdict::Met);
    }

    #[test]
    fn a_demand_between_median_and_kinder_quartile_is_noise() {
        check(AT_LEAST_TWO, &[1.0, 1.0, 1.9, 2.0, 2.0], Verdict::Noise);
        check(AT_MOST_TWO, &[0.1, 0.1, 0.4, 0.5, 0.5], Verdict::Noise);
    }

    #[test]
    fn a_demand_beyond_the_kinder_quartile_is_short() {
        check(AT_LEAST_TWO, &[1.0, 1.0, 1.9, 1.9, 9.0], Verdict::Short);
        check(AT_MOST_TWO, &[0.1, 0.1, 0.4, 0.4, 9.0], Verdict::Short);
    }

    #[test]
    fn a_line_without_demand_is_never_short() {
        let line = Goal::free("0", "a test").aim(AT_LEAST_TWO).judge(&[1.0], "a rival", &[1.0]);
        assert_eq!((line.verdict, line.aim_met), (Verdict::Free, Some(false)));
        assert!(!Entry::Line(Box::new(line)).is_short());
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The second round is ten times slower for both: no reason for another ratio.
        let goal = Goal::free("0", "a test").demand(Bound::AtLeast(3.0));
        let line = goal.judge(&[1.0, 10.0, 1.0], "a rival", &[3.0, 30.0, 3.0]);
        assert_eq!(line.ratio, Spread { lower: 3.0, median: 3.0, upper: 3.0 });
    }

    #[test]
    fn the_worst_verdict_speaks_for_a_sweep_and_then_the_worst_ratio() {
        let worst = |demand, sweeps: &[&[f64]]| {
            Line::worst(sweeps.iter().map(|rounds| line(demand, rounds)).collect()).rivals
        };
        let noise = [1.0, 1.0, 1.4, 2.0, 2.0];
        let short = [1.5; 5];
        assert!((worst(AT_LEAST_TWO, &[&[5.0; 5], &noise, &short]) - 1.5).abs() < 1e-9);
        assert!((worst(AT_LEAST_TWO, &[&[5.0; 5], &[3.0; 5], &[4.0; 5]]) - 3.0).abs() < 1e-9);
        assert!((worst(AT_MOST_TWO, &[&[5.0; 5], &[3.0; 5], &[4.0; 5]]) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_skipped_goal_is_not_short_and_says_why() {
        let skip = Entry::Skip { id: "7", reason: "no such tier".to_owned() };
        assert!(!skip.is_short());
        assert_eq!(skip.to_string(), "7    skip: no such tier");
        assert_eq!(skip.to_json()["verdict"], "skip");
    }

    #[test]
    fn json_holds_the_figures_and_the_verdict_of_a_line() {
        let entry = Entry::Line(Box::new(line(AT_LEAST_TWO, &[1.0; 9])));
        let json = to_json(&json!({ "processor": "a" }), &[entry]);
        let goal = &json["goals"][0];
        assert_eq!(goal["verdict"], "SHORT");
        assert_eq!(goal["demand"]["at_least"], 2.0);
        assert_eq!(goal["ratio"]["median"], 1.0);
        assert_eq!(json["machine"]["processor"], "a");
    }
}
