//! The active sweep: expired entries leave in bounded steps, without being touched.

use crate::limits::SWEEP_BUCKETS;
use crate::limits::SWEEP_NANOS_PER_BUCKET;
use crate::limits::SWEEP_PAUSE;
use crate::shard::Dropped;
use crate::shard::Garbage;
use crate::shard::Shard;
use crate::shard::Value;
use crate::time::NEVER;
use crate::time::nanos_of;

/// How far the sweep of one table has come.
#[derive(Default)]
pub(super) struct SweepState {
    /// The bucket at which the next step starts; 0 between two passes.
    bucket: usize,
    /// The earliest deadline that this pass has met or heard of, inverted so that the default is
    /// never.
    earliest_inverted: u64,
    /// When the last pass ended, plus the pause that follows it.
    not_before: u64,
}

impl SweepState {
    /// The buckets of the entries may have changed: what was swept is to be swept again.
    pub(super) fn restart(&mut self) {
        self.bucket = 0;
    }

    /// An entry that this pass may not meet any more has this deadline.
    pub(super) fn note(&mut self, deadline: u64) {
        self.earliest_inverted = self.earliest_inverted.max(!deadline);
    }
}

/// What one step of a sweep found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sweep {
    /// The pass goes on.
    More,
    /// The pass is over, or was not due; the shard wants the next one at this time.
    Next(u64),
}

impl<V: Value + ?Sized> Shard<V> {
    /// Removes expired entries from the next few buckets, at most [`SWEEP_BUCKETS`].
    pub(crate) fn sweep(&mut self, now: u64, dropped: &mut Dropped<V>) -> Sweep {
        let Some(table) = self.table() else { return Sweep::Next(NEVER) };
        let sweep = &mut table.sweep;
        if sweep.bucket == 0 {
            let due = table.next_deadline.max(sweep.not_before);
            if table.next_deadline == NEVER || now < due {
                return Sweep::Next(if table.next_deadline == NEVER { NEVER } else { due });
            }
        }
        let buckets = table.entries.num_buckets();
        if sweep.bucket == 0 {
            sweep.earliest_inverted = 0;
        }
        let end = buckets.min(sweep.bucket + SWEEP_BUCKETS);
        for bucket in sweep.bucket..end {
            let Ok(found) = table.entries.get_bucket_entry(bucket) else { continue };
            let deadline = found.get().deadline();
            if deadline <= now {
                dropped.push(Garbage::Entry(found.remove().0));
            } else if deadline != NEVER {
                sweep.note(deadline);
            }
        }
        if end < buckets {
            sweep.bucket = end;
            return Sweep::More;
        }
        if table.entries.is_empty() {
            self.clear(dropped);
            return Sweep::Next(NEVER);
        }
        sweep.bucket = 0;
        table.next_deadline = !sweep.earliest_inverted;
        let pause = buckets as u64 * SWEEP_NANOS_PER_BUCKET + nanos_of(SWEEP_PAUSE);
        sweep.not_before = now.saturating_add(pause);
        match table.next_deadline {
            NEVER => Sweep::Next(NEVER),
            next => Sweep::Next(next.max(sweep.not_before)),
        }
    }
}
