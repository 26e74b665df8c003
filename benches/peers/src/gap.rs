//! Goals in points: the difference of two percentages, what is demanded of it, and the verdict.

use std::fmt;

use serde_json::Value;
use serde_json::json;

use crate::report::Unit;
use crate::report::Verdict;

/// Sums of several hundred percentages differ by less than this from what they would be exactly.
const ROUNDING: f64 = 1e-9;

/// Our percentage beside a rival's.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// The goal's number.
    pub id: &'static str,
    /// What is compared.
    pub measure: String,
    /// Our percentage.
    pub ours: f64,
    /// The rival's name.
    pub rival: String,
    /// The rival's percentage.
    pub rivals: f64,
    /// How many points ours has to be above the rival's; `None` for lines that only inform.
    pub demand: Option<f64>,
}

impl Gap {
    /// How many points ours is above the rival's.
    pub fn points(&self) -> f64 {
        self.ours - self.rivals
    }

    /// How the difference stands to the demand. There is no noise: every round comes out the same.
    pub fn verdict(&self) -> Verdict {
        match self.demand {
            None => Verdict::Free,
            Some(least) if self.points() >= least - ROUNDING => Verdict::Met,
            Some(_) => Verdict::Short,
        }
    }

    /// The line for a file.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "measure": self.measure,
            "unit": Unit::Percent,
            "ours": self.ours,
            "rival": self.rival,
            "rivals": self.rivals,
            "points": self.points(),
            "points_demanded": self.demand,
            "verdict": self.verdict(),
        })
    }

    /// The same line, of which nothing is asked.
    #[must_use]
    pub fn free(self, id: &'static str) -> Self {
        Self { id, demand: None, ..self }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tell = |figure| Unit::Percent.tell(figure);
        let demand = self.demand.map_or_else(|| "-".to_owned(), |least| format!(">= {least:+}"));
        write!(
            f,
            "{:<4} {:<44} {:>9}  {:<19} {:>9}  {:>+6.2} points  {demand:<9} {}",
            self.id,
            self.measure,
            tell(self.ours),
            self.rival,
            tell(self.rivals),
            self.points(),
            self.verdict(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ours: f64, rivals: f64, demand: Option<f64>, verdict: Verdict) {
        let (measure, rival) = ("a test".to_owned(), "a rival".to_owned());
        let gap = Gap { id: "0", measure, ours, rival, rivals, demand };
        assert_eq!(gap.verdict(), verdict, "{gap}");
    }

    #[test]
    fn the_demand_is_on_the_difference() {
        check(50.0, 50.0, Some(0.0), Verdict::Met);
        check(50.0, 50.01, Some(0.0), Verdict::Short);
        check(49.0, 50.0, Some(-1.0), Verdict::Met);
        check(48.99, 50.0, Some(-1.0), Verdict::Short);
        check(0.0, 50.0, None, Verdict::Free);
    }

    #[test]
    fn what_is_lost_by_rounding_is_not_short() {
        check((0.1 + 0.2) / 3.0, 0.1 + f64::EPSILON, Some(0.0), Verdict::Met);
    }
}
