//! Contenders: caches that are asked for one key after the other, and who they are.

mod belady;
mod hand;
mod order;
mod ours;
mod rivals;

use serde::Serialize;

use crate::cache::trace::Access;
use crate::cache::trace::Room;
use crate::cache::trace::Trace;

/// A cache in front of something that has every key.
pub trait Cache {
    /// Asks for a key: whether it was there. One that was not is offered to the cache.
    fn access(&mut self, access: Access<'_>) -> bool;
}

/// What a contender is in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What is judged.
    Ours,
    /// What ours is held against.
    Rival,
    /// What no cache can surpass, and so nobody is held against.
    Optimum,
    /// A design on paper.
    Draft,
}

/// One who takes part.
#[derive(Clone, Copy)]
pub struct Contender {
    /// What it is called.
    pub name: &'static str,
    /// What it is in the comparison.
    pub role: Role,
    /// Whether what it hits depends on how keys are hashed, so that it is averaged over seeds.
    pub is_seeded: bool,
    /// An empty cache of such bounds, and where it hashes, with hashes by this seed. Only the
    /// optimum looks at the order of the trace.
    pub fresh: Fresh,
}

/// All, in the order of the columns. Ours joins as its first line.
pub const CONTENDERS: [Contender; 8] = [
    Contender {
        name: "ours",
        role: Role::Ours,
        is_seeded: true,
        fresh: |trace, room, _| Box::new(ours::Ours::new(trace, room)),
    },
    seeded("moka", |trace, room, seed| Box::new(rivals::Moka::new(trace, room, seed))),
    seeded("quick_cache", |_, room, seed| Box::new(rivals::Quick::new(room, seed))),
    plain("LRU", Role::Rival, |trace, room, _| Box::new(order::Order::of_use(trace, room))),
    plain("FIFO", Role::Rival, |trace, room, _| Box::new(order::Order::of_insertion(trace, room))),
    plain("Belady", Role::Optimum, |trace, room, _| Box::new(belady::Belady::new(trace, room))),
    plain("design A", Role::Draft, |trace, room, _| {
        Box::new(hand::Hand::new(hand::Rules::PLAIN, trace, room))
    }),
    plain("A, mended", Role::Draft, |trace, room, _| {
        Box::new(hand::Hand::new(hand::Rules::MENDED, trace, room))
    }),
];

/// Makes an empty cache.
type Fresh = fn(&Trace, Room, u64) -> Box<dyn Cache>;

/// A rival that hashes its keys.
const fn seeded(name: &'static str, fresh: Fresh) -> Contender {
    Contender { name, role: Role::Rival, is_seeded: true, fresh }
}

/// One whose hits depend on no hash but what is fixed.
const fn plain(name: &'static str, role: Role, fresh: Fresh) -> Contender {
    Contender { name, role, is_seeded: false, fresh }
}

/// How much of a trace was found, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HitRatio {
    /// Of the accesses.
    pub objects: f64,
    /// Of the weight that was asked for.
    pub bytes: f64,
}

/// Asks a cache for all of a trace.
pub fn play(trace: &Trace, cache: &mut dyn Cache) -> HitRatio {
    let (mut found, mut found_weight, mut weight) = (0, 0, 0);
    for access in trace.accesses() {
        weight += access.weight;
        if cache.access(access) {
            found += 1;
            found_weight += access.weight;
        }
    }
    HitRatio { objects: percent(found, trace.len() as u64), bytes: percent(found_weight, weight) }
}

#[expect(clippy::cast_precision_loss, reason = "two digits of a percentage are told")]
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// What the tests of the contenders have in common: small traces, and caches of plain lists.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::trace::Recorder;
    use crate::random::Random;

    /// A short trace over few keys, whose weights are one, or one to four.
    pub fn small(random: &mut Random, is_weighted: bool) -> Trace {
        let mut recorder = Recorder::new("a small trace");
        for _ in 0..=random.below(14) {
            let key = random.below(6);
            if is_weighted {
                recorder.weighted_access(&key.to_string(), 1 + key as u64 % 4);
            } else {
                recorder.access(&key.to_string());
            }
        }
        recorder.finish()
    }

    /// Which accesses are hits.
    pub fn hits(trace: &Trace, cache: &mut dyn Cache) -> Vec<bool> {
        trace.accesses().map(|access| cache.access(access)).collect()
    }

    /// A room for so much weight.
    pub fn room(weight: u64) -> Room {
        Room { weight, entries: usize::try_from(weight).expect("small") }
    }

    #[test]
    fn every_contender_holds_what_fits_and_hits_it() {
        for is_weighted in [false, true] {
            let trace = small(&mut Random::of(7), is_weighted);
            let expected = trace.len() - trace.distinct();
            for contender in CONTENDERS {
                let found = hits(&trace, &mut *(contender.fresh)(&trace, room(100), 1));
                let found = found.into_iter().filter(|&is_hit| is_hit).count();
                assert_eq!(found, expected, "{}: {trace:?}", contender.name);
            }
        }
    }

    #[test]
    fn bytes_and_objects_are_counted_apart() {
        struct Heavy;
        impl Cache for Heavy {
            fn access(&mut self, access: Access<'_>) -> bool {
                access.weight > 10
            }
        }
        let mut recorder = Recorder::new("a test");
        for weight in [90, 2, 3, 5] {
            recorder.weighted_access(&weight.to_string(), weight);
        }
        let ratio = play(&recorder.finish(), &mut Heavy);
        assert_eq!(ratio, HitRatio { objects: 25.0, bytes: 90.0 });
    }
}
