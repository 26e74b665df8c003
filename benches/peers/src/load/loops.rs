//! The loops that are timed: the same source for every store, compiled for each.

use std::time::Duration;
use std::time::Instant;

use crate::load::script::Walk;
use crate::load::step::Action;
use crate::load::step::KEY_BYTES;
use crate::load::step::Step;
use crate::measure::now;
use crate::stores::Batches;
use crate::stores::Client;
use crate::stores::Kept;

/// How many calls there are between two looks at the clock.
const CALLS: usize = 64;

/// What a loop has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations: keys, but scans count once.
    pub operations: usize,
    /// Keys that were read, found, and had the right value.
    pub hits: usize,
    /// Keys that were read and not found.
    pub misses: usize,
    /// Values that belong to another key, and writes that found no key where one was.
    pub wrong: usize,
}

/// Looks at single calls.
pub trait Watch {
    /// A call has ended; the next one begins.
    fn note(&mut self);
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    #[inline]
    fn note(&mut self) {}
}

impl Tally {
    #[inline]
    fn read<K: Kept>(&mut self, found: Option<&K>, step: &Step) {
        match found {
            None => self.misses += 1,
            Some(value) if value.holds(step.value()) => self.hits += 1,
            Some(_) => self.wrong += 1,
        }
    }

    /// Does what a step says, with its key or with the one that was composed.
    #[inline]
    fn step<C: Client>(&mut self, client: &C, step: &Step, key: &[u8]) {
        self.operations += 1;
        match step.action {
            Action::Get => {
                let kept = client.get(key);
                self.read(kept.as_ref(), step);
            }
            Action::Set => client.set(key, step.value()),
            Action::Fetch => {
                let kept = client.fetch(key, step.value());
                self.read(kept.as_ref(), step);
            }
            Action::Renew => {
                self.operations += 1;
                client.remove(key);
                client.set(key, step.value());
            }
            Action::Modify => self.wrong += usize::from(!client.modify(key)),
            Action::Scan => unreachable!("the loop takes scans"),
        }
    }

    fn scan<C: Client>(&mut self, client: &C, steps: &[Step]) {
        self.operations += 1;
        let hits = client.scan(steps);
        self.hits += hits;
        self.wrong += steps.len() - hits;
    }
}

/// Calls on one key each, for at least this long; what was done, and in which time. With `COMPOSED`
/// each key is composed just before its call.
pub fn one_by_one<const COMPOSED: bool, C: Client>(
    client: &C,
    walk: &mut Walk<'_>,
    lasts: Duration,
    watch: &mut impl Watch,
) -> (Tally, Duration) {
    let mut tally = Tally::default();
    let mut composed = [0; KEY_BYTES];
    let took = repeat(lasts, || {
        for _ in 0..CALLS {
            let step = &walk.take(1)[0];
            if step.action == Action::Scan {
                tally.scan(client, walk.scan());
            } else if COMPOSED {
                tally.step(client, step, step.compose(&mut composed));
            } else {
                tally.step(client, step, step.key());
            }
            watch.note();
        }
    });
    (tally, took)
}

/// Calls on `count` keys each, which all do the same, for at least this long; what was done, and
/// in which time.
pub fn in_batches<C: Batches>(
    client: &C,
    walk: &mut Walk<'_>,
    count: usize,
    lasts: Duration,
) -> (Tally, Duration) {
    let mut tally = Tally::default();
    let took = repeat(lasts, || {
        for _ in 0..CALLS / count {
            let steps = walk.take(count);
            tally.operations += count;
            if steps[0].action == Action::Set {
                client.set_many(steps);
            } else {
                let found = client.get_many(steps);
                steps.iter().zip(&found).for_each(|(step, one)| tally.read(one.as_ref(), step));
            }
        }
    });
    (tally, took)
}

/// Repeats some calls until the time is over; how long they took.
fn repeat(lasts: Duration, mut calls: impl FnMut()) -> Duration {
    let start: Instant = now();
    loop {
        calls();
        let took = now() - start;
        if took >= lasts {
            return took;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Mix;
    use crate::load::Picks;
    use crate::load::Recipe;
    use crate::load::Script;
    use crate::load::zipf_table;
    use crate::stores::Ours;
    use crate::stores::Store;
    use crate::stores::fill;

    const KEYS: u32 = 500;
    const SOON: Duration = Duration::from_millis(1);

    fn script(mix: Mix, grouped: bool) -> Script {
        let zipf = zipf_table(KEYS);
        Recipe { keys: KEYS, zipf, picks: Picks::Uniform, mix, steps: 4096, grouped }.script(0)
    }

    /// A store with all keys but the first `missing`.
    fn store(missing: u32) -> Ours<[u8]> {
        let store = Ours::new();
        fill(&store, (missing..KEYS).map(Step::fill));
        store
    }

    #[test]
    fn every_read_of_a_full_store_hits_whatever_is_done_beside() {
        let mix = Mix { sets: 20, renews: 10, modifies: 10, scans: 5, inserts: 5, ..Mix::READS };
        let (store, script) = (store(0), script(mix, false));
        let (client, mut walk) = (store.client(), Walk::over(&script));
        let ready = one_by_one::<false, _>(&client, &mut walk, SOON, &mut Unwatched).0;
        let composed = one_by_one::<true, _>(&client, &mut walk, SOON, &mut Unwatched).0;
        for tally in [ready, composed] {
            assert!(tally.operations >= CALLS && tally.hits > 0, "{tally:?}");
            assert_eq!((tally.misses, tally.wrong), (0, 0), "{tally:?}");
        }
    }

    #[test]
    fn batches_hit_what_single_reads_hit_and_count_each_key() {
        let (store, script) = (store(0), script(Mix::writes(50), true));
        for count in [8, 32] {
            let mut walk = Walk::over(&script);
            let tally = in_batches(&store.client(), &mut walk, count, SOON).0;
            assert!(tally.operations.is_multiple_of(CALLS), "{tally:?}");
            assert_eq!((tally.misses, tally.wrong), (0, 0), "{tally:?}");
        }
    }

    #[test]
    fn what_was_fetched_once_is_there() {
        let (store, script) = (store(KEYS), script(Mix { fetches: 100, ..Mix::READS }, false));
        let (client, mut walk) = (store.client(), Walk::over(&script));
        let tally = one_by_one::<false, _>(&client, &mut walk, SOON, &mut Unwatched).0;
        assert!(tally.misses > 0 && tally.misses <= KEYS as usize, "{tally:?}");
        assert_eq!((tally.hits + tally.misses, tally.wrong), (tally.operations, 0), "{tally:?}");
    }

    #[test]
    fn keys_that_are_not_there_are_counted_as_misses() {
        let (store, script) = (store(KEYS / 2), script(Mix::READS, false));
        let mut walk = Walk::over(&script);
        let tally = one_by_one::<false, _>(&store.client(), &mut walk, SOON, &mut Unwatched).0;
        assert!(tally.misses > tally.operations / 3, "{tally:?}");
        assert_eq!(tally.hits + tally.misses, tally.operations, "{tally:?}");
    }
}
