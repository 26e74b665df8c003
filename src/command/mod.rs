//! Operations on a shard: what runs under a token, pure.
//!
//! An operation knows its keys and what it does to a shard; it knows no node, thread or clock.

mod closure;
mod expiry;
mod keyspace;
mod many;
mod number;
mod string;
mod transaction;

use thiserror::Error;

use crate::shard::Context;
use crate::shard::Key;
use crate::shard::Refusal;
use crate::shard::Shard;
use crate::shard::Value;
use crate::shard::Write;
use crate::shard::Writes;

pub use closure::Compute;
pub use expiry::Expiry;
pub use transaction::Transaction;

pub(crate) use closure::{ComputeEntry, Update, UpdateInPlace};
pub(crate) use expiry::{Deadline, Idle};
pub(crate) use keyspace::{Contains, GetDeadline, SetDeadline};
pub(crate) use many::{GetAll, RemoveAll, SetAll};
pub(crate) use number::{Append, Incr};
pub(crate) use string::{Condition, Get, Put, Remove, RemoveSame, Set, SetResult, Take};
pub(crate) use transaction::Transact;

/// Whether an operation may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// What runs on one shard under its token.
pub(crate) trait Operation<V: Value + ?Sized>: Sized {
    /// What it answers.
    type Output;

    /// Whether it may write.
    const ACCESS: Access;

    /// The keys it names, all of one slot.
    fn keys(&self) -> &[Key<'_>];

    /// Names the entries that it would make or change, and what they would weigh: room for all of
    /// them is asked for before it runs. What a closure decides asks while it runs.
    fn each_write<'o>(
        &'o self,
        shard: &Shard<V>,
        context: &Context<'_, V>,
        each: impl FnMut(Key<'o>, u64),
    ) {
        let (_, _, _) = (shard, context, each);
    }

    /// Whether a closure decides what is written under its keys.
    const DECIDES_LATE: bool = false;

    /// Runs. What it removes goes into `context.dropped`, which is freed when the token is back.
    fn run(self, shard: &mut Shard<V>, context: &mut Context<'_, V>) -> Self::Output;
}

/// Why an operation was refused. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The key is longer than [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX).
    #[error("a key of {bytes} bytes is too long")]
    KeyTooLong {
        /// The length of the key.
        bytes: usize,
    },
    /// The value is longer than [`VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX).
    #[error("a value of {bytes} bytes is too long")]
    ValueTooLong {
        /// The length of the value.
        bytes: usize,
    },
    /// The call names more keys than [`CALL_KEYS_MAX`](crate::limits::CALL_KEYS_MAX).
    #[error("a call that names {keys} keys names too many")]
    TooManyKeys {
        /// How many keys the call names.
        keys: usize,
    },
    /// An atomic call without a key has no slot to run in.
    #[error("the call names no key")]
    NoKeys,
    /// The value is not a decimal number that fits into 64 bits.
    #[error("the value is not an integer or out of range")]
    NotAnInteger,
    /// The sum does not fit into 64 bits.
    #[error("the increment would overflow")]
    Overflow,
    /// `update_in_place` met a handle that is still out.
    #[error("a handle to the value is still out")]
    Shared,
    /// A transaction touched a key that it did not declare.
    #[error("the transaction did not declare this key")]
    UndeclaredKey,
    /// There is no room, and nothing may be evicted.
    #[error("the node holds as much as it may")]
    OutOfMemory,
    /// One entry would take more than the whole bound.
    #[error("an entry of weight {weight} is too heavy for a bound of {bound}")]
    TooHeavy {
        /// What the entry would weigh.
        weight: u64,
        /// The bound.
        bound: u64,
    },
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full { .. } => Self::OutOfMemory,
            Refusal::TooHeavy { weight, bound } => Self::TooHeavy { weight, bound },
        }
    }
}

impl CommandError {
    /// What a Redis node would print for this error, without the leading `-`.
    pub fn redis_text(&self) -> String {
        match self {
            Self::NotAnInteger => "ERR value is not an integer or out of range".to_owned(),
            Self::Overflow => "ERR increment or decrement would overflow".to_owned(),
            Self::OutOfMemory => {
                "OOM command not allowed when used memory > 'maxmemory'.".to_owned()
            }
            Self::KeyTooLong { .. }
            | Self::ValueTooLong { .. }
            | Self::TooManyKeys { .. }
            | Self::NoKeys
            | Self::Shared
            | Self::UndeclaredKey
            | Self::TooHeavy { .. } => format!("ERR {self}"),
        }
    }
}

/// Asks for room for an entry of this weight, where room has to be asked for.
pub(crate) fn admit_write<V: Value + ?Sized>(
    shard: &Shard<V>,
    key: &Key<'_>,
    weight: u64,
    context: &Context<'_, V>,
) -> Result<(), CommandError> {
    let Some(room) = context.room else { return Ok(()) };
    let write = Write { key: *key, weight: Some(weight) };
    Ok(room.admit(shard, Writes::from_iter([write]))?)
}

/// Refuses a value that is longer than the bound.
pub(crate) fn check_value_bytes(bytes: usize) -> Result<(), CommandError> {
    if bytes > crate::limits::VALUE_BYTES_MAX {
        return Err(CommandError::ValueTooLong { bytes });
    }
    Ok(())
}
