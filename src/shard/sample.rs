//! Samples of one shard: neighbouring entries, of which the one to go is found again by its place.

use std::ptr;

use crate::evict::Judge;
use crate::limits::EVICT_BUCKETS;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Shard;
use crate::shard::Value;
use crate::time::Now;

/// The heads of the entries in so many buckets ahead are on their way to the cache.
const BUCKETS_AHEAD: usize = 8;

/// An entry that may go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Candidate {
    /// The greater, the sooner it goes.
    rank: u64,
    bucket: usize,
    /// Where it lies. It is not looked at there; another entry in its bucket lies elsewhere, or
    /// has come to the same place since, and may then go in its stead.
    address: usize,
}

/// Samples that are being taken, of one shard after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Samples {
    /// How many are still to be taken.
    pub(crate) wanted: u32,
    /// The one to go, of the shard that was looked at last.
    pub(crate) best: Option<Candidate>,
}

impl<V: Value + ?Sized> Shard<V> {
    /// Takes samples of at most [`EVICT_BUCKETS`] buckets, of which `next` is the first; it becomes
    /// the one behind them. Whether that is not the end of the table.
    pub(crate) fn sample(
        &self,
        next: &mut usize,
        samples: &mut Samples,
        judge: &Judge,
        now: &Now<'_>,
    ) -> bool {
        let Some(table) = self.table_ref() else { return false };
        let buckets = table.entries.num_buckets();
        let end = buckets.min(*next + EVICT_BUCKETS);
        let mut ahead = *next;
        while *next < end && samples.wanted > 0 {
            while ahead < end.min(*next + BUCKETS_AHEAD) {
                if let Some(entry) = table.entries.get_bucket(ahead) {
                    entry.prefetch_head();
                }
                ahead += 1;
            }
            let bucket = *next;
            *next += 1;
            let Some(entry) = table.entries.get_bucket(bucket) else { continue };
            let Some(rank) = judge.rank(samples.wanted, entry.trace(), entry.deadline()) else {
                continue;
            };
            samples.wanted -= 1;
            // What has expired goes before anything else.
            let rank = if now.is_past(entry.deadline()) { u64::MAX } else { rank };
            let candidate = Candidate { rank, bucket, address: address_of(entry) };
            samples.best = samples.best.max(Some(candidate));
        }
        *next < buckets
    }

    /// Evicts a candidate, if it still lies where it was; whether it did.
    pub(crate) fn evict(&mut self, candidate: Candidate, context: &mut Context<'_, V>) -> bool {
        let Some((table, weight, aside)) = self.parts() else { return false };
        if candidate.bucket >= table.entries.num_buckets() {
            return false;
        }
        let Ok(found) = table.entries.get_bucket_entry(candidate.bucket) else { return false };
        if address_of(found.get()) != candidate.address {
            return false;
        }
        *weight -= found.get().weight();
        aside.tally.lose(context.now.is_past(found.get().deadline()));
        context.dropped.push(Garbage::Entry(found.remove().0));
        self.fit(context.hasher);
        true
    }
}

fn address_of<V: Value + ?Sized>(entry: &Entry<V>) -> usize {
    ptr::from_ref(entry.key()).cast::<u8>().addr()
}
