//! `Judge`: which of the entries that a policy of Redis looks at has to go.

use crate::evict::Frequency;
use crate::time::NEVER;

/// What makes an entry go first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// That it was not hit for the longest time.
    Recency,
    /// That it is hit least.
    Frequency,
    /// Nothing.
    Chance,
    /// That it expires next.
    Deadline,
}

/// How a node chooses among samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) by: By,
    /// Whether entries without a deadline stay whatever happens.
    pub(crate) spares_lasting: bool,
}

/// A choice that is made now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) choice: Choice,
    /// The node's fine tick.
    pub(crate) fine: u16,
    /// The node's coarse tick.
    pub(crate) coarse: u8,
    /// What decides where nothing else does.
    pub(crate) drawn: u64,
}

impl Judge {
    /// How gladly a sample is given up, the greater the sooner; nothing if it has to stay.
    pub(crate) fn rank(&self, number: u32, bits: u16, deadline: u64) -> Option<u64> {
        if self.choice.spares_lasting && deadline == NEVER {
            return None;
        }
        Some(match self.choice.by {
            By::Recency => u64::from(self.fine.wrapping_sub(bits)),
            By::Frequency => u64::from(u8::MAX - Frequency::from_bits(bits).count(self.coarse)),
            By::Chance => self.drawn.rotate_left(number * 4) & 0xFFFF,
            By::Deadline => NEVER - deadline,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evict::Entrance;
    use crate::evict::Hit;

    fn judge(by: By, spares_lasting: bool, fine: u16) -> Judge {
        let [_, coarse] = (fine / 256).to_be_bytes();
        Judge { choice: Choice { by, spares_lasting }, fine, coarse, drawn: 1 }
    }

    #[test]
    fn what_was_hit_later_stays_longer_also_when_ticks_have_gone_round() {
        let judge = judge(By::Recency, false, 3);
        let bits = |tick| Hit::Recent { tick }.entered(Entrance::Main);
        let ranks = [65_530, 65_535, 0, 2, 3].map(|tick| judge.rank(1, bits(tick), NEVER));
        assert!(ranks.is_sorted_by(|one, next| one > next), "{ranks:?}");
    }

    #[test]
    fn what_is_hit_more_often_stays_longer() {
        let judge = judge(By::Frequency, false, 0);
        let hit = Hit::Frequent { tick: 0, drawn: 0 };
        let new = hit.entered(Entrance::Main);
        let once = hit.on(new).expect("the first hit counts");
        let twice = hit.on(once).expect("0 always counts");
        assert!(judge.rank(1, new, NEVER) > judge.rank(1, once, NEVER));
        assert!(judge.rank(1, once, NEVER) > judge.rank(1, twice, NEVER));
    }

    #[test]
    fn lasting_entries_are_spared_where_the_policy_says_so() {
        for by in [By::Recency, By::Frequency, By::Chance, By::Deadline] {
            assert_eq!(judge(by, true, 9).rank(1, 0, NEVER), None);
            assert!(judge(by, false, 9).rank(1, 0, NEVER).is_some());
            assert!(judge(by, true, 9).rank(1, 0, 5).is_some());
        }
        let judge = judge(By::Deadline, true, 0);
        assert!(judge.rank(1, 0, 5) > judge.rank(1, 0, 6));
    }
}
