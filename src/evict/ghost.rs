//! The ghost: fingerprints of the keys that were evicted not long ago.

use crate::limits::GHOST_FINGERPRINTS_MAX;
use crate::sync::AtomicU64;
use crate::sync::AtomicUsize;
use crate::sync::OnceLock;
use crate::sync::Ordering;

/// Words of a set for what the window lost. With the one for main, a set is a cache line.
const WORDS: usize = 7;

/// Fingerprints in a word.
const WAYS: usize = 4;

/// Bits of a fingerprint.
const BITS: u32 = 16;

/// No ghost has more sets.
const SETS_MAX: usize = GHOST_FINGERPRINTS_MAX / (WORDS * WAYS);

/// No ghost doubles more often.
const DOUBLINGS_MAX: usize = SETS_MAX.ilog2() as usize;

/// Sets of fingerprints, each with the newest first. 0 is no fingerprint.
///
/// It grows by doubling: beside every set that there was there is another one then, and one more
/// bit of the hash says which of the two a key has. So half of what was remembered still is, and no
/// set is left behind.
///
/// Relaxed throughout, and a set is changed word by word: two threads that change the same set at
/// once may lose a fingerprint, or keep one twice. It is a guess anyway.
#[derive(Debug)]
pub(crate) struct Ghost {
    /// Those that it was made with.
    first: Box<[Set]>,
    /// What each doubling has added: as many as there were before it.
    added: [OnceLock<Box<[Set]>>; DOUBLINGS_MAX],
    doublings: AtomicUsize,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set {
    window: [AtomicU64; WORDS],
    /// As many as the first word of the window's, so that what is found in either was evicted
    /// equally many evictions ago.
    main: AtomicU64,
}

/// Where a key that comes back was evicted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// From the window; `just` if it is among the newest of its set.
    FromWindow { just: bool },
    /// From the main entries, just before.
    FromMain,
}

impl Ghost {
    /// Room for about so many fingerprints of what the window lost.
    pub(super) fn new(fingerprints: usize) -> Self {
        let added = [const { OnceLock::new() }; DOUBLINGS_MAX];
        Self { first: empty_sets(sets_for(fingerprints)), added, doublings: AtomicUsize::new(0) }
    }

    /// Doubles until the room is about that for so many fingerprints: less than two thirds of it
    /// are too little. It does not shrink.
    pub(super) fn fit(&self, fingerprints: usize) {
        let wanted = sets_for(fingerprints);
        loop {
            let doublings = self.doublings.load(Ordering::Relaxed);
            let sets = self.first.len() << doublings;
            if sets * 3 >= wanted * 2 || sets * 2 > SETS_MAX {
                return;
            }
            self.added[doublings].get_or_init(|| empty_sets(sets));
            // Two threads that double at once double once.
            self.doublings.fetch_max(doublings + 1, Ordering::Relaxed);
        }
    }

    /// The line that is read about a hash, for who prefetches.
    #[inline]
    pub(crate) fn line(&self, hash: u64) -> Option<*const u8> {
        self.place(hash).map(|(set, _)| std::ptr::from_ref(set).cast())
    }

    /// Remembers a key that the window lost, by its hash; the oldest one of its set is forgotten.
    pub(crate) fn remember(&self, hash: u64) {
        let Some((set, mut carried)) = self.place(hash) else { return };
        for word in &set.window {
            carried = push(word, carried);
            if carried == 0 {
                return;
            }
        }
    }

    /// Remembers a key that was a main entry.
    pub(crate) fn remember_main(&self, hash: u64) {
        if let Some((set, fingerprint)) = self.place(hash) {
            push(&set.main, fingerprint);
        }
    }

    /// Where a key was evicted from that is remembered, or one with the same fingerprint; it is
    /// forgotten.
    pub(super) fn take(&self, hash: u64) -> Option<Lost> {
        let (set, fingerprint) = self.place(hash)?;
        if let Some(at) = set.window.iter().position(|word| take(word, fingerprint)) {
            return Some(Lost::FromWindow { just: at == 0 });
        }
        take(&set.main, fingerprint).then_some(Lost::FromMain)
    }

    /// The set of a hash, and the fingerprint, which is not 0. Nothing where another thread has
    /// just doubled the sets, and this one does not see the new ones yet.
    ///
    /// Tables take the low bits of the hash and its top seven, which for keys of one slot are as
    /// good as any. Of the sets that it was made with the high bits choose one, the bits above the
    /// fingerprint one of those that were added beside it, and the fingerprint is the low bits. A
    /// ghost has no more sets than leaves the three apart.
    #[inline]
    fn place(&self, hash: u64) -> Option<(&Set, u64)> {
        let first = (u128::from(hash) * self.first.len() as u128) >> u64::BITS;
        let first = usize::try_from(first).expect("below the number of sets");
        let chosen = (hash >> BITS) & ((1 << self.doublings.load(Ordering::Relaxed)) - 1);
        let set = match chosen.checked_ilog2() {
            None => &self.first[first],
            Some(doubling) => {
                let beside = usize::try_from(chosen - (1 << doubling)).expect("below as many");
                &self.added[doubling as usize].get()?[beside * self.first.len() + first]
            }
        };
        Some((set, (hash & 0xFFFF).max(1)))
    }
}

/// How many sets have room for so many fingerprints; at least one.
fn sets_for(fingerprints: usize) -> usize {
    fingerprints.div_ceil(WORDS * WAYS).clamp(1, SETS_MAX)
}

fn empty_sets(count: usize) -> Box<[Set]> {
    std::iter::repeat_with(Set::default).take(count).collect()
}

/// Puts a fingerprint in front; the one that falls out at the end.
fn push(word: &AtomicU64, fingerprint: u64) -> u64 {
    let held = word.load(Ordering::Relaxed);
    word.store(held << BITS | fingerprint, Ordering::Relaxed);
    held >> (u64::BITS - BITS)
}

/// Takes a fingerprint out, if it is there.
fn take(word: &AtomicU64, fingerprint: u64) -> bool {
    let held = word.load(Ordering::Relaxed);
    for shift in (0..u64::BITS).step_by(BITS as usize) {
        if held >> shift & 0xFFFF == fingerprint {
            // Those behind it in the word move up; the gap at its end is filled next.
            let newer = held & ((1 << shift) - 1);
            let older = held >> shift >> BITS << shift;
            word.store(older | newer, Ordering::Relaxed);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fingerprints in a set of what the window lost.
    const A_SET: usize = WORDS * WAYS;

    #[test]
    fn a_set_remembers_the_newest_and_each_once() {
        let ghost = Ghost::new(1);
        (1..=40).for_each(|hash| ghost.remember(hash));
        let remembered = || (1..=40).filter(|&hash| ghost.take(hash).is_some()).count();
        assert_eq!(ghost.take(12), None);
        assert_eq!(ghost.take(13), Some(Lost::FromWindow { just: false }));
        assert_eq!(ghost.take(40), Some(Lost::FromWindow { just: true }));
        assert_eq!(remembered(), 26);
        assert_eq!(remembered(), 0);
    }

    #[test]
    fn what_comes_fills_the_gap_that_a_taken_one_left() {
        let ghost = Ghost::new(1);
        (1..=28).for_each(|hash| ghost.remember(hash));
        assert!(ghost.take(26).is_some());
        ghost.remember(29);
        assert!((1..=29).filter(|&hash| hash != 26).all(|hash| ghost.take(hash).is_some()));
    }

    #[test]
    fn what_main_lost_is_remembered_apart_and_not_for_long() {
        let ghost = Ghost::new(1);
        (1..=5).for_each(|hash| ghost.remember_main(hash));
        (11..=38).for_each(|hash| ghost.remember(hash));
        assert_eq!(ghost.take(1), None);
        assert!((2..=5).all(|hash| ghost.take(hash) == Some(Lost::FromMain)));
        assert!((11..=38).all(|hash| ghost.take(hash).is_some()));
    }

    /// Hashes in which every bit differs from one to the next.
    fn hashes(count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(|number| {
            let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
        })
    }

    /// How many of so many keys are remembered, if one after the other is.
    fn remembered(ghost: &Ghost, count: u64) -> usize {
        hashes(count).for_each(|hash| ghost.remember(hash));
        hashes(count).filter(|&hash| ghost.take(hash).is_some()).count()
    }

    #[test]
    fn a_ghost_that_has_grown_remembers_as_much_as_one_that_was_made_so_large() {
        for (made, grown) in [(1, 32 * 64), (100, 3_200), (1_000, 8_192), (4_000, 100_000)] {
            let ghost = Ghost::new(made);
            ghost.fit(grown);
            // Less than it has room for, so that few sets overflow; then more than any has.
            for count in [grown as u64 / 2, grown as u64 * 4] {
                let (found, least) =
                    (remembered(&ghost, count), remembered(&Ghost::new(grown), count));
                let differs = found.abs_diff(least) * 3;
                assert!(differs <= grown, "{made} to {grown}, {count}: {found} instead of {least}");
            }
        }
    }

    #[test]
    fn half_of_what_was_remembered_is_so_after_a_doubling() {
        let ghost = Ghost::new(A_SET * 100);
        hashes(1_000).for_each(|hash| ghost.remember(hash));
        ghost.fit(A_SET * 200);
        let kept = hashes(1_000).filter(|&hash| ghost.take(hash).is_some()).count();
        assert!((400..600).contains(&kept), "{kept} of 1000");
    }

    #[test]
    fn a_ghost_that_is_large_enough_stays_as_it_is() {
        let sets = |made: usize, wanted: usize| {
            let ghost = Ghost::new(A_SET * made);
            ghost.fit(A_SET * wanted);
            made << ghost.doublings.load(Ordering::Relaxed)
        };
        assert_eq!([1, 66, 100, 150].map(|wanted| sets(100, wanted)), [100; 4]);
        assert_eq!([151, 200, 300].map(|wanted| sets(100, wanted)), [200; 3]);
        assert_eq!([301, 400].map(|wanted| sets(100, wanted)), [400; 2]);
    }
}
