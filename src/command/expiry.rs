//! When an entry expires: what the caller asks for, and the deadline that it becomes.

use std::time::Duration;
use std::time::SystemTime;

use crate::time::NEVER;
use crate::time::Now;

/// When an entry expires, as a caller says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Expiry {
    /// Never. A plain `set` clears the deadline, as in Redis.
    #[default]
    Never,
    /// When the entry that it replaces would have; never, if there is none.
    Keep,
    /// After this time, counted from the moment the call runs. Too long to count means never.
    In(Duration),
    /// At this time of the wall clock, converted once, when the call arrives. A time that has
    /// passed means at once.
    At(SystemTime),
}

/// An [`Expiry`] whose wall clock time was converted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deadline {
    Keep,
    After(Duration),
    /// Nanoseconds since the cluster began.
    At(u64),
}

impl Deadline {
    /// The plain number to store; `present` is the deadline of the entry that is there.
    #[inline]
    pub(crate) fn resolve(self, present: Option<u64>, now: &Now<'_>) -> u64 {
        match self {
            Self::At(deadline) => deadline,
            Self::Keep => present.unwrap_or(NEVER),
            Self::After(wait) => now.after(wait),
        }
    }
}
