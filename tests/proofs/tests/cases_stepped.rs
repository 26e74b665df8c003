//! Public bug reports about time, on a clock that the tests move: each kind, with the right answer.

use std::time::{Duration, SystemTime};

use slotkeep::{
    AdminError, Bound, Client, Cluster, Compute, Expiry, Handle, Node, NodeId, Policy, SetOptions,
    SetSlot, SetSlotError, Slot,
};

const SEED: u64 = 0x7173;
const TTL: Duration = Duration::from_secs(300);
const KEY: &str = "{b}:key";

fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

/// Two nodes without threads; the first one owns slot 3300.
fn stepped() -> (Cluster, Client, Vec<Node>) {
    println!("seed {SEED:#x}");
    let cluster = Cluster::builder().nodes(2).workers_per_node(1).step_mode(SEED).build();
    let cluster = cluster.expect("two nodes");
    let (client, nodes) = (cluster.client(), cluster.nodes());
    (cluster, client, nodes)
}

fn set_for(client: &Client, key: impl AsRef<[u8]>, ttl: Duration) {
    let options = SetOptions::new().expire_in(ttl);
    assert!(client.set_with(key, b"v", &options).expect("a slot that is served").is_set());
}

/// Sweeps every shard of every node, as workers do.
fn sweep(cluster: &Cluster) {
    for node in cluster.nodes() {
        for (slot, _) in node.stored_slots().expect("an open cluster") {
            while cluster.sweep_step(node.id(), slot) {}
        }
    }
}

fn open(source: &Node, target: &Node, slot: Slot) -> slotkeep::MoveId {
    let importing = SetSlot::Importing { source: source.id() };
    let id = target.set_slot(slot, importing).expect("IMPORTING").expect("an id");
    let migrating = SetSlot::Migrating { target: target.id() };
    assert_eq!(source.set_slot(slot, migrating), Ok(Some(id)));
    id
}

/// redis/redis#1150, crystal-cache/cache#40, apache/kvrocks#275: whether counts and lists show what
/// has expired and was not collected was left open.
#[test]
fn raw_counts_include_what_nobody_met_since_it_expired_and_live_ones_do_not() {
    let (cluster, client, nodes) = stepped();
    let slot = Slot::of(KEY);
    client.set(KEY, b"v").unwrap();
    set_for(&client, "{b}:dying", TTL);
    cluster.advance(TTL);
    assert_eq!((client.len(), client.live()), (Ok(2), Ok(1)));
    assert_eq!(client.counts(), Ok(vec![(slot, 2)]));
    assert_eq!(nodes[0].count_keys_in_slot(slot), Ok(2), "as in Redis");
    assert_eq!(nodes[0].keys_in_slot(slot, 9).unwrap().len(), 2, "as in Redis");
    assert_eq!(nodes[0].count_live_keys_in_slot(slot), Ok(1));
    let seen: Vec<_> = client.iter().map(Result::unwrap).collect();
    assert_eq!(seen.iter().map(Handle::key).collect::<Vec<_>>(), [KEY.as_bytes()]);
    assert_eq!(client.entries_of_slot(slot).unwrap().len(), 1);
    assert!(!client.contains_key("{b}:dying").unwrap(), "whoever meets it removes it");
    assert_eq!((client.len(), client.live()), (Ok(1), Ok(1)));
    cluster.check_invariants();
}

/// moka-rs/moka#345: when everything had expired the count did not reach zero.
#[test]
fn after_a_sweep_nothing_is_left_of_what_has_expired() {
    let (cluster, client, nodes) = stepped();
    for number in 0..1000 {
        set_for(&client, format!("k:{number}"), TTL + Duration::from_nanos(number));
        set_for(&client, format!("{{b}}:{number}"), TTL);
    }
    sweep(&cluster);
    assert_eq!(client.len(), Ok(2000), "nothing too early");
    cluster.advance(TTL + Duration::from_nanos(999));
    assert_eq!((client.len(), client.live()), (Ok(2000), Ok(0)));
    sweep(&cluster);
    assert_eq!(client.len(), Ok(0));
    assert_eq!(client.is_empty(), Ok(true));
    assert!(nodes.iter().all(|node| node.stored_slots() == Ok(vec![])));
}

/// The same of a full node, whose bound counts what has expired until somebody has met it.
#[test]
fn a_full_node_whose_entries_have_all_expired_comes_to_nothing_and_is_filled_again() {
    const ENTRIES: u64 = 200;
    let weigh = |_: &[u8], value: &[u8]| value.len() as u64;
    for policy in [Policy::Adaptive, Policy::AllKeysLru, Policy::NoEviction] {
        for bound in [Bound::Entries(ENTRIES), Bound::Weight(ENTRIES)] {
            let builder = Cluster::builder().nodes(1).step_mode(SEED).bound(bound).policy(policy);
            let cluster = builder.weigher(weigh).build().expect("a small cluster");
            let client = cluster.client();
            for round in 0..3 {
                for number in 0..ENTRIES {
                    let options = match number % 3 {
                        0 => SetOptions::new().expire_idle(TTL),
                        _ => SetOptions::new().expire_in(TTL),
                    };
                    let set = client.set_with(format!("{round}:{number}"), b"v", &options);
                    assert!(set.expect("there is room").is_set());
                }
                assert_eq!(client.live().map(|live| live as u64), Ok(ENTRIES), "{policy}");
                cluster.advance(TTL);
                assert_eq!((client.len(), client.live()), (Ok(200), Ok(0)), "{policy}");
                sweep(&cluster);
                assert_eq!((client.len(), client.weight()), (Ok(0), Ok(0)), "{policy}");
                cluster.check_invariants();
            }
            let stats = cluster.stats().expect("no token is held").total();
            assert_eq!((stats.expired, stats.evicted), (3 * ENTRIES, 0), "{policy}");
        }
    }
}

/// moka-rs/moka#52, ben-manes/caffeine#217: the longest time to live overflowed, and was none.
#[test]
fn times_too_long_to_count_mean_never() {
    let (cluster, client, _nodes) = stepped();
    cluster.advance(Duration::from_secs(1));
    let longest = [
        Duration::MAX,
        Duration::from_nanos(u64::MAX),
        Duration::from_nanos(u64::MAX - 1),
        Duration::from_secs(u64::MAX),
    ];
    for ttl in longest {
        set_for(&client, KEY, ttl);
        assert_eq!(client.ttl(KEY).unwrap(), Some(None), "{ttl:?}");
        assert!(client.expire(KEY, ttl).unwrap());
        assert_eq!(client.expiry(KEY).unwrap(), Some(None), "{ttl:?}");
    }
    // Nearly six centuries still count.
    let long = Duration::from_nanos(u64::MAX - 1).saturating_sub(cluster.now());
    set_for(&client, KEY, long);
    assert_eq!(client.ttl(KEY).unwrap(), Some(Some(long)));
    cluster.advance(long.saturating_sub(Duration::from_nanos(1)));
    assert!(client.get(KEY).unwrap().is_some());
    cluster.advance(Duration::from_nanos(1));
    assert!(client.get(KEY).unwrap().is_none());
}

/// The same reports, for times of the wall clock.
#[test]
fn times_of_the_wall_clock_saturate_at_both_ends() {
    let (_cluster, client, _nodes) = stepped();
    let farthest = (0..64)
        .filter_map(|bits| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1 << bits)))
        .max()
        .expect("some time");
    client.set(KEY, b"v").unwrap();
    assert!(client.expire_at(KEY, farthest).unwrap());
    assert_eq!(client.ttl(KEY).unwrap(), Some(None));
    assert!(client.expire_at(KEY, SystemTime::UNIX_EPOCH).unwrap(), "long ago");
    assert!(client.get(KEY).unwrap().is_none(), "is at once");
    client.set(KEY, b"v").unwrap();
    assert!(client.expire(KEY, Duration::ZERO).unwrap());
    assert!(client.get(KEY).unwrap().is_none(), "and so is no time at all");
}

/// What a write leaves of the time to live that the key had.
#[track_caller]
fn check_write(write: impl FnOnce(&Client), left: Option<Duration>) {
    let (cluster, client, _nodes) = stepped();
    let options = SetOptions::new().expire_in(TTL);
    client.set_with(KEY, b"1", &options).unwrap();
    cluster.advance(Duration::from_secs(100));
    write(&client);
    assert_eq!(client.ttl(KEY).unwrap(), Some(left));
}

/// redis/redis#128: writes kept or lost the time to live as it came.
#[test]
fn a_plain_write_clears_the_time_to_live_and_a_change_keeps_it() {
    let rest = Some(Duration::from_secs(200));
    check_write(|client| client.set(KEY, b"v").unwrap(), None);
    check_write(|client| client.mset([(KEY, &b"v"[..])]).unwrap(), None);
    check_write(|client| client.set_many([(KEY, &b"v"[..])]).unwrap(), None);
    check_write(|client| set_for(client, KEY, TTL), Some(TTL));
    let keep = |client: &Client| {
        client.set_with(KEY, b"v", &SetOptions::new().keep_expiry()).unwrap();
    };
    check_write(keep, rest);
    check_write(|client| assert_eq!(client.incr(KEY, 1), Ok(2)), rest);
    check_write(|client| assert_eq!(client.append(KEY, b"0"), Ok(2)), rest);
    check_write(|client| client.update(KEY, |value| value.push(1)).unwrap().unwrap(), rest);
    check_write(|client| client.update_in_place(KEY, |value| value[0] = 1).unwrap().unwrap(), rest);
    let longer = |client: &Client| {
        let changed = client.compute(KEY, |_| Compute::Replace(vec![0; 100]));
        assert!(changed.unwrap().is_some());
    };
    check_write(longer, rest);
    let in_transaction = |keeps: bool| {
        move |client: &Client| {
            let done = client.transaction(&[KEY], |keys| {
                if keeps { keys.set_keep_expiry(KEY, b"v") } else { keys.set(KEY, b"v") }
            });
            done.unwrap().unwrap();
        }
    };
    check_write(in_transaction(true), rest);
    check_write(in_transaction(false), None);
}

/// The same report: a key that has expired leaves nothing to the one that follows it.
#[test]
fn a_new_key_inherits_nothing_from_the_dead_one() {
    let (cluster, client, _nodes) = stepped();
    for write in [
        |client: &Client| client.incr(KEY, 7).map(drop),
        |client: &Client| client.append(KEY, b"7").map(drop),
        |client: &Client| {
            let options = SetOptions::new().keep_expiry();
            Ok(client.set_with(KEY, b"7", &options).map(drop)?)
        },
        |client: &Client| client.compute(KEY, |_| Compute::Replace(b"7".to_vec())).map(drop),
    ] {
        set_for(&client, KEY, TTL);
        cluster.advance(TTL);
        write(&client).unwrap();
        assert_eq!(client.get(KEY).unwrap().as_deref(), Some(&b"7"[..]));
        assert_eq!(client.ttl(KEY).unwrap(), Some(None));
    }
}

/// moka-rs/moka#549, #565, #566, #570: taking the deadline of a dead entry away broke the timers.
#[test]
fn a_dead_entry_is_not_brought_back_by_a_change_of_its_deadline() {
    let (cluster, client, nodes) = stepped();
    let changes = [Expiry::Never, Expiry::Keep, Expiry::In(TTL), Expiry::In(Duration::MAX)];
    for change in changes {
        set_for(&client, KEY, TTL);
        cluster.advance(TTL);
        assert!(!client.set_expiry(KEY, change).unwrap(), "{change:?}");
        assert!(client.get(KEY).unwrap().is_none());
        assert!(!client.persist(KEY).unwrap());
        client.set(KEY, b"new").unwrap();
        cluster.advance(2 * TTL);
        sweep(&cluster);
        assert_eq!(client.get(KEY).unwrap().as_deref(), Some(&b"new"[..]), "{change:?}");
        assert_eq!(nodes[0].count_keys_in_slot(Slot::of(KEY)), Ok(1));
    }
    cluster.check_invariants();
}

/// The same reports: the last deadline counts, whether it came nearer, went farther or away.
#[test]
fn the_last_deadline_that_was_set_counts() {
    let (cluster, client, _nodes) = stepped();
    for (key, change) in [
        ("{b}:nearer", Expiry::In(TTL / 2)),
        ("{b}:farther", Expiry::In(3 * TTL)),
        ("{b}:none", Expiry::Never),
    ] {
        set_for(&client, key, TTL);
        assert!(client.set_expiry(key, change).unwrap());
    }
    let alive = |after| {
        cluster.advance(after);
        sweep(&cluster);
        let found = client.get_many(&["{b}:nearer", "{b}:farther", "{b}:none"]).unwrap();
        found.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(alive(TTL / 2), [false, true, true]);
    assert_eq!(alive(2 * TTL), [false, true, true]);
    assert_eq!(alive(TTL), [false, false, true]);
}

/// redis/redis#15605: the table of a target was trimmed by a timer before its keys had come.
#[test]
fn sweeps_of_an_importing_node_disturb_nothing_that_arrives() {
    let (cluster, client, nodes) = stepped();
    let slot = Slot::of(KEY);
    for number in 0..1000 {
        let ttl = if number % 2 == 0 { 2 * TTL } else { TTL };
        set_for(&client, format!("{{b}}:{number}"), ttl);
    }
    let move_id = open(&nodes[0], &nodes[1], slot);
    let mut left = 1000;
    while left > 0 {
        left = nodes[0].migrate_batch(slot, move_id, 64).unwrap().left;
        cluster.advance(TTL / 10);
        sweep(&cluster);
    }
    nodes[1].set_slot(slot, SetSlot::Node { owner: id(1) }).unwrap();
    assert!(cluster.now() > TTL && cluster.now() < 2 * TTL);
    assert_eq!(client.live(), Ok(500));
    for number in 0..1000 {
        let found = client.get(format!("{{b}}:{number}")).unwrap();
        assert_eq!(found.is_some(), number % 2 == 0, "{number}");
    }
    cluster.check_invariants();
}

/// Deadlines are moments and not spans: a move changes none.
#[test]
fn a_key_dies_at_its_moment_wherever_it_is_by_then() {
    let (cluster, client, nodes) = stepped();
    let slot = Slot::of(KEY);
    set_for(&client, KEY, TTL);
    let move_id = open(&nodes[0], &nodes[1], slot);
    cluster.advance(TTL / 2);
    nodes[0].migrate_batch(slot, move_id, 1).unwrap();
    assert_eq!(client.ttl(KEY).unwrap(), Some(Some(TTL / 2)));
    cluster.advance((TTL / 2).saturating_sub(Duration::from_nanos(1)));
    assert!(client.get(KEY).unwrap().is_some());
    let split = AdminError::SetSlot { slot, error: SetSlotError::KeysSplit };
    assert_eq!(nodes[0].set_slot(slot, SetSlot::Stable), Err(split));
    cluster.advance(Duration::from_nanos(1));
    assert!(client.get(KEY).unwrap().is_none());
    // Dead keys are no keys: nothing is split any more.
    assert_eq!(nodes[0].set_slot(slot, SetSlot::Stable), Ok(Some(move_id)));
    assert_eq!(nodes[1].count_keys_in_slot(slot), Ok(0));
    cluster.check_invariants();
}
