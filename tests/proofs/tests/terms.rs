//! How long entries are kept on the terms of their cluster, by a clock that the test moves: the
//! time to live with its jitter, the time to idle, which calls begin them anew, and the sweep.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::collections::BTreeSet;
use std::time::Duration;

use slotkeep::limits::SWEEP_PAUSE;
use slotkeep::{
    Builder, Client, Cluster, CommandError, Compute, Error, Expiry, SetOptions, SetSlot, Slot,
};

type Tested = Result<(), Error>;

const SEED: u64 = 0x7e57;
const TTL: Duration = Duration::from_secs(300);
const IDLE: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);
const KEY: &str = "{b}:key";

/// How much time passes between a write and the next call.
const LATER: Duration = Duration::from_secs(20);

/// A cluster without threads whose clock stands still.
fn on(terms: impl FnOnce(Builder) -> Builder) -> Result<(Cluster, Client), Error> {
    println!("seed {SEED:#x}");
    let cluster = terms(Cluster::builder().nodes(2).step_mode(SEED)).build()?;
    let client = cluster.client();
    Ok((cluster, client))
}

/// Sweeps every shard of every node, as workers do.
fn sweep(cluster: &Cluster) {
    for node in cluster.nodes() {
        for (slot, _) in node.stored_slots().expect("an open cluster") {
            while cluster.sweep_step(node.id(), slot) {}
        }
    }
}

type Call = fn(&Client) -> Tested;

/// Every call that writes a value, the key being there, with a value that `incr` understands.
const WRITES: [(&str, Call); 11] = [
    ("set", |client| Ok(client.set(KEY, b"1")?)),
    ("set_with", |client| Ok(client.set_with(KEY, b"1", &SetOptions::new()).map(drop)?)),
    ("mset", |client| client.mset([(KEY, &b"1"[..])])),
    ("set_many", |client| client.set_many([(KEY, &b"1"[..])])),
    ("set in a transaction", |client| {
        client.transaction(&[KEY], |keys| keys.set(KEY, b"1"))?.map_err(Error::from)
    }),
    ("incr", |client| client.incr(KEY, 1).map(drop)),
    ("append", |client| client.append(KEY, b"1").map(drop)),
    ("compute", |client| client.compute(KEY, |_| Compute::Replace(b"1".to_vec())).map(drop)),
    ("update", |client| client.update(KEY, |value| value.push(b'1')).map(drop)),
    ("update_in_place", |client| client.update_in_place(KEY, |value| value[0] = b'1').map(drop)),
    ("replace", |client| {
        let seen = client.get(KEY)?.expect("the key is there");
        assert!(client.replace(&seen, b"1")?);
        Ok(())
    }),
];

/// The first so many of [`WRITES`] begin the time to live anew; the others keep it.
const ANEW: usize = 5;

#[test]
fn a_plain_write_begins_the_clusters_time_to_live_and_a_change_keeps_it() -> Tested {
    for (index, (name, write)) in WRITES.into_iter().enumerate() {
        let (cluster, client) = on(|builder| builder.time_to_live(TTL))?;
        client.set(KEY, b"1")?;
        cluster.advance(LATER);
        write(&client)?;
        let left = if index < ANEW { TTL } else { TTL.saturating_sub(LATER) };
        assert_eq!(client.ttl(KEY)?, Some(Some(left)), "{name}");
        cluster.advance(left.saturating_sub(NANO));
        assert!(client.contains_key(KEY)?, "{name}");
        cluster.advance(NANO);
        assert!(!client.contains_key(KEY)?, "{name}");
        cluster.check_invariants();
    }
    Ok(())
}

#[test]
fn every_call_that_makes_a_key_gives_it_the_clusters_time_to_live() -> Tested {
    let makers: [(&str, Call); 4] = [
        ("incr", |client| client.incr(KEY, 1).map(drop)),
        ("append", |client| client.append(KEY, b"1").map(drop)),
        ("compute", |client| client.compute(KEY, |_| Compute::Replace(b"1".to_vec())).map(drop)),
        ("set that keeps", |client| {
            Ok(client.set_with(KEY, b"1", &SetOptions::new().keep_expiry()).map(drop)?)
        }),
    ];
    for (name, make) in WRITES.into_iter().take(ANEW).chain(makers) {
        let (cluster, client) = on(|builder| builder.time_to_live(TTL).time_to_idle(IDLE))?;
        make(&client)?;
        assert_eq!(client.ttl(KEY)?, Some(Some(IDLE)), "{name}");
        client.set_with(KEY, b"1", &SetOptions::new().expire_idle(TTL * 2))?;
        assert_eq!(client.ttl(KEY)?, Some(Some(TTL)), "{name}");
        cluster.check_invariants();
    }
    Ok(())
}

#[test]
fn a_writer_may_ask_for_other_terms() -> Tested {
    let terms = |builder: Builder| builder.time_to_live(TTL).jitter(TTL / 2);
    let (cluster, client) = on(terms)?;
    for (expiry, left) in [
        (Expiry::Never, None),
        (Expiry::In(TTL * 3), Some(TTL * 3)),
        (Expiry::In(NANO), Some(NANO)),
        (Expiry::In(Duration::MAX), None),
    ] {
        client.set_with(KEY, b"1", &SetOptions::new().expiry(expiry))?;
        assert_eq!(client.ttl(KEY)?, Some(left), "{expiry:?}: nothing is drawn");
        client.set_with(KEY, b"2", &SetOptions::new().keep_expiry())?;
        assert_eq!(client.ttl(KEY)?, Some(left), "{expiry:?} is kept");
        assert!(client.set_expiry(KEY, Expiry::Keep)?);
        assert_eq!(client.ttl(KEY)?, Some(left), "{expiry:?} is kept");
    }
    assert!(client.set_expiry(KEY, Expiry::Default)?);
    let left = client.ttl(KEY)?.flatten().expect("the cluster's");
    assert!((TTL / 2..=TTL).contains(&left));
    assert!(client.persist(KEY)?);
    assert!(!client.persist(KEY)?, "it has none any more");
    cluster.advance(TTL * 10);
    assert!(client.contains_key(KEY)?);
    Ok(())
}

#[test]
fn times_too_long_to_count_are_no_terms() -> Tested {
    for long in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_nanos(u64::MAX)] {
        let terms = |builder: Builder| builder.time_to_live(long).jitter(long).time_to_idle(long);
        let (cluster, client) = on(terms)?;
        client.set(KEY, b"1")?;
        cluster.advance(TTL);
        client.set_with(KEY, b"1", &SetOptions::new().expire_idle(long))?;
        client.get(KEY)?;
        assert_eq!(client.ttl(KEY)?, Some(None), "{long:?}");
    }
    // The longest that counts neither wraps nor panics, late as it is.
    let longest = Duration::from_nanos(u64::MAX - 1);
    let terms = |builder: Builder| builder.time_to_live(longest).time_to_idle(longest);
    let (cluster, client) = on(terms)?;
    cluster.advance(TTL);
    client.set(KEY, b"1")?;
    client.get(KEY)?;
    assert_eq!(client.ttl(KEY)?, Some(None), "it ends after time does");
    Ok(())
}

/// moka-rs/moka#211: what was written together expired together, every time to live anew.
#[test]
fn jitter_spreads_what_was_written_together_and_keeps_the_upper_bound() -> Tested {
    let jitter = TTL / 10;
    let (cluster, client) = on(|builder| builder.time_to_live(TTL).jitter(jitter))?;
    let names: Vec<_> = (0..1_000).map(|number| format!("k:{number}")).collect();
    client.set_many(names.iter().map(|name| (name, &b"v"[..])))?;
    let mut left = BTreeSet::new();
    for name in &names {
        left.insert(client.ttl(name)?.flatten().expect("a deadline"));
    }
    assert!(left.len() > 990, "{} deadlines differ", left.len());
    let (first, last) = (left.first().expect("many"), left.last().expect("many"));
    assert!(*first >= TTL.saturating_sub(jitter) && *last <= TTL);
    assert!(
        *first < TTL.saturating_sub(jitter * 9 / 10) && *last > TTL.saturating_sub(jitter / 10),
        "the whole range is used"
    );
    // As many go in each tenth of it, about.
    cluster.advance(TTL.saturating_sub(jitter));
    assert_eq!(client.live()?, 1_000);
    for tenth in 1..=10 {
        cluster.advance(jitter / 10);
        let expected = 1_000 - tenth * 100;
        assert!(client.live()?.abs_diff(expected) < 60, "{} after {tenth} tenths", client.live()?);
    }
    assert_eq!(client.live()?, 0, "nobody lives longer for it");
    Ok(())
}

#[test]
fn one_key_is_jittered_anew_with_each_write() -> Tested {
    let (cluster, client) = on(|builder| builder.time_to_live(TTL).jitter(TTL / 2))?;
    let mut left = BTreeSet::new();
    for _ in 0..20 {
        client.set(KEY, b"v")?;
        left.insert(client.ttl(KEY)?.flatten().expect("a deadline"));
        cluster.advance(NANO);
    }
    assert!(left.len() > 15, "{left:?}");
    Ok(())
}

#[test]
fn jitter_that_is_longer_than_the_time_to_live_leaves_every_entry_some_of_it() -> Tested {
    for (ttl, jitter) in [(TTL, TTL), (TTL, TTL * 9), (NANO, TTL), (NANO * 2, Duration::MAX)] {
        let (cluster, client) = on(|builder| builder.time_to_live(ttl).jitter(jitter))?;
        for number in 0..300 {
            client.set(format!("k:{number}"), b"v")?;
        }
        assert_eq!(client.live()?, 300, "{ttl:?} and {jitter:?}: nothing expires at once");
        cluster.advance(ttl);
        assert_eq!(client.live()?, 0, "{ttl:?} and {jitter:?}");
    }
    let (_cluster, client) = on(|builder| builder.time_to_live(Duration::ZERO).jitter(TTL))?;
    client.set(KEY, b"v")?;
    assert!(!client.contains_key(KEY)?, "no time at all is at once");
    Ok(())
}

/// Every call that reads a value.
const READS: [(&str, Call); 7] = [
    ("get", |client| client.get(KEY).map(drop)),
    ("try_get", |client| client.try_get(KEY).map(drop)),
    ("mget", |client| client.mget(&[KEY]).map(drop)),
    ("get_many", |client| client.get_many(&[KEY, "a", "b"]).map(drop)),
    ("compute that keeps", |client| client.compute(KEY, |_| Compute::Keep).map(drop)),
    ("get in a transaction", |client| {
        let read = client.transaction(&[KEY], |keys| keys.get(KEY).map(|found| found.is_some()))?;
        assert_eq!(read, Ok(true));
        Ok(())
    }),
    ("get by closure on the owner", |client| {
        client.run_on_owner(KEY, || client.get(KEY).map(drop))?
    }),
];

/// Calls that look at a key or a slot without reading a value for anybody.
const LOOKS: [(&str, Call); 10] = [
    ("nothing", |_| Ok(())),
    ("contains_key", |client| client.contains_key(KEY).map(drop)),
    ("ttl", |client| client.ttl(KEY).map(drop)),
    ("expiry", |client| client.expiry(KEY).map(drop)),
    ("iter", |client| client.iter().try_for_each(|entry| entry.map(drop))),
    ("retain", |client| client.retain(|_, _| true).map(drop)),
    ("entries_of_slot", |client| client.entries_of_slot(Slot::of(KEY)).map(drop)),
    ("live", |client| client.live().map(drop)),
    ("explain", |client| client.explain(KEY).map(drop)),
    ("a condition that is not met", |client| {
        let absent = SetOptions::new().if_absent();
        assert!(!client.set_with(KEY, b"2", &absent)?.is_set());
        Ok(())
    }),
];

/// After a call the key stays for so long if nobody reads it.
#[track_caller]
fn check_idle((name, call): (&str, Call), left: Duration) -> Tested {
    let (cluster, client) = on(|builder| builder.time_to_idle(IDLE))?;
    client.set(KEY, b"1")?;
    cluster.advance(LATER);
    call(&client)?;
    assert_eq!(client.ttl(KEY)?, Some(Some(left)), "{name}");
    cluster.advance(left.saturating_sub(NANO));
    assert!(client.contains_key(KEY)?, "{name}");
    cluster.advance(NANO);
    assert!(!client.contains_key(KEY)?, "{name}");
    cluster.check_invariants();
    Ok(())
}

#[test]
fn reads_and_writes_put_the_idle_end_off() -> Tested {
    READS.into_iter().chain(WRITES).try_for_each(|call| check_idle(call, IDLE))
}

#[test]
fn looks_do_not_put_the_idle_end_off() -> Tested {
    LOOKS.into_iter().try_for_each(|call| check_idle(call, IDLE.saturating_sub(LATER)))
}

#[test]
fn a_key_that_is_read_in_time_stays_for_ever_but_not_beyond_its_time_to_live() -> Tested {
    let (cluster, client) = on(|builder| builder.time_to_idle(IDLE))?;
    client.set(KEY, b"1")?;
    for _ in 0..100 {
        cluster.advance(IDLE.saturating_sub(NANO));
        assert!(client.get(KEY)?.is_some());
    }
    client.set_with(KEY, b"1", &SetOptions::new().expire_in(TTL))?;
    for _ in 0..5 {
        cluster.advance(IDLE.saturating_sub(NANO));
        assert!(client.get(KEY)?.is_some());
    }
    assert_eq!(client.ttl(KEY)?, Some(Some(NANO * 5)));
    cluster.advance(NANO * 5);
    assert!(client.get(KEY)?.is_none());
    Ok(())
}

#[test]
fn a_writer_may_ask_for_another_time_to_idle_and_changes_keep_it() -> Tested {
    let (cluster, client) = on(|builder| builder)?;
    let options = SetOptions::new().expire_idle(IDLE);
    let keep = (
        "set that keeps",
        (|client| Ok(client.set_with(KEY, b"1", &SetOptions::new().keep_expiry()).map(drop)?))
            as Call,
    );
    let keep_staged = (
        "transaction that keeps",
        (|client| {
            let done = client.transaction(&[KEY], |keys| keys.set_keep_expiry(KEY, b"1"))?;
            done.map_err(|error: CommandError| error.into())
        }) as Call,
    );
    for (name, change) in WRITES.into_iter().skip(ANEW).chain([keep, keep_staged]) {
        client.set_with(KEY, b"1", &options)?;
        cluster.advance(LATER);
        change(&client)?;
        assert_eq!(client.ttl(KEY)?, Some(Some(IDLE)), "{name}");
        cluster.advance(IDLE);
        assert!(!client.contains_key(KEY)?, "{name}");
    }
    client.set_with(KEY, b"1", &options)?;
    client.set(KEY, b"1")?;
    assert_eq!(client.ttl(KEY)?, Some(None), "a plain write is on the cluster's terms");
    Ok(())
}

#[test]
fn a_deadline_that_is_cleared_leaves_the_time_to_idle() -> Tested {
    let (cluster, client) = on(|builder| builder.time_to_live(TTL).time_to_idle(IDLE))?;
    client.set(KEY, b"1")?;
    assert!(client.persist(KEY)?, "it had a time to live");
    assert!(!client.persist(KEY)?, "it has none, however long it stays unread");
    assert_eq!(client.ttl(KEY)?, Some(Some(IDLE)));
    assert!(client.expire(KEY, LATER)?);
    assert_eq!(client.ttl(KEY)?, Some(Some(LATER)));
    cluster.advance(LATER);
    assert!(!client.contains_key(KEY)?);
    Ok(())
}

#[test]
fn a_move_puts_nothing_off_and_takes_everything_along() -> Tested {
    let (cluster, client) = on(|builder| builder.time_to_live(TTL).time_to_idle(IDLE))?;
    client.set(KEY, b"1")?;
    cluster.advance(LATER);
    let (slot, nodes) = (Slot::of(KEY), cluster.nodes());
    let owner = cluster.slot_map().owner(slot).expect("an owner");
    let (source, target) = if owner == nodes[0].id() { (0, 1) } else { (1, 0) };
    let (source, target) = (&nodes[source], &nodes[target]);
    let id = target.set_slot(slot, SetSlot::Importing { source: source.id() })?.expect("an id");
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    assert_eq!(source.migrate_batch(slot, id, 10)?.moved, 1);
    assert_eq!(client.ttl(KEY)?, Some(Some(IDLE.saturating_sub(LATER))));
    target.set_slot(slot, SetSlot::Node { owner: target.id() })?;
    source.set_slot(slot, SetSlot::Node { owner: target.id() })?;
    target.hand_over(slot, source.id())?;
    assert_eq!(client.ttl(KEY)?, Some(Some(IDLE.saturating_sub(LATER))));
    client.get(KEY)?;
    assert_eq!(client.ttl(KEY)?, Some(Some(IDLE)));
    cluster.advance(IDLE);
    sweep(&cluster);
    assert_eq!(client.len(), Ok(0), "the worker there has heard of it");
    cluster.check_invariants();
    Ok(())
}

#[test]
fn a_sweep_removes_what_nobody_has_read_in_time_and_only_that() -> Tested {
    let (cluster, client) = on(|builder| builder.time_to_live(TTL).time_to_idle(IDLE))?;
    let names: Vec<_> = (0..600).map(|number| format!("{{b}}:{number}")).collect();
    client.set_many(names.iter().map(|name| (name, &b"v"[..])))?;
    let read = |of: usize| names.iter().step_by(of).try_for_each(|name| client.get(name).map(drop));
    cluster.advance(IDLE.saturating_sub(NANO));
    read(3)?;
    sweep(&cluster);
    assert_eq!(client.len(), Ok(600));
    cluster.advance(NANO);
    assert_eq!((client.len(), client.live()), (Ok(600), Ok(200)));
    sweep(&cluster);
    assert_eq!((client.len(), client.live()), (Ok(200), Ok(200)));
    for _ in 0..4 {
        cluster.advance(IDLE.saturating_sub(SWEEP_PAUSE));
        read(6)?;
    }
    sweep(&cluster);
    assert_eq!(client.len(), Ok(100), "read again and again");
    cluster.advance(TTL);
    sweep(&cluster);
    assert_eq!(client.len(), Ok(0));
    cluster.check_invariants();
    Ok(())
}
