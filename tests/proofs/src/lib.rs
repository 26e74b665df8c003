//! Models, property tests and stress tests of slotkeep.

pub mod linearizability;
