//! Expiry by a clock that the test moves: exact to the nanosecond, found by every access, swept
//! without one, kept by moves; and nothing is swept while no key has a deadline.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use slotkeep::limits::SWEEP_PAUSE;
use slotkeep::reshard::{MoveKind, Reshard};
use slotkeep::{
    Bound, Client, Cluster, Compute, Error, Expiry, Ownership, Policy, SetOptions, SetSlot, Slot,
    SlotSet,
};

type Tested = Result<(), Error>;

const TTL: Duration = Duration::from_secs(10);
const NANO: Duration = Duration::from_nanos(1);

/// The last instant before a deadline of [`TTL`].
const JUST_BEFORE: Duration = TTL.saturating_sub(NANO);

/// How often a test looks, giving way in between, before it calls that for ever.
const LOOKS: u32 = 50_000_000;

fn stepped() -> (Cluster, Client) {
    let cluster = Cluster::builder().nodes(2).step_mode(7).build().expect("a small cluster");
    let client = cluster.client();
    (cluster, client)
}

fn expiring(client: &Client, key: &str, value: &[u8], wait: Duration) -> Tested {
    let outcome = client.set_with(key, value, &SetOptions::new().expire_in(wait));
    outcome.map(drop).map_err(Error::from)
}

/// Waits, giving way, until the condition holds.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        thread::yield_now();
    }
    panic!("still not: {what}");
}

#[test]
fn a_key_expires_at_its_deadline_to_the_nanosecond() -> Tested {
    let (cluster, client) = stepped();
    expiring(&client, "key", b"v", TTL)?;
    cluster.advance(JUST_BEFORE);
    assert_eq!(client.ttl("key"), Ok(Some(Some(NANO))));
    assert_eq!(client.get("key")?.as_deref(), Some(&b"v"[..]));
    cluster.advance(NANO);
    assert_eq!(client.get("key")?, None);
    assert_eq!((client.ttl("key"), client.len()), (Ok(None), Ok(0)));
    Ok(())
}

/// An access that meets a key, by what it answers when the key is not there.
type Access = (&'static str, fn(&Client) -> Result<bool, Error>);

/// Every access answers whether it found the key.
const ACCESSES: [Access; 15] = [
    ("get", |client| Ok(client.get("key")?.is_some())),
    ("contains_key", |client| client.contains_key("key")),
    ("ttl", |client| Ok(client.ttl("key")?.is_some())),
    ("expiry", |client| Ok(client.expiry("key")?.is_some())),
    ("expire", |client| client.expire("key", TTL)),
    ("persist", |client| client.persist("key")),
    ("remove", |client| client.remove("key")),
    ("take", |client| Ok(client.take("key")?.is_some())),
    ("mget", |client| Ok(client.mget(&["key"])?[0].is_some())),
    ("remove_all", |client| Ok(client.remove_all(&["key"])? == 1)),
    ("compute", |client| Ok(client.compute("key", |_| Compute::Keep)?.is_some())),
    ("update", |client| Ok(client.update("key", |_| ())?.is_some())),
    ("update_in_place", |client| Ok(client.update_in_place("key", |_| ())?.is_some())),
    ("set if absent", |client| {
        let options = SetOptions::new().if_absent();
        Ok(!client.set_with("key", b"new", &options)?.is_set())
    }),
    ("set if present", |client| {
        let options = SetOptions::new().if_present();
        Ok(client.set_with("key", b"new", &options)?.is_set())
    }),
];

#[test]
fn every_access_finds_the_key_before_its_deadline_and_removes_it_after() -> Tested {
    for (name, access) in ACCESSES {
        let (cluster, client) = stepped();
        expiring(&client, "key", b"v", TTL)?;
        cluster.advance(JUST_BEFORE);
        assert_eq!(access(&client), Ok(true), "{name} just before the deadline");
        client.clear()?;
        expiring(&client, "key", b"v", TTL)?;
        cluster.advance(TTL);
        assert_eq!((client.len(), client.live()), (Ok(1), Ok(0)), "nobody met it yet");
        assert_eq!(access(&client), Ok(false), "{name} at the deadline");
        let left = usize::from(name == "set if absent");
        assert_eq!(client.len(), Ok(left), "{name} met an expired key and left it there");
        cluster.check_invariants();
    }
    Ok(())
}

#[test]
fn a_transaction_and_numbers_do_not_see_an_expired_key() -> Tested {
    let (cluster, client) = stepped();
    expiring(&client, "key", b"41", TTL)?;
    cluster.advance(TTL);
    let seen = client.transaction(&["key"], |one| {
        let before = one.get("key").map(|value| value.is_some());
        one.set_keep_expiry("key", b"1").map(|()| before)
    })?;
    assert_eq!(seen, Ok(Ok(false)));
    assert_eq!((client.incr("key", 1), client.ttl("key")), (Ok(2), Ok(Some(None))));
    expiring(&client, "key", b"41", TTL)?;
    cluster.advance(TTL);
    assert_eq!((client.incr("key", 1), client.ttl("key")), (Ok(1), Ok(Some(None))));
    expiring(&client, "key", b"old", TTL)?;
    cluster.advance(TTL);
    assert_eq!((client.append("key", b"new"), client.ttl("key")), (Ok(3), Ok(Some(None))));
    Ok(())
}

#[test]
fn deadlines_are_kept_moved_and_cleared_as_the_call_says() -> Tested {
    let (cluster, client) = stepped();
    let left = || client.ttl("key");
    expiring(&client, "key", b"v", TTL)?;
    cluster.advance(Duration::from_secs(4));
    let rest = Ok(Some(Some(Duration::from_secs(6))));
    client.set_with("key", b"1", &SetOptions::new().keep_expiry())?;
    assert_eq!(left(), rest);
    client.incr("key", 1)?;
    client.append("key", b"0")?;
    client.update("key", |value| value.push(b'0'))?;
    client.update_in_place("key", |value| value[0] = b'9')?;
    client.compute("key", |_| Compute::Replace(b"7".to_vec()))?;
    let seen = client.get("key")?.expect("there");
    assert_eq!(client.replace(&seen, b"8").map_err(Error::from), Ok(true));
    assert_eq!(left(), rest, "none of these touches the deadline");
    assert_eq!(client.set_expiry("key", Expiry::In(TTL)), Ok(true));
    assert_eq!(left(), Ok(Some(Some(TTL))), "counted from the call");
    assert_eq!(client.persist("key"), Ok(true));
    cluster.advance(TTL * 1000);
    assert_eq!(left(), Ok(Some(None)));
    client.expire("key", TTL)?;
    client.set("key", b"plain")?;
    assert_eq!(left(), Ok(Some(None)), "a plain set clears it");
    client.expire("key", TTL)?;
    client.mset([("key", &b"plain"[..])])?;
    assert_eq!(left(), Ok(Some(None)), "and so does mset");
    Ok(())
}

#[test]
fn keys_that_move_keep_their_deadlines() -> Tested {
    let (cluster, client) = stepped();
    let slot = Slot::of("moving");
    for number in 0..20_u32 {
        expiring(&client, &format!("{{moving}}:{number}"), b"v", TTL + NANO * number)?;
    }
    let owner = cluster.slot_map().owner(slot).expect("an owner");
    let target = cluster.node_ids().into_iter().find(|&node| node != owner).expect("two nodes");
    let slots: SlotSet = [slot].into_iter().collect();
    cluster.advance(TTL / 2);
    let moves = Reshard::of(&cluster).move_slots(&slots, owner, target).expect("a plan");
    assert_eq!(moves.run().expect("nothing fails").keys_moved, 20);
    cluster.advance(JUST_BEFORE.saturating_sub(TTL / 2));
    for number in 0..20_u32 {
        let left = client.ttl(format!("{{moving}}:{number}"))?;
        assert_eq!(left, Some(Some(NANO * (number + 1))));
    }
    for number in 0..20 {
        cluster.advance(NANO);
        assert_eq!(client.live(), Ok(19 - number));
    }
    cluster.check_invariants();
    Ok(())
}

#[test]
fn expired_keys_are_not_sent() -> Tested {
    let (cluster, client) = stepped();
    let slot = Slot::of("moving");
    for number in 0..20_u32 {
        expiring(&client, &format!("{{moving}}:{number}"), b"v", TTL * (1 + number % 2))?;
    }
    cluster.advance(TTL);
    let owner = cluster.slot_map().owner(slot).expect("an owner");
    let target = cluster.node_ids().into_iter().find(|&node| node != owner).expect("two nodes");
    let slots: SlotSet = [slot].into_iter().collect();
    let moves = Reshard::of(&cluster).by(MoveKind::Classic);
    let moves = moves.move_slots(&slots, owner, target).expect("a plan");
    assert_eq!(moves.run().expect("nothing fails").keys_moved, 10);
    assert_eq!((client.len(), client.live()), (Ok(10), Ok(10)));
    Ok(())
}

#[test]
fn a_sweep_removes_what_nobody_touches_and_only_that() -> Tested {
    let (cluster, client) = stepped();
    let slot = Slot::of("swept");
    for number in 0..2000_u32 {
        let wait = if number % 2 == 0 { TTL } else { TTL * 2 };
        expiring(&client, &format!("{{swept}}:{number}"), b"v", wait)?;
    }
    let owner = cluster.slot_map().owner(slot).expect("an owner");
    let sweep = || while cluster.sweep_step(owner, slot) {};
    cluster.advance(JUST_BEFORE);
    sweep();
    assert_eq!(client.len(), Ok(2000));
    cluster.advance(NANO);
    assert_eq!(client.len(), Ok(2000));
    assert!(cluster.sweep_step(owner, slot), "one hold does not look at thousands of entries");
    sweep();
    assert_eq!((client.len(), client.live()), (Ok(1000), Ok(1000)));
    cluster.advance(TTL);
    sweep();
    assert_eq!(client.len(), Ok(0));
    cluster.check_invariants();
    Ok(())
}

#[test]
fn workers_sweep_by_themselves_on_any_node_and_in_any_mode() -> Tested {
    for ownership in [Ownership::Lent, Ownership::Strict] {
        let builder = Cluster::builder().nodes(3).workers_per_node(2).stopped_clock();
        let cluster = builder.ownership(ownership).build()?;
        let client = cluster.client();
        for number in 0..300 {
            expiring(&client, &format!("short:{number}"), b"v", TTL)?;
            expiring(&client, &format!("long:{number}"), b"v", TTL * 10)?;
            client.set(format!("kept:{number}"), b"v")?;
        }
        cluster.advance(TTL);
        wait_until("300 keys are swept", || client.len() == Ok(600));
        cluster.advance(TTL * 9);
        wait_until("600 keys are swept", || client.len() == Ok(300));
        assert_eq!(client.live(), Ok(300));
    }
    Ok(())
}

#[test]
fn a_deadline_that_comes_nearer_is_swept_in_time() -> Tested {
    let builder = Cluster::builder().nodes(2).shared_workers(1).stopped_clock();
    let cluster = builder.build()?;
    let client = cluster.client();
    expiring(&client, "far", b"v", TTL * 1000)?;
    for round in 0..200 {
        let key = format!("near:{round}");
        client.set(&key, b"v")?;
        client.expire(&key, TTL)?;
        cluster.advance(TTL);
        wait_until("the nearer key is swept", || client.len() == Ok(1));
    }
    Ok(())
}

/// The deadline of what was pulled is heard of with the call, which nearly fails.
#[test]
fn a_key_that_was_pulled_for_a_call_without_room_is_swept_in_time() -> Tested {
    let builder = Cluster::builder().nodes(2).stopped_clock();
    let builder = builder.bound(Bound::Entries(2)).policy(Policy::NoEviction);
    let cluster = builder.build()?;
    let client = cluster.client();
    let [source, target] = [0, 1].map(|index| cluster.nodes()[index].clone());
    let slot = source.slots().iter().next().expect("it owns half of them");
    let mut tags = (0..).map(|tag: u32| tag.to_string());
    let tag = tags.find(|tag| Slot::of(tag) == slot).expect("there is one");
    let [pulled, new] = ["pulled", "new"].map(|name| format!("{{{tag}}}{name}"));
    expiring(&client, &pulled, b"v", TTL)?;
    let of_target = tags.filter(|tag| target.slots().contains(Slot::of(tag)));
    of_target.take(2).try_for_each(|key| client.set(key, b"v"))?;
    target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    let written = client.mset([(&pulled, &b"w"[..]), (&new, b"w")]);
    assert_eq!(written, Err(Error::OutOfMemory));
    let counts = || [&source, &target].map(|node| node.count_keys_in_slot(slot));
    assert_eq!(counts(), [Ok(0), Ok(1)]);
    cluster.advance(TTL);
    wait_until("the pulled key is swept", || counts() == [Ok(0), Ok(0)]);
    cluster.check_invariants();
    Ok(())
}

/// Notes on which thread it is dropped, and panics there if it is told to.
struct NotesDrop {
    notes: mpsc::Sender<String>,
    panics: bool,
}

impl Drop for NotesDrop {
    fn drop(&mut self) {
        // Nobody listens any more at the end of a test.
        drop(self.notes.send(thread::current().name().unwrap_or("unnamed").to_owned()));
        assert!(!self.panics, "a value's own panic");
    }
}

#[test]
fn sweeps_run_on_the_owner_of_the_shard() -> Tested {
    for ownership in [Ownership::Lent, Ownership::Strict] {
        let builder = Cluster::builder().nodes(2).workers_per_node(2).stopped_clock();
        let cluster = builder.ownership(ownership).values::<NotesDrop>().build()?;
        let client = cluster.client();
        for number in 0..50 {
            let key = format!("key:{number}");
            let (notes, dropped) = mpsc::channel();
            let value = NotesDrop { notes, panics: false };
            client.set_with(&key, value, &SetOptions::new().expire_in(TTL))?;
            cluster.advance(TTL);
            let thread = dropped.recv_timeout(Duration::from_secs(60)).expect("it is swept");
            assert_eq!(thread, client.owner_of(&key)?.worker);
        }
    }
    Ok(())
}

#[test]
fn a_value_whose_drop_panics_in_a_sweep_ends_neither_the_worker_nor_the_sweeping() -> Tested {
    let cluster = Cluster::builder().workers_per_node(1).stopped_clock();
    let cluster = cluster.values::<NotesDrop>().build()?;
    let client = cluster.client();
    let (notes, dropped) = mpsc::channel();
    let set = |key: &str, panics, wait| {
        let value = NotesDrop { notes: notes.clone(), panics };
        let options = SetOptions::new().expire_in(wait);
        client.set_with(key, value, &options).map(drop).map_err(Error::from)
    };
    let before = client.run_on_owner("", || thread::current().id())?;
    // The empty key lies in the first slot, where every round begins.
    set("", true, TTL)?;
    let mut others = (0..).map(|number: u32| format!("key:{number}"));
    let other = others.find(|key| Slot::of(key) == Slot::MIN).expect("one in 16384");
    set(&other, false, TTL * 2)?;
    cluster.advance(TTL);
    dropped.recv_timeout(Duration::from_secs(60)).expect("the first one is swept");
    cluster.advance(TTL);
    // However the round went on, the next key of that shard is swept as well.
    for _ in 0..100 {
        cluster.advance(SWEEP_PAUSE);
        thread::yield_now();
    }
    dropped.recv_timeout(Duration::from_secs(60)).expect("the second one is swept");
    wait_until("nothing is left", || client.len() == Ok(0));
    assert_eq!(client.run_on_owner("", || thread::current().id()), Ok(before));
    Ok(())
}

#[test]
fn nothing_is_swept_while_no_key_has_a_deadline() -> Tested {
    let cluster = Cluster::builder().nodes(2).workers_per_node(1).stopped_clock().build()?;
    let client = cluster.client();
    for number in 0..1000 {
        client.set(format!("key:{number}"), b"v")?;
    }
    for number in 0..1000 {
        assert_eq!(client.persist(format!("key:{number}")), Ok(false));
        client.get(format!("key:{number}"))?;
    }
    for id in cluster.node_ids() {
        for slot in Slot::all().step_by(7) {
            assert!(!cluster.sweep_step(id, slot), "there is nothing to go on with");
        }
    }
    // Nobody is woken either: a worker that has nothing to sweep sleeps without an alarm.
    assert_eq!(cluster.counters().wakeups, 0);
    assert_eq!(client.len(), Ok(1000));
    Ok(())
}
