//! Each call of a client keeps its promise, on one node or three, lent or strict, and while half
//! of the slot's keys are at the other node.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slotkeep::{
    Answer, Client, Cluster, Compute, Error, Expiry, Handle, Refused, SetOptions, Slot,
};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Fixture, Kind, Tested, key, keys, slot, with_each_cluster};

const HOUR: Duration = Duration::from_secs(3600);

/// Writes so many keys `k` = `k`, then splits the slot where the cluster does that.
fn filled(fixture: &Fixture<[u8]>, count: usize) -> Result<Vec<String>, Error> {
    let names = keys(count);
    for name in &names {
        fixture.client.set(name, name.as_bytes())?;
    }
    fixture.disturb();
    Ok(names)
}

#[track_caller]
fn check_value(client: &Client, key: impl AsRef<[u8]>, value: Option<&[u8]>) {
    let key = key.as_ref();
    let found = client.get(key).expect("a read");
    assert_eq!(found.as_deref(), value, "get {}", key.escape_ascii());
    assert_eq!(client.contains_key(key), Ok(value.is_some()), "contains {}", key.escape_ascii());
}

/// The time left is what was given, or a little less.
#[track_caller]
fn check_ttl(client: &Client, key: impl AsRef<[u8]>, given: Option<Duration>) {
    let left = client.ttl(key).expect("a read").expect("the key is there");
    match (left, given) {
        (None, None) => {}
        (Some(left), Some(given)) => {
            assert!(
                left <= given && given < left + Duration::from_secs(600),
                "{left:?} of {given:?}"
            );
        }
        (left, given) => panic!("{left:?} left of {given:?}"),
    }
}

#[test]
fn a_value_is_read_as_it_was_written_last() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        let long = vec![7_u8; 100_000];
        for name in filled(fixture, 8)? {
            check_value(client, &name, Some(name.as_bytes()));
            for value in [&b"new"[..], b"", &long, b"same", b"size"] {
                client.set(&name, value)?;
                check_value(client, &name, Some(value));
            }
        }
        for absent in ["absent", "", "\u{0}"] {
            check_value(client, key(absent), None);
            client.set(key(absent), b"there")?;
            check_value(client, key(absent), Some(b"there"));
        }
        Ok(())
    });
}

#[test]
fn any_bytes_are_a_key_in_any_slot() -> Tested {
    let cluster = Cluster::builder().nodes(3).build()?;
    let client = cluster.client();
    let every_byte: Vec<u8> = (0..=255).collect();
    for key in [&b""[..], b"\0", b"{", b"{}", b"}{", b"\xff\xfe", &every_byte] {
        check_value(&client, key, None);
        client.set(key, key)?;
        check_value(&client, key, Some(key));
    }
    assert_eq!(client.len(), Ok(7));
    Ok(())
}

#[test]
fn a_removed_key_is_gone_and_was_there_once() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        for name in filled(fixture, 8)? {
            assert_eq!(client.remove(&name), Ok(true));
            check_value(client, &name, None);
            assert_eq!(client.remove(&name), Ok(false));
            assert_eq!(client.take(&name)?, None);
            client.set(&name, b"again")?;
            assert_eq!(client.take(&name)?.as_deref(), Some(&b"again"[..]));
            check_value(client, &name, None);
        }
        assert_eq!(client.len(), Ok(0));
        Ok(())
    });
}

/// One row of the table of `set_with`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Always,
    Absent,
    Present,
    SameCurrent,
    SameStale,
}

/// Runs one combination on a key that is there with `old` and an hour to live, or not there.
fn check_set_with(
    client: &Client,
    (name, there): (&str, bool),
    (when, expiry, return_old): (When, Expiry, bool),
) -> Tested {
    let row = format!("{when:?} {expiry:?} old wanted {return_old}, there {there}");
    let stale = {
        client.set(name, b"stale")?;
        client.take(name)?.expect("just written")
    };
    if there {
        client.set_with(name, b"old", &SetOptions::new().expire_in(HOUR))?;
    }
    let current = client.get(name)?;
    let same = current.as_ref().unwrap_or(&stale);
    let options = SetOptions::new().expiry(expiry);
    let options = if return_old { options.return_old() } else { options };
    let options = match when {
        When::Always => options,
        When::Absent => options.if_present().if_absent(),
        When::Present => options.if_absent().if_present(),
        When::SameCurrent => options.if_absent().if_same(same),
        When::SameStale => options.if_same(&stale),
    };
    let met = match when {
        When::Always => true,
        When::Absent => !there,
        When::Present | When::SameCurrent => there,
        When::SameStale => false,
    };
    let outcome = client.set_with(name, b"new", &options)?;
    assert_eq!(outcome.is_set(), met, "{row}");
    let expected = (return_old && there).then_some(&b"old"[..]);
    assert_eq!(outcome.into_old().as_deref(), expected, "{row}");
    let left = match (met, there, expiry) {
        (false, true, _) | (true, true, Expiry::Keep) => Some(HOUR),
        (true, _, Expiry::In(wait)) => Some(wait),
        (_, _, _) => None,
    };
    match (met, there) {
        (false, false) => check_value(client, name, None),
        (false, true) => check_value(client, name, Some(b"old")),
        (true, _) => check_value(client, name, Some(b"new")),
    }
    if met || there {
        check_ttl(client, name, left);
    }
    client.remove(name)?;
    Ok(())
}

#[test]
fn set_with_does_what_each_combination_of_options_says() {
    let whens = [When::Always, When::Absent, When::Present, When::SameCurrent, When::SameStale];
    with_each_cluster::<[u8]>(|fixture| {
        let names = filled(fixture, 4)?;
        for when in whens {
            for expiry in [Expiry::Never, Expiry::Keep, Expiry::In(2 * HOUR)] {
                for return_old in [false, true] {
                    for there in [false, true] {
                        let options = (when, expiry, return_old);
                        for name in &names {
                            check_set_with(&fixture.client, (name, there), options)?;
                        }
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn replace_writes_only_over_the_entry_that_was_seen() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        for name in filled(fixture, 6)? {
            client.expire(&name, HOUR)?;
            let seen = client.get(&name)?.expect("there");
            assert!(client.replace(&seen, b"first")?);
            check_ttl(client, &name, Some(HOUR));
            assert!(!client.replace(&seen, b"second")?, "it was written since");
            check_value(client, &name, Some(b"first"));
            let again = client.get(&name)?.expect("there");
            client.remove(&name)?;
            assert!(!client.replace(&again, b"third")?);
            check_value(client, &name, None);
            client.set(&name, b"first")?;
            assert!(!client.replace(&again, b"third")?, "an equal value is not the same entry");
        }
        Ok(())
    });
}

#[test]
fn deadlines_are_set_read_kept_and_cleared() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        let far = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        for name in filled(fixture, 6)? {
            check_ttl(client, &name, None);
            assert_eq!(client.expiry(&name), Ok(Some(None)));
            assert_eq!(client.persist(&name), Ok(false));
            assert_eq!(client.expire(&name, HOUR), Ok(true));
            check_ttl(client, &name, Some(HOUR));
            assert_eq!(client.set_expiry(&name, Expiry::Keep), Ok(true));
            check_ttl(client, &name, Some(HOUR));
            assert_eq!(client.expire_at(&name, far), Ok(true));
            assert_eq!(client.expiry(&name), Ok(Some(Some(far))), "to the nanosecond");
            client.append(&name, b"!")?;
            assert_eq!(client.expiry(&name), Ok(Some(Some(far))), "append keeps it");
            assert_eq!(client.persist(&name), Ok(true));
            assert_eq!(client.expiry(&name), Ok(Some(None)));
            client.expire(&name, HOUR)?;
            assert_eq!(client.set_expiry(&name, Expiry::Never), Ok(true));
            check_ttl(client, &name, None);
            client.expire(&name, HOUR)?;
            client.set(&name, b"plain")?;
            check_ttl(client, &name, None);
            assert_eq!(client.expire(&name, Duration::ZERO), Ok(true));
            check_value(client, &name, None);
            for answer in [client.expire(&name, HOUR), client.expire_at(&name, far)] {
                assert_eq!(answer, Ok(false));
            }
            assert_eq!(client.set_expiry(&name, Expiry::Never), Ok(false));
            assert_eq!(client.persist(&name), Ok(false));
            assert_eq!((client.ttl(&name), client.expiry(&name)), (Ok(None), Ok(None)));
            client.set_with(&name, b"v", &SetOptions::new().expire_at(UNIX_EPOCH))?;
            check_value(client, &name, None);
        }
        Ok(())
    });
}

#[test]
fn compute_keeps_replaces_and_removes_what_it_saw() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        for name in filled(fixture, 6)? {
            client.expire(&name, HOUR)?;
            let kept = client.compute(&name, |seen| {
                assert_eq!(seen, Some(name.as_bytes()));
                Compute::Keep
            })?;
            assert_eq!(kept.as_deref(), Some(name.as_bytes()));
            let longer =
                |seen: Option<&[u8]>| Compute::Replace([seen.unwrap_or(b"none"), b"+"].concat());
            let replaced = client.compute(&name, longer)?.expect("a value");
            assert_eq!(*replaced, *[name.as_bytes(), b"+"].concat());
            check_value(client, &name, Some(&replaced));
            check_ttl(client, &name, Some(HOUR));
            assert_eq!(client.compute(&name, |_| Compute::Remove)?, None);
            check_value(client, &name, None);
            for nothing in [Compute::Keep, Compute::Remove] {
                assert_eq!(
                    client.compute(&name, |seen| {
                        assert_eq!(seen, None);
                        nothing
                    })?,
                    None
                );
            }
            assert_eq!(client.compute(&name, longer)?.as_deref(), Some(&b"none+"[..]));
            check_ttl(client, &name, None);
        }
        Ok(())
    });
}

#[test]
fn update_publishes_a_copy_and_update_in_place_wants_no_handle_out() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        for name in filled(fixture, 6)? {
            client.expire(&name, HOUR)?;
            let seen = client.get(&name)?.expect("there");
            assert_eq!(client.update_in_place(&name, |_| ()), Err(Error::Shared));
            assert_eq!(
                client.update(&name, |value| {
                    value.push(b'!');
                    value.len()
                })?,
                Some(name.len() + 1)
            );
            assert_eq!(*seen, *name.as_bytes(), "a handle keeps what it was given");
            drop(seen);
            let first = |value: &mut [u8]| std::mem::replace(&mut value[0], b'#');
            assert_eq!(client.update_in_place(&name, first), Ok(Some(b'{')));
            let mut expected = format!("{name}!").into_bytes();
            expected[0] = b'#';
            check_value(client, &name, Some(&expected));
            check_ttl(client, &name, Some(HOUR));
            client.remove(&name)?;
            let never = |_: &mut [u8]| unreachable!("the key is not there");
            assert_eq!(client.update_in_place::<()>(&name, never), Ok(None));
            assert_eq!(
                client.update::<()>(&name, |_| unreachable!("the key is not there")),
                Ok(None)
            );
        }
        Ok(())
    });
}

#[test]
fn numbers_and_suffixes_grow_and_refusals_change_nothing() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        for name in filled(fixture, 6)? {
            assert_eq!(client.incr(&name, 1), Err(Error::NotAnInteger));
            check_value(client, &name, Some(name.as_bytes()));
            assert_eq!(client.append(&name, b"-more"), Ok(name.len() + 5));
            check_value(client, &name, Some(format!("{name}-more").as_bytes()));
            client.remove(&name)?;
            assert_eq!(client.append(&name, b""), Ok(0));
            check_value(client, &name, Some(b""));
            assert_eq!(client.incr(&name, 1), Err(Error::NotAnInteger));
            client.remove(&name)?;
            assert_eq!(client.incr(&name, -5), Ok(-5));
            assert_eq!(client.incr(&name, 12), Ok(7));
            client.set(&name, i64::MAX.to_string().as_bytes())?;
            assert_eq!(client.incr(&name, 1), Err(Error::Overflow));
            check_value(client, &name, Some(i64::MAX.to_string().as_bytes()));
            assert_eq!(client.incr(&name, i64::MIN), Ok(-1));
        }
        Ok(())
    });
}

#[test]
fn whole_slots_and_the_whole_cluster_are_seen_once() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        assert_eq!((client.is_empty(), client.len()), (Ok(true), Ok(0)));
        assert_eq!(client.iter().count(), 0);
        for number in 0..40 {
            client.set(format!("other:{number}"), b"other")?;
        }
        let names = filled(fixture, 10)?;
        assert_eq!((client.len(), client.live(), client.is_empty()), (Ok(50), Ok(50), Ok(false)));
        let mut seen: Vec<_> = client
            .iter()
            .map(|entry| entry.map(|entry| Handle::key(&entry).to_vec()))
            .collect::<Result<_, _>>()?;
        seen.sort_unstable();
        let before = seen.len();
        seen.dedup();
        assert_eq!((before, seen.len()), (50, 50));
        let in_slot = client.entries_of_slot(slot())?;
        assert!(in_slot.iter().all(|entry| **entry == *Handle::key(entry)));
        let mut keys: Vec<_> = in_slot.iter().map(|entry| Handle::key(entry).to_vec()).collect();
        keys.sort_unstable();
        assert!(keys.iter().eq(names.iter().map(String::as_bytes)));
        let counts = client.counts()?;
        assert_eq!(counts.iter().map(|&(_, count)| count).sum::<usize>(), 50);
        assert!(counts.contains(&(slot(), 10)) && counts.is_sorted());
        // An expired key counts until somebody meets it, and never as live.
        client.set_with(key("past"), b"v", &SetOptions::new().expire_at(UNIX_EPOCH))?;
        assert_eq!(client.live(), Ok(50));
        assert!(client.entries_of_slot(slot())?.len() == 10);
        check_value(client, key("past"), None);
        assert_eq!(client.clear_slot(slot()), Ok(10));
        assert_eq!(client.clear_slot(slot()), Ok(0));
        for name in &names {
            check_value(client, name, None);
        }
        assert_eq!((client.len(), client.clear(), client.is_empty()), (Ok(40), Ok(40), Ok(true)));
        Ok(())
    });
}

#[test]
fn explain_owner_and_trace_tell_where_a_key_is() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        let names = filled(fixture, 8)?;
        let (source, _) = fixture.sides();
        for name in &names {
            let told = client.explain(name)?;
            assert_eq!(
                (told.slot, &*told.hashed, &*told.key),
                (slot(), &b"moving"[..], name.as_bytes())
            );
            assert_eq!(told.owner.map(|(owner, _)| owner), Some(source.id()));
            let homes: Vec<_> = told.nodes.iter().filter(|at| at.present).collect();
            assert_eq!(homes.len(), 1, "{told}");
            assert_eq!(told.nodes.len(), if fixture.kind.splits() { 2 } else { 1 });
            let owner = client.owner_of(name)?;
            assert_eq!((owner.slot, owner.node), (slot(), source.id()));
            assert_eq!(owner.worker, source.worker_of(slot()));
            let (value, hops) = client.traced(|client| client.get(name));
            assert!(value?.is_some());
            let last = hops.last().expect("one hop at least");
            assert_eq!(
                (last.answer, last.node),
                (
                    Answer::Served,
                    client.explain(name)?.nodes.iter().find(|at| at.present).expect("a home").node
                )
            );
            let asked = homes[0].node != source.id() && fixture.kind != Kind::Aborting;
            assert_eq!(last.asking.is_some(), asked);
        }
        Ok(())
    });
}

#[test]
fn a_closure_runs_on_the_owner_and_clients_differ_only_in_patience() {
    with_each_cluster::<[u8]>(|fixture| {
        let client = &fixture.client;
        let names = filled(fixture, 4)?;
        let on =
            client.run_on_owner(&names[0], || std::thread::current().name().map(str::to_owned))?;
        assert_eq!(on, Some(client.owner_of(&names[0])?.worker));
        for other in
            [client.trying(), client.waiting(Duration::MAX), client.with_own_map(), client.clone()]
        {
            for name in &names {
                check_value(&other, name, Some(name.as_bytes()));
            }
        }
        for name in &names {
            client.try_set(name, b"tried")?;
            assert_eq!(client.try_get(name)?.as_deref(), Some(&b"tried"[..]));
            assert_eq!((client.try_remove(name), client.try_remove(name)), (Ok(true), Ok(false)));
        }
        Ok(())
    });
}

#[test]
fn a_handle_keeps_its_value_whatever_becomes_of_the_key() {
    for kind in support::KINDS {
        let fixture = Fixture::<[u8]>::new(kind).expect("a small cluster");
        let names = keys(8);
        for name in &names {
            fixture.client.set(name, name.as_bytes()).expect("a write");
        }
        let before: Vec<_> = fixture.client.entries_of_slot(slot()).expect("a read");
        fixture.disturb();
        let read = |name| fixture.client.get(name).expect("a read").expect("there");
        let handles: Vec<_> = names.iter().map(read).collect();
        let check = |handles: &[Handle<[u8]>]| {
            assert!(handles.iter().all(|handle| **handle == *Handle::key(handle)));
        };
        for (index, name) in names.iter().enumerate() {
            match index % 4 {
                0 => drop(fixture.client.remove(name).expect("a remove")),
                1 => fixture.client.set(name, b"other").expect("a write"),
                2 => drop(fixture.client.update(name, |value| value.fill(0)).expect("an update")),
                _ => drop(fixture.client.take(name).expect("a take")),
            }
        }
        check(&handles);
        fixture.restore();
        fixture.client.clear().expect("cleared");
        fixture.cluster.shutdown();
        check(&handles);
        drop(fixture);
        check(&before);
        let sent = std::thread::Builder::new().spawn(move || check(&handles)).expect("a thread");
        sent.join().expect("the values are as they were");
    }
}

#[test]
fn a_handle_that_is_kept_blocks_nobody() -> Tested {
    let cluster = Cluster::builder().nodes(3).workers_per_node(1).build()?;
    let client = cluster.client();
    client.set(key(0), b"kept")?;
    let handle = client.get(key(0))?.expect("there");
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        let written = client.set(key(0), b"new").map_err(Error::from);
        let moved = client.clear_slot(slot());
        sender.send((written, moved)).expect("the test waits");
    });
    let answers = receiver.recv_timeout(Duration::from_secs(60)).expect("nothing blocks");
    assert_eq!(answers, (Ok(()), Ok(1)));
    thread.expect("a thread").join().expect("it has ended");
    assert_eq!(*handle, *b"kept");
    Ok(())
}

#[test]
fn a_refused_value_converts_into_its_error() {
    fn write(client: &Client) -> Result<(), Error> {
        client.set(vec![0; 70_000], b"value")?;
        Ok(())
    }
    let cluster = Cluster::builder().build().expect("a small cluster");
    let client = cluster.client();
    assert_eq!(write(&client), Err(Error::KeyTooLong { bytes: 70_000 }));
    let refused: Result<(), Box<dyn std::error::Error>> =
        client.set(vec![0; 70_000], &Vec::from("borrowed")).map_err(Into::into);
    assert!(refused.is_err(), "a refusal of borrowed bytes may leave the function");
    let Err(Refused { error, value: () }) = client.set(vec![0; 70_000], b"value") else {
        panic!("a key of 70,000 bytes was written");
    };
    assert_eq!(error, Error::KeyTooLong { bytes: 70_000 });
    assert_eq!(client.slot_map().owner(Slot::MIN), cluster.slot_map().owner(Slot::MIN));
    assert!(client.expiry("none").is_ok_and(|found: Option<Option<SystemTime>>| found.is_none()));
}
