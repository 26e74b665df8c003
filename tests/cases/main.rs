//! Public bug reports of engines and clients like this one: each kind, with the right answer.
//!
//! Every test names the reports that it follows.

mod inspection;
mod life;
mod moves;
mod redirects;
mod setup;
mod split;
