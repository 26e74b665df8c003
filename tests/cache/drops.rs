//! Values that do something when the cache lets go of them: they are dropped once, they may write
//! into caches, and they may panic.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use slotkeep::{Bound, Cache, Client, Cluster, Error, Policy, SetOptions};

use crate::OnDrop;
use crate::Tested;
use crate::support::watched;

#[test]
fn what_is_evicted_is_dropped_once_and_not_while_a_handle_is_out() -> Tested {
    let (cache, count) = (Cache::<OnDrop>::new(10), Arc::new(AtomicUsize::new(0)));
    cache.insert("kept", OnDrop::counted(&count).0)?;
    let kept = cache.get("kept")?.expect("it was written");
    cache.remove("kept")?;
    for number in 0..1_000 {
        cache.insert(format!("k:{number}"), OnDrop::counted(&count).0)?;
        assert_eq!(count.load(Ordering::Relaxed), cache.len()? + 1);
    }
    drop(kept);
    assert_eq!(count.load(Ordering::Relaxed), 10);
    drop(cache);
    assert_eq!(count.load(Ordering::Relaxed), 0);
    Ok(())
}

/// A value that is written in its place when it is dropped, and after it so many generations more.
fn heir(
    cache: &Cache<OnDrop>,
    name: String,
    generations: u32,
    written: &Arc<AtomicUsize>,
) -> OnDrop {
    if generations == 0 {
        return OnDrop::default();
    }
    let (cache, written) = (cache.clone(), Arc::clone(written));
    OnDrop::new(move || {
        let next = format!("{name}'");
        let value = heir(&cache, next.clone(), generations - 1, &written);
        cache.insert(next, value).expect("no token is held");
        written.fetch_add(1, Ordering::Relaxed);
    })
}

#[test]
fn a_hundred_thousand_values_may_write_into_the_cache_that_evicts_them() {
    const CAPACITY: usize = 100_000;
    const GENERATIONS: u32 = 2;
    const THREADS: usize = 2;
    watched("values that write", || {
        let cache = Cache::<OnDrop>::new(CAPACITY as u64);
        let written = Arc::new(AtomicUsize::new(0));
        let insert = |number: usize, generations: u32| {
            let name = format!("k:{number}");
            let value = heir(&cache, name.clone(), generations, &written);
            cache.insert(name, value).expect("an open cache");
        };
        (0..CAPACITY).for_each(|number| insert(number, GENERATIONS));
        assert_eq!((cache.len(), written.load(Ordering::Relaxed)), (Ok(CAPACITY), 0));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let numbers = CAPACITY + thread..CAPACITY + CAPACITY / 10;
                scope.spawn(move || numbers.step_by(THREADS).for_each(|number| insert(number, 0)));
            }
        });
        let len = cache.len().expect("an open cache");
        assert!((CAPACITY - THREADS..=CAPACITY).contains(&len), "{len} are left");
        assert!(written.load(Ordering::Relaxed) >= CAPACITY / 10);
        // The values refer to their cache, which would not end by itself.
        while cache.clear().expect("an open cache") > 0 {}
        assert_eq!(written.load(Ordering::Relaxed), CAPACITY * GENERATIONS as usize);
    });
}

#[test]
fn values_of_two_caches_may_write_into_each_other() {
    const CAPACITY: usize = 20_000;
    watched("two caches", || {
        let caches = [(); 2].map(|()| Cache::<OnDrop>::new(CAPACITY as u64));
        let written = Arc::new(AtomicUsize::new(0));
        for (own, other) in [(0, 1), (1, 0)] {
            for number in 0..CAPACITY {
                let value = heir(&caches[other], format!("{own}:{number}"), 1, &written);
                caches[own].insert(format!("k:{number}"), value).expect("an open cache");
            }
        }
        for number in 0..CAPACITY / 10 {
            caches[number % 2].insert(format!("new:{number}"), OnDrop::default()).expect("open");
            if number % 100 < 2 {
                let len = |cache: &Cache<OnDrop>| cache.len().expect("an open cache");
                assert_eq!(caches.each_ref().map(len), [CAPACITY; 2], "insertion {number}");
            }
        }
        while caches.iter().any(|cache| cache.clear().expect("an open cache") > 0) {}
        assert_eq!(written.load(Ordering::Relaxed), 2 * CAPACITY);
    });
}

/// How many names are brought back.
const LOST: usize = 25_000;

fn lost(number: usize) -> String {
    format!("lost:{number}")
}

/// A value that writes the next name that is not there when it is dropped, up to the last one.
fn brings_back(cache: &Cache<OnDrop>, next: &Arc<AtomicUsize>) -> OnDrop {
    let (cache, next) = (cache.clone(), Arc::clone(next));
    OnDrop::new(move || {
        let mut numbers = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let is_there = |number| cache.contains_key(lost(number)).expect("no token is held");
        let absent = numbers.find(|&number| number >= LOST || !is_there(number));
        if let Some(number) = absent.filter(|&number| number < LOST) {
            cache.insert(lost(number), brings_back(&cache, &next)).expect("no token is held");
        }
    })
}

/// What comes back in a drought looks for a main entry that may go, before room is made for it.
#[test]
fn values_that_bring_back_what_was_lost_do_not_evict_each_other_one_within_the_other() {
    const CAPACITY: usize = 2 * LOST;
    watched("what comes back", || {
        let cache = Cache::<OnDrop>::new(CAPACITY as u64);
        // Nothing is brought back before all of it has gone through the window.
        let next = Arc::new(AtomicUsize::new(LOST));
        let fillers = (0..CAPACITY / 10).map(|number| format!("filler:{number}"));
        let names = (0..CAPACITY).map(|number| format!("k:{number}"));
        for name in names.chain((0..LOST).map(lost)).chain(fillers) {
            cache.insert(name, brings_back(&cache, &next)).expect("an open cache");
        }
        next.store(0, Ordering::Relaxed);
        (0..10).for_each(|_| drop(brings_back(&cache, &next)));
        assert_eq!(cache.len(), Ok(CAPACITY));
        let brought_back = next.load(Ordering::Relaxed);
        assert!(brought_back >= LOST, "{brought_back} have brought each other back");
        while cache.clear().expect("an open cache") > 0 {}
    });
}

/// Under a policy that refuses writes when nothing may go for them.
#[test]
fn what_goes_for_a_write_may_itself_write_into_the_room_that_it_leaves() {
    const LIGHT: u64 = 20_000;
    const HEAVY: u64 = 10;
    watched("a volatile policy", || {
        let weigh = |key: &[u8], _: &OnDrop| if key.starts_with(b"light") { 1 } else { HEAVY };
        let builder = Cluster::builder().policy(Policy::VolatileRandom).values::<OnDrop>();
        let builder = builder.bound(Bound::Weight(LIGHT)).weigher(weigh);
        let client: Client<OnDrop> = builder.build().expect("a small cluster").client();
        let refused = Arc::new(AtomicUsize::new(0));
        let expiring = SetOptions::new().expire_in(Duration::from_secs(3_600));
        for number in 0..LIGHT {
            let (own, refused) = (client.clone(), Arc::clone(&refused));
            let value = OnDrop::new(move || {
                if let Err(full) = own.set(format!("heavy {number}"), OnDrop::default()) {
                    assert_eq!(full.error, Error::OutOfMemory);
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
            client.set_with(format!("light {number}"), value, &expiring).expect("there is room");
        }
        // Ten of them leave room for a heavy one, which is written when the tenth is dropped.
        let written = client.set("heavy", OnDrop::default());
        assert_eq!(written.map_err(|full| full.error), Err(Error::OutOfMemory));
        let heavy = LIGHT / HEAVY;
        assert_eq!(refused.load(Ordering::Relaxed) as u64, LIGHT - heavy);
        assert_eq!((client.weight(), client.len().map(|len| len as u64)), (Ok(LIGHT), Ok(heavy)));
    });
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
