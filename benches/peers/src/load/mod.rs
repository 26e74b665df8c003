//! What clients do: scripts of steps that are written down before anything is timed.

mod loops;
mod picks;
mod script;
mod step;

pub use loops::Tally;
pub use loops::Unwatched;
pub use loops::Watch;
pub use loops::in_batches;
pub use loops::one_by_one;
pub use picks::Picks;
pub use picks::Zipf;
pub use picks::zipf_table;
pub use script::Mix;
pub use script::Recipe;
pub use script::Script;
pub use script::Sizes;
pub use script::Walk;
pub use step::KEY_BYTES;
pub use step::Step;
pub use step::VALUE_BYTES_MEAN;
