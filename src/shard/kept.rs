//! `Kept`: how long an entry is kept, and what it weighs.

use crate::time::NEVER;
use crate::time::Now;

/// How long an entry is kept, and what it weighs. Times are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// When it expires, since the cluster began.
    pub(crate) expires: u64,
    /// It expires earlier when nobody reads it for so long.
    pub(crate) idle: u64,
    /// When nobody has read it for so long, since the cluster began.
    idle_until: u64,
    /// What somebody says that it weighs; 0 is what it takes of memory.
    pub(crate) weight: u64,
}

impl Kept {
    /// Until a deadline, whoever reads it, and at the weight that is measured.
    #[inline]
    pub(crate) const fn until(expires: u64) -> Self {
        Self { expires, idle: NEVER, idle_until: NEVER, weight: 0 }
    }

    /// Not longer than nobody reads it for `idle`.
    pub(crate) fn unless_idle(self, idle: u64, now: &Now<'_>) -> Self {
        if idle == NEVER {
            return self;
        }
        Self { idle, idle_until: now.nanos().saturating_add(idle), ..self }
    }

    /// At a weight that somebody says; 0 is what is measured.
    #[inline]
    pub(crate) const fn weighing(self, weight: u64) -> Self {
        Self { weight, ..self }
    }

    /// The same with another deadline.
    pub(crate) const fn expiring(self, expires: u64) -> Self {
        Self { expires, ..self }
    }

    /// Whether there is no more to say than a deadline.
    #[inline]
    pub(super) const fn is_plain(&self) -> bool {
        self.idle == NEVER && self.weight == 0
    }

    /// When it expires if nobody reads it.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.expires.min(self.idle_until)
    }
}
