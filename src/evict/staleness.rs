//! `Staleness`: how many of the marks that hands meet are of no use any more.

/// The whole, as the share of stale marks counts.
const WHOLE: u32 = 1 << 16;

/// Every mark that is met moves the share by a part of this of what it differs.
const MEMORY: u32 = 128;

/// The share of stale ones among the marked entries that were met last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Staleness(u32);

impl Staleness {
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Counts a marked entry; it is stale if nobody hit it since a hand met it before.
    pub(crate) fn count(&mut self, is_stale: bool) {
        self.0 -= self.0 / MEMORY;
        if is_stale {
            self.0 += WHOLE / MEMORY;
        }
    }

    /// Whether more than half are stale: what was often used is no longer in use. While the keys
    /// that are asked for stay the same, a tenth to two fifths are.
    pub(crate) const fn is_most(self) -> bool {
        self.0 > WHOLE / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_stale_marks_count_and_as_many_fresh_ones_between_them_do_not() {
        let mut staleness = Staleness::default();
        (0..80).for_each(|_| staleness.count(true));
        assert!(!staleness.is_most());
        (80..100).for_each(|_| staleness.count(true));
        assert!(staleness.is_most());
        (0..1000).for_each(|at| staleness.count(at % 3 == 0));
        assert!(!staleness.is_most());
    }
}
