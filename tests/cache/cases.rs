//! Public bug reports of caches: each kind, with the right answer. Those about time are among the
//! proofs, where the test moves the clock.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use slotkeep::{Bound, Cache, Cluster, Compute, Error, Handle, Policy, SetOptions, slab_bytes};

use crate::Tested;
use crate::support::WATCHDOG;
use crate::support::watched;

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

/// arthurprs/quick-cache#40: threads that waited for the loader of a key panicked when somebody
/// wrote the key meanwhile. Here a load is a closure under the token, for which others wait.
#[test]
fn threads_that_load_a_key_which_others_write_all_get_a_value() {
    for capacity in [0, 1, 100] {
        watched("loaders", move || {
            let cache = Cache::<u64>::new(capacity);
            let load = |key: &str, value: u64| {
                cache.compute(key, |seen| {
                    assert!(value % 50 != 7, "on purpose");
                    if seen.is_some() { Compute::Keep } else { Compute::Replace(value) }
                })
            };
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for round in 0..2_000 {
                            let key = format!("k:{}", round % 3);
                            let got = catch_unwind(AssertUnwindSafe(|| load(&key, round)));
                            match got {
                                Ok(got) => assert!(got.expect("an open cache").is_some()),
                                Err(_) => assert_eq!(round % 50, 7, "no panic but its own"),
                            }
                        }
                    });
                }
                for round in 0..2_000 {
                    let key = format!("k:{}", round % 3);
                    cache.insert(&key, round).expect("an open cache");
                    if round % 2 == 0 {
                        cache.remove(&key).expect("an open cache");
                    }
                }
            });
            assert!(cache.len().expect("an open cache") as u64 <= capacity);
        });
    }
}

/// xacrimon/dashmap#369, #74, #64, #233, #195, pubky/pkdns#51: a value that was kept blocked what
/// came next. Here it blocks neither its own eviction nor anybody else's.
#[test]
fn kept_values_stop_no_eviction_and_stay_as_they_were_read() {
    watched("kept values", || {
        let cache = Cache::<[u8]>::new(2);
        thread::scope(|scope| {
            for thread in 0..2 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut kept = VecDeque::new();
                    for number in 0..3_000_usize {
                        let key = format!("k:{}", (number + thread) % 5);
                        // In the place of the value before, if nobody has it.
                        cache.insert(&key, &number.to_le_bytes()).expect("an open cache");
                        let read = cache.get(&key).expect("an open cache");
                        kept.extend(read.map(|value| (value.to_vec(), value)));
                        if kept.len() > 20 {
                            let (read, value) = kept.pop_front().expect("twenty");
                            assert_eq!(read, *value);
                        }
                    }
                    assert_eq!(kept.len(), 20);
                });
            }
        });
        assert!(cache.len().expect("an open cache") <= 2);
    });
}

/// xacrimon/dashmap#97: whether a pass sees every key that stays was left open. What stays in a
/// full cache is told by the policy: what has no deadline.
#[test]
fn a_pass_sees_what_stays_once_while_others_come_and_are_evicted() -> Tested {
    const STAYING: usize = 100;
    let builder = Cluster::builder().policy(Policy::VolatileRandom).bound(Bound::Entries(150));
    let client = builder.build()?.client();
    for number in 0..STAYING {
        client.set(format!("stays:{number}"), b"v")?;
    }
    let count = |all: &mut BTreeMap<_, u32>, key: &[u8]| *all.entry(key.to_vec()).or_default() += 1;
    let pass = || -> Result<BTreeMap<Vec<u8>, u32>, Error> {
        let mut seen = BTreeMap::new();
        for entry in &client {
            count(&mut seen, Handle::key(&entry?));
        }
        client.retain(|key, _| {
            count(&mut seen, key);
            true
        })?;
        Ok(seen)
    };
    let stop = AtomicBool::new(false);
    let (evicting, is_evicting) = mpsc::channel();
    let passes = thread::scope(|scope| {
        scope.spawn(|| {
            let options = SetOptions::new().expire_in(Duration::from_secs(3_600));
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let set = client.set_with(format!("comes:{number}"), b"v", &options);
                assert!(set.expect("there is room").is_set());
                if number == 100 {
                    evicting.send(()).expect("the test waits");
                }
            }
        });
        let waited = is_evicting.recv_timeout(WATCHDOG);
        let passes: Vec<_> = (0..30).map(|_| pass()).collect();
        stop.store(true, Ordering::Relaxed);
        waited.map(|()| passes)
    });
    for seen in passes.expect("a hundred writes are not much") {
        let seen = seen?;
        for number in 0..STAYING {
            let times = seen.get(format!("stays:{number}").as_bytes());
            assert_eq!(times, Some(&2), "{number} in two passes");
        }
    }
    Ok(())
}

/// ibraheemdev/papaya#102: the end of one map freed what another one still had out. Entries of all
/// caches lie in one slab.
#[test]
fn the_end_of_a_cache_frees_nothing_of_another_nor_what_it_has_evicted() -> Tested {
    let mut caches = [(); 3].map(|()| Cache::<[u8]>::new(100)).to_vec();
    let mut kept = Vec::new();
    let mut fill = |cache: &Cache, round: u32| -> Tested {
        for number in 0..1_000 {
            let key = format!("{round}:{number}");
            cache.insert(&key, key.as_bytes())?;
            if number % 10 == 0 {
                kept.extend(cache.get(&key)?);
            }
        }
        Ok(())
    };
    for round in 0..2 {
        caches.iter().try_for_each(|cache| fill(cache, round))?;
    }
    caches.truncate(1);
    fill(&caches[0], 2)?;
    assert_eq!((caches[0].len()?, kept.len()), (100, 700));
    drop(caches);
    assert!(kept.iter().all(|entry| Handle::key(entry) == &**entry));
    Ok(())
}
