//! Places: where keys and outputs lie in memory, drawn anew every few rounds.
//!
//! What a call takes depends on where its key lies beside all else that it needs: with the
//! first-level cache evicted, one key of 16 bytes takes 3.2 or 4.8 ns, by the place of keys and
//! evictor alone, and stays at that as long as they stay there. An allocator hands out the same
//! memory again and again, so a contest that is held in one place says how lucky the place is, and
//! says it again when it is repeated. Held in several places, the quartiles speak for most of them.

use crate::measure::Contestant;
use crate::measure::Plan;
use crate::measure::Rounds;
use crate::measure::contest_anew;
use crate::random::Random;

/// How many rounds of a contest are held in the same place: a full one has eight places, a quick
/// one four.
const ROUNDS: usize = 3;

/// Up to so many bytes are passed over before each place, so that it does not lie to the code and
/// its constants as the place before it did: the alignment to lines and pages is another one too.
const GAP_BYTES: usize = 65_536;

/// Times against each other the contestants that `lay` lays out keys and outputs for. In a place,
/// all of them have to have the same keys; every few rounds, everybody gets another place.
pub fn contest(plan: Plan, mut lay: impl FnMut() -> Vec<Contestant<'static>>) -> Rounds {
    let mut random = Random::new();
    contest_anew(plan, ROUNDS, || {
        laid(vec![0_u8; random.below(GAP_BYTES)]);
        lay()
    })
}

/// Puts something into memory that nothing else will ever lie in.
///
/// It is never freed: memory that goes back is what the allocator hands out next, and every place
/// would be the first one again. All goals together take 400 MB.
pub fn laid<T>(thing: T) -> &'static T {
    Box::leak(Box::new(thing))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;
    use crate::slot::keys::Run;
    use crate::slot::work::calls;

    #[test]
    fn every_few_rounds_the_same_keys_lie_in_another_place() {
        let seen = RefCell::new(Vec::new());
        let plan = Plan { samples: 1, sample: Duration::ZERO, ..Plan::QUICK };
        let rounds = contest(plan, || {
            let keys = laid(laid(Run::of(16)).views());
            seen.borrow_mut().push(keys);
            vec![calls("any", keys, |_| 0)]
        });
        assert_eq!(rounds.of(0).len(), plan.rounds);
        let seen = seen.into_inner();
        assert_eq!(seen.len(), (plan.rounds + 1).div_ceil(ROUNDS));
        for (at, place) in seen.iter().enumerate() {
            assert_eq!(place, &seen[0]);
            let here = |other: &Vec<&[u8]>| other[0].as_ptr() == place[0].as_ptr();
            assert_eq!(seen.iter().position(|other| here(other)), Some(at), "a place again");
        }
    }
}
