//! Verbs as in Redis, mixed with everything else: keys may get out of reach, but nothing panics or
//! hangs, every call ends, no value is made up, and the slot can be mended by hand.

use fastrand::Rng;
use slotkeep::reshard::{Resume, resume};
use slotkeep::{
    Asking, Client, Cluster, Error, MigrateOptions, MoveId, Node, NodeId, Semantics, SetSlot, Slot,
};

const SEEDS: u64 = if cfg!(debug_assertions) { 20 } else { 600 };
const STEPS: u32 = 1000;
const KEYS: [&str; 3] = ["{b}:k", "{b}:l", "{b}:m"];
const NODES: usize = 3;

struct World {
    cluster: Cluster,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    slot: Slot,
    rng: Rng,
}

impl World {
    fn new(seed: u64) -> Self {
        let cluster = Cluster::builder().nodes(NODES).workers_per_node(1).step_mode(seed).build();
        let cluster = cluster.expect("three nodes");
        let ours = cluster.client();
        let as_redis = ours.with_own_map().with_semantics(Semantics::Redis);
        let at = |node| as_redis.at(node, Asking::Any).expect("a node of this cluster");
        let pinned: Vec<_> = cluster.node_ids().into_iter().map(at).collect();
        let clients = [vec![ours, as_redis.clone()], pinned].concat();
        let nodes = cluster.nodes();
        for node in &nodes {
            node.set_full_coverage(false);
        }
        Self { cluster, nodes, clients, slot: Slot::of(KEYS[0]), rng: Rng::with_seed(seed) }
    }

    fn node(&mut self) -> Node {
        let index = self.rng.usize(0..NODES);
        self.nodes[index].clone()
    }

    fn id(&mut self) -> NodeId {
        self.node().id()
    }

    fn verb(&mut self) -> SetSlot {
        match self.rng.u8(0..4) {
            0 => SetSlot::Importing { source: self.id() },
            1 => SetSlot::Migrating { target: self.id() },
            2 => SetSlot::Stable,
            _ => SetSlot::Node { owner: self.id() },
        }
    }

    fn any_move(&mut self) -> MoveId {
        let open: Vec<_> = self.cluster.moves().iter().map(|record| record.id).take(4).collect();
        let any = |rng: &mut Rng| open.get(rng.usize(0..open.len().max(1))).copied();
        any(&mut self.rng).unwrap_or(MoveId::new(1))
    }

    /// What a verb answers is its own affair: it may be refused.
    fn step(&mut self) {
        let (node, slot, id) = (self.node(), self.slot, self.any_move());
        match self.rng.u8(0..32) {
            0..7 => drop(node.as_redis().set_slot(slot, self.verb())),
            7 => drop(node.as_redis().del_slots(&[slot])),
            8..11 => drop(node.set_slot(slot, self.verb())),
            11..14 => drop(node.migrate_batch(slot, id, 1)),
            14 => drop(node.migrate_keys(&KEYS[..1], self.id(), MigrateOptions::default())),
            15 => drop(self.cluster.abort_step(id, 1)),
            16 => drop(node.add_slots(&[slot])),
            17 => drop(node.del_slots(&[slot])),
            18 => drop(resume(&self.cluster, Resume::Finish)),
            19 => drop(resume(&self.cluster, Resume::Abort)),
            20 => drop(node.hand_over(slot, self.id())),
            21 => {
                let entries = self.clients[0].entries_of_slot(slot).expect("an open cluster");
                for entry in &entries {
                    check_value(entry);
                }
                drop(self.clients[0].explain(KEYS[0]).expect("an open cluster").to_string());
            }
            _ => self.call(),
        }
    }

    fn call(&mut self) {
        let client = self.clients[self.rng.usize(0..self.clients.len())].clone();
        let key = KEYS[self.rng.usize(0..KEYS.len())];
        let entries = || KEYS.map(|key| (key, key.as_bytes()));
        let ended = match self.rng.u8(0..6) {
            0 => client.get(key).map(|value| value.iter().for_each(|value| check_value(value))),
            1 => client.set(key, key.as_bytes()).map_err(Error::from),
            2 => client.mget(&KEYS).map(|all| all.iter().flatten().for_each(|it| check_value(it))),
            3 => client.mset(entries()),
            4 => client.set_many(entries()),
            _ => client.remove_all(&KEYS[..2]).map(drop),
        };
        let is_answer = matches!(
            ended,
            Ok(())
                | Err(Error::TooManyRedirects { .. }
                    | Error::ClusterDown { .. }
                    | Error::TryAgain { .. }
                    | Error::Redirected(_))
        );
        assert!(is_answer, "{ended:?}");
    }

    /// No mark, one owner, which every node names: by verbs as in Redis alone.
    fn mend(&self) {
        for node in &self.nodes {
            node.as_redis().set_slot(self.slot, SetSlot::Stable).expect("never refused");
        }
        let owner = self.cluster.slot_map().owner(self.slot);
        let owner = owner.unwrap_or_else(|| {
            self.nodes[0].add_slots(&[self.slot]).expect("nobody owns the slot");
            self.nodes[0].id()
        });
        for node in &self.nodes {
            if node.id() != owner && node.slot_owner(self.slot).owner == Some(node.id()) {
                node.as_redis().del_slots(&[self.slot]).expect("the slot has an owner there");
            }
            let verb = SetSlot::Node { owner };
            node.as_redis().set_slot(self.slot, verb).expect("a slot that is not the node's");
        }
        for client in [&self.clients[0], &self.clients[1], &self.cluster.client()] {
            for key in KEYS {
                client.set(key, key.as_bytes()).expect("a slot that is served");
                let found = client.get(key).expect("a slot that is served");
                assert_eq!(found.as_deref(), Some(key.as_bytes()));
            }
        }
        let open = self.cluster.moves().into_iter().find(|record| !record.phase.is_ended());
        assert_eq!(open, None, "every move has ended");
    }
}

/// Each value is the name of its key.
#[track_caller]
fn check_value(value: &slotkeep::Handle<[u8]>) {
    assert_eq!(**value, *slotkeep::Handle::key(value));
}

#[test]
fn whatever_the_verbs_leave_calls_end_and_the_slot_can_be_mended() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.mend();
    }
}
