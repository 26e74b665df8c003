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
use crate::shard::Shard;
use crate::shard::Value;

pub use closure::Compute;
pub use expiry::Expiry;
pub use transaction::Transaction;

pub(crate) use closure::{ComputeEntry, Update, UpdateInPlace};
pub(crate) use expiry::Deadline;
pub(crate) use keyspace::{Contains, GetDeadline, SetDeadline};
pub(crate) use many::{GetAll, RemoveAll, SetAll};
pub(crate) use number::{Append, Incr};
pub(crate) use string::{Condition, Get, Put, Remove, Set, SetResult, Take};
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
}

impl CommandError {
    /// What a Redis node would print for this error, without the leading `-`.
    pub fn redis_text(&self) -> String {
        match self {
            Self::NotAnInteger => "ERR value is not an integer or out of range".to_owned(),
            Self::Overflow => "ERR increment or decrement would overflow".to_owned(),
            Self::KeyTooLong { .. }
            | Self::ValueTooLong { .. }
            | Self::TooManyKeys { .. }
            | Self::NoKeys
            | Self::Shared
            | Self::UndeclaredKey => format!("ERR {self}"),
        }
    }
}

/// Refuses a value that is longer than the bound.
pub(crate) fn check_value_bytes(bytes: usize) -> Result<(), CommandError> {
    if bytes > crate::limits::VALUE_BYTES_MAX {
        return Err(CommandError::ValueTooLong { bytes });
    }
    Ok(())
}
