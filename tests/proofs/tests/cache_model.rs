//! A bounded cluster may forget, but it never lies: random calls, moves, sweeps and times against
//! the last value that each key was given, and after each of them what the nodes hold.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use slotkeep::reshard::{Move, MoveStep, PlannedMove};
use slotkeep::{Bound, Builder, Client, Cluster, CommandError, Compute, Handle, SetOptions, Slot};

const SLOTS: usize = 6;
const KEYS: usize = 12;
const NODES: usize = 3;
const STEPS: usize = 1_000;
const TTL: Duration = Duration::from_secs(30);

/// The key of a number.
fn key(number: usize) -> String {
    format!("{{{}}}:{}", number % SLOTS, number / SLOTS)
}

struct World {
    cluster: Cluster,
    client: Client,
    rng: Rng,
    written: u64,
    /// The last value of each key that was not removed since.
    last: BTreeMap<String, Vec<u8>>,
    moves: Vec<Move<[u8]>>,
}

impl World {
    fn new(seed: u64, bound: Bound, terms: impl FnOnce(Builder) -> Builder) -> Self {
        let builder = Cluster::builder().nodes(NODES).step_mode(seed).bound(bound);
        let cluster = terms(builder).build().expect("a small cluster");
        let (client, rng) = (cluster.client(), Rng::with_seed(seed));
        Self { cluster, client, rng, written: 0, last: BTreeMap::new(), moves: Vec::new() }
    }

    fn key(&mut self) -> String {
        key(self.rng.usize(..SLOTS * KEYS))
    }

    /// A value that nobody has written before, of a random length.
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let mut value = self.written.to_le_bytes().to_vec();
        value.resize(8 + self.rng.usize(..60), b'.');
        value
    }

    /// One call, move, sweep or while.
    fn step(&mut self) {
        let (name, value) = (self.key(), self.value());
        match self.rng.u32(..20) {
            0..4 => {
                self.client.set(&name, &value).expect("served");
                self.last.insert(name, value);
            }
            4 => {
                let options = SetOptions::new().expire_in(TTL / 3).expire_idle(TTL / 9);
                assert!(self.client.set_with(&name, &value, &options).expect("served").is_set());
                self.last.insert(name, value);
            }
            5 => self.set_all(&value),
            6 => {
                let made = self.client.compute(&name, |_| Compute::Replace(value.clone()));
                assert_eq!(made.expect("served").as_deref(), Some(&value[..]));
                self.last.insert(name, value);
            }
            7 => {
                let len = self.client.append(&name, b"more").expect("served");
                let before = self.last.get(&name).filter(|before| before.len() + 4 == len);
                let before = before.cloned().unwrap_or_default();
                self.last.insert(name, [&before[..], b"more"].concat());
            }
            8 => {
                self.client.remove(&name).expect("served");
                self.last.remove(&name);
            }
            9..13 => {
                let found = self.client.get(&name).expect("served");
                self.check(&name, found.as_deref());
            }
            13 => self.retain(),
            14 | 15 => self.go_on_moving(),
            16 => self.hand_over(),
            17 => self.cluster.advance(TTL / self.rng.u32(3..300)),
            _ => self.sweep(),
        }
    }

    /// A key is forgotten, or has its last value.
    #[track_caller]
    fn check(&self, name: &str, found: Option<&[u8]>) {
        if let Some(found) = found {
            assert_eq!(Some(found), self.last.get(name).map(Vec::as_slice), "{name}");
        }
    }

    /// Several keys of one slot, at one instant.
    fn set_all(&mut self, value: &[u8]) {
        let slot = self.rng.usize(..SLOTS);
        let names: Vec<_> = (0..4).map(|row| key(slot + row * SLOTS)).collect();
        if self.rng.bool() {
            self.client.mset(names.iter().map(|name| (name, value))).expect("served");
        } else {
            let staged = self.client.transaction(&names, |keys| {
                names.iter().try_for_each(|name| keys.set(name, value))
            });
            assert_eq!(staged, Ok(Ok::<_, CommandError>(())));
        }
        self.last.extend(names.into_iter().map(|name| (name, value.to_vec())));
    }

    fn retain(&mut self) {
        let last = &mut self.last;
        let seen = |name: &[u8], value: &[u8]| {
            let name = str::from_utf8(name).expect("as written");
            assert_eq!(last.get(name).map(Vec::as_slice), Some(value), "{name}");
            let stays = !value.len().is_multiple_of(5);
            if !stays {
                last.remove(name);
            }
            stays
        };
        self.client.retain(seen).expect("an open cluster");
    }

    fn hand_over(&mut self) {
        let slot = Slot::of(self.key());
        let owner = self.cluster.slot_map().owner(slot).expect("an owner");
        let node = self.cluster.node(owner).expect("one of them");
        let to = self.cluster.nodes()[self.rng.usize(..NODES)].id();
        // Refused if it goes to itself, or while a move of the slot is open.
        node.hand_over(slot, to).ok();
    }

    /// One step of a classic move, of an open one if there is any.
    fn go_on_moving(&mut self) {
        if self.moves.is_empty() || self.rng.u32(..8) == 0 {
            let slot = Slot::of(self.key());
            let source = self.cluster.slot_map().owner(slot).expect("an owner");
            let target = self.cluster.nodes()[self.rng.usize(..NODES)].id();
            let planned = PlannedMove { slot, source, target };
            self.moves.push(Move::new(&self.cluster, planned, 2).expect("nodes of this cluster"));
        }
        let at = self.rng.usize(..self.moves.len());
        // An error is a move to itself, or of a slot that another one has open or has moved.
        if !matches!(self.moves[at].step(), Ok(MoveStep::More)) {
            self.moves.swap_remove(at);
        }
    }

    fn sweep(&mut self) {
        for node in self.cluster.nodes() {
            for (slot, _) in node.stored_slots().expect("an open cluster") {
                self.cluster.sweep_step(node.id(), slot);
            }
        }
    }

    /// Every entry has its last value.
    fn check_all(&self) {
        for entry in &self.client {
            let entry = entry.expect("an open cluster");
            let name = str::from_utf8(Handle::key(&entry)).expect("as written");
            self.check(name, Some(&entry));
        }
        self.cluster.check_invariants();
    }
}

/// Runs the steps; `holds` is what each of the nodes may at most hold, of entries or of weight.
fn run(bound: Bound, terms: impl Fn(Builder) -> Builder, holds: impl Fn(&World)) {
    for seed in 0..5 {
        println!("seed {seed}");
        let mut world = World::new(seed, bound, &terms);
        for _ in 0..STEPS {
            world.step();
            holds(&world);
            world.check_all();
        }
        assert!(world.client.live().expect("an open cluster") > 0, "it keeps something");
    }
}

#[test]
fn a_cluster_bounded_by_entries_forgets_but_never_lies() {
    const ENTRIES: usize = 12;
    run(
        Bound::Entries(ENTRIES as u64),
        |builder| builder,
        |world| {
            for node in world.cluster.nodes() {
                let stored = node.stored_slots().expect("an open cluster");
                let count: usize = stored.iter().map(|(_, count)| count).sum();
                assert!(count <= ENTRIES, "{count} entries on {}", node.id());
            }
        },
    );
}

#[test]
fn a_cluster_bounded_by_weight_forgets_but_never_lies() {
    const WEIGHT: u64 = 400;
    let terms = |builder: Builder| {
        let builder = builder.weigher(|_, value: &[u8]| value.len() as u64);
        builder.time_to_live(TTL).jitter(TTL / 4).time_to_idle(TTL / 2)
    };
    run(Bound::Weight(WEIGHT), terms, |world| {
        let weight = world.client.weight().expect("an open cluster");
        assert!(weight <= WEIGHT * NODES as u64, "{weight}");
        let lens = world.client.iter().map(|entry| entry.map_or(0, |value| value.len() as u64));
        assert!(lens.sum::<u64>() <= weight);
    });
}
