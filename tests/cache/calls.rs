//! What each call of a cache does.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use slotkeep::{Cache, Compute, Error, Handle, Refused, SetOptions, SetOutcome};

use crate::Tested;

const ROOM: u64 = 1_000;

fn content(cache: &Cache<str>) -> BTreeMap<Vec<u8>, String> {
    let entry = |entry: Result<Handle<str>, Error>| {
        let entry = entry.expect("an open cache");
        (Handle::key(&entry).to_vec(), entry.to_string())
    };
    cache.iter().map(entry).collect()
}

#[test]
fn a_cache_is_a_map_until_it_is_full() -> Tested {
    let cache = Cache::<str>::new(ROOM);
    assert!(cache.is_empty()?);
    cache.insert("a", "1")?;
    cache.insert("b", "2")?;
    cache.insert("a", "3")?;
    assert_eq!(cache.get("a")?.as_deref(), Some("3"));
    assert_eq!((cache.get("c")?, cache.contains_key("c")?), (None, false));
    assert_eq!((cache.len()?, cache.live()?, cache.is_empty()?), (2, 2, false));
    let expected = [("a", "3"), ("b", "2")].map(|(key, value)| (key.into(), value.to_owned()));
    assert_eq!(content(&cache), BTreeMap::from(expected));
    assert_eq!(cache.remove("a")?.as_deref(), Some("3"));
    assert_eq!((cache.remove("a")?, cache.contains_key("b")?), (None, true));
    assert_eq!((cache.clear()?, cache.len()?), (1, 0));
    Ok(())
}

#[test]
fn clones_are_the_same_cache_and_handles_outlive_all_of_them() -> Tested {
    let cache = Cache::<String>::new(ROOM);
    let other = cache.clone();
    cache.insert("key", "value".to_owned())?;
    drop(cache);
    let kept = other.get("key")?;
    other.insert("key", "new".to_owned())?;
    drop(other);
    assert_eq!(kept.as_deref().map(String::as_str), Some("value"));
    Ok(())
}

#[test]
fn options_write_on_a_condition_and_return_what_was_there() -> Tested {
    let cache = Cache::<String>::new(ROOM);
    let (absent, old) = (SetOptions::new().if_absent(), SetOptions::new().return_old());
    assert!(cache.insert_with("key", "1".to_owned(), &absent)?.is_set());
    let SetOutcome::NotSet { value, .. } = cache.insert_with("key", "2".to_owned(), &absent)?
    else {
        panic!("the key was there");
    };
    assert_eq!(value, "2", "what was not written comes back");
    let before = cache.insert_with("key", "3".to_owned(), &old)?.into_old();
    assert_eq!(before.as_deref().map(String::as_str), Some("1"));
    let seen = cache.get("key")?.expect("it was written");
    cache.insert("key", "4".to_owned())?;
    let same = SetOptions::new().if_same(&seen);
    assert!(!cache.insert_with("key", "5".to_owned(), &same)?.is_set());
    let wait = SetOptions::new().expire_in(Duration::from_secs(60));
    cache.insert_with("key", "6".to_owned(), &wait)?;
    let left = cache.client().ttl("key")?.flatten().expect("a deadline");
    assert!(left <= Duration::from_secs(60));
    Ok(())
}

#[test]
fn a_closure_keeps_replaces_inserts_and_removes() -> Tested {
    let cache = Cache::<u64>::new(ROOM);
    let add = |seen: Option<&u64>| Compute::Replace(seen.map_or(1, |seen| seen + 1));
    assert_eq!(cache.compute("n", |_| Compute::Keep)?, None);
    assert_eq!(cache.compute("n", add)?.as_deref(), Some(&1));
    assert_eq!(cache.compute("n", add)?.as_deref(), Some(&2));
    assert_eq!(cache.update("n", |value| std::mem::replace(value, 7))?, Some(2));
    assert_eq!(cache.compute("n", |_| Compute::Keep)?.as_deref(), Some(&7));
    assert_eq!(cache.compute("n", |_| Compute::Remove)?, None);
    assert_eq!((cache.update("n", |_| ())?, cache.len()?), (None, 0));
    Ok(())
}

#[test]
fn what_a_cache_is_bounded_by_can_be_asked() -> Tested {
    let by = |cache: &Cache| (cache.capacity(), cache.max_weight());
    assert_eq!(by(&Cache::new(7)), (Some(7), None));
    assert_eq!(by(&Cache::builder().max_weight(1 << 20).build()?), (None, Some(1 << 20)));
    assert_eq!(by(&Cache::builder().capacity(7).max_weight(8).build()?), (None, Some(8)));
    assert_eq!(by(&Cache::builder().max_weight(8).capacity(7).build()?), (Some(7), None));
    assert_eq!(by(&Cache::builder().build()?), (None, None));
    Ok(())
}

#[test]
fn retain_removes_what_the_predicate_refuses_and_nothing_else() -> Tested {
    let cache = Cache::<u64>::new(ROOM);
    for number in 0..500 {
        cache.insert(format!("k:{number}"), number)?;
    }
    let mut seen = BTreeMap::new();
    let removed = cache.retain(|key, &number| {
        *seen.entry(key.to_vec()).or_insert(0) += 1;
        number % 5 == 0
    })?;
    assert_eq!((removed, cache.len()?), (400, 100));
    assert!(seen.len() == 500 && seen.values().all(|&times| times == 1));
    assert_eq!((cache.contains_key("k:10")?, cache.contains_key("k:11")?), (true, false));
    assert_eq!(cache.retain(|_, _| true)?, 0);
    Ok(())
}

#[test]
fn retain_leaves_what_was_written_after_the_predicate_saw_it() -> Tested {
    let cache = Cache::<str>::new(ROOM);
    for key in ["same length", "longer", "removed", "plain"] {
        cache.insert(key, "old")?;
    }
    let removed = cache.retain(|key, value| {
        assert_eq!(value, "old");
        match key {
            b"same length" => cache.insert(key, "new").expect("no token is held"),
            b"longer" => cache.insert(key, "a new one").expect("no token is held"),
            b"removed" => drop(cache.remove(key).expect("no token is held")),
            _ => {}
        }
        false
    })?;
    assert_eq!(removed, 1);
    let left = [("longer", "a new one"), ("same length", "new")];
    let left = left.map(|(key, value)| (key.into(), value.to_owned()));
    assert_eq!(content(&cache), BTreeMap::from(left));
    Ok(())
}

#[test]
fn a_predicate_that_panics_leaves_what_is_still_to_come() -> Tested {
    let cache = Cache::<u64>::new(ROOM);
    for number in 0..10 {
        cache.insert(format!("k:{number}"), number)?;
    }
    let mut calls = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        cache.retain(|_, _| {
            calls += 1;
            assert!(calls < 4, "on purpose");
            false
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(cache.len()?, 7);
    assert_eq!(cache.retain(|_, _| false)?, 7);
    Ok(())
}

#[test]
fn only_the_entry_of_the_handle_is_removed() -> Tested {
    let cache = Cache::<u64>::new(ROOM);
    let client = cache.client();
    cache.insert("key", 1)?;
    let first = cache.get("key")?.expect("it was written");
    cache.insert("key", 1)?;
    assert!(!client.remove_same(&first)?, "an equal value is another entry");
    let second = cache.get("key")?.expect("it was written");
    assert!(client.remove_same(&second)?);
    assert!(!client.remove_same(&second)?, "it is gone");
    cache.insert("key", 1)?;
    assert!(!client.remove_same(&second)?, "it came back as another entry");
    assert_eq!(cache.len()?, 1);
    Ok(())
}

#[test]
fn a_call_from_inside_of_a_closure_is_refused_and_hands_its_value_back() -> Tested {
    let cache = Cache::<String>::new(ROOM);
    cache.compute("key", |_| {
        let refused = cache.insert("other", "value".to_owned());
        assert_eq!(refused, Err(Refused { error: Error::Reentrant, value: "value".to_owned() }));
        assert_eq!(cache.retain(|_, _| true), Err(Error::Reentrant));
        assert_eq!(cache.weight(), Err(Error::Reentrant));
        assert!(Cache::<str>::builder().build().is_err());
        Compute::Keep
    })?;
    assert!(cache.is_empty()?);
    Ok(())
}
