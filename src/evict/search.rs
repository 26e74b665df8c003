//! `Search`: which entry a hand is after.

/// What a hand looks for on its way over the slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Search {
    /// The next main entry without a mark.
    Unmarked,
    /// The next main entry, if it was not hit since a hand met it.
    Stale,
    /// The next main entry, if it has no mark.
    Weak,
    /// The next entry.
    Any,
}

impl Search {
    /// Whether the hand stops at the next main entry, also when that stays.
    pub(crate) fn is_of_one(self) -> bool {
        matches!(self, Self::Stale | Self::Weak)
    }
}
