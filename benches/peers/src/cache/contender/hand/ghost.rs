//! The ghost: fingerprints of the keys that were evicted from the window not long ago.

/// Fingerprints in a set, which is a cache line of 64 bytes.
const WAYS: usize = 32;

/// Sets of fingerprints, each with the newest first. 0 is no fingerprint.
#[derive(Debug)]
pub struct Ghost(Vec<[u16; WAYS]>);

impl Ghost {
    /// Room for so many fingerprints, one set at least.
    pub fn new(fingerprints: usize) -> Self {
        Self(vec![[0; WAYS]; fingerprints.div_ceil(WAYS).max(1)])
    }

    /// Remembers a key; the oldest one of its set is forgotten.
    pub fn remember(&mut self, hash: u64) {
        let (set, fingerprint) = self.place(hash);
        set.copy_within(..WAYS - 1, 1);
        set[0] = fingerprint;
    }

    /// Whether a key is remembered, or one with the same fingerprint; it is forgotten.
    pub fn take(&mut self, hash: u64) -> bool {
        let (set, fingerprint) = self.place(hash);
        let Some(way) = set.iter().position(|&held| held == fingerprint) else {
            return false;
        };
        set.copy_within(way + 1.., way);
        set[WAYS - 1] = 0;
        true
    }

    fn place(&mut self, hash: u64) -> (&mut [u16; WAYS], u16) {
        let set = (u128::from(hash) * self.0.len() as u128) >> 64;
        let set = usize::try_from(set).expect("below the number of sets");
        let fingerprint = u16::try_from(hash & 0xFFFF).expect("16 bits").max(1);
        (&mut self.0[set], fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_remembers_the_newest_and_each_once() {
        let mut ghost = Ghost::new(1);
        (1..=40).for_each(|hash| ghost.remember(hash));
        let remembered = |ghost: &mut Ghost| (1..=40).filter(|&hash| ghost.take(hash)).count();
        assert!(!ghost.take(8));
        assert!(ghost.take(9));
        assert_eq!(remembered(&mut ghost), 31);
        assert_eq!(remembered(&mut ghost), 0);
    }
}
