//! How long does one call take, how much does a batch save, and how fast does a slot move?
//!
//! One thread and a million keys of 16 bytes with values of 32, met in an order that is the same
//! in every run: nearly every call misses the processor's caches, as it does in a large table.
//! `cargo bench --bench engine` measures; `cargo bench -- --test` runs each bench once.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use criterion::BenchmarkId;
use criterion::Criterion;
use criterion::SamplingMode;
use criterion::Throughput;
use criterion::criterion_group;
use criterion::criterion_main;
use slotkeep::Client;
use slotkeep::Cluster;
use slotkeep::CommandError;
use slotkeep::NodeId;
use slotkeep::Ownership;
use slotkeep::SlotSet;
use slotkeep::reshard::{MoveKind, Reshard};

const SEED: u64 = 0x510_7EED;
const KEYS: usize = 1_000_000;
const PAIRS: usize = 100_000;
const BATCHES: [usize; 2] = [8, 32];
const OLD: [u8; 32] = [b'o'; 32];
const NEW: [u8; 32] = [b'n'; 32];

type Failure = Box<dyn Error>;

/// One key: 16 bytes, no hash tag.
type Name = [u8; 16];

/// Walks over keys for ever, in one order that the seed decides.
struct Walk<T> {
    keys: Vec<T>,
    at: usize,
}

impl<T> Walk<T> {
    /// Shuffles `keys`, which were inserted in another order: neighbours in the walk are no
    /// neighbours in memory.
    fn new(mut keys: Vec<T>) -> Self {
        let mut random = fastrand::Rng::with_seed(SEED);
        for last in (1..keys.len()).rev() {
            keys.swap(last, random.usize(..=last));
        }
        Self { keys, at: 0 }
    }

    /// The next key.
    fn one(&mut self) -> &T {
        &self.some(1)[0]
    }

    /// The next `count` keys, which lie side by side.
    fn some(&mut self, count: usize) -> &[T] {
        if self.at + count > self.keys.len() {
            self.at = 0;
        }
        self.at += count;
        &self.keys[self.at - count..self.at]
    }
}

fn names() -> Vec<Name> {
    let name = |number| {
        let text = format!("name:{number:011}");
        text.into_bytes().try_into().expect("5 and 11 bytes are 16")
    };
    (0..KEYS).map(name).collect()
}

/// A cluster of one node that holds every key, and the walk over them.
fn filled(ownership: Ownership) -> Result<(Cluster, Walk<Name>), Failure> {
    let cluster = Cluster::builder().ownership(ownership).build()?;
    let names = names();
    let client = cluster.client();
    for some in names.chunks(1024) {
        client.set_many(some.iter().map(|name| (name, &OLD[..])))?;
    }
    Ok((cluster, Walk::new(names)))
}

/// Reads a key that is there.
fn get(client: &Client, name: &Name) {
    let value = client.get(name).expect("it is served");
    black_box(value.expect("every key is there"));
}

/// Writes a key; the new value fits into the place of the old one.
fn set(client: &Client, name: &Name, value: &[u8; 32]) {
    client.set(name, value).expect("it is served");
}

/// Calls on one key, on the calling thread.
fn single(criterion: &mut Criterion) {
    let (cluster, mut walk) = filled(Ownership::Lent).expect("a cluster with keys");
    let client = cluster.client();
    let mut group = criterion.benchmark_group("single");
    group.throughput(Throughput::Elements(1));
    group.bench_function("get", |bencher| bencher.iter(|| get(&client, walk.one())));
    group.bench_function("set", |bencher| bencher.iter(|| set(&client, walk.one(), &NEW)));
    let mut calls = 0_u64;
    group.bench_function("95_get_5_set", |bencher| {
        bencher.iter(|| {
            calls += 1;
            if calls.is_multiple_of(20) {
                set(&client, walk.one(), &OLD);
            } else {
                get(&client, walk.one());
            }
        });
    });
    group.finish();
}

/// The same get when each call goes to the shard's worker and back.
fn strict(criterion: &mut Criterion) {
    let (cluster, mut walk) = filled(Ownership::Strict).expect("a cluster with keys");
    let client = cluster.client();
    let mut group = criterion.benchmark_group("strict");
    group.throughput(Throughput::Elements(1));
    group.bench_function("get", |bencher| bencher.iter(|| get(&client, walk.one())));
    group.finish();
}

/// Calls on many keys of any slots; the figures are for each key.
fn batches(criterion: &mut Criterion) {
    let (cluster, mut walk) = filled(Ownership::Lent).expect("a cluster with keys");
    let client = cluster.client();
    let mut group = criterion.benchmark_group("batch");
    for count in BATCHES {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("get_many", count), |bencher| {
            bencher.iter(|| {
                let values = client.get_many(walk.some(count)).expect("it is served");
                assert!(black_box(values).iter().all(Option::is_some), "every key is there");
            });
        });
        group.bench_function(BenchmarkId::new("set_many", count), |bencher| {
            bencher.iter(|| {
                let entries = walk.some(count).iter().map(|name| (name, &NEW[..]));
                client.set_many(entries).expect("it is served");
            });
        });
    }
    group.finish();
}

/// A transfer between two keys of one tag.
fn transaction(criterion: &mut Criterion) {
    let cluster = Cluster::builder().values::<u64>().build().expect("a cluster");
    let client = cluster.client();
    let pair = |number: usize| [format!("{{{number}}}:a"), format!("{{{number}}}:b")];
    let pairs: Vec<_> = (0..PAIRS).map(pair).collect();
    for [one, other] in &pairs {
        client.mset([(one, u64::MAX), (other, 0)]).expect("it is served");
    }
    let mut walk = Walk::new(pairs);
    let mut group = criterion.benchmark_group("transaction");
    group.throughput(Throughput::Elements(1));
    group.bench_function("transfer", |bencher| {
        bencher.iter(|| transfer(&client, walk.one()).expect("both keys are there"));
    });
    group.finish();
}

fn transfer(client: &Client<u64>, keys: &[String; 2]) -> Result<(), Failure> {
    let [one, other] = keys;
    client.transaction(keys, |both| {
        let from = both.get(one)?.copied().unwrap_or_default();
        let to = both.get(other)?.copied().unwrap_or_default();
        both.set(one, from.wrapping_sub(1))?;
        both.set(other, to.wrapping_add(1))?;
        Ok::<_, CommandError>(())
    })??;
    Ok(())
}

/// Every slot with every key from one node to another, by the classic verbs, one after another;
/// the figures are for each key.
fn moves(criterion: &mut Criterion) {
    let (cluster, _) = filled(Ownership::Lent).expect("a cluster with keys");
    cluster.add_node().expect("a second node");
    let mut group = criterion.benchmark_group("move");
    group.throughput(Throughput::Elements(KEYS as u64));
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(10));
    group.bench_function("classic_16384_slots", |bencher| {
        bencher.iter_custom(|count| {
            (0..count).map(|_| move_everything(&cluster).expect("the slots move")).sum()
        });
    });
    group.finish();
}

/// Moves every slot from the node that owns them to the other one.
fn move_everything(cluster: &Cluster) -> Result<Duration, Failure> {
    let ids = cluster.node_ids();
    let owners = cluster.slot_map().owners();
    let (&[source], &[first, second]) = (owners.as_slice(), ids.as_slice()) else {
        return Err("one of two nodes owns all slots".into());
    };
    let target: NodeId = if source == first { second } else { first };
    let reshard = Reshard::of(cluster).by(MoveKind::Classic);
    let report = reshard.move_slots(&SlotSet::full(), source, target)?.run()?;
    if report.keys_moved != KEYS as u64 {
        return Err(format!("{} keys travelled", report.keys_moved).into());
    }
    Ok(report.elapsed)
}

criterion_group!(engine, single, strict, batches, transaction, moves);
criterion_main!(engine);
