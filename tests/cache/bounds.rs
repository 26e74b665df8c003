//! A cache holds as many entries as it may, and never more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use slotkeep::{Bound, Cache, Cluster, Compute, Error, Policy, SetOptions};

use crate::OnDrop;
use crate::Tested;
use crate::support::WATCHDOG;
use crate::support::weigh;

#[test]
fn a_cache_holds_as_many_entries_as_it_may_and_never_more() -> Tested {
    for capacity in [1, 2, 3, 7, 100, 5_000] {
        // All in one slot, in all of them, and first in one.
        for [first, then] in [["{one}"; 2], [""; 2], ["{one}", ""]] {
            let cache = Cache::<u64>::new(capacity);
            for written in 1..=capacity * 3 {
                let tag = if written <= capacity { first } else { then };
                cache.insert(format!("{tag}{written}"), written)?;
                if written % (1 + capacity / 100) == 0 {
                    let expected = written.min(capacity);
                    assert_eq!(cache.len()? as u64, expected, "{capacity} of {first:?}, {then:?}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn bytes_stay_below_their_bound_and_what_fits_is_not_refused() -> Tested {
    for bound in [1, 100, 1_000, 100_000] {
        let cache = Cache::<[u8]>::builder().max_weight(bound).build()?;
        let mut refused = 0;
        for number in 0..2_000_usize {
            let value = vec![7; number * 31 % 300];
            match cache.insert(format!("key {number}"), &value) {
                Ok(()) => {}
                Err(error) if matches!(error.error, Error::TooHeavy { .. }) => refused += 1,
                Err(error) => return Err(error.into()),
            }
            if number % 10 == 0 {
                let weight: u64 = cache.iter().map(weigh).sum::<Result<_, _>>()?;
                assert!(weight <= bound, "insertion {number} at {bound}");
            }
        }
        assert_eq!(refused > 0, bound <= 100, "{refused} refused at {bound}");
    }
    Ok(())
}

/// Runs something while another thread holds the slot of a key.
fn holding<R>(cache: &Cache<[u8]>, key: &'static str, run: impl FnOnce() -> R) -> Result<R, Error> {
    let ((held, is_held), (release, is_released)) = (mpsc::channel(), mpsc::channel::<()>());
    let holder = cache.clone();
    let hold_until_released = move || {
        let hold = move |_: Option<&[u8]>| {
            held.send(()).expect("the test waits");
            // An error is a test that has given up.
            is_released.recv().ok();
            Compute::Keep
        };
        holder.compute(key, hold).map(drop)
    };
    let holder = thread::Builder::new().spawn(hold_until_released).expect("a thread");
    is_held.recv_timeout(WATCHDOG).expect("nobody else has the slot");
    let result = run();
    drop(release);
    holder.join().expect("nothing panics")?;
    Ok(result)
}

/// Whether a write returns in time, and well.
fn is_written(cache: &Cache<[u8]>, key: &'static str) -> bool {
    let (done, is_done) = mpsc::channel();
    let writer = cache.clone();
    let write = move || done.send(writer.insert(key, b"v")).ok();
    thread::Builder::new().spawn(write).expect("a thread");
    is_done.recv_timeout(WATCHDOG).is_ok_and(|written| written.is_ok())
}

#[test]
fn making_room_waits_for_no_slot_but_that_of_the_entry_that_goes() -> Tested {
    let cache = Cache::<[u8]>::new(1_000);
    // A twentieth of the room is the queue of new keys, to begin with. Three of them go before
    // those of one slot.
    let old = (0..1_200).map(|number| format!("k:{number}"));
    let next = (0..3).map(|number| format!("next:{number}"));
    let later = (0..47).map(|number| format!("{{held}}:{number}"));
    old.chain(next).chain(later).try_for_each(|key| cache.insert(key, b"v"))?;
    assert!(holding(&cache, "{held}:0", || is_written(&cache, "new"))?);
    assert_eq!(cache.get("next:0")?, None, "the oldest of the new keys went");
    assert!(cache.contains_key("next:1")? && cache.contains_key("new")?);
    Ok(())
}

#[test]
fn the_first_eviction_counts_the_entries_without_waiting_for_any() -> Tested {
    let weigh = |_: &[u8], _: &[u8]| 1;
    let cache = Cache::builder().max_weight(1_000).weigher(weigh).build()?;
    (1..1_000).try_for_each(|number| cache.insert(format!("k:{number}"), b"v"))?;
    cache.insert("{held}", b"v")?;
    assert!(holding(&cache, "{held}", || is_written(&cache, "new"))?);
    assert_eq!((cache.len()?, cache.stats()?.evicted), (1_000, 1));
    Ok(())
}

#[test]
fn a_cache_without_room_keeps_nothing_and_works() -> Tested {
    for builder in [Cache::<[u8]>::builder().capacity(0), Cache::builder().max_weight(0)] {
        let cache = builder.build()?;
        let client = cache.client();
        for number in 0..100 {
            let key = format!("k:{number}");
            cache.insert(&key, b"v")?;
            assert!(cache.insert_with(&key, b"v", &SetOptions::new().if_absent())?.is_set());
            let made = cache.compute(&key, |_| Compute::Replace(b"v".to_vec()))?;
            assert_eq!(made.as_deref(), Some(&b"v"[..]), "the handle keeps it");
            assert_eq!(client.append(&key, b"suffix"), Ok(6));
            client.mset(["1", "2"].map(|name| (format!("{{{key}}}{name}"), &b"v"[..])))?;
            assert_eq!(cache.get(&key)?, None);
        }
        client.set_many((0..100).map(|number| (format!("m:{number}"), &b"v"[..])))?;
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

/// What is alive at one instant is what the cache holds, and what each thread has in hand: a value
/// that it is about to write, has just written beyond the bound, or has just evicted.
#[test]
fn threads_exceed_the_bound_by_what_each_is_just_writing_and_only_until_it_returns() -> Tested {
    const THREADS: usize = 4;
    const CAPACITY: usize = 100;
    for policy in [Policy::Adaptive, Policy::AllKeysLru] {
        let builder = Cluster::builder().bound(Bound::Entries(CAPACITY as u64)).policy(policy);
        let client = builder.values::<OnDrop>().build()?.client();
        let (alive, most) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (client, alive, most) = (client.clone(), &alive, &most);
                scope.spawn(move || {
                    for number in 0..10_000 {
                        let (value, count) = OnDrop::counted(alive);
                        most.fetch_max(count, Ordering::Relaxed);
                        let key = format!("{{{}}}{thread}:{number}", number % 16);
                        client.set(key, value).expect("an open cluster");
                    }
                });
            }
        });
        let (most, left) = (most.into_inner(), client.len()?);
        println!("{policy}: {most} at most, {left} in the end");
        assert!((CAPACITY + 1..=CAPACITY + THREADS).contains(&most), "{policy}: {most} were alive");
        // Two threads that meet at the bound may evict one entry each, and one more than needed.
        assert!((CAPACITY - THREADS..=CAPACITY).contains(&left), "{policy}: {left} are left");
        assert_eq!(alive.load(Ordering::Relaxed), left, "{policy}: what is not there is dropped");
    }
    Ok(())
}
