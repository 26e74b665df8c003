//! `Share`: how much of the room the window may take.

use crate::evict::WINDOW_PERCENT;
use crate::sync::AtomicU64;
use crate::sync::Ordering;

/// The whole room, as shares count.
const WHOLE: u64 = 1 << 32;

/// The least that the window may take, in percent, or one entry if that is more: enough to see a
/// key come again at once.
const LEAST_PERCENT: u64 = 1;

/// The most, in percent. What a hand meets for the second time it takes for a main entry, and it
/// comes round before an entry has passed the window if much more than half of all are in it.
const MOST_PERCENT: u64 = 60;

/// How far chance alone moves the share, as a part of the whole, while as many keys come back as
/// there are entries: the length of a walk of that many steps.
const WALK: u64 = WHOLE / 32;

/// So many little steps are one.
const LITTLE: u64 = 4;

/// The share. It grows by a step for each key that a slightly larger window would have kept, and
/// shrinks by one for each that slightly more main entries would have.
///
/// Relaxed, and read and written apart: a step may be lost. It is a guess anyway.
#[derive(Debug)]
pub(crate) struct Share {
    part: AtomicU64,
    step: AtomicU64,
    least: AtomicU64,
}

impl Share {
    /// The share to begin with, in a room for about so many entries.
    pub(super) fn new(entries: u64) -> Self {
        let (step, least) = (step(entries), least(entries));
        let part = percent(WINDOW_PERCENT).max(least);
        let [part, step, least] = [part, step, least].map(AtomicU64::new);
        Self { part, step, least }
    }

    /// The room is for about so many entries by now.
    pub(super) fn fit(&self, entries: u64) {
        self.step.store(step(entries), Ordering::Relaxed);
        self.least.store(least(entries), Ordering::Relaxed);
    }

    /// The window should have been larger.
    pub(super) fn grow(&self) {
        let part = self.part.load(Ordering::Relaxed);
        let more = part + self.step.load(Ordering::Relaxed);
        self.part.store(more.min(percent(MOST_PERCENT)), Ordering::Relaxed);
    }

    /// There should have been more main entries.
    pub(super) fn shrink(&self) {
        self.shrink_by(self.step.load(Ordering::Relaxed));
    }

    /// There may well be more main entries.
    pub(super) fn shrink_a_little(&self) {
        self.shrink_by(self.step.load(Ordering::Relaxed) / LITTLE);
    }

    fn shrink_by(&self, step: u64) {
        let less = self.part.load(Ordering::Relaxed).saturating_sub(step);
        self.part.store(less.max(self.least.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Whether a window that takes so much takes more than its share of the room.
    pub(crate) fn is_exceeded(&self, window: u64, room: u64) -> bool {
        let part = self.part.load(Ordering::Relaxed);
        u128::from(window) * u128::from(WHOLE) > u128::from(room) * u128::from(part)
    }
}

/// A step in a room for about so many entries.
fn step(entries: u64) -> u64 {
    WALK / entries.max(1).isqrt()
}

/// The least share of a room for about so many entries.
fn least(entries: u64) -> u64 {
    let entry = WHOLE.div_ceil(entries.max(1));
    entry.clamp(percent(LEAST_PERCENT), percent(MOST_PERCENT))
}

const fn percent(percent: u64) -> u64 {
    (WHOLE * percent).div_ceil(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that the window may take of a million.
    fn most(share: &Share) -> u64 {
        (1..=1_000_000).take_while(|&cost| !share.is_exceeded(cost, 1_000_000)).count() as u64
    }

    #[test]
    fn a_share_goes_to_its_ends_and_back_and_no_further() {
        let share = Share::new(100);
        assert_eq!(most(&share), WINDOW_PERCENT * 10_000);
        (0..1_000).for_each(|_| share.grow());
        assert_eq!(most(&share), MOST_PERCENT * 10_000);
        (0..1_000).for_each(|_| share.shrink());
        assert_eq!(most(&share), LEAST_PERCENT * 10_000);
        share.grow();
        assert!(most(&share) > LEAST_PERCENT * 10_000);
        (0..LITTLE).for_each(|_| share.shrink_a_little());
        assert_eq!(most(&share), LEAST_PERCENT * 10_000);
    }

    #[test]
    fn steps_are_as_small_as_their_walk_over_all_entries_is_short() {
        for entries in [0, 1, 2, 1_000, 1 << 50] {
            let step = step(entries);
            assert!(step >= LITTLE, "{entries}");
            assert!(step * entries.isqrt() <= WALK, "{entries}");
        }
    }
}
