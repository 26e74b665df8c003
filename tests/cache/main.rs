//! The bounded cache: what its calls do, that it never holds more than its bound, what entries
//! weigh, and the public reports about caches.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

mod bounds;
mod calls;
mod cases;
mod hits;
mod weights;

type Tested = Result<(), slotkeep::Error>;

/// A value that does something when it is dropped, if it has something to do.
#[derive(Default)]
struct OnDrop(Option<Box<dyn Fn() + Send + Sync>>);

impl OnDrop {
    fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(act)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(act) = &self.0 {
            act();
        }
    }
}
