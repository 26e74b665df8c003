//! `Alarm`: when a worker wants to sweep next, set by callers while its rounds run.

use crate::sync::AtomicU64;
use crate::sync::Ordering;
use crate::time::NEVER;

/// When a worker wants to sweep next.
///
/// A caller marks its shard and then looks at the alarm; a round clears the alarm and then looks at
/// the marks. Both are sequentially consistent, so one of them sees the other: a deadline is found
/// by the round that forgets it, or it is set in the alarm.
pub(crate) struct Alarm {
    wake_at: AtomicU64,
}

/// One pass over the worker's shards that have deadlines.
pub(crate) struct Round {
    from: u32,
    earliest: u64,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { wake_at: AtomicU64::new(NEVER) }
    }

    /// When the next round is due; never is [`NEVER`].
    ///
    /// Relaxed: who sets an earlier time wakes the mailbox, under its lock.
    pub(crate) fn wake_at(&self) -> u64 {
        self.wake_at.load(Ordering::Relaxed)
    }

    /// Takes note of a deadline; whether the worker, if it is parked, sleeps too long for it.
    ///
    /// Called after the token is given back, with the shard already marked for the sweep.
    pub(crate) fn expect(&self, deadline: u64) -> bool {
        // SeqCst, load and RMW alike, pairs with the swap in `step`: a round that forgets this
        // deadline reads the marks later, and finds the shard's mark.
        self.wake_at.load(Ordering::SeqCst) > deadline
            && self.wake_at.fetch_min(deadline, Ordering::SeqCst) > deadline
    }

    /// One hold of a sweep, if one is due.
    ///
    /// `sweep` sweeps the next shard at or after a place, and returns where to go on and when that
    /// shard wants the next sweep; nothing when there is no such shard.
    pub(crate) fn step(
        &self,
        round: &mut Option<Round>,
        now: impl FnOnce() -> u64,
        sweep: impl FnOnce(u32) -> Option<(u32, u64)>,
    ) {
        let (from, earliest) = if let Some(Round { from, earliest }) = round {
            (*from, *earliest)
        } else {
            let wake_at = self.wake_at();
            if wake_at == NEVER || now() < wake_at {
                return;
            }
            // SeqCst pairs with the load and the `fetch_min` of `expect`.
            self.wake_at.swap(NEVER, Ordering::SeqCst);
            (0, NEVER)
        };
        // Should a value's drop panic inside: the round goes on behind the shard, and the next one
        // comes at once.
        *round = Some(Round { from: from + 1, earliest: 0 });
        let swept = sweep(from);
        *round = swept.map(|(from, next)| Round { from, earliest: earliest.min(next) });
        if round.is_none() {
            // Relaxed: the worker itself looks at the alarm next.
            self.wake_at.fetch_min(earliest, Ordering::Relaxed);
        }
    }
}
