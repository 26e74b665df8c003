//! An exhaustive search over the protocol of moves: everything that can happen, in every order.
//!
//! The transitions and the routing decision are the engine's own files, included as they are. The
//! model adds what their callers in `src/node` and `src/cluster` do around them: one action is one
//! hold of one or two tokens, and each says which function it stands for.
//!
//! There is one slot with two keys, on two to four nodes, and up to two clients with their own
//! maps, which may be slow between any two holds. Any verb may be given to any node at any time, so
//! drivers die at any step, overtake each other and come late. Claims are held, reordered and lost,
//! and deadlines pass when they like.
//!
//! The states are finitely many, and no history is among them: epochs matter by their order, ids by
//! who carries them, and a value by whether it is the one that was acknowledged last. States that
//! differ by the names of nodes, keys or clients are one.
//!
//! A step that names a move is the same step without the name, or is refused: verbs are tried
//! without it; batches and aborts, which always name one, with the one that is marked there and
//! with one that has ended. A repair is a row of such steps, whoever takes them, and it is tried in
//! every state.
//!
//! What the model leaves out, and other tests look at: threads, mailboxes and the order in which
//! two tokens are taken; claims to a slot that is not the receiver's, which need no token,
//! overtaking a hold; reservations and gates of several slots; transactions and closures; eviction;
//! COPY; replicas; clients that share a map. Neither are `claim_slot` and `reclaim`, which repair
//! what only verbs as in Redis leave, for these are not in the model; `tests/repair.rs` tries them
//! on whatever such verbs make, in random order, so it proves less than a search would.

mod action;
mod admin;
mod breadth;
mod bus;
mod calls;
mod candidates;
mod handover;
mod kind;
mod pack;
mod repairs;
mod rules;
mod setup;
mod slots;
mod symmetry;
mod time;
mod travel;
mod verbs;
mod violation;
mod wording;
mod world;
mod wrong;

#[expect(dead_code, unused_imports, reason = "the model uses a part of it")]
#[path = "../../../../src/migration/mod.rs"]
pub(crate) mod migration;

pub use breadth::Report;
pub use breadth::Trace;
pub use breadth::search;
pub use kind::Kind;
pub use kind::Kinds;
pub use migration::Semantics;
pub use setup::Gate;
pub use setup::Setup;
pub use wording::Wording;
