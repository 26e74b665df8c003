//! `Stage`: the cluster, clients, keys and values of one run.

use fastrand::Rng;
use slotkeep::{Client, Cluster, NodeId, Ownership, Semantics, Slot};

use crate::model::Plan;

/// How many nodes a run begins with.
const NODES: usize = 3;
/// How many keys each tag has, but for the last one.
const KEYS_PER_TAG: usize = 4;
/// How many keys the last tag has, whose slot is often empty.
const SPARE_KEYS: usize = 2;
/// How many values a run writes before it begins again.
const VALUES: u32 = 512;

/// The client that is answered as by Redis: it alone gets TRYAGAIN.
pub(super) const AS_REDIS: usize = 3;

/// What one run plays on. It is built first, because calls on their way borrow from it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) clients: Vec<Client>,
    /// Every slot has an owner at the start, and nodes serve only while that is so.
    pub(super) covered: bool,
    /// The slots in play: one for each tag.
    pub(super) slots: Vec<Slot>,
    keys: Vec<(usize, Vec<u8>)>,
    values: Vec<Vec<u8>>,
}

impl Stage {
    pub(super) fn build(plan: Plan) -> Self {
        let mut rng = Rng::with_seed(plan.seed);
        let tags = rng.usize(1..=4);
        let covered = rng.u8(0..8) == 0;
        let mut builder = Cluster::builder().nodes(NODES).workers_per_node(1).step_mode(plan.seed);
        if rng.u8(0..4) == 0 {
            builder = builder.ownership(Ownership::Strict);
        }
        if let Some(fault) = plan.fault {
            builder = builder.fault(fault);
        }
        if !covered {
            builder = builder.unassigned().full_coverage(false);
        }
        let cluster = builder.build().expect("a small cluster");
        let (slots, keys) = name_keys(tags);
        if !covered {
            for &slot in &slots {
                let owner = cluster.node(node_id(rng.usize(0..NODES))).expect("a node");
                owner.add_slots(&[slot]).expect("nobody owns the slot");
            }
        }
        let client = cluster.client();
        let as_redis = client.with_semantics(Semantics::Redis);
        let clients = vec![client.with_own_map(), client.with_own_map(), client, as_redis];
        let values = (0..VALUES).map(value_text).collect();
        Self { cluster, clients, covered, slots, keys, values }
    }

    pub(super) fn key(&self, key: usize) -> &[u8] {
        &self.keys[key].1
    }

    /// The slot in play that a key hashes to.
    pub(super) fn slot_of_key(&self, key: usize) -> usize {
        self.keys[key].0
    }

    pub(super) fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The keys of one slot in play.
    pub(super) fn keys_of(&self, slot: usize) -> Vec<usize> {
        (0..self.keys.len()).filter(|&key| self.keys[key].0 == slot).collect()
    }

    pub(super) fn value(&self, value: usize) -> &[u8] {
        &self.values[value]
    }

    pub(super) fn value_count(&self) -> usize {
        self.values.len()
    }
}

pub(super) fn node_id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

fn name_keys(tags: usize) -> (Vec<Slot>, Vec<(usize, Vec<u8>)>) {
    let mut slots = Vec::new();
    let mut keys = Vec::new();
    for tag in 0..tags {
        let spare = tag + 1 == tags;
        let count = if spare { SPARE_KEYS } else { KEYS_PER_TAG };
        let names = (0..count).map(|number| format!("{{tag:{tag}}}:{number}").into_bytes());
        keys.extend(names.map(|name| (tag, name)));
        slots.push(Slot::of(format!("{{tag:{tag}}}")));
    }
    (slots, keys)
}

/// Values of different lengths, most of them numbers, so that some overwrites fit and some do not,
/// and `incr` is refused for both of its reasons.
fn value_text(number: u32) -> Vec<u8> {
    match number % 16 {
        3 => format!("word-{number}").into_bytes(),
        7 => i64::MAX.to_string().into_bytes(),
        11 => format!("{number}{}", "0123456789".repeat(4)).into_bytes(),
        _ => number.to_string().into_bytes(),
    }
}
