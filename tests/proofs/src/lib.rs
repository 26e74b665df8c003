//! Models, property tests and stress tests of slotkeep.

pub mod linearizability;
pub mod model;
// Not in unit tests of this crate: the included sources bring their own, for the real locks.
#[cfg(not(test))]
pub mod search;
#[cfg(not(test))]
pub mod shuttled;
pub mod stress;

// Where the included sources look for what they import.
#[cfg(not(test))]
use search::migration;
#[cfg(not(test))]
use shuttled::{limits, slot, sync, time, topology};
