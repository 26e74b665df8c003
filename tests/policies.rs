//! What goes first at the bound is what the policy's name says.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::time::Duration;

use slotkeep::Bound;
use slotkeep::Client;
use slotkeep::Cluster;
use slotkeep::Compute;
use slotkeep::Error;
use slotkeep::Expiry;
use slotkeep::Ownership;
use slotkeep::Policy;
use slotkeep::SetOptions;
use slotkeep::SetSlot;
use slotkeep::Slot;

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::Tested;
use support::held;
use support::weigh;

const CAPACITY: u64 = 1_000;

const HOUR: Duration = Duration::from_secs(3_600);

const EVICTING: [Policy; 4] =
    [Policy::Adaptive, Policy::AllKeysLru, Policy::AllKeysLfu, Policy::AllKeysRandom];

const VOLATILE: [Policy; 4] =
    [Policy::VolatileLru, Policy::VolatileLfu, Policy::VolatileRandom, Policy::VolatileTtl];

fn client(policy: Policy, bound: Bound) -> Result<Client, Error> {
    Ok(Cluster::builder().bound(bound).policy(policy).build()?.client())
}

/// One of the keys with this prefix, which lie in a few slots.
fn key(prefix: &str, number: u64) -> String {
    format!("{{{}}}{prefix}{number}", number % 37)
}

/// Writes keys with this prefix and a deadline of an hour.
fn fill(client: &Client, prefix: &str, numbers: std::ops::Range<u64>) -> Tested {
    let options = SetOptions::new().expire_in(HOUR);
    for number in numbers {
        client.set_with(key(prefix, number), b"v", &options)?;
    }
    Ok(())
}

/// How many of the keys with this prefix are there, which is no hit.
fn count(client: &Client, prefix: &str, numbers: std::ops::Range<u64>) -> Result<usize, Error> {
    let mut count = 0;
    for number in numbers {
        count += usize::from(client.contains_key(key(prefix, number))?);
    }
    Ok(count)
}

/// Reads keys with this prefix.
fn read(client: &Client, prefix: &str, numbers: std::ops::Range<u64>) -> Tested {
    for number in numbers {
        client.get(key(prefix, number))?;
    }
    Ok(())
}

/// Hits a tenth of the keys all the time while twenty times the capacity comes in; how many of
/// them are left.
fn left_of_the_recent(client: &Client) -> Result<usize, Error> {
    let hot = CAPACITY / 10;
    fill(client, "hot ", 0..hot)?;
    for round in 0..20 * CAPACITY / hot {
        read(client, "hot ", 0..hot)?;
        fill(client, "other ", round * hot..(round + 1) * hot)?;
    }
    assert_eq!(client.len()? as u64, CAPACITY);
    count(client, "hot ", 0..hot)
}

/// Hits a tenth of the keys often, and then no more while almost as much comes in as there may be;
/// how many of them are left. Of those that came in before and were hit once, and last, no more
/// than a part may be.
fn left_of_the_frequent(client: &Client) -> Result<usize, Error> {
    let hot = CAPACITY / 10;
    fill(client, "hot ", 0..hot)?;
    for _ in 0..200 {
        read(client, "hot ", 0..hot)?;
    }
    fill(client, "other ", 0..CAPACITY * 2)?;
    assert_eq!(client.len()? as u64, CAPACITY);
    count(client, "hot ", 0..hot)
}

#[test]
fn the_least_recently_used_go_first() -> Tested {
    for policy in [Policy::AllKeysLru, Policy::VolatileLru] {
        let left = left_of_the_recent(&client(policy, Bound::Entries(CAPACITY))?)?;
        assert_eq!(left, 100, "{policy} keeps what is in use");
        let left = left_of_the_frequent(&client(policy, Bound::Entries(CAPACITY))?)?;
        assert!(left <= 5, "{policy} keeps {left} that were used, and no longer are");
    }
    Ok(())
}

#[test]
fn samples_are_found_where_entries_are_few_and_far_between() -> Tested {
    let client = client(Policy::AllKeysLru, Bound::Entries(300))?;
    for number in 0..3_000 {
        client.set(format!("{number}"), b"v")?;
        if number >= 30 {
            client.get(format!("{}", number % 30))?;
        }
    }
    let hot = (0..30).filter(|number| client.contains_key(format!("{number}")) == Ok(true));
    assert_eq!((hot.count(), client.len()), (30, Ok(300)));
    Ok(())
}

#[test]
fn the_order_of_recency_is_nearly_that_of_the_last_hits() -> Tested {
    let client = client(Policy::AllKeysLru, Bound::Entries(CAPACITY))?;
    fill(&client, "old ", 0..CAPACITY / 2)?;
    fill(&client, "new ", 0..CAPACITY / 2)?;
    // Read again, the old ones are the new ones; time goes on by what comes in.
    fill(&client, "fresh ", 0..10)?;
    read(&client, "old ", 0..CAPACITY / 2)?;
    fill(&client, "other ", 0..CAPACITY / 4)?;
    let (old, new) = (count(&client, "old ", 0..500)?, count(&client, "new ", 0..500)?);
    assert!(old >= 480 && new <= 270, "{old} that were read again are left, and {new} others");
    Ok(())
}

#[test]
fn the_least_frequently_used_go_first() -> Tested {
    for policy in [Policy::AllKeysLfu, Policy::VolatileLfu] {
        for ownership in [Ownership::Lent, Ownership::Strict] {
            let builder = Cluster::builder().ownership(ownership).policy(policy);
            let cluster = builder.bound(Bound::Entries(CAPACITY)).build()?;
            let left = left_of_the_frequent(&cluster.client())?;
            assert!(left >= 85, "{policy} keeps {left} of what is used most, {ownership:?}");
        }
        let left = left_of_the_recent(&client(policy, Bound::Entries(CAPACITY))?)?;
        assert!(left >= 95, "{policy} keeps {left} of what is in use");
    }
    Ok(())
}

#[test]
fn what_was_frequent_once_is_forgotten() -> Tested {
    let client = client(Policy::AllKeysLfu, Bound::Entries(CAPACITY))?;
    let left = left_of_the_frequent(&client)?;
    fill(&client, "later ", 0..CAPACITY * 10)?;
    let later = count(&client, "hot ", 0..100)?;
    assert!(later * 10 <= left, "{later} of {left} are left");
    Ok(())
}

#[test]
fn chance_spares_nobody() -> Tested {
    for policy in [Policy::AllKeysRandom, Policy::VolatileRandom] {
        let left = left_of_the_recent(&client(policy, Bound::Entries(CAPACITY))?)?;
        assert!(left <= 5, "{policy} keeps {left} because they are in use");
    }
    // What has just come in may go as well, and what is old may stay.
    let client = client(Policy::AllKeysRandom, Bound::Entries(CAPACITY))?;
    fill(&client, "old ", 0..CAPACITY)?;
    fill(&client, "new ", 0..CAPACITY)?;
    let old = count(&client, "old ", 0..CAPACITY)?;
    assert!((250..500).contains(&old), "{old} are left, of which about 368 should be");
    Ok(())
}

#[test]
fn what_expires_next_goes_first() -> Tested {
    let client = client(Policy::VolatileTtl, Bound::Entries(CAPACITY))?;
    for number in 0..CAPACITY {
        let minutes = 1 + number * 7_919 % CAPACITY;
        let options = SetOptions::new().expire_in(Duration::from_secs(60 * minutes));
        client.set_with(key("after ", minutes), b"v", &options)?;
    }
    read(&client, "after ", 1..100)?;
    for number in 0..CAPACITY / 2 {
        let options = SetOptions::new().expire_in(HOUR * 10_000);
        client.set_with(key("late ", number), b"v", &options)?;
    }
    let [soon, middle, late] = [1..251, 251..751, 751..1_001]
        .map(|minutes| count(&client, "after ", minutes).expect("an open cluster"));
    assert!(soon <= 10 && late >= 240, "{soon}, {middle} and {late} are left");
    assert_eq!(count(&client, "late ", 0..500)?, 500);
    Ok(())
}

#[test]
fn what_has_no_deadline_stays_under_volatile_policies() -> Tested {
    for policy in VOLATILE {
        // All in one slot, and each in one of its own.
        for name in [|number| format!("{{tag}}{number}"), |number: u64| format!("lasting {number}")]
        {
            let client = client(policy, Bound::Entries(100))?;
            for number in 0..60 {
                client.set(name(number), b"v")?;
            }
            fill(&client, "volatile ", 0..500)?;
            assert_eq!(client.len(), Ok(100), "{policy}");
            // Forty of them are left, and give way to lasting ones.
            for number in 60..100 {
                client.set(name(number), b"v")?;
            }
            for number in 0..100 {
                assert!(client.contains_key(name(number))?, "{policy}");
            }
            let refused = client.set("more", b"v").map_err(Error::from);
            assert_eq!(refused, Err(Error::OutOfMemory), "{policy}");
            let computed = client.compute("more", |_| Compute::Replace(vec![1]));
            assert_eq!(computed.map(drop), Err(Error::OutOfMemory), "{policy}");
            // A deadline makes room, and so does one of idleness.
            assert!(client.expire(name(7), HOUR)?);
            client.set("more", b"v")?;
            assert_eq!(client.get(name(7))?, None, "{policy}");
            client.set_with("more", b"v", &SetOptions::new().expire_idle(HOUR))?;
            assert!(client.compute("last", |_| Compute::Replace(vec![1]))?.is_some());
            assert_eq!(client.get("more")?, None, "{policy}");
        }
    }
    Ok(())
}

#[test]
fn what_has_lost_its_deadline_stays_under_volatile_policies() -> Tested {
    for policy in VOLATILE {
        let client = client(policy, Bound::Entries(40))?;
        let idle = SetOptions::new().expire_idle(HOUR);
        fill(&client, "", 0..20)?;
        for number in 20..40 {
            client.set_with(key("", number), b"v", &idle)?;
        }
        for number in 0..40 {
            let key = key("", number);
            if number % 20 < 10 {
                client.set(&key, b"w")?;
            } else if number < 20 {
                assert!(client.persist(&key)?);
            } else {
                client.set_with(&key, b"w", &SetOptions::new().expiry(Expiry::Never))?;
            }
        }
        assert_eq!(client.set("more", b"v").map_err(Error::from), Err(Error::OutOfMemory));
        assert_eq!(count(&client, "", 0..40)?, 40, "{policy}");
    }
    Ok(())
}

#[test]
fn what_replaces_an_entry_evicts_no_other() -> Tested {
    for policy in EVICTING.into_iter().chain(VOLATILE) {
        let client = client(policy, Bound::Entries(50))?;
        fill(&client, "", 0..50)?;
        for number in 0..50 {
            let key = key("", number);
            let handle = client.get(&key)?;
            fill(&client, "", number..number + 1)?;
            client.compute(&key, |_| Compute::Replace(vec![1, 2, 3]))?;
            client.update(&key, |value| value.push(4))?;
            client.append(&key, b"5")?;
            client.mset([(&key, &b"6"[..]), (&key, b"7")])?;
            assert!(client.expire(&key, HOUR)?);
            assert_eq!(handle.as_deref(), Some(&b"v"[..]), "{policy}");
        }
        assert_eq!(count(&client, "", 0..50), Ok(50), "{policy}");
    }
    Ok(())
}

#[test]
fn nodes_stay_within_their_bounds_under_every_policy() -> Tested {
    for policy in EVICTING.into_iter().chain(VOLATILE).chain([Policy::NoEviction]) {
        for bound in [Bound::Entries(150), Bound::Weight(7_000)] {
            let client = client(policy, bound)?;
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let client = client.clone();
                    scope.spawn(move || write_at_random(&client, thread).expect("an open cluster"));
                }
            });
            let weights = client.iter().map(weigh).collect::<Result<Vec<u64>, Error>>()?;
            match bound {
                Bound::Entries(most) => assert!(weights.len() as u64 <= most, "{policy}"),
                Bound::Weight(most) => assert!(weights.iter().sum::<u64>() <= most, "{policy}"),
                other => unreachable!("{other:?} is not tested"),
            }
            assert!(weights.len() > 40, "{policy} keeps {} entries", weights.len());
        }
    }
    Ok(())
}

fn write_at_random(client: &Client, thread: usize) -> Tested {
    for number in 0..1_000_usize {
        let key = format!("{}", (number * 7 + thread * 31) % 400);
        let value = vec![0; number * 13 % 90];
        let options = SetOptions::new().expire_in(HOUR);
        let answer = match number % 6 {
            0 => client.remove(&key).map(drop),
            1 => client.compute(&key, |_| Compute::Replace(value)).map(drop),
            2 => client.set(&key, &value).map_err(Error::from),
            _ => client.set_with(&key, &value, &options).map(drop).map_err(Error::from),
        };
        match answer {
            Ok(()) | Err(Error::OutOfMemory) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[test]
fn closures_find_room_where_something_may_go_for_them() -> Tested {
    for policy in VOLATILE {
        for bound in [Bound::Entries(100), Bound::Weight(20_000)] {
            let client = client(policy, bound)?;
            fill(&client, "volatile ", 0..1_000)?;
            for number in 0..60 {
                let computed =
                    client.compute(key("lasting ", number), |_| Compute::Replace(vec![7; 100]));
                assert!(computed.is_ok(), "{policy} at {bound:?}: {computed:?}, {number}");
            }
            let keys = ["{a}1", "{a}2"];
            let both = client
                .transaction(&keys, |staged| keys.iter().try_for_each(|key| staged.set(key, b"v")));
            assert_eq!(both, Ok(Ok(())), "{policy} at {bound:?}");
            assert_eq!(count(&client, "lasting ", 0..60), Ok(60), "{policy} at {bound:?}");
        }
        // More than anybody could guess is refused once.
        let client = client(policy, Bound::Weight(20_000))?;
        fill(&client, "volatile ", 0..1_000)?;
        let compute = || client.compute("long", |_| Compute::Replace(vec![7; 10_000])).map(drop);
        assert_eq!([compute(), compute()], [Err(Error::OutOfMemory), Ok(())], "{policy}");
    }
    Ok(())
}

#[test]
fn keys_that_come_from_another_node_make_room_for_themselves() -> Tested {
    for policy in EVICTING.into_iter().chain(VOLATILE) {
        let cluster =
            Cluster::builder().nodes(2).bound(Bound::Entries(100)).policy(policy).build()?;
        let (client, nodes) = (cluster.client(), cluster.nodes());
        let [source, target] = [&nodes[0], &nodes[1]];
        for number in 0..1_000 {
            client.set_with(format!("{number}"), b"v", &SetOptions::new().expire_in(HOUR))?;
        }
        let slots = source.stored_slots()?;
        assert_eq!((held(source), held(target)), (100, 100), "{policy}");
        let (handed, sent) = slots.split_at(slots.len() / 2);
        for &(slot, count) in handed {
            assert_eq!(source.hand_over(slot, target.id())?.keys, count as u64);
            assert_eq!(held(target), 100, "{policy}");
        }
        for &(slot, count) in sent {
            send(source, target, slot)?;
            let there = target.count_keys_in_slot(slot)?;
            assert!(there <= count && held(target) == 100, "{policy}: {there} of {count}");
        }
        assert_eq!((held(source), client.len()?), (0, 100), "{policy}");
        assert!(cluster.check()?.is_healthy());
    }
    Ok(())
}

/// A classic move.
fn send(source: &slotkeep::Node, target: &slotkeep::Node, slot: Slot) -> Tested {
    let id = target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    let id = id.expect("IMPORTING draws an id");
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    while source.migrate_batch(slot, id, 4)?.left > 0 {}
    let flip = SetSlot::Node { owner: target.id() };
    target.set_slot_step(slot, flip, id)?;
    source.set_slot(slot, flip)?;
    Ok(())
}
