//! `Now`: one reading of the clock for one hold, taken only if it is needed.

use std::cell::Cell;
use std::time::Duration;

/// A deadline that never comes. Deadlines are nanoseconds since the cluster began.
pub(crate) const NEVER: u64 = u64::MAX;

/// A source of time, in nanoseconds since the cluster began. It never runs backwards.
pub(crate) trait Clock: Send + Sync {
    /// Reads the clock.
    fn nanos(&self) -> u64;
}

/// The time of one hold of a token.
///
/// Made after the token is taken; reads the clock at the first question and keeps the answer, so
/// that routing and execution judge expiry by the same time. It is never read when no deadline is
/// met or set.
pub(crate) struct Now<'a> {
    clock: &'a dyn Clock,
    read: Cell<Option<u64>>,
}

impl<'a> Now<'a> {
    /// A time that is not read yet.
    #[inline]
    pub(crate) fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, read: Cell::new(None) }
    }

    /// The time of this hold.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        match self.read.get() {
            Some(nanos) => nanos,
            None => self.read_clock(),
        }
    }

    #[cold]
    fn read_clock(&self) -> u64 {
        let nanos = self.clock.nanos();
        self.read.set(Some(nanos));
        nanos
    }

    /// Whether `deadline` has come.
    #[inline]
    pub(crate) fn is_past(&self, deadline: u64) -> bool {
        deadline != NEVER && self.nanos() >= deadline
    }

    /// The deadline that lies `wait` ahead; a wait too long to count never comes.
    pub(crate) fn after(&self, wait: Duration) -> u64 {
        self.nanos().saturating_add(nanos_of(wait))
    }
}

/// A duration in nanoseconds, at most [`NEVER`].
pub(crate) fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

/// A clock that stands still at this time.
#[cfg(test)]
pub(crate) struct Still(pub(crate) u64);

#[cfg(test)]
impl Clock for Still {
    fn nanos(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;
    use crate::sync::Ordering;

    struct Counting(AtomicU64);

    impl Clock for Counting {
        fn nanos(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    #[test]
    fn the_clock_is_read_once_and_only_for_deadlines() {
        let clock = Counting(AtomicU64::new(7));
        let now = Now::new(&clock);
        assert!(!now.is_past(NEVER));
        assert_eq!(clock.0.load(Ordering::Relaxed), 7, "never needs no reading");
        assert!(now.is_past(7));
        assert!(!now.is_past(8));
        assert_eq!(clock.0.load(Ordering::Relaxed), 8, "one reading serves the whole hold");
    }

    #[test]
    fn the_longest_wait_saturates_to_never() {
        let clock = Counting(AtomicU64::new(7));
        assert_eq!(Now::new(&clock).after(Duration::MAX), NEVER);
        assert_eq!(Now::new(&clock).after(Duration::from_nanos(u64::MAX)), NEVER);
        assert_eq!(Now::new(&clock).after(Duration::from_nanos(3)), 12);
    }
}
