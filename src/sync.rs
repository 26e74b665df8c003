//! The only door to locks, atomics and threads.
#![expect(unsafe_code, reason = "a token is unlocked through parking_lot's raw mutex")]

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use std::sync::{Arc, OnceLock};
pub(crate) use std::thread::JoinHandle;

pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

use std::cell::Cell;
use std::io;
use std::thread::Builder;

use parking_lot::lock_api::RawMutex as _;

use crate::limits::EVICTING_PLACES_MAX;

/// After how many pauses of the processor a thread looks again at a token that it found taken. A
/// pause takes 10 to 45 ns, by processor: the first wait is that for a short hold, and all of them
/// together are some microseconds, less than to park and to be woken.
const TOKEN_PAUSES: [u32; 3] = [16, 64, 128];

/// The right to touch one shard: one byte, eventually fair, parks its waiters.
///
/// All zero bytes are a free token, so that a page of untouched headers needs no start-up work.
#[repr(transparent)]
pub(crate) struct Token(parking_lot::RawMutex);

impl Token {
    /// A token that nobody holds.
    #[cfg(test)]
    pub(crate) const fn new() -> Self {
        Self(parking_lot::RawMutex::INIT)
    }

    /// Waits until the token is free and takes it.
    #[inline]
    pub(crate) fn lock(&self) {
        if !self.0.try_lock() {
            self.lock_taken();
        }
    }

    /// Leaves a token that is taken alone for a while, and longer each time: whoever has it mostly
    /// wants it again soon, and works faster when nobody takes its cache lines away to look at
    /// them. What stays taken is waited for as long as it takes, parked in the end.
    #[cold]
    fn lock_taken(&self) {
        for pauses in TOKEN_PAUSES {
            (0..pauses).for_each(|_| std::hint::spin_loop());
            if self.0.try_lock() {
                return;
            }
        }
        self.0.lock();
    }

    /// Takes the token if it is free.
    #[inline]
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    /// Gives the token back.
    ///
    /// # Safety
    /// - The calling thread holds this token.
    #[inline]
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: guaranteed by caller: this thread holds the token.
        unsafe { self.0.unlock() }
    }
}

thread_local! {
    /// Whether a caller's closure runs on this thread under a token.
    static IN_CLOSURE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a caller's closure under a token, of whatever cluster.
#[inline]
pub(crate) fn holds_token() -> bool {
    IN_CLOSURE.get()
}

/// Marks this thread while a caller's closure runs under a token.
#[derive(Debug)]
pub(crate) struct ClosureScope {
    /// What it was before: a weigher may run inside another closure.
    before: bool,
}

impl ClosureScope {
    /// Enters the scope.
    pub(crate) fn enter() -> Self {
        Self { before: IN_CLOSURE.replace(true) }
    }
}

impl Drop for ClosureScope {
    fn drop(&mut self) {
        IN_CLOSURE.set(self.before);
    }
}

thread_local! {
    /// Where this thread evicts entries at the moment, the outermost place first: addresses, 0 is
    /// nowhere.
    static EVICTING: [Cell<usize>; EVICTING_PLACES_MAX] =
        const { [const { Cell::new(0) }; EVICTING_PLACES_MAX] };
}

/// Marks this thread while it evicts entries of one place. Their values may write when they are
/// dropped: there again, or into another place whose values write here in their turn. So it is all
/// places of the thread that are remembered, not the last one only: else values of two places would
/// evict each other one within the other, as deep as there are any.
#[derive(Debug)]
pub(crate) struct EvictingScope {
    depth: usize,
}

impl EvictingScope {
    /// Enters the scope; nothing if this thread is in it, or in as many others as there may be.
    pub(crate) fn enter<T>(place: &T) -> Option<Self> {
        let address = std::ptr::from_ref(place).addr();
        EVICTING.with(|places| {
            let depth = places.iter().position(|place| [0, address].contains(&place.get()))?;
            (places[depth].replace(address) == 0).then(|| Self { depth })
        })
    }
}

impl Drop for EvictingScope {
    fn drop(&mut self) {
        EVICTING.with(|places| places[self.depth].set(0));
    }
}

/// Starts a named thread.
pub(crate) fn spawn(
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name).spawn(body)
}

/// Lets other threads run before the next try; the pause grows with `tries` and is bounded.
pub(crate) fn back_off(tries: u32) {
    if tries < 4 {
        std::thread::yield_now();
        return;
    }
    let micros = 1_u64 << tries.min(10);
    let pause = std::time::Duration::from_micros(micros).min(crate::limits::BACKOFF_MAX);
    std::thread::park_timeout(pause);
}

/// Lets other threads run for about so long, or a little less when that is long: the caller looks
/// again and comes back.
pub(crate) fn pause(time: std::time::Duration) {
    std::thread::park_timeout(time.min(crate::limits::BACKOFF_MAX));
}

/// A number for this thread: threads take the numbers in turn, beginning with 0.
#[inline]
pub(crate) fn number_of_this_thread() -> usize {
    thread_local! {
        /// One above the number; 0 before the first call.
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    #[cold]
    fn draw() -> usize {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let number = THREADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        NUMBER.set(number);
        number
    }
    match NUMBER.get() {
        0 => draw() - 1,
        number => number - 1,
    }
}

/// How many threads this machine runs at once.
pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_entered_once_below_others_too_and_places_are_bounded() {
        let places = [0_u8; EVICTING_PLACES_MAX + 1];
        let enter = |index: usize| EvictingScope::enter(&places[index]);
        for _ in 0..2 {
            let mut scopes: Vec<_> = (0..EVICTING_PLACES_MAX).filter_map(enter).collect();
            assert_eq!(scopes.len(), EVICTING_PLACES_MAX);
            for _ in 0..2 {
                assert!((0..places.len()).all(|index| enter(index).is_none()));
            }
            drop(scopes.pop());
            assert!(enter(0).is_none());
            assert!(enter(EVICTING_PLACES_MAX).is_some(), "one has been left");
            while scopes.pop().is_some() {}
        }
    }
}
