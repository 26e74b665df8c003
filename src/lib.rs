//! `slotkeep`: an embeddable, sharded key-value engine with the hash slots of Redis Cluster.
//!
//! One process holds several nodes, which share out 16384 hash slots: byte for byte the slots of
//! Redis Cluster. Slots move between nodes while they serve: whole, at one instant, or key by key
//! by the state machine of Redis Cluster. A client follows MOVED and ASK by itself.
//!
//! Who wants a bounded cache and nothing else takes [`Cache`], a cluster of one node:
//!
//! ```
//! # fn main() -> Result<(), slotkeep::Error> {
//! let cache = slotkeep::Cache::<str>::new(10_000);
//! cache.insert("user:1000", "Ada")?;
//! assert_eq!(cache.get("user:1000")?.as_deref(), Some("Ada"));
//! # Ok(())
//! # }
//! ```
//!
//! And a cluster whose slots move while it serves:
//!
//! ```
//! use std::time::Duration;
//! use slotkeep::reshard::Reshard;
//! use slotkeep::{Cluster, SetOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::builder().nodes(3).build()?;
//! let client = cluster.client();
//! client.set("user:1000", b"Ada")?;
//! client.set_with("session:7", b"open", &SetOptions::new().expire_in(Duration::from_secs(60)))?;
//! client.mset([("{cart:7}:a", &b"1"[..]), ("{cart:7}:b", b"2")])?;
//! let node = cluster.add_node()?;
//! let report = Reshard::of(&cluster).join(node.id())?.run()?;
//! assert_eq!(report.slots_moved, 4096);
//! assert_eq!(client.get("user:1000")?.as_deref(), Some(&b"Ada"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! A call on one key is atomic and takes effect between its start and its return, also while its
//! slot moves; so is a call on several keys of one slot, which are pulled together while a move
//! splits them. Batches over many slots are atomic slot by slot. An expired key is never
//! returned. Handles hold no lock. The page [`guide`] has the whole of it.
//!
//! # Trade-offs
//!
//! - Every operation takes the token of its slot, reads too: calls on one hot slot wait for each
//!   other, calls on different slots do not.
//! - All data is in memory and ends with the process. Without a [bound](Builder::bound) nothing is
//!   evicted; with one, the call that writes makes room.
//! - A key costs 34 to 45 bytes besides its own bytes and its value's, before the allocator
//!   rounds: [the formula](guide#memory).
//! - [`Ownership::Strict`] runs every operation on the shard's worker, at the price of two thread
//!   switches a call.
//!
//! Bounds are in [`limits`].
//!
//! # Modules
//!
//! | module | holds |
//! |---|---|
//! | [`guide`] | what is guaranteed |
//! | [`cache_guide`] | [`Cache`]: what is exact, what it costs, and how to change over |
//! | [`slot`] | slots, hash tags, ranges and sets |
//! | [`migration`] | the states of a moving slot and the routing decision |
//! | [`reshard`] | plans, drivers of moves, resharding, pace, and what a check and a fix report |
//! | [`limits`] | every bound |
//! | [`crc16`] | the checksum behind slots |
//!
//! # Words
//!
//! | word | means |
//! |---|---|
//! | slot | one of 16384 parts of the keyspace |
//! | hash tag | the part of a key in braces, which alone is hashed |
//! | shard | the data of one slot in one node |
//! | token | the right to touch one shard; one thread has it at a time |
//! | worker | a thread that owns shards and lends their tokens |
//! | owner | the node to which a slot belongs |
//! | epoch | the version of an owner; the greater one wins |
//! | source, target | the nodes from which and to which a slot moves |
//! | handover | a slot changes its owner with everything in it at one instant; the default |
//! | classic move | the keys of a slot travel in batches, as in Redis Cluster |
//! | MOVED, ASK, TRYAGAIN | another node owns the slot; ask the target once; the keys are split |
//! | pull | the keys that a call names go to one side of a move, and the call runs there |
//!
//! # Features
//!
//! - `testing`: step mode without threads, a clock moved by hand, a bus that can be held, planted
//!   faults. For tests only: it adds checks to hot paths.
#![warn(missing_docs, unreachable_pub, unnameable_types)]
#![warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod cache;
#[doc = include_str!("cache.md")]
pub mod cache_guide {}
mod cluster;
mod command;
pub mod crc16;
mod error;
mod evict;
#[doc = include_str!("guide.md")]
pub mod guide {}
pub mod limits;
pub mod migration;
mod node;
pub mod reshard;
mod shard;
mod slab;
pub mod slot;
mod sync;
mod testing;
mod time;
mod topology;
mod worker;

pub use cache::{Cache, CacheBuilder};
pub use cluster::{
    Answer, Builder, Client, Cluster, Counters, Explanation, Hop, Iter, KeyAt, OwnerOf, Ownership,
    SetOptions, SetOutcome, SlotStats, StatsReport,
};
#[cfg(feature = "testing")]
pub use cluster::{BusControl, Steps};
pub use command::{CommandError, Compute, Expiry, Transaction};
pub use error::{BuildError, Error, Redirect, Refused};
pub use evict::{Policy, UnknownPolicy};
pub use migration::{MoveId, Semantics, SetSlotError, SlotState};
pub use node::{
    AbortStep, AdminError, AsRedis, Asking, BatchLimits, BatchResult, Bound, BumpEpoch, Claim,
    ClusterState, Conflict, HandedOver, HandoverId, HandoverPhase, HandoverRecord, HandoverStep,
    Holding, MigrateOptions, MovePhase, MoveRecord, Node, SetSlot,
};
pub use shard::{CloneValue, Handle, Stats, Value, pinned_bytes};
pub use slab::slab_bytes;
pub use slot::{
    SLOT_COUNT, Slot, SlotError, SlotRange, SlotSet, hash_tag, slot_of_pattern, slots_of,
};
#[cfg(feature = "testing")]
pub use testing::Fault;
pub use topology::{Epoch, NodeId, SlotMap, SlotOwner};
pub use worker::WorkerError;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
