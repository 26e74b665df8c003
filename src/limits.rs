//! Every bound of the engine, in one place.

use std::time::Duration;

/// The longest key, in bytes. An entry keeps the length in 16 bits.
pub const KEY_BYTES_MAX: usize = 65_535;

/// The longest `[u8]` or `str` value, in bytes: 512 MiB, as in Redis.
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// The most nodes of one cluster.
pub const NODES_MAX: usize = 4096;

/// The most workers of one node, and of one pool that nodes share.
pub const WORKERS_MAX: usize = 256;

/// How many jobs wait in a worker's mailbox when the builder says nothing.
pub const MAILBOX_JOBS_DEFAULT: usize = 1024;

/// The longest mailbox that the builder accepts, in jobs.
pub const MAILBOX_JOBS_MAX: usize = 1 << 20;

/// The most keys that one atomic call (`mget`, `mset`, `remove_all`, `transaction`) names.
pub const CALL_KEYS_MAX: usize = 65_536;

/// The most keys that one batch over any slots (`get_many`, `set_many`, `remove_many`) names.
pub const BATCH_KEYS_MAX: usize = 1 << 22;

/// How many keys one migration batch moves when the caller says nothing.
pub const MIGRATE_KEYS_DEFAULT: usize = 64;

/// The most keys that one migration batch moves; it bounds how long both tokens are held.
pub const MIGRATE_KEYS_MAX: usize = 4096;

/// How many buckets of a table one migration batch looks at, in search of keys: with
/// [`MIGRATE_KEYS_MAX`] it bounds how long both tokens are held when many keys have expired.
pub const MIGRATE_BUCKETS: usize = 8192;

/// How many entries of a migration batch travel between two looks at the clock, when the time of a
/// hold is bounded.
pub const MIGRATE_CHUNK_KEYS: usize = 32;

/// The shortest bound on the time of a hold that a batch accepts.
pub const HOLD_TIME_MIN: Duration = Duration::from_micros(1);

/// The longest bound on the time of a hold that a batch accepts.
pub const HOLD_TIME_MAX: Duration = Duration::from_secs(1);

/// The highest rate of a [`Pace`](crate::reshard::Pace), in keys or bytes a second.
pub const PACE_PER_SECOND_MAX: u64 = 1 << 40;

/// How much of a rate one batch takes at most, as time: a pace of 1000 keys a second sends 50 keys
/// at once. One key always travels.
pub const PACE_BATCH_TIME: Duration = Duration::from_millis(50);

/// How far a driver that came late may catch up with its rate.
pub const PACE_BURST: Duration = Duration::from_millis(10);

/// After how many redirects a call enters its slot's gate.
pub const REDIRECTS_BEFORE_GATE: u32 = 4;

/// The most redirects of one call, beyond one for each node of the cluster.
pub const REDIRECTS_MAX: u32 = 16;

/// How often a call of [`Semantics::Redis`](crate::Semantics) repeats after `TRYAGAIN` before it
/// returns the error.
pub const TRY_AGAIN_RETRIES: u32 = 5;

/// The longest pause between two tries of a client that waits out `TRYAGAIN`.
pub const BACKOFF_MAX: Duration = Duration::from_millis(1);

/// How many slots of a batch are asked for together, and how many free tokens it holds at once.
pub const BATCH_WINDOW: usize = 8;

/// How many keys of one slot a batch looks up beside held tokens of other slots. More of them are
/// looked up when no other token is held, so that one slot's keys do not hold up another slot.
pub const WINDOW_KEYS_MAX: usize = 64;

/// How many buckets one hold of an expiry sweep looks at.
pub const SWEEP_BUCKETS: usize = 512;

/// The shortest time between two sweeps of one shard. A key whose deadline has passed is never
/// returned; its memory may stay for this long, and a nanosecond longer for each bucket of the
/// shard's table, times [`SWEEP_NANOS_PER_BUCKET`].
pub const SWEEP_PAUSE: Duration = Duration::from_millis(100);

/// What a sweep of a large shard adds to [`SWEEP_PAUSE`] for each bucket, so that sweeping never
/// takes more than a few hundredths of a worker's time.
pub const SWEEP_NANOS_PER_BUCKET: u64 = 200;

/// The most that one entry weighs, whatever a weigher says: 2^40, of bytes a TiB.
pub const WEIGHT_MAX: u64 = 1 << 40;

/// The greatest bound by weight; a greater one counts as this. 2^50, so that sums of weights fit
/// into 64 bits: those of [`NODES_MAX`] full nodes, and of what is written while room is made.
pub const BOUND_WEIGHT_MAX: u64 = 1 << 50;

/// How many buckets one hold of an eviction looks at, in search of an entry that may go.
pub const EVICT_BUCKETS: usize = 512;

/// A table with more buckets is not halved when evictions have left it sparse, so that a hold
/// hashes a third as many keys again at most. (One that grows hashes all, however many.)
pub const SHRINK_BUCKETS_MAX: usize = 8192;

/// How many threads of one node look for entries to evict without waiting for each other.
pub const EVICT_HANDS: usize = 16;

/// How often an eviction goes round all slots, in search of an entry that was not hit meanwhile,
/// before it takes any.
pub const EVICT_ROUNDS_MAX: u32 = 6;

/// From how many bounded nodes one thread evicts at once: a value that is evicted may write into
/// another node when it is dropped, what goes there into a third one, and so on. A write that comes
/// deeper leaves its node beyond the bound until the next one.
pub const EVICTING_PLACES_MAX: usize = 8;

/// How many tickets of new entries a node that is at its bound may keep without a search for those
/// whose entries are gone; beyond that, it searches whenever they have doubled.
pub const TICKETS_UNSEARCHED: usize = 64;

/// How many slots an eviction by samples looks at, once it has met an entry that may go.
pub const SAMPLED_SLOTS: usize = 1024;

/// How often a write has room made for it that others are faster to take, before it is refused.
pub const MAKE_ROOM_TRIES: u32 = 64;

/// For a value of how many bytes room is made before a closure has made it, where writes are
/// refused that nothing can be evicted for. A value that is there may get twice as long.
pub const CLOSURE_VALUE_BYTES: usize = 512;

/// The most fingerprints of keys that its window lost that a node keeps, of two bytes each; of main
/// entries it keeps a seventh as many on top.
pub const GHOST_FINGERPRINTS_MAX: usize = 1 << 28;

/// How many ended moves the cluster remembers.
pub const MOVES_KEPT_MAX: usize = 1024;

/// The most handovers of sets of slots that are open at once, those of drivers that died included.
pub const HANDOVERS_OPEN_MAX: usize = 256;

/// How many ended handovers of sets of slots the cluster remembers, for drivers that come late.
pub const HANDOVERS_KEPT_MAX: usize = 1024;

/// How many claims that contradict an owner a node keeps for inspection.
pub const CONFLICTS_KEPT_MAX: usize = 1024;

/// How many findings and repairs a check or a fix lists one by one; more are counted.
pub const CHECK_FINDINGS_MAX: usize = 65_536;

/// How often a check looks at a slot of which something is to be said, until two looks agree.
pub const CHECK_LOOKS_MAX: u32 = 4;

/// How many repairs a fix tries in one slot before it leaves the rest, beyond four for each node.
pub const FIX_ROUNDS_MAX: u32 = 64;

/// How many messages the bus holds for a test before it delivers the oldest by itself.
pub const BUS_HELD_MAX: usize = 1 << 20;

/// How many hops the trace of one call keeps.
pub const TRACE_HOPS_MAX: usize = 4096;

/// The largest entry that the slab serves, in bytes; larger ones come from the global allocator.
pub const SLAB_BYTES_MAX: usize = 4096;

/// In how many stripes the threads of a process share the slab at most, so that they seldom wait
/// for each other; twice as many as run at once are enough.
pub const SLAB_STRIPES: usize = 16;
