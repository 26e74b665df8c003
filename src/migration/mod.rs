//! The state machine of a moving slot and the routing decision, pure.
//!
//! No thread, no lock, no clock: callers hold the tokens and pass facts.

mod error;
mod handover;
mod route;
mod setslot;
mod state;

pub use error::SetSlotError;
pub use route::{
    ClusterHealth, Down, Facts, Kind, Owner, Presence, Request, Route, Semantics, route,
};
pub use state::{MoveId, SlotState};

pub(crate) use handover::{hand_over, release, reserve};
pub(crate) use setslot::{
    Closed, Heard, Side, abort_begin, abort_end, check_batch, check_pull_back, flip, hear,
    importing, migrating, node_on_source, ordinary_move, stable,
};
