//! `Shard`: the keys of one slot in one node. Only the holder of the slot's token touches it.

mod entry;
mod expire;
mod handle;
mod header;
mod key;
mod prefetch;
mod table;
mod transfer;
mod value;

pub use handle::Handle;
pub use value::{CloneValue, Value};

pub(crate) use entry::Entry;
pub(crate) use expire::Sweep;
pub(crate) use header::{Body, Headers, Hold};
pub(crate) use key::{Key, KeyHasher};
pub(crate) use prefetch::prefetch_read;
pub(crate) use table::{Dropped, Garbage, Shard};
pub(crate) use transfer::{Batch, Existing, Quota, Transfer, Travelled, drop_copies, transfer};
