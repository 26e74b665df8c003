//! A cache holds as many entries as it may, and never more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use slotkeep::{Bound, Cache, Cluster, Compute, SetOptions};

use crate::OnDrop;
use crate::Tested;

#[test]
fn a_cache_holds_as_many_entries_as_it_may_and_never_more() -> Tested {
    for capacity in [1, 2, 3, 7, 100] {
        let cache = Cache::<[u8]>::new(capacity);
        for written in 1..=capacity * 3 {
            cache.insert(format!("k:{written}"), b"v")?;
            assert_eq!(cache.len()? as u64, written.min(capacity), "capacity {capacity}");
        }
    }
    Ok(())
}

#[test]
fn keys_of_one_slot_may_fill_the_whole_cache() -> Tested {
    let cache = Cache::<[u8]>::new(1_000);
    for number in 0..1_000 {
        cache.insert(format!("{{one}}:{number}"), b"v")?;
    }
    assert_eq!(cache.len()?, 1_000);
    for number in 0..3_000 {
        cache.insert(format!("k:{number}"), b"v")?;
        if number % 100 == 0 {
            assert_eq!(cache.len()?, 1_000);
        }
    }
    Ok(())
}

#[test]
fn a_cache_without_room_keeps_nothing_and_works() -> Tested {
    for builder in [Cache::<[u8]>::builder().capacity(0), Cache::builder().max_weight(0)] {
        let cache = builder.build()?;
        for number in 0..100 {
            let key = format!("k:{number}");
            cache.insert(&key, b"v")?;
            assert!(cache.insert_with(&key, b"v", &SetOptions::new().if_absent())?.is_set());
            let made = cache.compute(&key, |_| Compute::Replace(b"v".to_vec()))?;
            assert_eq!(made.as_deref(), Some(&b"v"[..]), "the handle keeps it");
            assert_eq!(cache.get(&key)?, None);
        }
        cache.client().set_many((0..100).map(|number| (format!("m:{number}"), &b"v"[..])))?;
        assert_eq!((cache.len()?, cache.weight()?), (0, 0));
    }
    Ok(())
}

#[test]
fn every_call_that_adds_keys_makes_room_for_them() -> Tested {
    let cache = Cache::<[u8]>::new(10);
    let client = cache.client();
    for round in 0..50 {
        let key = |name: &str| format!("{{{round}}}:{name}");
        cache.insert(key("set"), b"v")?;
        assert!(cache.len()? <= 10);
        client.append(key("append"), b"v")?;
        assert!(cache.len()? <= 10);
        client.incr(key("incr"), 1)?;
        assert!(cache.len()? <= 10);
        cache.compute(key("compute"), |_| Compute::Replace(b"v".to_vec()))?;
        assert!(cache.len()? <= 10);
        client.mset(["a", "b", "c"].map(|name| (key(name), &b"v"[..])))?;
        assert!(cache.len()? <= 10);
        client.set_many((0..30).map(|number| (format!("{round}:{number}"), &b"v"[..])))?;
        assert!(cache.len()? <= 10);
        let names = [key("one"), key("two")];
        let wrote = client
            .transaction(&names, |both| names.iter().try_for_each(|name| both.set(name, b"v")))?;
        assert!(wrote.is_ok());
        assert!(cache.len()? <= 10);
    }
    assert_eq!(cache.len()?, 10);
    Ok(())
}

#[test]
fn each_node_of_a_cluster_has_the_bound_for_itself() -> Tested {
    let cluster = Cluster::builder().nodes(3).bound(Bound::Entries(100)).build()?;
    let client = cluster.client();
    for number in 0..3_000 {
        client.set(format!("k:{number}"), b"v")?;
    }
    assert_eq!(client.len()?, 300);
    Ok(())
}

#[test]
fn what_is_evicted_is_dropped_once_and_not_while_a_handle_is_out() -> Tested {
    let (cache, count) = (Cache::<OnDrop>::new(10), Arc::new(AtomicUsize::new(0)));
    let counted = || {
        let count = Arc::clone(&count);
        count.fetch_add(1, Ordering::Relaxed);
        OnDrop::new(move || {
            count.fetch_sub(1, Ordering::Relaxed);
        })
    };
    cache.insert("kept", counted())?;
    let kept = cache.get("kept")?.expect("it was written");
    cache.remove("kept")?;
    for number in 0..1_000 {
        cache.insert(format!("k:{number}"), counted())?;
        assert_eq!(count.load(Ordering::Relaxed), cache.len()? + 1);
    }
    drop(kept);
    assert_eq!(count.load(Ordering::Relaxed), 10);
    drop(cache);
    assert_eq!(count.load(Ordering::Relaxed), 0);
    Ok(())
}

#[test]
fn a_value_that_is_evicted_may_write_into_its_cache() -> Tested {
    let (cache, written) = (Cache::<OnDrop>::new(4), Arc::new(AtomicUsize::new(0)));
    for number in 0..100 {
        let (own, written) = (cache.clone(), Arc::clone(&written));
        let value = OnDrop::new(move || {
            own.insert("echo", OnDrop::default()).expect("no token is held");
            written.fetch_add(1, Ordering::Relaxed);
        });
        cache.insert(format!("k:{number}"), value)?;
        assert!(cache.len()? <= 4);
    }
    // The values refer to their cache, which would not end by itself.
    cache.clear()?;
    assert_eq!(written.load(Ordering::Relaxed), 100);
    cache.clear()?;
    Ok(())
}

#[test]
fn a_drop_that_panics_reaches_who_made_room_and_the_next_write_makes_the_rest() -> Tested {
    let cache = Cache::<OnDrop>::new(4);
    let armed = Arc::new(AtomicUsize::new(0));
    let value = || {
        let armed = Arc::clone(&armed);
        OnDrop::new(move || assert_eq!(armed.swap(0, Ordering::Relaxed), 0, "on purpose"))
    };
    let mut panics = 0;
    for number in 0..100 {
        let key = format!("k:{number}");
        armed.store(usize::from(number % 3 == 0), Ordering::Relaxed);
        let wrote = catch_unwind(AssertUnwindSafe(|| cache.insert(&key, value()).is_ok()));
        panics += u32::from(wrote.is_err());
        armed.store(0, Ordering::Relaxed);
        cache.insert("next", OnDrop::default())?;
        assert!(cache.len()? <= 4);
    }
    assert!(panics > 20, "{panics}");
    Ok(())
}

#[test]
fn many_threads_exceed_the_bound_by_what_they_are_just_writing_and_only_then() -> Tested {
    const THREADS: usize = 4;
    const CAPACITY: usize = 100;
    let cache = Cache::<[u8]>::new(CAPACITY as u64);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || {
                for number in 0..5_000 {
                    cache.insert(format!("{thread}:{number}"), b"v").expect("an open cache");
                }
            });
        }
        for _ in 0..50 {
            // Slots are counted one after another, while entries come and go: a sum of several
            // instants, which says little about any one of them.
            assert!(cache.len().expect("an open cache") <= 2 * CAPACITY);
        }
    });
    assert_eq!(cache.len()?, CAPACITY);
    Ok(())
}
