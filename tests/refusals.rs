//! A node that evicts nothing refuses what it has no room for, hands it back, and goes on to serve
//! whatever takes no more room.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::time::Duration;

use slotkeep::AbortStep;
use slotkeep::AdminError;
use slotkeep::Bound;
use slotkeep::Cluster;
use slotkeep::CommandError;
use slotkeep::Compute;
use slotkeep::Error;
use slotkeep::Expiry;
use slotkeep::Node;
use slotkeep::Ownership;
use slotkeep::Policy;
use slotkeep::SetOptions;
use slotkeep::SetSlot;
use slotkeep::Slot;
use slotkeep::reshard::Handover;
use slotkeep::reshard::MoveStep;
use slotkeep::reshard::PlannedMove;

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::OVERHEAD;
use support::Tested;
use support::held;
use support::weigh;

const FULL: Error = Error::OutOfMemory;

fn bounded(nodes: usize, bound: Bound) -> Result<Cluster, Error> {
    let builder = Cluster::builder().nodes(nodes).workers_per_node(1);
    builder.bound(bound).policy(Policy::NoEviction).build()
}

#[test]
fn as_many_entries_fit_as_there_may_be() -> Tested {
    for ownership in [Ownership::Lent, Ownership::Strict] {
        for capacity in [0, 1, 3, 100] {
            for tag in ["", "{one slot}"] {
                let builder = Cluster::builder().policy(Policy::NoEviction).ownership(ownership);
                let cluster = builder.bound(Bound::Entries(capacity)).values::<String>().build()?;
                let client = cluster.client();
                for number in 0..capacity {
                    client.set(format!("{tag}{number}"), format!("{number}"))?;
                }
                let refused = client.set(format!("{tag}more"), "mine".to_owned());
                let refused = refused.expect_err("there is no room");
                assert_eq!((refused.error, refused.value.as_str()), (FULL, "mine"));
                assert_eq!(client.len()? as u64, capacity);
                if capacity > 0 {
                    assert!(client.remove(format!("{tag}0"))?);
                    client.set(format!("{tag}more"), "mine".to_owned())?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_full_node_refuses_new_keys_and_nothing_else() -> Tested {
    let client = bounded(1, Bound::Entries(3))?.client();
    client.mset([("{a}1", &b"1"[..]), ("{a}2", b"2"), ("{a}3", b"3")])?;
    let absent = SetOptions::new().if_absent();
    let new = "{a}new";
    for (name, answer) in [
        ("set", client.set(new, b"v").map_err(Error::from)),
        ("try_set", client.try_set(new, b"v").map_err(Error::from)),
        ("set_with", client.set_with(new, b"v", &absent).map(drop).map_err(Error::from)),
        ("append", client.append(new, b"v").map(drop)),
        ("incr", client.incr(new, 1).map(drop)),
        ("mset", client.mset([("{a}1", &b"v"[..]), (new, b"v")])),
        ("set_many", client.set_many([(new, &b"v"[..])])),
        ("compute", client.compute(new, |_| Compute::Replace(vec![1])).map(drop)),
        ("transaction", client.transaction(&[new], |keys| keys.set(new, b"v")).map(drop)),
    ] {
        assert_eq!(answer, Err(FULL), "{name}");
    }
    assert_eq!(client.get("{a}1")?.as_deref(), Some(&b"1"[..]), "a refused mset wrote nothing");
    let present = SetOptions::new().if_present();
    for (name, answer) in [
        ("get", client.get("{a}1").map(drop)),
        ("set", client.set("{a}1", b"1").map_err(Error::from)),
        ("a longer value", client.set("{a}1", &[7; 1_000]).map_err(Error::from)),
        ("unmet", client.set_with(new, b"v", &present).map(drop).map_err(Error::from)),
        ("nx", client.set_with("{a}1", b"v", &absent).map(drop).map_err(Error::from)),
        ("append", client.append("{a}1", b"v").map(drop)),
        ("incr", client.incr("{a}2", 1).map(drop)),
        ("mset", client.mset([("{a}1", &b"v"[..]), ("{a}1", b"w"), ("{a}2", b"v")])),
        ("set_many", client.set_many([("{a}1", &b"v"[..]), ("{a}2", b"v")])),
        ("compute", client.compute("{a}1", |_| Compute::Replace(vec![1])).map(drop)),
        ("compute that keeps", client.compute(new, |_| Compute::Keep).map(drop)),
        ("update", client.update("{a}1", Vec::clear).map(drop)),
        ("expire", client.expire("{a}1", Duration::from_secs(3_600)).map(drop)),
        ("persist", client.persist("{a}1").map(drop)),
        ("swap", swap(&client, "{a}3", new)),
        ("swap back", swap(&client, new, "{a}3")),
        ("remove", client.remove("{a}3").map(drop)),
        ("set in its place", client.set(new, b"v").map_err(Error::from)),
    ] {
        assert_eq!(answer, Ok(()), "{name}");
    }
    assert_eq!(client.len(), Ok(3));
    assert_eq!(client.set("x", b"v").map_err(Error::from), Err(FULL), "and it is full again");
    let text = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(FULL.redis_text(), text);
    Ok(())
}

/// Removes one key and writes another one, at one instant.
fn swap(client: &slotkeep::Client, leaving: &str, entering: &str) -> Tested {
    client
        .transaction(&[leaving, entering], |keys| {
            keys.remove(leaving)?;
            keys.set(entering, b"v")
        })?
        .map_err(Error::from)
}

#[test]
fn bytes_are_refused_when_they_are_too_many_and_not_when_they_are_fewer() -> Tested {
    let bound = 2 * OVERHEAD + 22;
    let client = bounded(1, Bound::Weight(bound))?.client();
    client.set("a", &[1; 10])?;
    client.set("b", &[2; 10])?;
    assert_eq!(client.append("a", b"v"), Err(FULL));
    assert_eq!(client.set("a", &[1; 11]).map_err(Error::from), Err(FULL));
    assert_eq!(client.update("a", |value| value.push(1)), Err(FULL));
    assert_eq!(client.compute("a", |_| Compute::Replace(vec![0; 11])).map(drop), Err(FULL));
    assert_eq!(client.get("a")?.as_deref(), Some(&[1; 10][..]));
    // A value that got shorter keeps its room, unless a handle is out, until it is replaced.
    let handle = client.get("b")?;
    client.set("b", &[2; 9])?;
    assert_eq!(client.append("a", b"v"), Ok(11));
    assert_eq!((handle.as_deref(), client.append("a", b"v")), (Some(&[2; 10][..]), Err(FULL)));
    let weight = bound + 1;
    let too_heavy = Error::TooHeavy { weight, bound };
    let long = vec![0; usize::try_from(weight - OVERHEAD - 1).expect("small")];
    assert_eq!(client.set("a", &long).map_err(Error::from), Err(too_heavy));
    client.remove("b")?;
    client.set("a", &long[1..])?;
    Ok(())
}

#[test]
fn what_somebody_says_that_entries_weigh_is_what_counts() -> Tested {
    let builder = Cluster::builder().values::<u64>().weigher(|_, &value| value);
    let cluster = builder.bound(Bound::Weight(10)).policy(Policy::NoEviction).build()?;
    let client = cluster.client();
    client.set("{a}1", 6)?;
    let full = |answer: Result<(), slotkeep::Refused<u64>>| answer.map_err(|refused| refused.error);
    assert_eq!(full(client.set("{a}2", 5)), Err(FULL));
    client.set("{a}2", 4)?;
    // In place, and heavier all the same.
    assert_eq!(full(client.set("{a}1", 7)), Err(FULL));
    assert_eq!(client.mset([("{a}1", 7), ("{a}2", 4)]), Err(FULL));
    assert_eq!(client.update("{a}1", |value| *value = 7), Err(FULL));
    client.mset([("{a}1", 5), ("{a}2", 5)])?;
    assert_eq!(full(client.set("{a}1", 11)), Err(Error::TooHeavy { weight: 11, bound: 10 }));
    client.set("{a}1", 2)?;
    assert_eq!(client.compute("{a}2", |_| Compute::Replace(8))?.as_deref(), Some(&8));
    assert_eq!(full(client.set("{a}3", 1)), Err(FULL));
    Ok(())
}

#[test]
fn several_writes_are_admitted_all_or_none() -> Tested {
    let client = bounded(1, Bound::Entries(4))?.client();
    client.set("{a}1", b"v")?;
    let three = ["{a}2", "{a}3", "{a}4", "{a}5"].map(|key| (key, &b"v"[..]));
    assert_eq!(client.mset(three), Err(FULL));
    let staged = client.transaction(&three.map(|(key, _)| key), |keys| {
        three.iter().try_for_each(|(key, value)| keys.set(key, value))
    });
    assert_eq!(staged, Err(FULL));
    assert_eq!(client.len(), Ok(1));
    // The same key twice is one entry.
    client.mset([
        ("{a}2", &b"v"[..]),
        ("{a}3", b"v"),
        ("{a}4", b"v"),
        ("{a}2", b"w"),
        ("{a}3", b"w"),
    ])?;
    assert_eq!(client.len(), Ok(4));
    Ok(())
}

#[test]
fn a_closure_that_panics_leaves_nothing_reserved() -> Tested {
    let client = bounded(1, Bound::Entries(2))?.client();
    let panics = || {
        let closure = |_: Option<&[u8]>| -> Compute<Vec<u8>> { panic!("on purpose") };
        drop(client.compute("a", closure));
    };
    for _ in 0..10 {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    }
    let failed: Result<Result<(), CommandError>, Error> = client.transaction(&["a"], |keys| {
        keys.set("a", b"v")?;
        keys.set("b", b"v")
    });
    assert_eq!(failed, Ok(Err(CommandError::UndeclaredKey)));
    client.set("a", b"v")?;
    client.set("b", b"v")?;
    assert_eq!(client.set("c", b"v").map_err(Error::from), Err(FULL));
    Ok(())
}

#[test]
fn what_has_expired_gives_way_to_what_is_written_under_its_key() -> Tested {
    let client = bounded(1, Bound::Entries(1))?.client();
    for number in 0..10 {
        client.set_with("k", b"v", &SetOptions::new().expiry(Expiry::In(Duration::ZERO)))?;
        match number % 3 {
            0 => client.set("k", b"w")?,
            1 => drop(client.compute("k", |_| Compute::Replace(vec![1]))?),
            _ => drop(client.append("k", b"w")?),
        }
    }
    assert_eq!(client.len(), Ok(1));
    Ok(())
}

#[test]
fn threads_fill_a_node_to_its_bound_and_not_beyond() -> Tested {
    for bound in [Bound::Entries(1_000), Bound::Weight(50_000)] {
        let cluster = bounded(1, bound)?;
        let refused: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_usize)
                .map(|thread| {
                    let client = cluster.client();
                    scope.spawn(move || {
                        let mut refused = 0;
                        for number in 0..20_000_usize {
                            let key = format!("{}", (number * 7 + thread * 31) % 5_000);
                            let value = vec![0; number * 13 % 90];
                            let answer = match number % 5 {
                                0 => client.remove(&key).map(drop),
                                1 => {
                                    let replace = |_: Option<&_>| Compute::Replace(value);
                                    client.compute(&key, replace).map(drop)
                                }
                                _ => client.set(&key, &value).map_err(Error::from),
                            };
                            assert!(matches!(answer, Ok(()) | Err(FULL)), "{answer:?}");
                            refused += usize::from(answer.is_err());
                        }
                        refused
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert!(refused > 1_000, "{bound:?}: {refused} are refused");
        let client = cluster.client();
        match bound {
            Bound::Entries(most) => {
                assert!(client.len()? as u64 <= most);
                for number in client.len()? as u64..most {
                    client.set(format!("more {number}"), b"v")?;
                }
            }
            Bound::Weight(most) => {
                // Values that got shorter keep their room, so that this is a lower bound.
                let weight: u64 = client.iter().map(weigh).sum::<Result<_, _>>()?;
                assert!(weight <= most, "{weight}");
            }
            other => unreachable!("{other:?} is not tested"),
        }
        assert_eq!(client.set("long", &vec![0; 40_000]).map_err(Error::from), Err(FULL));
        // Nothing is lost of the budget: all of it can be had again.
        client.clear()?;
        if let Bound::Entries(most) = bound {
            (0..most).try_for_each(|number| client.set(format!("again {number}"), b"v"))?;
            assert_eq!(client.set("more", b"v").map_err(Error::from), Err(FULL));
        } else {
            client.set("all", &vec![0; 50_000 - 43])?;
        }
    }
    Ok(())
}

/// Two nodes with room for ten entries each: the first has `held` keys in one slot, the second one
/// is filled up but for `free`.
fn source_and_target(held: usize, free: usize) -> Result<(Cluster, Slot), Error> {
    filled(bounded(2, Bound::Entries(10))?, held, free)
}

fn filled(cluster: Cluster, held: usize, free: usize) -> Result<(Cluster, Slot), Error> {
    let (client, nodes) = (cluster.client(), cluster.nodes());
    let (mut at_source, mut at_target) = (0, 0);
    let slot = nodes[0].slots().iter().next().expect("it owns half of them");
    let tag = tag_of(slot);
    for number in 0..1_000 {
        let (of_slot, key) = (format!("{{{tag}}}{number}"), format!("{number}"));
        if at_source < held {
            client.set(&of_slot, b"v")?;
            at_source += 1;
        }
        if at_target < 10 - free && nodes[1].slots().contains(Slot::of(&key)) {
            client.set(&key, b"v")?;
            at_target += 1;
        }
    }
    Ok((cluster, slot))
}

/// A hash tag of a slot.
fn tag_of(slot: Slot) -> String {
    let mut tags = (0..10_000_000).map(|tag: u32| tag.to_string());
    tags.find(|tag| Slot::of(tag) == slot).expect("there is one")
}

#[test]
fn a_handover_needs_room_for_all_that_the_slot_holds() -> Tested {
    let (cluster, slot) = source_and_target(6, 5)?;
    let [source, target] = [0, 1].map(|index| cluster.nodes()[index].clone());
    let full = AdminError::TargetFull { slot, needed: 6, free: 5 };
    assert_eq!(source.hand_over(slot, target.id()), Err(full));
    assert_eq!((held(&source), held(&target)), (6, 5));
    assert!(source.slots().contains(slot));
    cluster.client().remove(format!("{{{}}}0", tag_of(slot)))?;
    assert_eq!(source.hand_over(slot, target.id()).map(|handed| handed.keys), Ok(5));
    assert_eq!((held(&source), held(&target)), (0, 10));
    assert!(cluster.check()?.is_healthy());
    Ok(())
}

#[test]
fn a_set_of_slots_reserves_the_room_that_it_needs_or_turns_round() -> Tested {
    let (cluster, slot) = source_and_target(6, 8)?;
    let (client, nodes) = (cluster.client(), cluster.nodes());
    let owned = nodes[0].slots();
    let other = owned.iter().find(|&owned| owned != slot).expect("it owns many");
    for number in 0..3 {
        client.set(format!("{{{}}}{number}", tag_of(other)), b"v")?;
    }
    let (source, target) = (nodes[0].id(), nodes[1].id());
    let plan = [slot, other].map(|slot| PlannedMove { slot, source, target });
    let mut handover = Handover::new(&cluster, &plan);
    let mut drive = || -> Result<bool, Error> {
        loop {
            if let MoveStep::Done { flipped } = handover.step()? {
                return Ok(flipped);
            }
        }
    };
    // The first slot's six entries are reserved when the second one's three are asked for.
    let full = AdminError::TargetFull { slot: other, needed: 3, free: 2 };
    assert_eq!(drive(), Err(Error::Admin(full)));
    assert_eq!(drive(), Ok(false), "the reservation was given up");
    assert_eq!((held(&nodes[0]), held(&nodes[1])), (9, 2));
    // And with it the room: all of it can be taken by others.
    let at_target = (0..).map(|number| format!("more {number}"));
    let mut at_target = at_target.filter(|key| nodes[1].slots().contains(Slot::of(key)));
    let mut next = || at_target.next().expect("there are more");
    (0..8).try_for_each(|_| client.set(next(), b"v"))?;
    assert_eq!(client.set(next(), b"v").map_err(Error::from), Err(FULL));
    assert!(cluster.check()?.is_healthy());
    Ok(())
}

#[test]
fn a_set_of_slots_that_is_reserved_has_its_room_for_sure() -> Tested {
    let (cluster, slot) = source_and_target(6, 8)?;
    let (client, nodes) = (cluster.client(), cluster.nodes());
    let planned = PlannedMove { slot, source: nodes[0].id(), target: nodes[1].id() };
    let mut handover = Handover::new(&cluster, &[planned]);
    // Begun, and the one slot reserved.
    (0..2).try_for_each(|_| handover.step().map(drop))?;
    let at_target = (0..).map(|number| format!("more {number}"));
    let mut at_target = at_target.filter(|key| nodes[1].slots().contains(Slot::of(key)));
    let mut next = || at_target.next().expect("there are more");
    (0..2).try_for_each(|_| client.set(next(), b"v"))?;
    assert_eq!(client.set(next(), b"v").map_err(Error::from), Err(FULL), "six are reserved");
    while !matches!(handover.step()?, MoveStep::Done { flipped: true }) {}
    assert_eq!((held(&nodes[0]), held(&nodes[1])), (0, 10));
    assert_eq!(client.set(next(), b"v").map_err(Error::from), Err(FULL));
    client.remove(format!("{{{}}}0", tag_of(slot)))?;
    client.set(next(), b"v")?;
    Ok(())
}

#[test]
fn a_batch_ends_where_the_room_does_and_an_abort_needs_none() -> Tested {
    let (cluster, slot) = source_and_target(9, 4)?;
    let (client, nodes) = (cluster.client(), cluster.nodes());
    let [source, target] = [&nodes[0], &nodes[1]];
    let id = target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    let id = id.expect("IMPORTING draws an id");
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    let sent = source.migrate_batch(slot, id, 64)?;
    assert_eq!((sent.moved, sent.left), (4, 5), "as many as there is room for");
    let full = AdminError::TargetFull { slot, needed: 1, free: 0 };
    assert_eq!(source.migrate_batch(slot, id, 64), Err(full));
    let keys = source.keys_in_slot(slot, 2)?;
    let options = slotkeep::MigrateOptions::default();
    let named = source.migrate_keys(&keys, target.id(), options);
    assert_eq!(named, Err(AdminError::TargetFull { slot, needed: 2, free: 0 }));
    assert_eq!(cluster.move_record(id).and_then(|record| record.last_error), Some(full));
    // The source is filled up meanwhile, and its keys come home all the same.
    let at_source = (0..).map(|number| format!("more {number}"));
    let mut at_source = at_source.filter(|key| source.slots().contains(Slot::of(key)));
    let mut next = || at_source.next().expect("there are more");
    while client.set(next(), b"v").is_ok() {}
    assert_eq!(held(source), 10);
    while cluster.abort_step(id, 2)? == AbortStep::More {}
    assert_eq!((held(source), held(target)), (14, 6));
    assert_eq!(client.set(next(), b"v").map_err(Error::from), Err(FULL));
    assert_eq!(client.len(), Ok(20), "no key is lost");
    for _ in 0..5 {
        let key = client.iter().find_map(|entry| {
            let entry = entry.ok()?;
            let key = slotkeep::Handle::key(&entry).to_vec();
            source.slots().contains(Slot::of(&key)).then_some(key)
        });
        client.remove(key.expect("it has some"))?;
    }
    client.set(next(), b"v")?;
    assert!(cluster.check()?.is_healthy());
    Ok(())
}

/// How many keys a node takes in until it is full, and what it holds then.
fn fill_up(client: &slotkeep::Client, node: &Node) -> Result<(usize, usize), Error> {
    let owned = node.slots();
    let absent = SetOptions::new().if_absent();
    let mut written = 0;
    for key in (0..).map(|number| format!("fill {number}")) {
        if owned.contains(Slot::of(&key)) {
            match client.set_with(key, b"v", &absent) {
                Ok(outcome) => written += usize::from(outcome.is_set()),
                Err(refused) if refused.error == FULL => break,
                Err(refused) => return Err(refused.into()),
            }
        }
    }
    Ok((written, held(node)))
}

/// What a call names is pulled to the side on which it runs, whether there is room or not; room is
/// asked for only then, and only for what the call adds.
#[test]
fn a_call_that_is_refused_after_its_keys_were_pulled_leaves_them_where_they_are() -> Tested {
    for ownership in [Ownership::Lent, Ownership::Strict] {
        for aborts in [false, true] {
            println!("{ownership:?}, aborts: {aborts}");
            let builder = Cluster::builder().nodes(2).workers_per_node(1).ownership(ownership);
            let builder = builder.bound(Bound::Entries(10)).policy(Policy::NoEviction);
            let (cluster, slot) = filled(builder.build()?, 6, if aborts { 3 } else { 0 })?;
            check_pull(&cluster, slot, aborts)?;
        }
    }
    Ok(())
}

/// Pulls one key by a refused call and another one by a call that adds nothing: to the target of a
/// move, or back to its source, whichever is full.
fn check_pull(cluster: &Cluster, slot: Slot, aborts: bool) -> Tested {
    let (client, nodes) = (cluster.client(), cluster.nodes());
    let [source, target] = [&nodes[0], &nodes[1]];
    let key = |name: &str| format!("{{{}}}{name}", tag_of(slot));
    let id = target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    let id = id.expect("IMPORTING draws an id");
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    let (from, to) = if aborts { (target, source) } else { (source, target) };
    if aborts {
        let keys = ["0", "1", "2"].map(key);
        source.migrate_keys(&keys, target.id(), slotkeep::MigrateOptions::default())?;
        // The source is full again, and the first hold of an abort only turns the marks round.
        assert_eq!(fill_up(&client, source)?, (7, 10));
        assert_eq!(cluster.abort_step(id, 1)?, AbortStep::More);
    }
    let (at_from, at_to) = (held(from), held(to));
    assert_eq!(at_to, 10, "it is full");

    let refused = client.mset([(key("0"), &b"new"[..]), (key("more"), b"new")]);
    assert_eq!((refused, held(from), held(to)), (Err(FULL), at_from - 1, 11));
    client.mset([(key("0"), &b"w"[..]), (key("1"), b"w")])?;
    assert_eq!((held(from), held(to)), (at_from - 2, 12), "what replaces a key needs no room");
    let values = client.mget(&["0", "1", "more"].map(key))?;
    let values: Vec<_> = values.iter().map(Option::as_deref).collect();
    assert_eq!(values, [Some(&b"w"[..]), Some(b"w"), None]);
    let refused = client.transaction(&["0", "2"].map(key), |keys| {
        keys.remove(key("0"))?;
        keys.set(key("2"), b"w")
    });
    assert_eq!((refused, held(to)), (Ok(Ok(())), 12), "one goes, one comes");

    // Both budgets are exact: the sides take in what makes them full, and not one key more.
    let (written, full) = fill_up(&client, from)?;
    assert_eq!((written, full), (10 - (at_from - 3), 10));
    for too_many in (0..=2).rev() {
        assert_eq!(fill_up(&client, to)?, (0, 10 + too_many));
        let own = |entry: Result<slotkeep::Handle<[u8]>, Error>| {
            let key = slotkeep::Handle::key(&entry.ok()?).to_vec();
            let is_own = Slot::of(&key) != slot && to.slots().contains(Slot::of(&key));
            is_own.then_some(key)
        };
        assert!(client.remove(client.iter().find_map(own).expect("it has some"))?);
    }
    assert_eq!(fill_up(&client, to)?, (1, 10));
    Ok(())
}
