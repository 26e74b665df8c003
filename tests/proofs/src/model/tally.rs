//! `Tally`: how often what happened, over many runs.

use std::fmt;

use crate::model::Action;

/// How often each action was tried and took effect, and what else the runs met.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs that came to their end.
    pub runs: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// Calls that were answered.
    pub answers: u64,
    /// MOVED and ASK answers that clients followed.
    pub redirects: u64,
    /// TRYAGAIN answers that clients got.
    pub try_agains: u64,
    /// Calls whose keys were pulled together.
    pub pulls: u64,
    /// Calls that ended in `TryAgain`.
    pub calls_split: u64,
    /// Calls that ended in `ClusterDown`.
    pub calls_down: u64,
    /// Handovers that completed a move which was open.
    pub handovers_of_open: u64,
    /// Sets of several slots that were handed over.
    pub sets_committed: u64,
    /// Sets whose reservations were released.
    pub sets_released: u64,
    /// Verbs that a call in the gate turned away.
    pub verbs_busy: u64,
    /// Verbs that were refused for another reason.
    pub verbs_refused: u64,
    /// Entries that had expired when a step met them.
    pub expired: u64,
    counts: Vec<(u64, u64)>,
}

impl Tally {
    pub(super) fn tried(&mut self, action: Action) {
        self.count(action).0 += 1;
    }

    pub(super) fn took_effect(&mut self, action: Action) {
        self.count(action).1 += 1;
    }

    fn count(&mut self, action: Action) -> &mut (u64, u64) {
        self.counts.resize(Action::ALL.len(), (0, 0));
        &mut self.counts[action as usize]
    }

    /// What never happened in any run.
    pub fn never(&self) -> Vec<String> {
        let effects = |action: Action| self.counts.get(action as usize).map_or(0, |count| count.1);
        let actions = Action::ALL.iter().filter(|&&action| effects(action) == 0);
        let met = [
            ("answers", self.answers),
            ("redirects", self.redirects),
            ("try agains", self.try_agains),
            ("pulls", self.pulls),
            ("calls split", self.calls_split),
            ("calls down", self.calls_down),
            ("handovers of open slots", self.handovers_of_open),
            ("sets committed", self.sets_committed),
            ("sets released", self.sets_released),
            ("verbs busy", self.verbs_busy),
            ("verbs refused", self.verbs_refused),
            ("expired", self.expired),
        ];
        let others = met.iter().filter(|(_, count)| *count == 0).map(|(name, _)| (*name).into());
        actions.map(|action| format!("{action:?}")).chain(others).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} runs, {} steps, {} answers", self.runs, self.steps, self.answers)?;
        let Self { redirects, try_agains, pulls, calls_split, calls_down, .. } = self;
        let Self { verbs_busy, verbs_refused, expired, .. } = self;
        let Self { handovers_of_open, sets_committed, sets_released, .. } = self;
        writeln!(
            f,
            "redirects {redirects}, try agains {try_agains}, pulls {pulls}, expired {expired}"
        )?;
        writeln!(f, "calls: split {calls_split}, down {calls_down}")?;
        writeln!(f, "sets: committed {sets_committed}, released {sets_released}")?;
        writeln!(f, "handovers of open slots: {handovers_of_open}")?;
        writeln!(f, "verbs: busy {verbs_busy}, refused {verbs_refused}")?;
        for (action, (tried, effects)) in Action::ALL.iter().zip(&self.counts) {
            writeln!(f, "{action:?}: {effects} of {tried}")?;
        }
        Ok(())
    }
}
