//! What entries weigh: by whom it is said, when, and what happens when that goes wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use slotkeep::limits::{BOUND_WEIGHT_MAX, WEIGHT_MAX};
use slotkeep::{Cache, Client, CommandError, Compute, Error, Handle, Refused, SetOptions};

use crate::OnDrop;
use crate::Tested;
use crate::support::OVERHEAD;
use crate::support::watched;

const ROOM: u64 = 1 << 30;

/// A cache in which a value weighs its length and its key nothing.
fn by_length() -> Result<Cache, Error> {
    Cache::builder().max_weight(ROOM).weigher(|_, value: &[u8]| value.len() as u64).build()
}

/// A call that writes the value to the key.
type Write = fn(&Client, &str, &[u8]) -> Tested;

/// Every call that writes; the key is there before.
const WRITES: [(&str, Write); 11] = [
    ("set", |client, key, value| Ok(client.set(key, value)?)),
    ("try_set", |client, key, value| Ok(client.try_set(key, value)?)),
    ("set_with", |client, key, value| {
        let options = SetOptions::new().return_old();
        Ok(client.set_with(key, value, &options).map(drop)?)
    }),
    ("replace", |client, key, value| {
        let seen = client.get(key)?.expect("the key is there");
        assert!(client.replace(&seen, value)?);
        Ok(())
    }),
    ("mset", |client, key, value| client.mset([(key, value)])),
    ("set_many", |client, key, value| client.set_many([(key, value)])),
    ("compute", |client, key, value| {
        client.compute(key, |_| Compute::Replace(value.to_vec())).map(drop)
    }),
    ("update", |client, key, value| client.update(key, |old| *old = value.to_vec()).map(drop)),
    ("transaction", |client, key, value| {
        client.transaction(&[key], |staged| staged.set(key, value))?.map_err(Error::from)
    }),
    ("append", |client, key, value| {
        let len = client.get(key)?.map_or(0, |value| value.len());
        client.append(key, &value[len.min(value.len())..]).map(drop)
    }),
    ("set, while a handle is out", |client, key, value| {
        let kept = client.get(key)?;
        client.set(key, value)?;
        drop(kept);
        Ok(())
    }),
];

#[test]
fn an_entry_weighs_what_its_value_weighs_whichever_call_wrote_it() -> Tested {
    let cache = by_length()?;
    cache.insert("other", &[0; 1_000])?;
    for (name, write) in WRITES {
        for before in [0, 1, 40] {
            cache.insert("key", &vec![0; before])?;
            for len in [40, 41, 100] {
                write(cache.client(), "key", &vec![0; len])?;
                assert_eq!(cache.weight()?, 1_000 + len as u64, "{name}, {before} to {len} bytes");
            }
        }
    }
    let sum = cache.client().incr("number", 1_234_567)?;
    assert_eq!((sum, cache.weight()?), (1_234_567, 1_107));
    cache.remove("key")?;
    cache.remove("number")?;
    assert_eq!(cache.weight()?, 1_000);
    cache.clear()?;
    assert_eq!(cache.weight()?, 0);
    Ok(())
}

#[test]
fn a_sized_value_that_is_changed_in_place_is_weighed_again() -> Tested {
    let weigh = |_: &[u8], value: &Vec<u8>| value.len() as u64;
    let cache = Cache::<Vec<u8>>::builder().max_weight(100).weigher(weigh).build()?;
    cache.insert("key", vec![0; 10])?;
    cache.insert("key", vec![0; 20])?;
    assert_eq!(cache.weight()?, 20);
    cache.update("key", |value| value.push(0))?;
    assert_eq!(cache.weight()?, 21);
    assert_eq!(cache.client().update_in_place("key", |value| value.resize(60, 0))?, Some(()));
    assert_eq!(cache.weight()?, 60);
    let too_heavy = Err(Error::TooHeavy { weight: 101, bound: 100 });
    cache.insert("other", vec![0; 40])?;
    let changed = cache.client().update_in_place("key", |value| value.resize(101, 0));
    assert_eq!((changed, cache.contains_key("key")?), (too_heavy, false), "its old value is gone");
    assert_eq!((cache.weight()?, cache.len()?), (40, 1), "the others stay");
    Ok(())
}

#[test]
fn without_a_weigher_an_entry_weighs_its_bytes_of_memory() -> Tested {
    let cache = Cache::<[u8]>::builder().max_weight(100_000).build()?;
    for len in [0, 1, 100, 1_000] {
        cache.insert("key", &vec![0; len])?;
        let weight = cache.weight()?;
        let least = (24 + "key".len() + len) as u64;
        assert!((least..=least + 48).contains(&weight), "{len} bytes weigh {weight}");
    }
    for number in 0..1_000 {
        cache.insert(format!("k:{number}"), &[0; 900])?;
        assert!(cache.weight()? <= 100_000);
    }
    assert!(cache.len()? > 95, "what fits stays: {}", cache.len()?);
    Ok(())
}

#[test]
fn the_bound_holds_for_weights_of_any_mix() -> Tested {
    let weigh = |_: &[u8], weight: &u64| *weight;
    let cache = Cache::<u64>::builder().max_weight(1_000).weigher(weigh).build()?;
    for number in 0..3_000_u64 {
        // 1 to 1000, most of them small.
        let weight = 1 + number.wrapping_mul(0x9E37_79B9) % 1_000 / (1 + number % 50);
        cache.insert(format!("k:{}", number % 700), weight)?;
        if number % 10 == 0 {
            let sum: u64 = cache.iter().map(|entry| *entry.expect("an open cache")).sum();
            assert_eq!(cache.weight()?, sum);
            assert!(sum <= 1_000);
        }
    }
    Ok(())
}

/// A cache of 4,000 that has been full of entries of this weight.
fn once_full_of(weight: u64) -> Result<Cache<u64>, Error> {
    let cache = Cache::builder().max_weight(4_000).weigher(|_, weight: &u64| *weight).build()?;
    for number in 0..=4_000 / weight {
        cache.insert(format!("first:{number}"), weight)?;
    }
    Ok(cache)
}

/// How many of the last accesses to entries of weight 1 are hits, of some that come again and
/// again, the later ones more seldom.
fn hits(cache: &Cache<u64>) -> Result<usize, Error> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut hits = 0;
    for access in 0..90_000 {
        let key = format!("k:{}", (rng.f64().powi(3) * 30_000.0).floor());
        if cache.get(&key)?.is_some() {
            hits += usize::from(access >= 60_000);
        } else {
            cache.insert(&key, 1)?;
        }
    }
    Ok(hits)
}

#[test]
fn entries_that_were_heavy_once_cost_no_hits_later() -> Tested {
    let hits_after = |weight| hits(&once_full_of(weight)?);
    let light = hits_after(1)?;
    for weight in [10, 200] {
        let heavy = hits_after(weight)?;
        assert!(heavy * 100 >= light * 95, "{heavy} hits instead of {light} after {weight}");
    }
    Ok(())
}

#[test]
fn what_weighs_nothing_counts_as_1() -> Tested {
    let cache = Cache::<u64>::builder().max_weight(10).weigher(|_, _| 0).build()?;
    for number in 0..100 {
        cache.insert(format!("k:{number}"), number)?;
    }
    assert_eq!((cache.len()?, cache.weight()?), (10, 10));
    Ok(())
}

#[test]
fn no_weight_is_too_great_to_be_added() -> Tested {
    let heaviest = |bound| {
        let builder = Cache::<u64>::builder().max_weight(bound);
        builder.weigher(|_, _| u64::MAX).build()
    };
    let cache = heaviest(u64::MAX)?;
    assert_eq!(cache.max_weight(), Some(BOUND_WEIGHT_MAX));
    let fit = BOUND_WEIGHT_MAX / WEIGHT_MAX;
    let entries = |count: u64| (0..count).map(|number| (format!("{{one}}:{number}"), number));
    cache.client().mset(entries(2 * fit))?;
    cache.client().set_many(entries(3 * fit))?;
    assert_eq!((cache.len()? as u64, cache.weight()?), (fit, BOUND_WEIGHT_MAX));
    for bound in [1, WEIGHT_MAX - 1] {
        let cache = heaviest(bound)?;
        let too_heavy = Err(Error::TooHeavy { weight: WEIGHT_MAX, bound });
        assert_eq!(cache.client().mset(entries(100)), too_heavy);
        assert_eq!((cache.len()?, cache.weight()?), (0, 0));
    }
    let nothing = heaviest(0)?;
    nothing.client().mset(entries(100))?;
    assert_eq!((nothing.len()?, nothing.weight()?), (0, 0));
    let unbounded = Cache::<u64>::builder().weigher(|_, _| u64::MAX).build()?;
    unbounded.client().mset(entries(100))?;
    assert!(unbounded.weight()? < 100_000, "nobody asks a weigher where weights bound nothing");
    Ok(())
}

#[test]
fn what_is_heavier_than_the_whole_cache_is_refused_by_every_call_and_changes_nothing() -> Tested {
    // By what somebody says, and by bytes of memory, of which the key has two.
    let by_length = Cache::builder().weigher(|_, value: &[u8]| value.len() as u64);
    for (builder, others) in [(by_length, 0), (Cache::builder(), OVERHEAD + 2)] {
        let cache = builder.max_weight(1_000).build()?;
        let most = usize::try_from(1_000 - others).expect("a small bound");
        let too_heavy = Error::TooHeavy { weight: 1_001, bound: 1_000 };
        cache.insert("k1", b"old")?;
        cache.insert("k2", b"value")?;
        let (long, client) = (vec![0; most + 1], cache.client());
        for (name, write) in WRITES {
            assert_eq!(write(client, "k1", &long), Err(too_heavy), "{name}");
        }
        let pair = client.mset([("{k1}2", &b"new"[..]), ("k1", &long)]);
        assert_eq!((pair, cache.get("{k1}2")?), (Err(too_heavy), None), "all or nothing");
        assert_eq!(cache.insert("k3", &long).map_err(Error::from), Err(too_heavy), "a new key");
        assert_eq!(cache.get("k1")?.as_deref(), Some(&b"old"[..]));
        assert_eq!(cache.get("k2")?.as_deref(), Some(&b"value"[..]));
        // It is the entry that counts, not what is missing.
        cache.insert("k1", &long[1..])?;
        assert_eq!((cache.get("k1")?.map(|value| value.len()), cache.len()?), (Some(most), 1));
        assert_eq!(cache.weight()?, 1_000, "what just fits does fit");
    }
    Ok(())
}

#[test]
fn a_value_that_is_too_heavy_comes_back() -> Tested {
    let cache = Cache::<u64>::builder().max_weight(10).weigher(|_, weight| *weight).build()?;
    for value in [11, WEIGHT_MAX, u64::MAX] {
        let error = Error::TooHeavy { weight: value.min(WEIGHT_MAX), bound: 10 };
        assert_eq!(cache.insert("key", value), Err(Refused { error, value }));
    }
    Ok(())
}

#[test]
fn a_weigher_that_panics_changes_nothing() -> Tested {
    let armed = Arc::new(AtomicBool::new(false));
    let trap = Arc::clone(&armed);
    let weigh = move |key: &[u8], value: &[u8]| {
        assert!(!(trap.load(Ordering::Relaxed) && key == b"{t}:key"), "on purpose");
        value.len() as u64
    };
    let cache = Cache::<[u8]>::builder().max_weight(ROOM).weigher(weigh).build()?;
    let client = cache.client();
    cache.insert("{t}:key", b"123")?;
    cache.insert("{t}:a", b"123")?;
    let several: [(&str, Write); 2] = [
        ("mset", |client, key, value| client.mset([("{t}:a", value), (key, value)])),
        ("transaction", |client, key, value| {
            let keys = ["{t}:a", key];
            let staged = client.transaction(&keys, |staged| {
                keys.iter().try_for_each(|key| staged.set(key, value))
            })?;
            staged.map_err(Error::from)
        }),
    ];
    for (name, write) in WRITES.into_iter().chain(several) {
        armed.store(true, Ordering::Relaxed);
        let wrote = catch_unwind(AssertUnwindSafe(|| write(client, "{t}:key", b"12345")));
        armed.store(false, Ordering::Relaxed);
        assert!(wrote.is_err(), "{name}");
        for key in ["{t}:key", "{t}:a"] {
            assert_eq!(cache.get(key)?.as_deref(), Some(&b"123"[..]), "{name}");
        }
        assert_eq!((cache.len()?, cache.weight()?), (2, 6), "{name}");
    }
    cache.insert("{t}:key", b"12345")?;
    assert_eq!(cache.weight()?, 8);
    Ok(())
}

#[test]
fn a_closure_that_panics_at_the_bound_changes_nothing_of_what_may_be_there() -> Tested {
    const CAPACITY: u64 = 50;
    let by_entries = Cache::<Vec<u8>>::builder().capacity(CAPACITY);
    let by_weight = Cache::<Vec<u8>>::builder().max_weight(CAPACITY);
    for builder in [by_entries, by_weight.weigher(|_, value: &Vec<u8>| value.len() as u64)] {
        let cache = builder.build()?;
        let client = cache.client();
        let fill = |name: &str| -> Tested {
            for number in 0..CAPACITY * 3 {
                cache.insert(format!("{name}:{number}"), vec![0])?;
            }
            assert_eq!(cache.len()? as u64, CAPACITY, "{name}");
            Ok(())
        };
        let grow = |value: &mut Vec<u8>| -> () {
            value.resize(30, 0);
            panic!("on purpose")
        };
        let panics: [(&str, &dyn Fn() -> Tested); 5] = [
            ("compute", &|| client.compute("key", |_| panic!("on purpose")).map(drop)),
            ("compute of a new key", &|| client.compute("new", |_| panic!("on purpose")).map(drop)),
            ("update", &|| client.update("key", grow).map(drop)),
            ("transaction", &|| {
                let staged = client.transaction(&["key"], |staged| -> Result<(), CommandError> {
                    staged.set("key", vec![0; 30])?;
                    panic!("on purpose")
                });
                staged.map(drop)
            }),
            ("update in place", &|| client.update_in_place("key", grow).map(drop)),
        ];
        for (name, call) in panics {
            fill(name)?;
            cache.insert("key", vec![0; 2])?;
            let (len, weight) = (cache.len()?, cache.weight()?);
            assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "{name}");
            if name == "update in place" {
                assert_eq!((cache.get("key")?, cache.len()?), (None, len - 1), "half done");
            } else {
                assert_eq!(cache.get("key")?.map(|value| value.len()), Some(2), "{name}");
                assert_eq!((cache.len()?, cache.weight()?), (len, weight), "{name}");
            }
            cache.remove("key")?;
        }
        fill("at the end")?;
    }
    Ok(())
}

#[test]
fn a_weigher_that_calls_a_cache_is_refused_at_once() -> Tested {
    let (cell, other) = (Arc::new(OnceLock::<Cache>::new()), Cache::<str>::new(1));
    let (own, answers) = (Arc::clone(&cell), mpsc::channel());
    let weigh = move |_: &[u8], value: &[u8]| {
        let own = own.get().expect("set before the first call");
        answers.0.send((own.len(), other.contains_key("key"))).expect("the test listens");
        value.len() as u64
    };
    let cache = Cache::<[u8]>::builder().max_weight(ROOM).weigher(weigh).build()?;
    cell.set(cache.clone()).expect("nobody has set it");
    cache.insert("key", b"value")?;
    assert_eq!(answers.1.try_iter().count(), 1);
    for (name, write) in WRITES {
        write(cache.client(), "key", b"a longer value")?;
        let heard: Vec<_> = answers.1.try_iter().collect();
        assert!(!heard.is_empty(), "{name}: nobody was asked");
        for answer in heard {
            assert_eq!(answer, (Err(Error::Reentrant), Err(Error::Reentrant)), "{name}");
        }
    }
    assert_eq!(cache.len()?, 1, "nothing sticks to the thread");
    Ok(())
}

#[test]
fn a_value_that_calls_back_may_be_dropped_because_nobody_could_weigh_it() {
    watched("a value that calls back", || {
        let weigh = |_: &[u8], value: &OnDrop| {
            assert!(value.0.is_none(), "on purpose");
            1
        };
        let cache = Cache::<OnDrop>::builder().max_weight(ROOM).weigher(weigh).build();
        let cache = cache.expect("a thread");
        let client = cache.client();
        let value = || {
            let cache = cache.clone();
            OnDrop::new(move || {
                cache.contains_key("key").ok();
            })
        };
        for call in [
            &(|| cache.insert("key", value()).map_err(Error::from)) as &dyn Fn() -> Tested,
            &|| cache.compute("key", |_| Compute::Replace(value())).map(drop),
            &|| client.mset([("{key}:a", OnDrop::default()), ("key", value())]),
            &|| client.set_many([("key", value())]),
            &|| client.transaction(&["key"], |staged| staged.set("key", value())).map(drop),
        ] {
            assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
            assert_eq!(cache.is_empty(), Ok(true));
        }
    });
}

#[test]
fn a_weigher_is_asked_once_for_a_value_that_is_written() -> Tested {
    let (said, asked) = mpsc::channel();
    let weigh = move |key: &[u8], value: &u64| {
        said.send(key.to_vec()).expect("the test listens");
        *value
    };
    let cache = Cache::<u64>::builder().max_weight(ROOM).weigher(weigh).build()?;
    let client = cache.client();
    cache.insert("{t}:a", 1)?;
    client.mset([("{t}:a", 1), ("{t}:b", 2)])?;
    client.set_many([("{t}:a", 1), ("c", 2)])?;
    cache.get("c")?;
    cache.retain(|_, _| true)?;
    let keys: Vec<_> = asked.try_iter().collect();
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert_eq!(
        cache.iter().filter_map(Result::ok).map(|e| Handle::key(&e).len()).sum::<usize>(),
        11
    );
    Ok(())
}
