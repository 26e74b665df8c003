//! `Hands`: where a node's evictions have come to in their walks over its slots.

use crate::limits::EVICT_HANDS;
use crate::sync::CachePadded;
use crate::sync::Mutex;
use crate::sync::MutexGuard;
use crate::sync::number_of_this_thread;

/// Threads use different ones, so that they need not wait.
///
/// The locks are never taken under a token.
#[derive(Debug)]
pub(super) struct Hands<H>([CachePadded<Mutex<H>>; EVICT_HANDS]);

impl<H: Copy> Hands<H> {
    /// All of them at one place.
    pub(super) fn all_at(place: H) -> Self {
        Self(std::array::from_fn(|_| CachePadded::new(Mutex::new(place))))
    }

    /// A hand that nobody else turns: this thread's, if that is free.
    pub(super) fn take(&self) -> MutexGuard<'_, H> {
        let own = number_of_this_thread();
        let hand_at = |offset: usize| &self.0[(own + offset) % EVICT_HANDS];
        let free = (0..EVICT_HANDS).find_map(|offset| hand_at(offset).try_lock());
        free.unwrap_or_else(|| hand_at(0).lock())
    }
}
