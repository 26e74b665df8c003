//! `Error`: the umbrella over the floors' own errors, and `Refused`, which hands a value back.

use std::fmt;

use thiserror::Error as ThisError;

use crate::command::CommandError;
use crate::migration::Down;
use crate::migration::MoveId;
use crate::node::AdminError;
use crate::slot::Slot;
use crate::slot::SlotError;
use crate::topology::NodeId;
use crate::worker::WorkerError;

/// Why a call failed. A call that fails had no effect; a batch over many slots may have done some
/// of its slots, and says so.
///
/// | error | was it applied? | what to do |
/// |---|---|---|
/// | `Busy` | no | retry later: a token is taken, a mailbox full, or a call in the gate |
/// | `Closed` | no | stop |
/// | `Reentrant` | no | fix the call: no closure under a token may call, no worker may wait |
/// | `CrossSlot` | no | fix the call: give the keys one hash tag |
/// | `Redirected` | no | ask the node that it names; only calls by [`Client::at`] answer it |
/// | `TryAgain` | no | retry later ([`Client::waiting`] does), or have the keys pulled together |
/// | `ClusterDown` | no | retry later: the slot has no owner, or the node does not serve |
/// | `TooManyRedirects` | no | look at the named nodes: their views contradict each other |
/// | `KeyTooLong`, `ValueTooLong` | no | fix the call ([`limits`](crate::limits)) |
/// | `TooManyKeys`, `NoKeys` | no | fix the call |
/// | `NotAnInteger`, `Overflow` | no | fix the call, or the value |
/// | `Shared` | no | drop the handles, or use `update` |
/// | `UndeclaredKey` | no | fix the call: name the key up front |
/// | `OutOfMemory` | no | remove something, or bound the node by another [`Policy`] |
/// | `TooHeavy` | no, but `update_in_place` removes | fix the call, or the bound |
/// | `Admin` | no | the [`AdminError`] says |
/// | `Slot` | no | fix the slot, range or set |
/// | `Build` | no | fix the builder's options |
///
/// [`Client::at`]: crate::Client::at
/// [`Client::waiting`]: crate::Client::waiting
/// [`Policy`]: crate::Policy
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The token is taken or the mailbox is full, and the call was not to wait.
    #[error("busy")]
    Busy,
    /// The cluster was shut down.
    #[error("the cluster is closed")]
    Closed,
    /// The calling thread holds a token, or is a worker that would wait for a worker.
    #[error("called from inside a closure that must not wait")]
    Reentrant,
    /// The keys hash to different slots.
    #[error("keys do not hash to the same slot")]
    CrossSlot,
    /// The node that was asked does not serve the call. Answered only to calls by
    /// [`Client::at`](crate::Client::at), which follow nothing.
    #[error("{0}")]
    Redirected(Redirect),
    /// The keys are split between the two sides of a move. Answered only to clients of
    /// [`Semantics::Redis`](crate::Semantics): for others the keys are pulled together.
    #[error("the keys of slot {slot} are split by a move")]
    TryAgain {
        /// The slot.
        slot: Slot,
    },
    /// The cluster does not serve the slot.
    #[error("slot {slot} is not served")]
    ClusterDown {
        /// The slot.
        slot: Slot,
        /// Why.
        reason: Down,
    },
    /// The nodes sent the call to and fro.
    #[error("{redirects} redirects for slot {slot}, the last from {from} to {to}")]
    TooManyRedirects {
        /// The slot.
        slot: Slot,
        /// The node that answered last.
        from: NodeId,
        /// The node that it named.
        to: NodeId,
        /// How many redirects there were.
        redirects: u32,
    },
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
    /// The call names more keys than [`CALL_KEYS_MAX`](crate::limits::CALL_KEYS_MAX), or the batch
    /// than [`BATCH_KEYS_MAX`](crate::limits::BATCH_KEYS_MAX).
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
    /// A handle to the value is still out.
    #[error("a handle to the value is still out")]
    Shared,
    /// A transaction touched a key that it did not declare.
    #[error("the transaction did not declare this key")]
    UndeclaredKey,
    /// The node holds as much as it may, and its [`Policy`](crate::Policy) lets it evict nothing.
    #[error("the node holds as much as it may")]
    OutOfMemory,
    /// One entry would take more than the whole bound; what is there stays.
    #[error("an entry of weight {weight} is too heavy for a bound of {bound}")]
    TooHeavy {
        /// What the entry would weigh.
        weight: u64,
        /// The bound.
        bound: u64,
    },
    /// An admin verb was refused.
    #[error(transparent)]
    Admin(AdminError),
    /// A slot, range or set is not valid.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The builder's options are out of bounds.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Where a node sends a call that it does not serve.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ThisError)]
pub enum Redirect {
    /// To the owner of the slot, as the node sees it.
    #[error("slot {slot} belongs to {owner}")]
    Moved {
        /// The slot.
        slot: Slot,
        /// The owner.
        owner: NodeId,
    },
    /// To the target of a move, once, with ASKING.
    #[error("slot {slot} moves to {target}, move {id}")]
    Ask {
        /// The slot.
        slot: Slot,
        /// The target.
        target: NodeId,
        /// The move, which ASKING has to name.
        id: MoveId,
    },
}

impl Redirect {
    /// The node to ask.
    pub const fn node(self) -> NodeId {
        match self {
            Self::Moved { owner, .. } => owner,
            Self::Ask { target, .. } => target,
        }
    }

    /// What a Redis node would print, without the leading `-`. `endpoint` is what follows the slot:
    /// the host and the port of [`node`](Self::node), with a colon between them.
    pub fn redis_text(self, endpoint: &str) -> String {
        match self {
            Self::Moved { slot, .. } => format!("MOVED {slot} {endpoint}"),
            Self::Ask { slot, .. } => format!("ASK {slot} {endpoint}"),
        }
    }
}

/// Which option of the builder is out of bounds. Nothing was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[non_exhaustive]
pub enum BuildError {
    /// No node, or more than [`NODES_MAX`](crate::limits::NODES_MAX).
    #[error("a cluster of {count} nodes is out of bounds")]
    Nodes {
        /// How many nodes were asked for.
        count: usize,
    },
    /// No worker, or more than [`WORKERS_MAX`](crate::limits::WORKERS_MAX).
    #[error("{count} workers are out of bounds")]
    Workers {
        /// How many workers were asked for.
        count: usize,
    },
    /// No room, or more than [`MAILBOX_JOBS_MAX`](crate::limits::MAILBOX_JOBS_MAX).
    #[error("a mailbox of {jobs} jobs is out of bounds")]
    Mailbox {
        /// How many jobs were asked for.
        jobs: usize,
    },
}

impl Error {
    /// What a Redis node or client would print for this error, without the leading `-`.
    ///
    /// Nodes of one process have no address: a redirect names no host, which to clients of Redis
    /// means the same one, and the index of the node for the port. [`Redirect::redis_text`] takes
    /// another endpoint.
    #[expect(clippy::wildcard_enum_match_arm, reason = "what Redis does not know prints itself")]
    pub fn redis_text(&self) -> String {
        match self {
            Self::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".to_owned(),
            Self::Redirected(redirect) => {
                redirect.redis_text(&format!(":{}", redirect.node().index()))
            }
            Self::TryAgain { .. } => {
                "TRYAGAIN Multiple keys request during rehashing of slot".to_owned()
            }
            Self::ClusterDown { reason, .. } => match reason {
                Down::SlotNotServed => "CLUSTERDOWN Hash slot not served".to_owned(),
                Down::Cluster => "CLUSTERDOWN The cluster is down".to_owned(),
                Down::ReadOnly => {
                    "CLUSTERDOWN The cluster is down and only accepts read commands".to_owned()
                }
            },
            Self::NotAnInteger => CommandError::NotAnInteger.redis_text(),
            Self::Overflow => CommandError::Overflow.redis_text(),
            Self::OutOfMemory => CommandError::OutOfMemory.redis_text(),
            Self::Admin(error) => error.redis_text(),
            Self::Slot(error) => slot_text(error),
            _ => format!("ERR {self}"),
        }
    }
}

/// The texts that Redis has for slots and ranges that are none.
fn slot_text(error: &SlotError) -> String {
    match error {
        SlotError::OutOfRange { .. } | SlotError::NotANumber => {
            "ERR Invalid or out of range slot".to_owned()
        }
        SlotError::Reversed { start, end } => {
            format!("ERR start slot number {start} is greater than end slot number {end}")
        }
        SlotError::ListedTwice { slot } => format!("ERR Slot {slot} specified multiple times"),
        SlotError::LengthMismatch { .. } => format!("ERR {error}"),
    }
}

impl From<WorkerError> for Error {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Busy => Self::Busy,
            WorkerError::Closed => Self::Closed,
            WorkerError::Reentrant => Self::Reentrant,
        }
    }
}

impl From<CommandError> for Error {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::KeyTooLong { bytes } => Self::KeyTooLong { bytes },
            CommandError::ValueTooLong { bytes } => Self::ValueTooLong { bytes },
            CommandError::TooManyKeys { keys } => Self::TooManyKeys { keys },
            CommandError::NoKeys => Self::NoKeys,
            CommandError::NotAnInteger => Self::NotAnInteger,
            CommandError::Overflow => Self::Overflow,
            CommandError::Shared => Self::Shared,
            CommandError::UndeclaredKey => Self::UndeclaredKey,
            CommandError::OutOfMemory => Self::OutOfMemory,
            CommandError::TooHeavy { weight, bound } => Self::TooHeavy { weight, bound },
        }
    }
}

impl From<AdminError> for Error {
    #[expect(clippy::wildcard_enum_match_arm, reason = "one variant is lifted out of its wrapping")]
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Worker(error) => error.into(),
            error => Self::Admin(error),
        }
    }
}

/// A call that took a sized value and did not apply it hands the value back. Of `[u8]` and `str`
/// the caller has the bytes, so `value` is `()`.
///
/// Converts into [`Error`], so that `?` drops the value where it is not wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<S> {
    /// Why.
    pub error: Error,
    /// What was not written.
    pub value: S,
}

impl<S> From<Refused<S>> for Error {
    fn from(refused: Refused<S>) -> Self {
        refused.error
    }
}

impl<S> fmt::Debug for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<S> fmt::Display for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> std::error::Error for Refused<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
