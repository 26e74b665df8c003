//! Calls on several keys: atomic in one slot, slot by slot over many, and neither loses a key of a
//! slot that a move splits.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use slotkeep::{Cluster, CommandError, Error, Handle, SetOptions, Slot, limits};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Fixture, Kind, Tested, key, keys, slot, with_each_cluster};

const HOUR: Duration = Duration::from_secs(3600);

/// A key, its value, and whether it has a deadline.
type Row = (Vec<u8>, Vec<u8>, bool);

/// Everything that is there, in order.
fn contents(fixture: &Fixture<[u8]>) -> Result<Vec<Row>, Error> {
    let mut all = Vec::new();
    for entry in &fixture.client {
        let entry = entry?;
        let name = Handle::key(&entry);
        let deadline = fixture.client.ttl(name)?.flatten();
        all.push((name.to_vec(), entry.to_vec(), deadline.is_some()));
    }
    all.sort_unstable();
    Ok(all)
}

fn filled(fixture: &Fixture<[u8]>, count: usize) -> Result<Vec<String>, Error> {
    let names = keys(count);
    for name in &names {
        fixture.client.set_with(name, name.as_bytes(), &SetOptions::new().expire_in(HOUR))?;
    }
    fixture.disturb();
    Ok(names)
}

/// The values that were found, as bytes.
fn shown(found: &[Option<Handle<[u8]>>]) -> Vec<Option<&[u8]>> {
    found.iter().map(Option::as_deref).collect()
}

#[test]
fn mget_answers_in_the_order_of_its_keys() {
    with_each_cluster::<[u8]>(|fixture| {
        let names = filled(fixture, 6)?;
        let mut asked: Vec<_> = names.iter().rev().cloned().collect();
        asked.extend([key("absent"), names[2].clone(), names[2].clone()]);
        let found = fixture.client.mget(&asked)?;
        let expected = asked.iter().map(|name| names.contains(name).then_some(name.as_bytes()));
        assert!(shown(&found).into_iter().eq(expected));
        Ok(())
    });
}

#[test]
fn mset_writes_all_clears_deadlines_and_lets_the_later_of_two_values_stay() {
    with_each_cluster::<[u8]>(|fixture| {
        let names = filled(fixture, 6)?;
        let fresh = [(key("fresh"), &b"1"[..]), (key("fresh"), b"2"), (names[0].clone(), b"3")];
        let entries = names.iter().map(|name| (name.clone(), &b"all"[..])).chain(fresh);
        fixture.client.mset(entries)?;
        for (name, value, deadline) in contents(fixture)? {
            let expected = match () {
                () if name == key("fresh").as_bytes() => &b"2"[..],
                () if name == names[0].as_bytes() => b"3",
                () => b"all",
            };
            assert_eq!((&*value, deadline), (expected, false));
        }
        assert_eq!(fixture.client.len(), Ok(7));
        Ok(())
    });
}

#[test]
fn remove_all_counts_what_was_there_once() {
    with_each_cluster::<[u8]>(|fixture| {
        let mut names = filled(fixture, 6)?;
        let kept = names.pop().expect("six keys");
        names.extend([names[0].clone(), key("absent")]);
        assert_eq!(fixture.client.remove_all(&names)?, 5);
        assert_eq!(fixture.client.remove_all(&names)?, 0);
        let left = contents(fixture)?;
        assert_eq!(left, [(kept.clone().into_bytes(), kept.into_bytes(), true)]);
        Ok(())
    });
}

#[test]
fn atomic_calls_want_one_slot() {
    with_each_cluster::<[u8]>(|fixture| {
        filled(fixture, 4)?;
        let before = contents(fixture)?;
        let client = &fixture.client;
        let crossing = [key(0), "elsewhere".to_owned()];
        assert_eq!(client.mget(&crossing).map(drop), Err(Error::CrossSlot));
        assert_eq!(client.remove_all(&crossing), Err(Error::CrossSlot));
        let entries = crossing.iter().map(|name| (name, &b"v"[..]));
        assert_eq!(client.mset(entries), Err(Error::CrossSlot));
        let ran = client.transaction(&crossing, |_| -> Result<(), ()> { unreachable!("not run") });
        assert_eq!(ran, Err(Error::CrossSlot));
        assert_eq!(contents(fixture)?, before);
        Ok(())
    });
}

#[test]
fn a_transaction_reads_its_own_writes_and_applies_them_together() {
    with_each_cluster::<[u8]>(|fixture| {
        let names = filled(fixture, 5)?;
        let fresh = key("fresh");
        let declared: Vec<_> = names.iter().chain([&fresh, &names[0]]).collect();
        let sum = fixture.client.transaction(&declared, |all| {
            assert_eq!(all.get(&names[0])?, Some(names[0].as_bytes()));
            assert_eq!(all.get(&fresh)?, None);
            all.set(&fresh, b"one")?;
            all.set(&fresh, b"two")?;
            assert_eq!(all.get(&fresh)?, Some(&b"two"[..]), "its own write");
            assert!(all.remove(&names[1])?);
            assert!(!all.remove(&names[1])?, "its own removal");
            assert!(!all.contains_key(&names[1])?);
            all.set(&names[2], b"plain")?;
            all.set_keep_expiry(&names[3], b"kept")?;
            all.remove(&names[4])?;
            all.set_keep_expiry(&names[4], b"reborn")?;
            Ok::<_, CommandError>(all.get(&names[3])?.map_or(0, <[u8]>::len))
        })?;
        assert_eq!(sum, Ok(4));
        let row = |name: &String, value: &[u8], deadline| {
            (name.clone().into_bytes(), value.to_vec(), deadline)
        };
        let mut expected = [
            row(&names[0], names[0].as_bytes(), true),
            row(&names[2], b"plain", false),
            row(&names[3], b"kept", true),
            row(&names[4], b"reborn", false),
            row(&fresh, b"two", false),
        ];
        expected.sort_unstable();
        assert_eq!(contents(fixture)?, expected);
        Ok(())
    });
}

#[test]
fn a_transaction_that_fails_or_panics_applies_nothing() {
    with_each_cluster::<[u8]>(|fixture| {
        let names = filled(fixture, 4)?;
        let before = contents(fixture)?;
        let client = &fixture.client;
        let refused: Result<(), &str> = client.transaction(&names, |all| {
            all.set(&names[0], b"staged").map_err(|_| "declared")?;
            all.remove(&names[1]).map_err(|_| "declared")?;
            Err("changed my mind")
        })?;
        assert_eq!((refused, contents(fixture)?), (Err("changed my mind"), before.clone()));
        let undeclared = client.transaction(&names[..1], |one| {
            one.set(&names[0], b"staged")?;
            let stranger = &names[1];
            assert_eq!(one.get(stranger), Err(CommandError::UndeclaredKey));
            assert_eq!(one.remove(stranger), Err(CommandError::UndeclaredKey));
            assert_eq!(one.contains_key(stranger), Err(CommandError::UndeclaredKey));
            one.set_keep_expiry(stranger, b"v")
        })?;
        assert_eq!(
            (undeclared, contents(fixture)?),
            (Err(CommandError::UndeclaredKey), before.clone())
        );
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            client.transaction(&names, |all| -> Result<(), CommandError> {
                all.set(&names[0], b"staged")?;
                all.remove(&names[1])?;
                panic!("inside a transaction");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(contents(fixture)?, before);
        Ok(())
    });
}

/// Keys of many slots and several of the slot that moves, each named twice.
fn spread() -> Vec<String> {
    let elsewhere = (0..50).map(|number| format!("elsewhere:{number}"));
    let mut names: Vec<_> = keys(10).into_iter().chain(elsewhere).collect();
    names.extend(names.clone());
    names
}

#[test]
fn batches_over_many_slots_answer_in_order_while_a_slot_is_split() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        let names = spread();
        let none: [&str; 0] = [];
        assert!(client.get_many(&none)?.is_empty());
        assert_eq!(client.remove_many(&none), Ok(0));
        client.set_many(std::iter::empty::<(&str, &[u8])>())?;
        client.set_many(names.iter().map(|name| (name, name.as_bytes())))?;
        fixture.disturb();
        let mut asked = names.clone();
        asked.insert(7, "absent".to_owned());
        asked.insert(9, key("absent"));
        let found = client.get_many(&asked)?;
        let there = |name: &str| !name.contains("absent");
        let expected = asked.iter().map(|name| there(name).then_some(name.as_bytes()));
        assert!(shown(&found).into_iter().eq(expected));

        // The second half repeats the keys of the first: its values stay.
        let half = names.len() / 2;
        let entry = |(index, name)| (name, if index < half { &b"first"[..] } else { b"second" });
        client.set_many(names.iter().enumerate().map(entry))?;
        let written = contents(fixture)?;
        assert_eq!(written.len(), half);
        assert!(written.iter().all(|(_, value, deadline)| value == b"second" && !deadline));

        assert_eq!(client.remove_many(&asked), Ok(half));
        assert_eq!((client.remove_many(&asked), client.is_empty()), (Ok(0), Ok(true)));
        Ok(())
    });
}

#[test]
fn a_batch_writes_new_keys_into_a_split_slot() {
    with_each_cluster::<[u8]>(|fixture| {
        filled(fixture, 6)?;
        let fresh: Vec<_> = (0..20).map(|number| key(format!("fresh:{number}"))).collect();
        fixture.client.set_many(fresh.iter().map(|name| (name, &b"v"[..])))?;
        let found = fixture.client.get_many(&fresh)?;
        assert!(shown(&found).iter().all(|value| *value == Some(b"v")));
        assert_eq!(fixture.client.entries_of_slot(slot())?.len(), 26);
        Ok(())
    });
}

#[test]
fn the_keys_of_one_slot_are_written_and_read_at_one_instant() -> Tested {
    let fixture = Fixture::<[u8]>::new(Kind::ThreeNodes)?;
    let names = keys(4);
    let client = &fixture.client;
    client.mset(names.iter().map(|name| (name, &b"0"[..])))?;
    std::thread::scope(|scope| -> Tested {
        let writer = scope.spawn(|| -> Tested {
            for round in 0..2000_u32 {
                let value = round.to_string();
                if round % 2 == 0 {
                    client.mset(names.iter().map(|name| (name, value.as_bytes())))?;
                } else {
                    client.set_many(names.iter().map(|name| (name, value.as_bytes())))?;
                }
            }
            Ok(())
        });
        while !writer.is_finished() {
            for found in [client.mget(&names)?, client.get_many(&names)?] {
                assert!(found.iter().all(|value| *value == found[0]), "{found:?}");
            }
        }
        writer.join().expect("no panic")
    })?;
    assert_eq!(Slot::of(&names[3]), slot());
    Ok(())
}

#[test]
fn a_batch_serves_many_keys_of_one_slot_among_others_in_their_order() -> Tested {
    let client = Cluster::builder().nodes(2).build()?.client();
    let crowd = 2 * limits::WINDOW_KEYS_MAX;
    let names: Vec<_> = (0..crowd).flat_map(|n| [format!("{{crowd}}{n}"), n.to_string()]).collect();
    client.set_many(names.iter().map(|name| (name, name.as_bytes())))?;
    let found = client.get_many(&names)?;
    assert!(shown(&found).into_iter().eq(names.iter().map(|name| Some(name.as_bytes()))));
    assert_eq!(client.remove_many(&names)?, names.len());
    assert_eq!(client.remove_many(&names)?, 0);
    Ok(())
}

/// A value that leaves no room for eight of its kind on the stack of a test.
type Large = [u8; 1 << 15];

#[test]
fn a_batch_of_one_large_value_fits_where_the_value_does() -> Tested {
    let client = Cluster::builder().values::<Large>().build()?.client();
    let value: Box<Large> = vec![7; 1 << 15].try_into().expect("as long as that");
    client.set_many(std::iter::once(("key", *value)))?;
    assert!(client.get_many(&["key"])?[0].as_ref().is_some_and(|value| value[77] == 7));
    Ok(())
}
