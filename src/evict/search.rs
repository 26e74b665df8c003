//! `Search`: which entry a hand is after.

/// What a hand looks for on its way over the slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Search {
    /// The next main entry without a mark.
    Unmarked,
    /// The next main entry, if it was not hit since a hand met it.
    Stale,
    /// The next entry.
    Any,
}
