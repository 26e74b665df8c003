//! Handover: a slot changes its owner with everything in it at one instant, and a set of slots all
//! or nothing.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

mod sets;
mod setup;
mod slots;
