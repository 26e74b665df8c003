//! The ghost: fingerprints of the keys that were evicted not long ago.

/// Sets of so many fingerprints, each with the newest first. 0 is no fingerprint.
#[derive(Debug)]
pub struct Ghost<const WAYS: usize>(Vec<[u16; WAYS]>);

impl<const WAYS: usize> Ghost<WAYS> {
    /// So many sets, one at least.
    pub fn new(sets: usize) -> Self {
        Self(vec![[0; WAYS]; sets.max(1)])
    }

    /// Remembers a key; the oldest one of its set is forgotten.
    pub fn remember(&mut self, hash: u64) {
        let (set, fingerprint) = self.place(hash);
        set.copy_within(..WAYS - 1, 1);
        set[0] = fingerprint;
    }

    /// How many of its set came after a key that is remembered, or one with the same fingerprint;
    /// it is forgotten.
    pub fn take(&mut self, hash: u64) -> Option<usize> {
        let (set, fingerprint) = self.place(hash);
        let way = set.iter().position(|&held| held == fingerprint)?;
        set.copy_within(way + 1.., way);
        set[WAYS - 1] = 0;
        Some(way)
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
        let mut ghost = Ghost::<32>::new(0);
        (1..=40).for_each(|hash| ghost.remember(hash));
        let mut remembered = || (1..=40).filter(|&hash| ghost.take(hash).is_some()).count();
        assert_eq!(remembered(), 32);
        assert_eq!(remembered(), 0);
        (1..=40).for_each(|hash| ghost.remember(hash));
        assert_eq!([8, 9, 40].map(|hash| ghost.take(hash)), [None, Some(31), Some(0)]);
    }
}
