//! `Shard`: the keys of one slot in one node. Only the holder of the slot's token touches it.

mod budget;
mod context;
mod counted;
mod dropped;
mod entry;
mod evict;
mod expire;
mod handle;
mod header;
mod hint;
mod kept;
mod key;
mod overwrite;
mod pinned;
mod prefetch;
mod room;
mod sample;
mod sizing;
mod stats;
mod table;
mod tally;
mod terms;
mod transfer;
mod value;

pub use handle::Handle;
pub use pinned::pinned_bytes;
pub use stats::Stats;
pub use value::{CloneValue, Value};

pub(crate) use budget::{AtBound, Budget, Unit};
pub(crate) use context::Context;
pub(crate) use dropped::{Dropped, Garbage};
pub(crate) use entry::Entry;
pub(crate) use evict::{Decided, Turn};
pub(crate) use expire::Sweep;
pub(crate) use header::{Bare, Headers, Hold};
pub(crate) use kept::Kept;
pub(crate) use key::{KEYS_INLINE, Key, KeyHasher, Keys};
pub(crate) use prefetch::prefetch_read;
pub(crate) use room::{Refusal, Room, Write, Writes};
pub(crate) use sample::{Candidate, Samples, Walk};
pub(crate) use table::Shard;
pub(crate) use terms::Terms;
pub(crate) use transfer::{Batch, Existing, Quota, Transfer, Travelled, drop_copies, transfer};
