//! The order in which entries are evicted, apart from the entries.
//!
//! The adaptive policy:
//!
//! - New keys enter the *window*, a queue. At its head an entry that was hit since becomes a main
//!   entry where it stands; another one is evicted, and the *ghost* remembers its hash.
//! - *Main* entries stand in no queue, only in their shards, so that a whole shard changes hands in
//!   constant time. A *hand* walks over the slots and takes a mark off each entry that it meets; it
//!   evicts the first that has none.
//! - A key that the window has lost, as the ghost remembers, becomes a main entry at once. So does
//!   every new one until something is evicted for the first time, as far as main has room: what a
//!   loop needs.
//! - Not so in a [`Drought`], while the window loses one entry after the other and finds none to
//!   keep, as in a loop: what comes back then is worth no more than what would have to go for it.
//!   It becomes a main entry only where there is room, where the window gives way for it, or where
//!   one of the next [`RETURN_LOOKS`] main entries has no mark.
//! - The window begins with [`WINDOW_PERCENT`] of the room. Its share grows by a step when a key
//!   comes back that it has just lost, and shrinks by one when main has just lost it: so much would
//!   a little more room have been worth on either side.
//! - While only the window loses entries, nothing tells whether the main ones are still in use. So
//!   for every [`WINDOW_STREAK`] of them a hand looks at one main entry, and if that was not hit
//!   since the last look, the head of the window takes its place, hit or not.
//!
//! This is S3-FIFO (Yang and others, SOSP 2023) with a clock for its main queue and a window that
//! learns its size as the two sides of ARC do (Megiddo and Modha, FAST 2003), but from what is lost
//! at the margin alone.
//!
//! The policies of Redis keep no order at all: a few neighbouring entries are samples, and one of
//! them goes by what a hit has left in its head, which is a tick of the node ([`Ticks`]) or a
//! counter ([`Frequency`]), or by its deadline.

mod drought;
mod entrants;
mod frequency;
mod ghost;
mod hit;
mod judge;
mod past;
mod policy;
mod queue;
mod search;
mod share;
mod standing;
mod ticks;
mod window;

pub use policy::{Policy, UnknownPolicy};

pub(crate) use drought::Drought;
pub(crate) use entrants::Entrants;
pub(crate) use frequency::Frequency;
pub(crate) use ghost::Ghost;
pub(crate) use hit::Hit;
pub(crate) use judge::{By, Choice, Judge};
pub(crate) use past::Past;
pub(crate) use search::Search;
pub(crate) use standing::{Entrance, Standing};
pub(crate) use ticks::Ticks;
pub(crate) use window::{Ticket, Window};

/// The window's share of the room to begin with, in percent.
pub(crate) const WINDOW_PERCENT: u64 = 5;

/// Fingerprints of the ghost for every two entries that the room may have.
const GHOSTS_FOR_TWO: u64 = 3;

/// So many entries of the window are decided about in a row before a hand looks at a main entry.
/// Main entries that are hit at least once in so many rounds of the window's losses through the
/// room stay: those of loops up to about as many times as long as the room, if nothing comes back.
pub(crate) const WINDOW_STREAK: u32 = 32;

/// So many main entries are looked at in a drought for one that has no mark, when a key comes back.
pub(crate) const RETURN_LOOKS: u32 = 2;

/// Whether `part` is more than so many hundredths of `whole`.
pub(crate) fn is_more_than(part: u64, percent: u64, whole: u64) -> bool {
    u128::from(part) * 100 > u128::from(whole) * u128::from(percent)
}
