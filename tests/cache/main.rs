//! The bounded cache: what its calls do, that it never holds more than its bound, what entries
//! weigh, what becomes of values that are dropped, and the public reports about caches.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

mod bounds;
mod calls;
mod cases;
mod drops;
mod finds;
mod hits;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod weights;

use support::Tested;

/// A value that does something when it is dropped, if it has something to do.
#[derive(Default)]
struct OnDrop(Option<Box<dyn Fn() + Send + Sync>>);

impl OnDrop {
    fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(act)))
    }

    /// One that counts while it is alive; with how many of them there are now.
    fn counted(alive: &Arc<AtomicUsize>) -> (Self, usize) {
        let count = alive.fetch_add(1, Ordering::Relaxed) + 1;
        let alive = Arc::clone(alive);
        let value = Self::new(move || {
            alive.fetch_sub(1, Ordering::Relaxed);
        });
        (value, count)
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(act) = &self.0 {
            act();
        }
    }
}
