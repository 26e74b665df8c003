//! `Epoch`: the version of a claim; the greater one wins.

use std::fmt;

/// The version of a claim to a slot, drawn from one counter of the cluster.
///
/// The epoch of a flip is greater than every epoch that was drawn before it. `Epoch::ZERO` is older
/// than every claim. Epochs take 48 bits: a million flips a second last for nine years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(u64);

impl Epoch {
    /// Older than every claim.
    pub const ZERO: Self = Self(0);

    pub(crate) const BITS: u32 = 48;

    /// # Panics
    /// When the counter of the cluster has left 48 bits.
    pub(crate) fn new(count: u64) -> Self {
        assert!(count < 1 << Self::BITS, "the epoch counter has left its 48 bits");
        Self(count)
    }

    /// The epoch as a plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
