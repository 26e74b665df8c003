//! The order in which entries are evicted, apart from the entries.
//!
//! The adaptive policy:
//!
//! - New keys enter the *window*, a queue of [`WINDOW_PERCENT`] of the room. At its head an entry
//!   that was hit since becomes a main entry where it stands; another one is evicted, and the
//!   *ghost* remembers its hash.
//! - *Main* entries stand in no queue, only in their shards, so that a whole shard changes hands in
//!   constant time. A *hand* walks over the slots and takes a mark off each entry that it meets; it
//!   evicts the first that has none.
//! - A key that the ghost remembers becomes a main entry at once. So does every new one until
//!   something is evicted for the first time, as far as main has room: what a loop needs.
//! - When most of the marks that a hand meets are stale, as after a change of phase, entries that
//!   were not hit since its last turn go at once, and before those of the window.
//!
//! This is S3-FIFO (Yang and others, SOSP 2023) with a clock for its main queue.
//!
//! The policies of Redis keep no order at all: a few neighbouring entries are samples, and one of
//! them goes by what a hit has left in its head, which is a tick of the node ([`Ticks`]) or a
//! counter ([`Frequency`]), or by its deadline.

mod entrants;
mod frequency;
mod ghost;
mod hit;
mod judge;
mod policy;
mod staleness;
mod standing;
mod ticks;
mod window;

pub use policy::{Policy, UnknownPolicy};

pub(crate) use entrants::Entrants;
pub(crate) use frequency::Frequency;
pub(crate) use ghost::Ghost;
pub(crate) use hit::Hit;
pub(crate) use judge::{By, Choice, Judge};
pub(crate) use staleness::Staleness;
pub(crate) use standing::{Entrance, Standing};
pub(crate) use ticks::Ticks;
pub(crate) use window::{Ticket, Window};

/// The window's share of the room, in percent. Between 3 and 7 hit ratios differ by a tenth.
pub(crate) const WINDOW_PERCENT: u64 = 5;

/// Fingerprints of the ghost for every two entries that the room may have.
pub(crate) const GHOSTS_FOR_TWO: u64 = 3;

/// Where stale entries go first, they do so while main takes more than this part of the room, in
/// percent.
pub(crate) const STALE_MAIN_PERCENT: u64 = 50;

/// Whether `part` is more than so many hundredths of `whole`.
pub(crate) fn is_more_than(part: u64, percent: u64, whole: u64) -> bool {
    u128::from(part) * 100 > u128::from(whole) * u128::from(percent)
}
