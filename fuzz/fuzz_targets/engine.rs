//! Calls and admin verbs in any order answer as one map would, and no key is lost or doubled.
#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use libfuzzer_sys::arbitrary;
use libfuzzer_sys::arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use slotkeep::{Client, Cluster, MoveId, NodeId, SetOptions, SetSlot, Slot};

/// Two hash tags with four keys each.
const KEYS: [&str; 8] =
    ["{a}0", "{a}1", "{a}2", "{a}3", "{b}0", "{b}1", "{b}2", "{b}3"];

#[derive(Arbitrary, Debug)]
enum Op {
    Get(u8),
    Set(u8, u8),
    SetFor(u8, u8, u8),
    Remove(u8),
    Append(u8, u8),
    Mget(bool),
    Persist(u8),
    Advance(u8),
    Importing(u8, u8, bool),
    Migrating(u8, u8, bool),
    Stable(u8, bool),
    Node(u8, u8, bool),
    Batch(u8, bool, u8),
    Abort(u8),
    Sweep(u8, bool),
    Clear(bool),
}

/// What one map would hold: value and deadline.
#[derive(Default)]
struct Oracle {
    now: Duration,
    map: BTreeMap<&'static str, (Vec<u8>, Option<Duration>)>,
}

impl Oracle {
    fn expire(&mut self) {
        let now = self.now;
        self.map.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > now));
    }

    fn value(&self, key: &str) -> Option<&[u8]> {
        self.map.get(key).map(|(value, _)| &value[..])
    }
}

fn key(index: u8) -> &'static str {
    KEYS[usize::from(index) % KEYS.len()]
}

fn slot(of_a: bool) -> Slot {
    Slot::of(if of_a { "{a}" } else { "{b}" })
}

fn node(index: u8) -> NodeId {
    NodeId::new(usize::from(index % 3)).expect("a small index")
}

fn call(client: &Client, oracle: &mut Oracle, op: &Op) {
    match *op {
        Op::Get(at) => {
            let read = client.get(key(at)).expect("a get is answered");
            assert_eq!(read.as_deref(), oracle.value(key(at)));
        }
        Op::Set(at, byte) => {
            client.set(key(at), &[byte]).expect("a set is answered");
            oracle.map.insert(key(at), (vec![byte], None));
        }
        Op::SetFor(at, byte, nanos) => {
            let ttl = Duration::from_nanos(nanos.into());
            let options = SetOptions::new().expire_in(ttl);
            client.set_with(key(at), &[byte], &options).expect("a set is answered");
            oracle.map.insert(key(at), (vec![byte], Some(oracle.now + ttl)));
            oracle.expire();
        }
        Op::Remove(at) => {
            let removed = client.remove(key(at)).expect("a remove is answered");
            assert_eq!(removed, oracle.map.remove(key(at)).is_some());
        }
        Op::Append(at, byte) => {
            let len = client.append(key(at), &[byte]).expect("an append is answered");
            let entry = oracle.map.entry(key(at)).or_default();
            entry.0.push(byte);
            assert_eq!(len, entry.0.len());
        }
        Op::Mget(of_a) => {
            let names = if of_a { &KEYS[..4] } else { &KEYS[4..] };
            let read = client.mget(names).expect("an mget is answered");
            let known = names.iter().map(|name| oracle.value(name));
            assert!(read.iter().map(|value| value.as_deref()).eq(known));
        }
        Op::Persist(at) => {
            let had = client.persist(key(at)).expect("a persist is answered");
            let entry = oracle.map.get_mut(key(at));
            assert_eq!(had, entry.is_some_and(|entry| entry.1.take().is_some()));
        }
        Op::Clear(of_a) => {
            client.clear_slot(slot(of_a)).expect("a clear is answered");
            oracle.map.retain(|name, _| Slot::of(name) != slot(of_a));
        }
        _ => {}
    }
}

/// Verbs may be refused; what they must not do is change what calls answer.
fn verb(cluster: &Cluster, op: &Op) {
    let on = |at: u8| cluster.node(node(at)).expect("one of three nodes");
    match *op {
        Op::Importing(at, from, of_a) => {
            let _ = on(at).set_slot(slot(of_a), SetSlot::Importing { source: node(from) });
        }
        Op::Migrating(at, to, of_a) => {
            let _ = on(at).set_slot(slot(of_a), SetSlot::Migrating { target: node(to) });
        }
        Op::Stable(at, of_a) => {
            let _ = on(at).set_slot(slot(of_a), SetSlot::Stable);
        }
        Op::Node(at, owner, of_a) => {
            let _ = on(at).set_slot(slot(of_a), SetSlot::Node { owner: node(owner) });
        }
        Op::Batch(at, of_a, count) => {
            let state = on(at).slot_state(slot(of_a)).expect("no closure runs");
            if let Some(id) = state.move_id() {
                let _ = on(at).migrate_batch(slot(of_a), id, usize::from(count));
            }
        }
        Op::Abort(number) => {
            let _ = cluster.abort_step(MoveId::new(number.into()), 2);
        }
        Op::Sweep(at, of_a) => {
            let _ = cluster.sweep_step(node(at), slot(of_a));
        }
        _ => {}
    }
}

fuzz_target!(|ops: Vec<Op>| {
    let cluster = Cluster::builder().nodes(3).workers_per_node(1).step_mode(7).build();
    let cluster = cluster.expect("three nodes");
    let (client, mut oracle) = (cluster.client(), Oracle::default());
    for op in &ops {
        if let Op::Advance(nanos) = *op {
            cluster.advance(Duration::from_nanos(nanos.into()));
            oracle.now += Duration::from_nanos(nanos.into());
            oracle.expire();
        }
        call(&client, &mut oracle, op);
        verb(&cluster, op);
        cluster.check_invariants();
        assert_eq!(client.live(), Ok(oracle.map.len()));
    }
    for name in KEYS {
        assert_eq!(client.get(name).expect("answered").as_deref(), oracle.value(name));
    }
});
