//! A node of bounded size never holds more than its bound once its calls have returned, whatever
//! is written to it, and refuses nothing but what could never fit.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use slotkeep::Bound;
use slotkeep::Cache;
use slotkeep::Client;
use slotkeep::Cluster;
use slotkeep::Compute;
use slotkeep::Error;
use slotkeep::Node;
use slotkeep::Slot;
use slotkeep::Value;
use slotkeep::reshard::Move;
use slotkeep::reshard::MoveStep;
use slotkeep::reshard::PlannedMove;

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::Tested;
use support::watched;

/// What an entry of bytes weighs besides its key and its value.
const OVERHEAD: u64 = 40;

fn held<V: Value + ?Sized>(node: &Node<V>) -> usize {
    let slots = node.stored_slots().expect("an open cluster");
    slots.iter().map(|&(_, count)| count).sum()
}

/// What all entries weigh.
fn weight(client: &Client) -> Result<u64, Error> {
    let weigh = |entry: Result<slotkeep::Handle<[u8]>, Error>| {
        let entry = entry?;
        Ok(OVERHEAD + (slotkeep::Handle::key(&entry).len() + entry.len()) as u64)
    };
    client.iter().map(weigh).sum()
}

#[test]
fn as_many_entries_stay_as_there_may_be() -> Tested {
    for capacity in [0, 1, 3, 100, 5_000] {
        for tag in ["", "{one slot}"] {
            let cache = Cache::<u64>::new(capacity);
            for number in 0..capacity {
                cache.insert(format!("{tag}{number}"), number)?;
            }
            assert_eq!(cache.len()? as u64, capacity, "nothing goes before the bound");
            for number in capacity..capacity * 3 + 10 {
                cache.insert(format!("{tag}{number}"), number)?;
                if number % (1 + capacity / 10) == 0 {
                    assert_eq!(cache.len()? as u64, capacity, "insertion {number} of {tag:?}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn bytes_stay_below_their_bound() -> Tested {
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
                assert!(weight(cache.client())? <= bound, "insertion {number} at {bound}");
            }
        }
        assert_eq!(refused > 0, bound <= 100, "{refused} refused at {bound}");
    }
    Ok(())
}

#[test]
fn what_replaces_an_entry_evicts_no_other() -> Tested {
    let cache = Cache::<u64>::new(50);
    for number in 0..50 {
        cache.insert(format!("{number}"), number)?;
    }
    for number in 0..50 {
        let handle = cache.get(format!("{number}"))?;
        cache.insert(format!("{number}"), number + 1)?;
        assert_eq!((handle.as_deref(), cache.len()?), (Some(&number), 50));
        cache
            .compute(format!("{number}"), |seen| Compute::Replace(seen.map_or(0, |old| old + 1)))?;
    }
    for number in 0..50 {
        assert_eq!(cache.get(format!("{number}"))?.as_deref(), Some(&(number + 2)));
    }
    Ok(())
}

#[test]
fn what_could_never_fit_is_refused_and_what_is_there_stays() -> Tested {
    let cache = Cache::<[u8]>::builder().max_weight(200).build()?;
    cache.insert("k", b"old")?;
    cache.insert("other", b"value")?;
    let long = [0; 200];
    let too_heavy = Error::TooHeavy { weight: OVERHEAD + 201, bound: 200 };
    assert_eq!(cache.insert("k", &long).map_err(Error::from), Err(too_heavy));
    let computed = cache.compute("k", |_| Compute::Replace(long.to_vec()));
    assert_eq!(computed.map(|_| ()), Err(too_heavy));
    let client = cache.client();
    assert_eq!(client.mset([("k", &b"new"[..]), ("k", &long)]), Err(too_heavy));
    assert_eq!(client.append("k", &[0; 197]).map(|_| ()), Err(too_heavy));
    let staged = client.transaction(&["k"], |key| key.set("k", &long));
    assert_eq!(staged, Err(too_heavy));
    assert_eq!(client.update("k", |value| value.extend_from_slice(&[0; 197])), Err(too_heavy));
    assert_eq!(cache.get("k")?.as_deref(), Some(&b"old"[..]));
    assert_eq!(cache.get("other")?.as_deref(), Some(&b"value"[..]));
    // It is the entry that counts, not what is missing.
    cache.insert("k", &long[..159])?;
    assert_eq!(cache.get("k")?.map(|value| value.len()), Some(159));
    assert_eq!(cache.len(), Ok(1));
    Ok(())
}

#[test]
fn at_a_bound_of_zero_nothing_stays_and_nothing_is_refused() -> Tested {
    for bound in [Bound::Entries(0), Bound::Weight(0)] {
        let client = Cluster::builder().bound(bound).build()?.client();
        client.set("k", b"v")?;
        client.mset([("{k}1", &b"v"[..]), ("{k}2", b"v")])?;
        assert_eq!(client.append("k", b"suffix"), Ok(6));
        assert!(client.compute("k", |_| Compute::Replace(vec![1]))?.is_some());
        assert_eq!((client.get("k")?.as_deref(), client.len()), (None, Ok(0)), "{bound:?}");
    }
    Ok(())
}

#[test]
fn threads_that_have_come_to_rest_leave_no_more_than_the_bound() -> Tested {
    for bound in [Bound::Entries(300), Bound::Weight(20_000)] {
        let cluster = Cluster::builder().bound(bound).build()?;
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let client = cluster.client();
                scope.spawn(move || {
                    for number in 0..20_000_usize {
                        let key = format!("{}", (number * 7 + thread * 31) % 1_500);
                        let value = vec![0; number * 13 % 90];
                        match number % 7 {
                            0 => drop(client.remove(&key)),
                            1 => drop(client.compute(&key, |_| Compute::Replace(value))),
                            _ => client.set(&key, &value).expect("nothing is refused"),
                        }
                    }
                });
            }
        });
        let client = cluster.client();
        match bound {
            Bound::Entries(most) => assert!(client.len()? as u64 <= most),
            Bound::Weight(most) => assert!(weight(&client)? <= most),
            other => unreachable!("{other:?} is not tested"),
        }
    }
    Ok(())
}

/// What it does when it is dropped.
struct OnDrop(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

#[test]
fn a_value_may_write_into_the_cache_that_evicts_it() {
    let (count, written) = watched("a value that writes", || {
        let cache = Cache::<OnDrop>::new(20);
        let written = Arc::new(AtomicUsize::new(0));
        let cell = Arc::new(OnceLock::new());
        cell.set(cache.clone()).expect("set once");
        for number in 0..200 {
            // Weak, so that values do not keep their own cache.
            let (cell, written) = (Arc::downgrade(&cell), Arc::clone(&written));
            let write = move || {
                let Some(cell) = cell.upgrade() else { return };
                let cache = cell.get().expect("set before");
                let inserted = cache.insert(format!("after {number}"), OnDrop(None));
                assert!(inserted.is_ok(), "nothing is refused");
                written.fetch_add(1, Ordering::Relaxed);
            };
            let inserted = cache.insert(format!("{number}"), OnDrop(Some(Box::new(write))));
            assert!(inserted.is_ok(), "nothing is refused");
        }
        (cache.len().expect("an open cache"), written.load(Ordering::Relaxed))
    });
    assert_eq!(count, 20);
    assert!(written > 100, "only {written} values have written");
}

#[test]
fn keys_that_come_by_a_handover_or_a_batch_push_others_out() -> Tested {
    let cluster = Cluster::builder().nodes(2).bound(Bound::Entries(40)).build()?;
    let client = cluster.client();
    let nodes = cluster.nodes();
    let of_node = |node: &Node| {
        let owned = node.slots();
        let keys = (0..).map(|number| format!("{number}"));
        keys.filter(move |key| owned.contains(Slot::of(key))).take(40)
    };
    for key in nodes.iter().flat_map(|node| of_node(node).collect::<Vec<_>>()) {
        client.set(key, b"v")?;
    }
    assert_eq!(nodes.iter().map(held).collect::<Vec<_>>(), [40, 40]);
    let slots = nodes[0].stored_slots()?;
    let (moved, travelled) = slots.split_at(slots.len() / 2);
    for &(slot, _) in moved {
        nodes[0].hand_over(slot, nodes[1].id())?;
        assert!(held(&nodes[1]) <= 40);
    }
    for &(slot, _) in travelled {
        let planned = PlannedMove { slot, source: nodes[0].id(), target: nodes[1].id() };
        let mut travel = Move::new(&cluster, planned, 8)?;
        while !matches!(travel.step()?, MoveStep::Done { .. }) {}
        assert!(held(&nodes[1]) <= 40);
    }
    assert_eq!((held(&nodes[0]), held(&nodes[1])), (0, 40));
    Ok(())
}
