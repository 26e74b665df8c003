//! How many of the marks that the hand meets are stale: a running share over the last ones.

/// The whole, as the share counts.
const WHOLE: u32 = 1 << 16;

/// Every entry that is met moves the share by a part of this of what it differs.
const MEMORY: u32 = 128;

/// The share of stale entries among the marked ones that the hand met last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Staleness(u32);

impl Staleness {
    /// Counts a marked entry; it is stale if nobody hit it since the hand met it before.
    pub fn count(&mut self, is_stale: bool) {
        self.0 -= self.0 / MEMORY;
        if is_stale {
            self.0 += WHOLE / MEMORY;
        }
    }

    /// Whether more than half are stale: what was often used is no longer in use. While the keys
    /// that are asked for stay the same, a tenth to two fifths are.
    pub fn prevails(self) -> bool {
        self.0 > WHOLE / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prevails_after_many_stale_marks_and_not_among_as_many_fresh_ones() {
        let mut staleness = Staleness::default();
        (0..80).for_each(|_| staleness.count(true));
        assert!(!staleness.prevails());
        (80..100).for_each(|_| staleness.count(true));
        assert!(staleness.prevails());
        (0..1000).for_each(|at| staleness.count(at % 3 == 0));
        assert!(!staleness.prevails());
    }
}
