//! `Shard`: the keys of one slot in one node. Only the holder of the slot's token touches it.

mod context;
mod counted;
mod dropped;
mod entry;
mod expire;
mod handle;
mod header;
mod hint;
mod key;
mod prefetch;
mod table;
mod transfer;
mod value;

pub use handle::Handle;
pub use value::{CloneValue, Value};

pub(crate) use context::Context;
pub(crate) use dropped::{Dropped, Garbage};
pub(crate) use entry::Entry;
pub(crate) use expire::Sweep;
pub(crate) use header::{Headers, Hold};
pub(crate) use key::{KEYS_INLINE, Key, KeyHasher, Keys};
pub(crate) use prefetch::prefetch_read;
pub(crate) use table::Shard;
pub(crate) use transfer::{Batch, Existing, Quota, Transfer, Travelled, drop_copies, transfer};
