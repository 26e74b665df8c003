//! Scripts: the steps of one client, and the walk over them.

use crate::load::picks::Picks;
use crate::load::picks::Zipf;
use crate::load::picks::scattered;
use crate::load::step::Action;
use crate::load::step::Step;
use crate::random::Random;

/// How many keys a scan reads.
const SCAN_NUMBERS: u32 = 16;
pub const SCAN_KEYS: usize = SCAN_NUMBERS as usize;

/// Batches are as long as this at most, and divide it: within it all steps do the same.
const GROUP: usize = 32;

/// How long the values are that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// As long as those that they replace.
    Fixed,
    /// As it comes.
    Changing,
    /// As short as there are.
    Least,
}

/// What a client does, in hundredths; the rest are reads.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Written.
    pub sets: usize,
    /// Removed and written again.
    pub renews: usize,
    /// Read, and written with what was computed.
    pub modifies: usize,
    /// Read with their neighbours.
    pub scans: usize,
    /// Written for the first time.
    pub inserts: usize,
    /// Read, and written where they are not there.
    pub fetches: usize,
    /// How long written values are.
    pub sizes: Sizes,
}

impl Mix {
    /// Reads only.
    pub const READS: Self = Self {
        sets: 0,
        renews: 0,
        modifies: 0,
        scans: 0,
        inserts: 0,
        fetches: 0,
        sizes: Sizes::Fixed,
    };

    /// Reads, and so many hundredths of writes.
    pub const fn writes(sets: usize) -> Self {
        Self { sets, ..Self::READS }
    }
}

/// The steps of a client, which it walks over again and again.
#[derive(Clone, Debug)]
pub struct Script {
    steps: Vec<Step>,
}

impl Script {
    /// All of them, in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Gives every step a key that differs from those under other labels.
    pub fn relabel(&mut self, label: u16) {
        self.steps.iter_mut().for_each(|step| step.relabel(label));
    }
}

/// What a script is made of.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// The keys that there are at the start.
    pub keys: u32,
    /// The table of Zipf's law over as many keys.
    pub zipf: Zipf,
    /// Which of them are picked.
    pub picks: Picks,
    /// What is done with them.
    pub mix: Mix,
    /// How many steps.
    pub steps: usize,
    /// Whether steps that lie in one batch do the same.
    pub grouped: bool,
}

impl Recipe {
    /// A script for each client.
    pub fn scripts(&self, clients: usize) -> Vec<Script> {
        (0..u32::try_from(clients).expect("few")).map(|client| self.script(client)).collect()
    }

    /// The script of one client. Clients insert keys of their own.
    pub fn script(&self, client: u32) -> Script {
        let mut random = Random::of(u64::from(client));
        let mut steps = Vec::with_capacity(self.steps);
        let mut inserted = Vec::new();
        let first_new = self.keys + client * u32::try_from(self.steps).expect("below a u32");
        let mut action = None;
        while steps.len() + SCAN_KEYS <= self.steps {
            if !self.grouped || steps.len().is_multiple_of(GROUP) {
                action = self.draw(&mut random);
            }
            let Some(action) = action else {
                let number = first_new + u32::try_from(inserted.len()).expect("below a u32");
                inserted.push(number);
                steps.push(self.sized(Step::new(number, Action::Set), &mut random));
                continue;
            };
            let number = self.pick(&mut random, &inserted);
            if action == Action::Scan {
                let start = number.min(self.keys - SCAN_NUMBERS);
                steps.extend((start..).map(|one| Step::new(one, action)).take(SCAN_KEYS));
                continue;
            }
            steps.push(self.sized(Step::new(number, action), &mut random));
        }
        Script { steps }
    }

    /// A step with a value as long as the mix has them.
    fn sized(&self, step: Step, random: &mut Random) -> Step {
        match self.mix.sizes {
            Sizes::Fixed => step,
            Sizes::Changing => step.of_length(u32::MAX >> (random.next() % 16)),
            Sizes::Least => step.of_length(0),
        }
    }

    /// What is done next; nothing stands for an insert.
    fn draw(&self, random: &mut Random) -> Option<Action> {
        let Mix { sets, renews, modifies, scans, inserts, fetches, .. } = self.mix;
        let mut left = random.below(100);
        let shares = [
            (sets, Some(Action::Set)),
            (renews, Some(Action::Renew)),
            (modifies, Some(Action::Modify)),
            (scans, Some(Action::Scan)),
            (inserts, None),
            (fetches, Some(Action::Fetch)),
        ];
        for (share, action) in shares {
            if left < share {
                return action;
            }
            left -= share;
        }
        Some(Action::Get)
    }

    fn pick(&self, random: &mut Random, inserted: &[u32]) -> u32 {
        match self.picks {
            Picks::One => self.keys / 2,
            Picks::Uniform => u32::try_from(random.below(self.keys as usize)).expect("below a u32"),
            Picks::Zipf => scattered(self.zipf.rank(random), self.keys),
            Picks::Latest => {
                let age = self.zipf.rank(random);
                let newest_first = inserted.iter().rev().nth(age as usize);
                // Those of this client first, then the last of those that were there before.
                newest_first.copied().unwrap_or_else(|| {
                    let older = age - u32::try_from(inserted.len()).expect("below a u32");
                    self.keys - 1 - older
                })
            }
        }
    }
}

/// A place in a script.
#[derive(Debug)]
pub struct Walk<'s> {
    steps: &'s [Step],
    at: usize,
}

impl<'s> Walk<'s> {
    /// From the start.
    pub fn over(script: &'s Script) -> Self {
        Self { steps: &script.steps, at: 0 }
    }

    /// The next steps, side by side; the end of the script that is too short for them is skipped.
    #[inline]
    pub fn take(&mut self, count: usize) -> &'s [Step] {
        if self.at + count > self.steps.len() {
            self.at = 0;
        }
        self.at += count;
        &self.steps[self.at - count..self.at]
    }

    /// The steps that the first one of the next, a scan, reads.
    #[inline]
    pub fn scan(&mut self) -> &'s [Step] {
        self.at -= 1;
        self.take(SCAN_KEYS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::load::zipf_table;

    fn recipe(picks: Picks, mix: Mix) -> Recipe {
        let keys = 10_000;
        Recipe { keys, zipf: zipf_table(keys), picks, mix, steps: 20_000, grouped: false }
    }

    fn share(script: &Script, action: Action) -> usize {
        let count = script.steps.iter().filter(|step| step.action == action).count();
        (count * 100 + script.steps.len() / 2) / script.steps.len()
    }

    #[test]
    fn a_script_has_the_shares_of_its_mix() {
        let mix = Mix { sets: 30, renews: 10, ..Mix::READS };
        let script = recipe(Picks::Uniform, mix).script(0);
        for (action, expected) in [(Action::Set, 30), (Action::Renew, 10), (Action::Get, 60)] {
            assert!(share(&script, action).abs_diff(expected) <= 1, "{action:?}");
        }
    }

    #[test]
    fn steps_of_one_batch_do_the_same() {
        let mixed = Recipe { grouped: true, ..recipe(Picks::Zipf, Mix::writes(50)) };
        let script = mixed.script(1);
        for batch in script.steps.chunks(GROUP) {
            assert!(batch.iter().all(|step| step.action == batch[0].action));
        }
        assert!(share(&script, Action::Set).abs_diff(50) <= 5);
    }

    #[test]
    fn scans_name_neighbours_and_are_never_cut() {
        let mix = Mix { scans: 95, inserts: 5, ..Mix::READS };
        let script = recipe(Picks::Zipf, mix).script(0);
        let mut walk = Walk::over(&script);
        for _ in 0..5000 {
            if walk.take(1)[0].action == Action::Scan {
                let keys: Vec<_> = walk.scan().iter().map(Step::key).collect();
                assert_eq!(keys.len(), SCAN_KEYS);
                assert!(keys.is_sorted(), "{keys:?}");
            }
        }
    }

    #[test]
    fn the_latest_keys_are_there_before_they_are_read() {
        let mix = Mix { inserts: 5, ..Mix::READS };
        let script = recipe(Picks::Latest, mix).script(3);
        let mut there: Vec<_> = (0..10_000).map(|n| Step::fill(n).key().to_vec()).collect();
        there.sort_unstable();
        let mut new = Vec::new();
        for step in &script.steps {
            match step.action {
                Action::Set => new.push(step.key()),
                Action::Get | Action::Renew | Action::Modify | Action::Scan | Action::Fetch => {
                    assert!(
                        new.contains(&step.key())
                            || there.binary_search_by(|one| one[..].cmp(step.key())).is_ok()
                    );
                }
            }
        }
        assert!(!new.is_empty());
    }

    #[test]
    fn steps_under_another_label_name_other_keys() {
        let mix = Mix { inserts: 100, sizes: Sizes::Least, ..Mix::READS };
        let mut script = recipe(Picks::Uniform, mix).script(0);
        let mut seen = HashSet::new();
        for label in [1, 9, 10, 999] {
            script.relabel(label);
            assert!(script.steps().iter().all(|step| seen.insert(step.key().to_vec())), "{label}");
        }
        assert!(script.steps().iter().all(|step| step.value().len() == 64));
    }

    #[test]
    fn clients_have_scripts_of_their_own() {
        let recipe = recipe(Picks::Uniform, Mix::READS);
        let [one, other] = [0, 1].map(|client| recipe.script(client));
        let same = one.steps.iter().zip(&other.steps).filter(|(a, b)| a.key() == b.key()).count();
        assert!(same < 100, "{same} of {}", one.steps.len());
    }
}
