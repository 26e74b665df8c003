//! The only reader of time: one clock per cluster, real or, for tests, moved by hand.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

#[cfg(feature = "testing")]
use crate::sync::AtomicU64;
#[cfg(feature = "testing")]
use crate::sync::Ordering;
use crate::time::Clock;
use crate::time::nanos_of;

/// The clock of one cluster, in nanoseconds since the cluster began.
pub(crate) struct ClusterClock {
    source: Source,
    /// The wall clock's time when the cluster began, since 1970.
    began: Duration,
}

enum Source {
    Real(Instant),
    #[cfg(feature = "testing")]
    Virtual(AtomicU64),
}

impl ClusterClock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one reader of time")]
    pub(crate) fn real() -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { source: Source::Real(Instant::now()), began }
    }

    /// A clock that stands still until `advance`; the cluster began at 1970 plus `began`.
    #[cfg(feature = "testing")]
    pub(crate) fn stopped(began: Duration) -> Self {
        Self { source: Source::Virtual(AtomicU64::new(0)), began }
    }

    /// Moves a stopped clock; a real one does not move.
    #[cfg(feature = "testing")]
    pub(crate) fn advance(&self, by: Duration) {
        if let Source::Virtual(nanos) = &self.source {
            // AcqRel pairs with the Acquire of `nanos`.
            nanos.fetch_add(nanos_of(by), Ordering::AcqRel);
        }
    }

    /// The deadline that a time of the wall clock means; a time before the cluster began is 0.
    pub(crate) fn deadline_at(&self, time: SystemTime) -> u64 {
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        nanos_of(since_1970.saturating_sub(self.began))
    }

    /// The time of the wall clock that a deadline means; nothing when it is beyond what the wall
    /// clock counts.
    pub(crate) fn time_of(&self, deadline: u64) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(self.began)?.checked_add(Duration::from_nanos(deadline))
    }

    /// How long a thread may park until `deadline`; a stopped clock wakes its sleepers itself.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unnecessary_wraps, reason = "a stopped clock, for tests, answers nothing")
    )]
    pub(crate) fn until(&self, deadline: u64) -> Option<Duration> {
        match &self.source {
            Source::Real(_) => Some(Duration::from_nanos(deadline.saturating_sub(self.nanos()))),
            #[cfg(feature = "testing")]
            Source::Virtual(nanos) => {
                // Acquire pairs with the AcqRel of `advance`.
                (nanos.load(Ordering::Acquire) >= deadline).then_some(Duration::ZERO)
            }
        }
    }
}

impl Clock for ClusterClock {
    fn nanos(&self) -> u64 {
        match &self.source {
            Source::Real(began) => nanos_of(began.elapsed()),
            // Acquire pairs with the AcqRel of `advance`.
            #[cfg(feature = "testing")]
            Source::Virtual(nanos) => nanos.load(Ordering::Acquire),
        }
    }
}
