//! The ghost: fingerprints of the keys that were evicted from the window not long ago.

use crate::sync::AtomicU64;
use crate::sync::Ordering;

/// Words in a set, which is a cache line.
const WORDS: usize = 8;

/// Fingerprints in a word.
const WAYS: usize = 4;

/// Bits of a fingerprint.
const BITS: u32 = 16;

/// Sets of fingerprints, each with the newest first. 0 is no fingerprint.
///
/// Relaxed throughout, and a set is changed word by word: two threads that change the same set at
/// once may lose a fingerprint, or keep one twice. It is a guess anyway.
#[derive(Debug)]
pub(crate) struct Ghost {
    sets: Box<[Set]>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WORDS]);

impl Ghost {
    /// Room for about so many fingerprints.
    pub(crate) fn new(fingerprints: usize) -> Self {
        let sets = fingerprints.div_ceil(WORDS * WAYS).max(1);
        Self { sets: std::iter::repeat_with(Set::default).take(sets).collect() }
    }

    /// Remembers a key by its hash; the oldest one of its set is forgotten.
    pub(crate) fn remember(&self, hash: u64) {
        let (set, mut carried) = self.place(hash);
        for word in &set.0 {
            let held = word.load(Ordering::Relaxed);
            word.store(held << BITS | carried, Ordering::Relaxed);
            carried = held >> (u64::BITS - BITS);
            if carried == 0 {
                return;
            }
        }
    }

    /// Whether a key is remembered, or one with the same fingerprint; it is forgotten.
    pub(crate) fn take(&self, hash: u64) -> bool {
        let (set, fingerprint) = self.place(hash);
        for word in &set.0 {
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
        }
        false
    }

    /// The set of a hash, and the fingerprint, which is not 0.
    ///
    /// Tables take the low bits of the hash and its top seven, which for keys of one slot are as
    /// good as any; a set takes the high half, and the fingerprint the low bits.
    fn place(&self, hash: u64) -> (&Set, u64) {
        let set = (u128::from(hash) * self.sets.len() as u128) >> u64::BITS;
        let set = usize::try_from(set).expect("below the number of sets");
        (&self.sets[set], (hash & 0xFFFF).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_remembers_the_newest_and_each_once() {
        let ghost = Ghost::new(1);
        (1..=40).for_each(|hash| ghost.remember(hash));
        let remembered = |ghost: &Ghost| (1..=40).filter(|&hash| ghost.take(hash)).count();
        assert!(!ghost.take(8));
        assert!(ghost.take(9));
        assert_eq!(remembered(&ghost), 31);
        assert_eq!(remembered(&ghost), 0);
    }

    #[test]
    fn what_comes_fills_the_gap_that_a_taken_one_left() {
        let ghost = Ghost::new(1);
        (1..=32).for_each(|hash| ghost.remember(hash));
        assert!(ghost.take(30));
        ghost.remember(33);
        assert!((1..=33).filter(|&hash| hash != 30).all(|hash| ghost.take(hash)));
    }
}
