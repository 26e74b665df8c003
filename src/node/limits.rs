//! `BatchLimits`: what ends one batch of keys.

use std::time::Duration;

use crate::limits::HOLD_TIME_MAX;
use crate::limits::HOLD_TIME_MIN;
use crate::limits::MIGRATE_KEYS_MAX;
use crate::node::AdminError;
use crate::node::Roster;
use crate::shard::Quota;
use crate::shard::Value;
use crate::time::Clock;
use crate::time::Now;

/// What ends one batch of a move: whichever bound is reached first. A number stands for so many
/// keys.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use slotkeep::BatchLimits;
/// let limits = BatchLimits::of_keys(512).hold_time(Duration::from_micros(200));
/// assert_eq!(BatchLimits::from(64), BatchLimits::of_keys(64));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchLimits {
    keys: usize,
    bytes: u64,
    hold_time: Option<Duration>,
}

impl BatchLimits {
    /// At most so many keys, from 1 to [`MIGRATE_KEYS_MAX`].
    pub fn of_keys(count: usize) -> Self {
        Self { keys: count, bytes: u64::MAX, hold_time: None }
    }

    /// At most so many bytes of keys and values and what each entry takes besides, from 1. The key
    /// that reaches the bound still travels, so that a batch is never without one.
    #[must_use]
    pub fn bytes(mut self, count: u64) -> Self {
        self.bytes = count;
        self
    }

    /// Both tokens are held for about so long at most, from [`HOLD_TIME_MIN`] to [`HOLD_TIME_MAX`].
    ///
    /// The clock is read after every [`MIGRATE_CHUNK_KEYS`](crate::limits::MIGRATE_CHUNK_KEYS)
    /// keys. What one insertion costs is not divided: a table that grows moves all its entries.
    #[must_use]
    pub fn hold_time(mut self, time: Duration) -> Self {
        self.hold_time = Some(time);
        self
    }

    /// How many keys travel at most.
    pub fn key_count(self) -> usize {
        self.keys
    }

    pub(super) fn check(self) -> Result<Self, AdminError> {
        if !(1..=MIGRATE_KEYS_MAX).contains(&self.keys) {
            return Err(AdminError::BatchSize { keys: self.keys });
        }
        if self.bytes == 0 {
            return Err(AdminError::BatchBytes);
        }
        match self.hold_time {
            Some(time) if !(HOLD_TIME_MIN..=HOLD_TIME_MAX).contains(&time) => {
                Err(AdminError::HoldTime { time })
            }
            Some(_) | None => Ok(self),
        }
    }
}

impl From<usize> for BatchLimits {
    fn from(keys: usize) -> Self {
        Self::of_keys(keys)
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// What these limits mean in the hold of which this is the time.
    pub(super) fn quota(&self, limits: BatchLimits, now: &Now<'_>) -> Quota<'_> {
        let clock: &dyn Clock = &*self.clock;
        let until = limits.hold_time.map(|time| (now.after(time), clock));
        Quota { keys: limits.keys, bytes: limits.bytes, until }
    }
}
