//! `Past`: what is known of the keys that were evicted, and what follows from their coming back.

use crate::evict::GHOSTS_FOR_TWO;
use crate::evict::Ghost;
use crate::evict::ghost::Lost;
use crate::evict::share::Share;

/// What a node learns from the keys that it has evicted.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) ghost: Ghost,
    pub(crate) share: Share,
}

impl Past {
    /// Of a node whose room is for about so many entries, and that has evicted nothing.
    pub(crate) fn new(entries: u64) -> Self {
        Self { ghost: Ghost::new(fingerprints(entries)), share: Share::new(entries) }
    }

    /// The room is for about so many entries by now.
    pub(crate) fn fit(&self, entries: u64) {
        self.ghost.fit(fingerprints(entries));
        self.share.fit(entries);
    }

    /// What is known of a key that comes in, if the window has lost it not long ago. The window's
    /// share follows what comes back just after it was evicted.
    pub(crate) fn recall(&self, hash: u64) -> Option<Returned> {
        match self.ghost.take(hash)? {
            Lost::FromWindow { just } => {
                if just {
                    self.share.grow();
                }
                Some(Returned { just })
            }
            Lost::FromMain => {
                self.share.shrink();
                None
            }
        }
    }

    /// Such a key is worth no more than the main entries that would have to make room for it: that
    /// it came back speaks for more of them as much as for a larger window. A little more, because
    /// the window keeps nothing: else its share would stay whatever it was when the drought began.
    pub(crate) fn turn_down(&self, returned: Returned) {
        if returned.just {
            self.share.shrink();
        }
        self.share.shrink_a_little();
    }
}

/// A key that has come back, which the window had lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Returned {
    just: bool,
}

/// How many fingerprints the ghost is to have for so many entries.
fn fingerprints(entries: u64) -> usize {
    usize::try_from(entries.saturating_mul(GHOSTS_FOR_TWO) / 2).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the window's share has grown, or shrunk, by the coming back of a key.
    #[track_caller]
    fn check(lose: impl Fn(&Ghost), admitted: bool, grown: i32) {
        let past = Past::new(100);
        let most = |past: &Past| (0..10_000).position(|cost| past.share.is_exceeded(cost, 10_000));
        let before = most(&past);
        lose(&past.ghost);
        let returned = past.recall(7);
        assert_eq!(returned.is_some(), admitted);
        assert_eq!(most(&past).cmp(&before) as i32, grown);
        assert_eq!(past.recall(7), None);
        if let Some(returned) = returned {
            past.turn_down(returned);
            assert!(most(&past) < before, "its growth is taken back, and a little more");
        }
    }

    #[test]
    fn the_share_follows_what_comes_back_at_once_from_either_side() {
        check(|_| {}, false, 0);
        check(|ghost| ghost.remember(7), true, 1);
        check(|ghost| ghost.remember_main(7), false, -1);
        check(|ghost| (7..17).for_each(|hash| ghost.remember(hash)), true, 0);
        check(|ghost| (7..17).for_each(|hash| ghost.remember_main(hash)), false, 0);
    }
}
