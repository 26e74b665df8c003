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

/// How far a hand has come in a table.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Walk {
    next: usize,
    /// How many buckets there were.
    of: usize,
}

impl Walk {
    /// Whether nothing of the table was looked at.
    pub(crate) fn is_at_start(&self) -> bool {
        self.next == 0
    }
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
    /// Takes samples of the next few buckets, at most [`EVICT_BUCKETS`]. Whether that is not the
    /// end of the table.
    pub(crate) fn sample(
        &self,
        walk: &mut Walk,
        samples: &mut Samples,
        judge: &Judge,
        now: &Now<'_>,
    ) -> bool {
        let Some(table) = self.table_ref() else { return false };
        let buckets = table.entries.num_buckets();
        if buckets < walk.of {
            // Entries from farther back may have come to where the hand was.
            walk.next = 0;
        }
        walk.of = buckets;
        let end = buckets.min(walk.next + EVICT_BUCKETS);
        let mut ahead = walk.next;
        while walk.next < end && samples.wanted > 0 {
            while ahead < end.min(walk.next + BUCKETS_AHEAD) {
                if let Some(entry) = table.entries.get_bucket(ahead) {
                    entry.prefetch_head();
                }
                ahead += 1;
            }
            let bucket = walk.next;
            walk.next += 1;
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
        walk.next < buckets
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
        self.halve_if_sparse(context.hasher);
        true
    }
}

fn address_of<V: Value + ?Sized>(entry: &Entry<V>) -> usize {
    ptr::from_ref(entry.key()).cast::<u8>().addr()
}
