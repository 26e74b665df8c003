//! How long does a key take to its slot, by length, by kind of key, by tier, alone and in batches?
//!
//! Each tier that this machine runs is asked for by name, beside the tables of the `crc` crate and
//! the loop that Redis runs; other published crates are rivals in `benches/peers`, and the edges of
//! pages are measured there too.
//! `throughput` lets calls overlap; in `latency` each key lies where the last result says.
//! `cargo bench --bench slot` measures, in about eight minutes; `-- --test` runs each bench once.

use std::hint::black_box;
use std::time::Duration;

use crc::CRC_16_XMODEM;
use crc::Crc;
use crc::NoTable;
use crc::Table;
use criterion::BenchmarkGroup;
use criterion::BenchmarkId;
use criterion::Criterion;
use criterion::SamplingMode;
use criterion::Throughput;
use criterion::criterion_group;
use criterion::criterion_main;
use criterion::measurement::WallTime;
use slotkeep::Slot;
use slotkeep::crc16::Tier;
use slotkeep::crc16::crc16;
use slotkeep::hash_tag;
use slotkeep::slots_of;

const SEED: u64 = 0x510_7EED;

/// Steps of the kernels and their neighbours: a sawtooth shows beside the multiples of 16.
const LENGTHS: [usize; 25] = [
    1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 20, 24, 31, 32, 33, 40, 48, 63, 64, 65, 128, 256, 1024, 4096,
    65_536,
];
const SCANNED: [usize; 5] = [8, 16, 24, 40, 64];
const BATCHED: [usize; 4] = [8, 16, 32, 40];
const COLD: [usize; 4] = [8, 16, 24, 36];
const LONG: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20];

/// How many realistic keys there are.
const KEYS: usize = 16_384;
/// What keys of one length take together: the first-level cache holds them.
const RUN_BYTES: usize = 16_384;
const RUN_KEYS: usize = 1024;
/// 64 KiB, twice a first-level cache.
const EVICT_LINES: usize = 1024;

static ONE: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);
static SIXTEEN: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);
static NONE: Crc<u16, NoTable> = Crc::<u16, NoTable>::new(&CRC_16_XMODEM);

type Group<'a> = BenchmarkGroup<'a, WallTime>;
type Function = Box<dyn Fn(&[u8]) -> u16>;

/// How the calls of one pass follow each other.
#[derive(Clone, Copy)]
enum Pace {
    Overlapping,
    Chained,
}

/// Bytes without a pattern and without braces.
fn noise(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(SEED);
    (0..len).map(|_| b'0' + random.u8(..64)).collect()
}

/// Room for as many keys of `len` bytes as stay in the first-level cache; at least one.
fn run_of(len: usize) -> Vec<u8> {
    noise((RUN_BYTES / (len | 1)).clamp(1, RUN_KEYS) * (len | 1))
}

/// The keys of a run. They begin an odd number of bytes apart: every alignment occurs.
fn keys_of(run: &[u8], len: usize) -> Vec<&[u8]> {
    run.chunks_exact(len | 1).map(|key| &key[..len]).collect()
}

/// Keys as applications write them.
fn realistic(kind: &str) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(SEED);
    (0..KEYS).map(|_| one_key(kind, &mut random)).collect()
}

fn one_key(kind: &str, random: &mut fastrand::Rng) -> Vec<u8> {
    let (first, second) = (random.u64(..), random.u64(..));
    let number = first % 1_000_000;
    match kind {
        "tag" => format!("user:{{{number}}}:profile").into_bytes(),
        "session" => format!("session:{first:016x}{second:016x}").into_bytes(),
        "uuid" => {
            let digits = format!("{first:016x}{second:016x}");
            let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20]];
            format!("{}-{}", parts.join("-"), &digits[20..]).into_bytes()
        }
        "short" => format!("user:{number}").into_bytes(),
        "mixed" => one_key(["tag", "session", "uuid", "short"][random.usize(..4)], random),
        _ => noise(random.usize(1..=64)),
    }
}

fn views(keys: &[Vec<u8>]) -> Vec<&[u8]> {
    keys.iter().map(Vec::as_slice).collect()
}

/// Redis's loop: a byte a step.
#[inline(never)]
fn byte_loop(bytes: &[u8]) -> u16 {
    let table = &ONE.table()[0];
    bytes.iter().fold(0, |crc: u16, &byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ table[usize::from(high ^ byte)]
    })
}

/// Every way to the checksum.
fn checksums() -> Vec<(String, Function)> {
    let mut all: Vec<(String, Function)> = vec![
        ("byte_table".to_owned(), Box::new(byte_loop)),
        ("crc_table_1".to_owned(), Box::new(|bytes| ONE.checksum(bytes))),
        ("crc_table_16".to_owned(), Box::new(|bytes| SIXTEEN.checksum(bytes))),
        ("crc_no_table".to_owned(), Box::new(|bytes| NONE.checksum(bytes))),
    ];
    let tier = |tier: Tier| -> (String, Function) {
        (tier.name().to_owned(), Box::new(move |bytes| tier.crc16(bytes)))
    };
    all.extend(Tier::available().map(tier));
    all
}

/// Every way to the slot.
fn slots() -> Vec<(String, Function)> {
    let mut all: Vec<(String, Function)> = vec![
        ("redis_shape".to_owned(), Box::new(|key| byte_loop(hash_tag(key)))),
        ("slot_of".to_owned(), Box::new(|key| Slot::of(key).number())),
    ];
    let tier = |tier: Tier| -> (String, Function) {
        (tier.name().to_owned(), Box::new(move |key| tier.crc16_of_tag(key)))
    };
    all.extend(Tier::available().map(tier));
    all
}

/// One pass over the keys; what it returns depends on every call.
fn pass(pace: Pace, keys: &[&[u8]], zero: usize, of: &dyn Fn(&[u8]) -> u16) -> u16 {
    match pace {
        Pace::Overlapping => keys.iter().fold(0, |sum, key| sum ^ of(key)),
        Pace::Chained => {
            (0..keys.len()).fold(0, |last, at| of(keys[at + (usize::from(last) & zero)]))
        }
    }
}

/// A short measurement: the whole file has hundreds.
fn group<'a>(criterion: &'a mut Criterion, name: &str) -> Group<'a> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600));
    group
}

/// Times passes over `keys`, under `name`; the figures are for each key.
fn time(group: &mut Group<'_>, name: &str, keys: &[&[u8]], pace: Pace, of: &Function) {
    let zero = black_box(0);
    group.throughput(Throughput::Elements(keys.len() as u64));
    group.bench_function(name, |bencher| {
        bencher.iter(|| pass(pace, black_box(keys), zero, of));
    });
}

/// The checksum by length.
fn crc(criterion: &mut Criterion) {
    for (name, pace) in [("throughput", Pace::Overlapping), ("latency", Pace::Chained)] {
        for len in LENGTHS {
            let mut group = group(criterion, &format!("crc/{name}/{len}"));
            let run = run_of(len);
            let keys = keys_of(&run, len);
            for (name, of) in checksums() {
                time(&mut group, &name, &keys, pace, &of);
            }
            group.finish();
        }
    }
}

/// From realistic keys to slots.
fn slot(criterion: &mut Criterion) {
    for kind in ["tag", "session", "uuid", "short", "mixed", "rand1_64"] {
        let mut group = group(criterion, &format!("slot/{kind}"));
        let set = realistic(kind);
        let keys = views(&set);
        for (name, of) in slots() {
            time(&mut group, &format!("{name}/throughput"), &keys, Pace::Overlapping, &of);
            time(&mut group, &format!("{name}/latency"), &keys, Pace::Chained, &of);
        }
        group.finish();
    }
}

/// Many keys in one call, beside a call a key.
fn batch(criterion: &mut Criterion) {
    for len in BATCHED {
        let run = run_of(len);
        batch_of(criterion, &len.to_string(), &keys_of(&run, len));
    }
    batch_of(criterion, "mixed", &views(&realistic("mixed")));
}

fn batch_of(criterion: &mut Criterion, name: &str, keys: &[&[u8]]) {
    let mut group = group(criterion, &format!("batch/{name}"));
    group.throughput(Throughput::Elements(keys.len() as u64));
    let mut slots = vec![Slot::MIN; keys.len()];
    group.bench_function("slot_of_each", |bencher| {
        bencher.iter(|| {
            for (key, slot) in black_box(keys).iter().zip(&mut slots) {
                *slot = Slot::of(key);
            }
            black_box(&mut slots);
        });
    });
    group.bench_function("slots_of", |bencher| {
        bencher.iter(|| {
            slots_of(black_box(keys), &mut slots).expect("as many slots as keys");
            black_box(&mut slots);
        });
    });
    let mut checksums = vec![0; keys.len()];
    for tier in Tier::available() {
        group.bench_function(tier.name(), |bencher| {
            bencher.iter(|| {
                tier.crc16_of_tags(black_box(keys), &mut checksums);
                black_box(&mut checksums);
            });
        });
    }
    group.finish();
}

/// What the search for a brace adds where there is none.
fn scan(criterion: &mut Criterion) {
    for len in SCANNED {
        let mut group = group(criterion, &format!("scan/{len}"));
        let run = run_of(len);
        let keys = keys_of(&run, len);
        let ways: [(&str, Function); 3] = [
            ("none", Box::new(crc16)),
            ("scalar", Box::new(|key| crc16(hash_tag(key)))),
            ("fused", Box::new(|key| Tier::active().crc16_of_tag(key))),
        ];
        for (name, of) in ways {
            time(&mut group, name, &keys, Pace::Overlapping, &of);
        }
        group.finish();
    }
}

/// What the choice of the tier costs at each call.
fn dispatch(criterion: &mut Criterion) {
    let mut group = group(criterion, "dispatch/10");
    let run = run_of(10);
    let keys = keys_of(&run, 10);
    let tier = Tier::active();
    let ways: [(&str, Function); 2] = [
        ("tier_in_hand", Box::new(move |bytes| tier.crc16(bytes))),
        ("chosen_each_time", Box::new(crc16)),
    ];
    for (name, of) in ways {
        time(&mut group, &format!("{name}/throughput"), &keys, Pace::Overlapping, &of);
        time(&mut group, &format!("{name}/latency"), &keys, Pace::Chained, &of);
    }
    group.finish();
}

/// A key after a walk that evicts the first-level cache: subtract `walk_alone`.
fn cold(criterion: &mut Criterion) {
    let lines = vec![[1_u64; 8]; EVICT_LINES];
    for len in COLD {
        let mut group = group(criterion, &format!("cold/{len}"));
        let run = run_of(len);
        let keys = &keys_of(&run, len)[..32];
        group.throughput(Throughput::Elements(keys.len() as u64));
        let walk_alone: (String, Function) = ("walk_alone".to_owned(), Box::new(|_| 0));
        for (name, of) in checksums().into_iter().chain([walk_alone]) {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    black_box(keys).iter().fold(0, |sum, key| {
                        let walked = black_box(&lines).iter().fold(0, |sum, line| sum ^ line[0]);
                        sum ^ walked ^ u64::from(of(key))
                    })
                });
            });
        }
        group.finish();
    }
}

/// Buffers, beside the XOR of their words: what loading alone takes, as the compiler writes it.
fn long(criterion: &mut Criterion) {
    for len in LONG {
        let mut group = group(criterion, "long");
        let bytes = noise(len);
        group.throughput(Throughput::Bytes(len as u64)).sampling_mode(SamplingMode::Flat);
        let xor: (String, Function) = ("xor_of_words".to_owned(), Box::new(xor_of_words));
        for (name, of) in checksums().into_iter().chain([xor]) {
            group.bench_function(BenchmarkId::new(name, len), |bencher| {
                bencher.iter(|| of(black_box(&bytes)));
            });
        }
        group.finish();
    }
}

fn xor_of_words(bytes: &[u8]) -> u16 {
    let (blocks, _) = bytes.as_chunks::<64>();
    let sums = blocks.iter().fold([0_u64; 8], |mut sums, block| {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks().0) {
            *sum ^= u64::from_le_bytes(*word);
        }
        sums
    });
    let [low, high, ..] = sums.into_iter().fold(0, |all, sum| all ^ sum).to_le_bytes();
    u16::from_le_bytes([low, high])
}

criterion_group!(all, crc, slot, batch, scan, dispatch, cold, long);
criterion_main!(all);
