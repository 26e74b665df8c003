//! `Pace`: how fast keys travel, and for how long a batch holds its slot.

use std::time::Duration;

use thiserror::Error;

use crate::limits::HOLD_TIME_MAX;
use crate::limits::HOLD_TIME_MIN;
use crate::limits::PACE_BATCH_TIME;
use crate::limits::PACE_BURST;
use crate::limits::PACE_PER_SECOND_MAX;
use crate::node::BatchLimits;
use crate::sync::Arc;
use crate::sync::Mutex;

/// Why a pace cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PaceError {
    /// A rate of 0, or one above [`PACE_PER_SECOND_MAX`].
    #[error("a rate of {per_second} a second is out of bounds")]
    Rate {
        /// The rate that was asked for.
        per_second: u64,
    },
    /// A bound on holds below [`HOLD_TIME_MIN`] or above [`HOLD_TIME_MAX`].
    #[error("a hold of {} ns is out of bounds", time.as_nanos())]
    HoldTime {
        /// The bound that was asked for.
        time: Duration,
    },
}

/// How fast the keys of classic moves travel, and for how long one batch holds its slot: without
/// bounds unless told.
///
/// A pace is a budget, and clones share it: several drivers with clones of one pace together keep
/// its rate. It counts by the cluster's clock, so one pace belongs to the moves of one cluster.
/// Over any time no more is sent than the rate allows, and one batch for each driver; a batch is at
/// most what the rate allows in [`PACE_BATCH_TIME`], or one key. A driver that came late catches up
/// by [`PACE_BURST`] at most.
///
/// An abort keeps the bounds of a batch, but not the rate: it is to be over soon. A handover moves
/// no key one by one and keeps no pace; the slot that it joins first comes back as by an abort.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use slotkeep::Cluster;
/// use slotkeep::reshard::{MoveKind, Pace, Reshard};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::builder().nodes(2).build()?;
/// let pace = Pace::new().keys_per_second(100_000)?.hold_time(Duration::from_micros(200))?;
/// let node = cluster.add_node()?;
/// let reshard = Reshard::of(&cluster).by(MoveKind::Classic).pace(&pace);
/// let report = reshard.join(node.id())?.run()?;
/// assert_eq!(report.slots_moved, 5461);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pace {
    keys: Option<Arc<Budget>>,
    bytes: Option<Arc<Budget>>,
    hold_time: Option<Duration>,
}

impl Pace {
    /// No bound.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most so many keys a second, from 1 to [`PACE_PER_SECOND_MAX`].
    ///
    /// # Errors
    /// [`PaceError::Rate`].
    pub fn keys_per_second(mut self, per_second: u64) -> Result<Self, PaceError> {
        self.keys = Some(Budget::new(per_second)?);
        Ok(self)
    }

    /// At most so many bytes of entries a second, from 1 to [`PACE_PER_SECOND_MAX`].
    ///
    /// # Errors
    /// [`PaceError::Rate`].
    pub fn bytes_per_second(mut self, per_second: u64) -> Result<Self, PaceError> {
        self.bytes = Some(Budget::new(per_second)?);
        Ok(self)
    }

    /// A batch ends early when it has held both tokens for so long: see [`BatchLimits::hold_time`].
    ///
    /// # Errors
    /// [`PaceError::HoldTime`].
    pub fn hold_time(mut self, time: Duration) -> Result<Self, PaceError> {
        if !(HOLD_TIME_MIN..=HOLD_TIME_MAX).contains(&time) {
            return Err(PaceError::HoldTime { time });
        }
        self.hold_time = Some(time);
        Ok(self)
    }

    /// The bounds of the next batch, which has no more than so many keys anyway.
    pub(super) fn batch(&self, keys: usize) -> BatchLimits {
        let at_once = |budget: &Arc<Budget>| budget.at_once();
        let allowed = self.keys.as_ref().map_or(u64::MAX, at_once);
        let keys = usize::try_from(allowed).map_or(keys, |allowed| keys.min(allowed));
        let limits = BatchLimits::of_keys(keys);
        let limits = self.bytes.as_ref().map_or(limits, |budget| limits.bytes(budget.at_once()));
        self.hold_time.map_or(limits, |time| limits.hold_time(time))
    }

    /// How long the next batch has to wait from `now` on; nothing when it may begin.
    pub(super) fn wait_at(&self, now: Duration) -> Option<Duration> {
        let budgets = [&self.keys, &self.bytes].into_iter().flatten();
        budgets.filter_map(|budget| budget.wait_at(now)).max()
    }

    /// Counts a batch that ended at `now`.
    pub(super) fn spend(&self, now: Duration, keys: u64, bytes: u64) {
        let spent = [(&self.keys, keys), (&self.bytes, bytes)];
        for (budget, count) in spent {
            if let Some(budget) = budget {
                budget.spend(now, count);
            }
        }
    }
}

/// One rate, kept by the time at which what was sent will have been paid for.
#[derive(Debug)]
struct Budget {
    per_second: u64,
    /// Since the cluster began.
    paid_at: Mutex<Duration>,
}

impl Budget {
    fn new(per_second: u64) -> Result<Arc<Self>, PaceError> {
        if !(1..=PACE_PER_SECOND_MAX).contains(&per_second) {
            return Err(PaceError::Rate { per_second });
        }
        Ok(Arc::new(Self { per_second, paid_at: Mutex::new(Duration::ZERO) }))
    }

    /// What one batch may take.
    fn at_once(&self) -> u64 {
        let part = u128::from(self.per_second) * PACE_BATCH_TIME.as_nanos() / 1_000_000_000;
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }

    fn wait_at(&self, now: Duration) -> Option<Duration> {
        self.paid_at.lock().checked_sub(now).filter(|wait| !wait.is_zero())
    }

    fn spend(&self, now: Duration, count: u64) {
        let nanos = u128::from(count) * 1_000_000_000 / u128::from(self.per_second);
        let price = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut paid_at = self.paid_at.lock();
        let from = (*paid_at).max(now.saturating_sub(PACE_BURST));
        *paid_at = from.saturating_add(price);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sends batches as soon as they may begin, each taking `busy`, for a minute; how many keys.
    fn sent_in_a_minute(pace: &Pace, batch: usize, busy: Duration) -> u64 {
        let (mut now, mut sent) = (Duration::ZERO, 0);
        while now < 60 * SECOND {
            if let Some(wait) = pace.wait_at(now) {
                now += wait;
                continue;
            }
            let keys = pace.batch(batch).key_count() as u64;
            now += busy;
            pace.spend(now, keys, keys * 100);
            sent += keys;
        }
        sent
    }

    #[track_caller]
    fn check_rate(pace: &Pace, (batch, busy): (usize, Duration), per_second: u64) {
        let sent = sent_in_a_minute(pace, batch, busy);
        let most = per_second * 60 + (per_second / 20).max(1);
        assert!(sent <= most, "{sent} keys, {most} allowed");
        assert!(sent >= per_second * 60 * 98 / 100, "{sent} keys, far below {most}");
    }

    #[test]
    fn a_rate_is_kept_and_reached_whatever_the_batch() {
        for per_second in [1, 7, 64, 1000, 1_000_000] {
            for busy in [Duration::ZERO, Duration::from_micros(9)] {
                for batch in [1, 64, 4096] {
                    if per_second > 1000 && batch == 1 {
                        continue;
                    }
                    let pace = Pace::new().keys_per_second(per_second).unwrap();
                    check_rate(&pace, (batch, busy), per_second);
                }
            }
        }
        let by_bytes = Pace::new().bytes_per_second(100_000).unwrap();
        assert_eq!(by_bytes.batch(64), BatchLimits::of_keys(64).bytes(5000));
        let sent = sent_in_a_minute(&by_bytes, 64, Duration::ZERO);
        assert!((58_800..=60_064).contains(&sent), "{sent} keys of 100 bytes");
    }

    #[test]
    fn a_pause_earns_no_more_than_the_burst() {
        let pace = Pace::new().keys_per_second(1000).unwrap();
        let hour = 3600 * SECOND;
        assert_eq!(pace.wait_at(hour), None);
        pace.spend(hour, 50, 0);
        assert_eq!(pace.wait_at(hour), Some(Duration::from_millis(40)));
        assert_eq!(pace.wait_at(hour + Duration::from_millis(40)), None);
    }

    #[test]
    fn clones_share_one_budget() {
        let pace = Pace::new().keys_per_second(10).unwrap();
        let clone = pace.clone();
        pace.spend(SECOND, 5, 0);
        clone.spend(SECOND, 5, 0);
        assert_eq!(pace.wait_at(SECOND), Some(Duration::from_millis(990)));
        assert_eq!(pace.wait_at(SECOND), clone.wait_at(SECOND));
    }

    #[test]
    fn the_greatest_numbers_neither_wrap_nor_panic() {
        let pace = Pace::new().keys_per_second(1).unwrap();
        pace.spend(Duration::MAX, u64::MAX, 0);
        assert_eq!(pace.wait_at(Duration::MAX), None);
        assert!(pace.wait_at(SECOND).is_some());
        let fast = Pace::new().bytes_per_second(PACE_PER_SECOND_MAX).unwrap();
        fast.spend(SECOND, 0, u64::MAX);
        assert!(fast.wait_at(SECOND).is_some());
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        for per_second in [0, PACE_PER_SECOND_MAX + 1, u64::MAX] {
            let refused = PaceError::Rate { per_second };
            assert_eq!(Pace::new().keys_per_second(per_second).unwrap_err(), refused);
            assert_eq!(Pace::new().bytes_per_second(per_second).unwrap_err(), refused);
        }
        for time in [Duration::ZERO, HOLD_TIME_MAX + Duration::from_nanos(1)] {
            let refused = PaceError::HoldTime { time };
            assert_eq!(Pace::new().hold_time(time).unwrap_err(), refused);
        }
    }
}
