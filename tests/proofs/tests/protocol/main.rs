//! The counterexamples behind the rules of moves and epochs, each replayed hold by hold.
//!
//! Every test is one interleaving that an earlier wording of the rules answered wrongly.

mod aborts;
mod claims;
mod clients;
mod handovers;
mod keys;
mod marks;
mod pulls;
mod rig;
