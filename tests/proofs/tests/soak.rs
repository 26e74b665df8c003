//! A bounded cache that is written to for a long time takes no more memory than after a short time.
//!
//! Alone in its file, for a process of its own: the memory of the process is what is looked at.

use std::env;
use std::fs;
use std::thread;

use fastrand::Rng;
use slotkeep::{Cache, slab_bytes};

/// How many keys are written, each once; `SLOTKEEP_SOAK_INSERTS=50000000` asks for more.
const INSERTS: u64 = 300_000;

/// What the cache may hold, in bytes: some 45,000 entries. Eight times as much where as many keys
/// are written.
const BOUND: u64 = 8 << 20;

/// The values are as long as that, or shorter.
const VALUE_BYTES_MAX: usize = 240;

const THREADS: u64 = 2;

/// A block is written by all threads before memory is looked at.
const BLOCK: u64 = 10_000;

/// So many blocks fill the cache and all that grows with it, if a tenth of all are not more.
const WARM_UP_BLOCKS: u64 = 12;

/// How much more memory there may be at any time after the warm-up, in percent: how many entries
/// there are of each size goes up and down. And what the slab takes at once.
const GROWTH_PERCENT: u64 = 4;
const CHUNK_BYTES: u64 = 2 << 20;

/// The memory of the process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Nothing, where the system does not tell.
    resident: u64,
    slab: u64,
}

impl Memory {
    fn now() -> Self {
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        Self { resident: pages.unwrap_or(0) * 4096, slab: slab_bytes() as u64 }
    }
}

/// The value of a key says which it is.
fn value(serial: u64) -> ([u8; VALUE_BYTES_MAX], usize) {
    let mixed = serial.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut bytes = [7; VALUE_BYTES_MAX];
    bytes[..8].copy_from_slice(&mixed.to_be_bytes());
    let length = 8 + usize::try_from(mixed >> 32).expect("32 bits") % (VALUE_BYTES_MAX - 7);
    (bytes, length)
}

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The cache is full, and some of what came in lately is read or removed before its turn comes.
    Full,
    /// Each key is removed at once, so that the cache stays below its bound and nothing is evicted.
    Churn,
}

/// Writes the keys of one block that are one thread's.
fn write_block(cache: &Cache, (block, kind): (u64, Kind), thread: u64) {
    let first = block * BLOCK;
    let mut rng = Rng::with_seed(first + thread);
    for serial in (first + thread..first + BLOCK).step_by(usize::try_from(THREADS).expect("few")) {
        let (bytes, length) = value(serial);
        cache.insert(serial.to_be_bytes(), &bytes[..length]).expect("a write is served");
        if kind == Kind::Churn {
            cache.remove(serial.to_be_bytes()).expect("a removal is served");
            continue;
        }
        let recent = serial.saturating_sub(rng.u64(..2 * BLOCK));
        if rng.u8(..4) == 0 {
            cache.remove(recent.to_be_bytes()).expect("a removal is served");
        } else if let Some(got) = cache.get(recent.to_be_bytes()).expect("a read is served") {
            let (bytes, length) = value(recent);
            assert_eq!(*got, bytes[..length], "the value of another key");
        }
    }
}

#[track_caller]
fn check_growth(what: &str, warm: u64, largest: u64) {
    let most = warm + warm * GROWTH_PERCENT / 100 + CHUNK_BYTES;
    assert!(largest <= most, "{what}: {warm} bytes have grown to {largest}");
}

#[test]
fn a_cache_that_is_written_to_for_long_takes_no_more_memory() {
    let inserts = env::var("SLOTKEEP_SOAK_INSERTS");
    let inserts = inserts.map_or(INSERTS, |inserts| inserts.parse().expect("a number"));
    let blocks = inserts / BLOCK;
    let warm_up = WARM_UP_BLOCKS.max(blocks / 10);
    let bound = BOUND * (inserts / INSERTS).clamp(1, 8);
    let cache = Cache::<[u8]>::builder().max_weight(bound).build().expect("a cache");
    let (mut warm, mut largest) = (Memory::default(), Memory::default());
    for block in 0..blocks {
        // Nothing but churn at the end, where what it leaves behind would pile up.
        let is_churn = block % 2 == 1 || block > blocks * 2 / 5;
        let kind = if is_churn { Kind::Churn } else { Kind::Full };
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let cache = &cache;
                scope.spawn(move || write_block(cache, (block, kind), thread));
            }
        });
        let memory = Memory::now();
        if block < warm_up {
            warm = memory;
        }
        largest.resident = largest.resident.max(memory.resident);
        largest.slab = largest.slab.max(memory.slab);
        if block % (blocks / 15).max(1) == 0 || block + 1 == blocks {
            println!("after {} inserts: {memory:?}", (block + 1) * BLOCK);
        }
    }
    assert!(cache.len().expect("a count") > 10_000, "the cache was filled");
    check_growth("resident memory", warm.resident, largest.resident);
    check_growth("the slab", warm.slab, largest.slab);
    check_churn_beside_what_is_heavy(INSERTS.max(inserts / 10));
}

/// Keys that weigh little come and go, while nearly all of the weight is taken by one that stays:
/// what they leave behind is not measured by the bound.
#[track_caller]
fn check_churn_beside_what_is_heavy(inserts: u64) {
    let heavy = 1 << 40;
    let weigh = move |key: &[u8], _: &[u8]| if key == b"heavy" { heavy } else { 1 };
    let cache = Cache::<[u8]>::builder().max_weight(heavy + heavy / 100).weigher(weigh).build();
    let cache = cache.expect("a cache");
    cache.insert("heavy", b"").expect("a write is served");
    let mut warm = Memory::default();
    for serial in 0..inserts {
        cache.insert(serial.to_be_bytes(), b"").expect("a write is served");
        cache.remove(serial.to_be_bytes()).expect("a removal is served");
        if serial == inserts / 10 {
            warm = Memory::now();
        }
    }
    let end = Memory::now();
    println!("{warm:?} before, {end:?} after {inserts} keys beside a heavy one");
    check_growth("resident memory beside a heavy entry", warm.resident, end.resident);
}
