//! Contests between stores that several threads call at once.

mod contest;
mod cpu;
mod seat;

pub use contest::Contestant;
pub use contest::Figure;
pub use contest::Pace;
pub use contest::Results;
pub use contest::contest;
pub use seat::Way;
pub use seat::batches;
pub use seat::newcomers;
pub use seat::singles;
