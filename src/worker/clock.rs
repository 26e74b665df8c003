//! The only reader of time: one clock per cluster, real or, for tests, moved by hand.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use crate::sync::AtomicU64;
use crate::sync::Ordering;
use crate::time::Clock;
use crate::time::nanos_of;

/// The clock of one cluster, in nanoseconds since the cluster began.
pub(crate) struct ClusterClock(Source);

enum Source {
    Real {
        began: Instant,
        /// What the wall clock would have shown when the cluster began, in nanoseconds since 1970,
        /// had it run then as it does now.
        wall_began: AtomicU64,
    },
    #[cfg(feature = "testing")]
    Virtual {
        nanos: AtomicU64,
        /// The wall clock's time when the cluster began, since 1970.
        wall_began: Duration,
    },
}

/// By how much the wall clock has to jump, in nanoseconds, before the engine follows. Below that
/// two readings of one deadline are equal to the nanosecond.
const WALL_JUMP_NANOS: u64 = 1_000_000;

impl ClusterClock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one reader of time")]
    pub(crate) fn real() -> Self {
        let wall_began = AtomicU64::new(wall_nanos());
        Self(Source::Real { began: Instant::now(), wall_began })
    }

    /// A clock that stands still until `advance`; the cluster began at 1970 plus `wall_began`.
    #[cfg(feature = "testing")]
    pub(crate) fn stopped(wall_began: Duration) -> Self {
        Self(Source::Virtual { nanos: AtomicU64::new(0), wall_began })
    }

    /// Moves a stopped clock; a real one does not move.
    #[cfg(feature = "testing")]
    pub(crate) fn advance(&self, by: Duration) {
        if let Source::Virtual { nanos, .. } = &self.0 {
            // AcqRel pairs with the Acquire of `nanos`.
            nanos.fetch_add(nanos_of(by), Ordering::AcqRel);
        }
    }

    /// The wall clock's time when the cluster began, since 1970, by the wall clock of this moment.
    fn wall_began(&self) -> Duration {
        match &self.0 {
            Source::Real { wall_began, .. } => {
                let measured = wall_nanos().saturating_sub(self.nanos());
                // Relaxed: each value stands for itself.
                let known = wall_began.load(Ordering::Relaxed);
                if known.abs_diff(measured) < WALL_JUMP_NANOS {
                    return Duration::from_nanos(known);
                }
                wall_began.store(measured, Ordering::Relaxed);
                Duration::from_nanos(measured)
            }
            #[cfg(feature = "testing")]
            Source::Virtual { wall_began, .. } => *wall_began,
        }
    }

    /// The deadline that a time of the wall clock means at this moment; a time before the cluster
    /// began is 0. Later jumps of the wall clock do not move it.
    pub(crate) fn deadline_at(&self, time: SystemTime) -> u64 {
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        nanos_of(since_1970.saturating_sub(self.wall_began()))
    }

    /// The time of the wall clock that a deadline means at this moment; nothing when it is beyond
    /// what the wall clock counts.
    pub(crate) fn time_of(&self, deadline: u64) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(self.wall_began())?.checked_add(Duration::from_nanos(deadline))
    }

    /// How long a thread may park until `deadline`; a stopped clock wakes its sleepers itself.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unnecessary_wraps, reason = "a stopped clock, for tests, answers nothing")
    )]
    pub(crate) fn until(&self, deadline: u64) -> Option<Duration> {
        match &self.0 {
            Source::Real { .. } => {
                Some(Duration::from_nanos(deadline.saturating_sub(self.nanos())))
            }
            #[cfg(feature = "testing")]
            Source::Virtual { nanos, .. } => {
                // Acquire pairs with the AcqRel of `advance`.
                (nanos.load(Ordering::Acquire) >= deadline).then_some(Duration::ZERO)
            }
        }
    }
}

impl Clock for ClusterClock {
    fn nanos(&self) -> u64 {
        match &self.0 {
            Source::Real { began, .. } => nanos_of(began.elapsed()),
            // Acquire pairs with the AcqRel of `advance`.
            #[cfg(feature = "testing")]
            Source::Virtual { nanos, .. } => nanos.load(Ordering::Acquire),
        }
    }
}

/// The wall clock, in nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the one reader of time")]
fn wall_nanos() -> u64 {
    nanos_of(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall_began_of(clock: &ClusterClock) -> &AtomicU64 {
        match &clock.0 {
            Source::Real { wall_began, .. } => wall_began,
            #[cfg(feature = "testing")]
            Source::Virtual { .. } => unreachable!("a real clock"),
        }
    }

    #[test]
    fn a_jump_of_the_wall_clock_is_followed_and_a_shiver_is_not() {
        let clock = ClusterClock::real();
        let wall_began = wall_began_of(&clock);
        let hour = Duration::from_secs(3600);
        let began = wall_began.load(Ordering::Relaxed);
        // As if the clock had stood an hour back when the cluster began, and was set since.
        wall_began.store(began - nanos_of(hour), Ordering::Relaxed);
        let in_an_hour = UNIX_EPOCH + Duration::from_nanos(wall_nanos()) + hour;
        let ahead = Duration::from_nanos(clock.deadline_at(in_an_hour) - clock.nanos());
        assert!(ahead.abs_diff(hour) < Duration::from_secs(60), "{ahead:?}");
        let deadline = clock.deadline_at(in_an_hour);
        assert_eq!(clock.time_of(deadline), Some(in_an_hour), "to the nanosecond");
        assert_eq!(clock.deadline_at(UNIX_EPOCH), 0);
    }
}
