//! Public bug reports of caches: each kind, with the right answer. Those about time are among the
//! proofs, where the test moves the clock.

use std::thread;

use slotkeep::{Bound, Cache, Cluster, slab_bytes};

use crate::Tested;

/// foyer-rs/foyer#714, #1167: a capacity that was split between shards was lost in part, and keys
/// that fell into one shard were evicted while others had room.
#[test]
fn no_part_of_the_capacity_is_lost_however_the_keys_fall() -> Tested {
    for keys in [(|number| format!("{{one}}:{number}")) as fn(u32) -> String, |n| format!("k:{n}")]
    {
        let cache = Cache::<[u8]>::new(100);
        for number in 0..100 {
            cache.insert(keys(number), b"v")?;
        }
        assert_eq!(cache.len()?, 100);
        for number in 0..100 {
            assert!(cache.contains_key(keys(number))?, "{number} was evicted without need");
        }
    }
    Ok(())
}

/// moka-rs/moka#590, #592: threads that wrote the same few keys left entries that could not be
/// evicted, and the cache grew without bound.
#[test]
fn threads_that_write_and_remove_the_same_few_keys_leave_no_more_than_fits() -> Tested {
    let weigh = |_: &[u8], weight: &u64| *weight;
    let cache = Cache::<u64>::builder().max_weight(40).weigher(weigh).build()?;
    thread::scope(|scope| {
        for thread in 0..8_u64 {
            let cache = &cache;
            scope.spawn(move || {
                for step in 0..4_000 {
                    let key = format!("k:{}", (step * 7 + thread) % 12);
                    let done = if step % 5 == thread % 5 {
                        cache.remove(&key).map(drop)
                    } else {
                        cache.insert(&key, 1 + (step + thread) % 10).map_err(Into::into)
                    };
                    done.expect("an open cache");
                }
            });
        }
    });
    assert!(cache.weight()? <= 40, "{}", cache.weight()?);
    // What is there can go.
    for number in 0..100 {
        cache.insert(format!("new:{number}"), 40)?;
        assert!(cache.weight()? <= 40);
        assert!(cache.len()? <= 1);
    }
    Ok(())
}

/// moka-rs/moka#295: something was kept for each key that had ever been written; and
/// moka-rs/moka#267, moka-rs/mini-moka#11: a sketch of counters overflowed after many of them.
#[test]
fn thousands_of_keys_that_came_and_went_leave_nothing_behind() -> Tested {
    let cache = Cache::<[u8]>::new(1_000);
    let pass = |from: u32| -> Tested {
        for number in from..from + 20_000 {
            let key = number.to_le_bytes();
            cache.insert(key, &key)?;
            if number % 3 == 0 {
                cache.get(key)?;
            }
        }
        Ok(())
    };
    pass(0)?;
    let before = slab_bytes();
    (1..5).try_for_each(|round| pass(round * 20_000))?;
    assert_eq!(cache.len()?, 1_000);
    // Other tests of this process use the slab too.
    assert!(slab_bytes() <= before + (8 << 20), "{before} bytes became {}", slab_bytes());
    Ok(())
}

/// moka-rs/moka#498: every hit went into one log of the whole cache, for which threads waited.
///
/// Here a hit is noted in the entry, under the token that the call has anyway: it survives, by the
/// hits of one thread and no upkeep, what would evict it a hundred times over.
#[test]
fn a_hit_counts_at_once_and_needs_no_upkeep() -> Tested {
    let cache = Cache::<[u8]>::new(100);
    for number in 0..100 {
        cache.insert(format!("k:{number}"), b"v")?;
    }
    for number in 0..2_000 {
        for hot in 0..10 {
            assert!(cache.get(format!("k:{hot}"))?.is_some(), "after {number} new keys");
        }
        cache.insert(format!("new:{number}"), b"v")?;
    }
    Ok(())
}

/// moka-rs/moka#154: an idle cache kept a core busy.
///
/// [`Cache`] is a cluster of one node with one worker, as this one is.
#[test]
fn a_full_cache_without_deadlines_wakes_no_worker() -> Tested {
    let cluster = Cluster::builder().workers_per_node(1).bound(Bound::Entries(100)).build()?;
    let client = cluster.client();
    let before = cluster.counters();
    for number in 0..1_000 {
        client.set(format!("k:{number}"), b"v")?;
        client.get(format!("k:{}", number / 2))?;
    }
    let after = cluster.counters();
    assert_eq!((after.wakeups, after.worker), (before.wakeups, before.worker));
    Ok(())
}
