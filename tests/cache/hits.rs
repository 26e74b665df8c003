//! What is found in a cache: who asks for it makes no difference.

use std::iter;
use std::thread;

use slotkeep::Cache;

use super::Tested;

const CAPACITY: u64 = 2_000;

const ACCESSES: usize = 100_000;

/// Numbers of keys, twice as many as there is room for, the first ones asked for most: the n-th a
/// little more often than one n-th as often as the first. All are other ones in each phase.
fn zipf(seed: u64, phases: usize) -> Vec<u64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let weights = (1..=2 * CAPACITY).map(|rank| f64::from(u32::try_from(rank).unwrap()).powf(-0.8));
    let sums: Vec<f64> = weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let all = sums[sums.len() - 1];
    let ranks = iter::repeat_with(|| {
        let drawn = rng.f64() * all;
        sums.partition_point(|&sum| sum < drawn)
    });
    let of_phase = ACCESSES / phases;
    ranks
        .take(ACCESSES)
        .enumerate()
        .map(|(at, rank)| (((at / of_phase) << 32) | rank) as u64)
        .collect()
}

/// The hits, in percent, if after so many accesses another thread goes on.
fn hit_percentage(accesses: &[u64], of_one_thread: usize) -> Result<f64, slotkeep::Error> {
    let cache = Cache::<u64>::new(CAPACITY);
    let run = |accesses: &[u64]| -> Tested {
        for number in accesses {
            let key = number.to_le_bytes();
            if cache.get(key)?.is_none() {
                cache.insert(key, *number)?;
            }
        }
        Ok(())
    };
    for accesses in accesses.chunks(of_one_thread) {
        thread::scope(|scope| scope.spawn(|| run(accesses)).join().expect("no panic"))?;
    }
    let stats = cache.stats()?;
    let count = |count: u64| f64::from(u32::try_from(count).expect("a small count"));
    Ok(100.0 * count(stats.hits) / count(stats.hits + stats.misses))
}

#[track_caller]
fn check(phases: usize) -> Tested {
    let seed = fastrand::u64(..);
    let accesses = zipf(seed, phases);
    let one = hit_percentage(&accesses, ACCESSES)?;
    for of_one_thread in [100, 10_000] {
        let many = hit_percentage(&accesses, of_one_thread)?;
        let what = format!("{many} % by threads of {of_one_thread}, {one} % by one; seed {seed}");
        assert!((one - many).abs() < 1.0, "{what}");
    }
    Ok(())
}

#[test]
fn as_much_is_hit_whether_one_thread_asks_or_many_do() -> Tested {
    check(1)
}

#[test]
fn many_threads_notice_as_soon_as_one_that_other_keys_are_asked_for() -> Tested {
    check(4)
}
