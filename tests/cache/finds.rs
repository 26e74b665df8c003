//! A cache learns what it is good for to keep.

use slotkeep::Cache;

use crate::Tested;

/// Asks for keys, and inserts what is missing; how many are found.
fn found(cache: &Cache<[u8]>, keys: impl Iterator<Item = u32>) -> Result<u32, slotkeep::Error> {
    let mut found = 0;
    for key in keys {
        let key = format!("k:{key}");
        if cache.get(&key)?.is_some() {
            found += 1;
        } else {
            cache.insert(&key, b"v")?;
        }
    }
    Ok(found)
}

#[test]
fn entries_that_nobody_asks_for_any_more_give_way_to_a_loop_longer_than_the_cache() -> Tested {
    let cache = Cache::<[u8]>::new(200);
    found(&cache, (0..5).flat_map(|_| 10_000..10_250))?;
    let rounds: Result<Vec<_>, _> = (0..150).map(|_| found(&cache, 0..600)).collect();
    let last = rounds?.pop();
    // Two hundred at most, and no more than fit the window while the others stand in the way.
    assert!(last.is_some_and(|found| found >= 150), "{last:?}");
    Ok(())
}

#[test]
fn most_of_a_loop_stays_that_is_a_little_longer_than_the_cache() -> Tested {
    for capacity in [8_u32, 20, 50, 1_000] {
        let cache = Cache::<[u8]>::new(capacity.into());
        let rounds: Result<Vec<_>, _> =
            (0..160).map(|_| found(&cache, 0..capacity + capacity.div_ceil(10))).collect();
        // As many as there is room for can be found in each; one has to be left for the window.
        let late = &rounds?[140..];
        let least = capacity * 98 / 100 - 1;
        assert!(late.iter().all(|&found| found >= least), "of {capacity}: {late:?}");
    }
    Ok(())
}

#[test]
fn keys_that_come_again_once_within_the_length_of_the_cache_are_found() -> Tested {
    let cache = Cache::<[u8]>::new(200);
    let again = |keys: std::ops::Range<u32>| keys.flat_map(|key| [key, key - 60]);
    found(&cache, again(100..4_000))?;
    // Of the two thousand every second one can be found.
    let last = found(&cache, again(4_000..5_000))?;
    assert!(last >= 900, "{last}");
    Ok(())
}

#[test]
fn a_window_that_has_grown_gives_way_to_keys_that_are_asked_for_again_and_again() -> Tested {
    let cache = Cache::<[u8]>::new(200);
    found(&cache, (100..4_000).flat_map(|key| [key, key - 60]))?;
    // Of 170 keys one after the other, and a new one between any two.
    let mixed = |keys: std::ops::Range<u32>| keys.flat_map(|key| [key, 1_000_000 + key % 170]);
    found(&cache, mixed(10_000..30_000))?;
    let last = found(&cache, mixed(30_000..31_000))?;
    assert!(last >= 950, "{last}");
    Ok(())
}
