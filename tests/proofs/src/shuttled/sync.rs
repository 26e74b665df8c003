//! The stand-in for the engine's door to locks and atomics, with the names and manners of its own.

pub(crate) use shuttle::sync::Arc;
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use std::ops::Deref;
use std::ops::DerefMut;
use std::time::Duration;

use shuttle::sync;
use shuttle::thread;

/// A lock that does not know poison.
pub(crate) struct Mutex<T>(sync::Mutex<T>);

/// The hold of a [`Mutex`]; empty only while a [`Condvar`] has it.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    held: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, held: Some(self.held()) }
    }

    fn held(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().expect("a model that panics has ended")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("only a condvar takes the hold away")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("only a condvar takes the hold away")
    }
}

/// A value that is set once.
///
/// Two threads that find none may both make one, and one of them wins; that a thread may wait for
/// another one that is making it is an order in which only one makes it.
pub(crate) struct OnceLock<T> {
    /// Raised after `value` is set. Each look at it is a place to switch threads.
    is_set: AtomicU32,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self { is_set: AtomicU32::new(0), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::SeqCst) == 0 { None } else { self.value.get() }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let made = make();
        // Nothing switches threads in here.
        let value = self.value.get_or_init(|| made);
        self.is_set.store(1, Ordering::SeqCst);
        value
    }
}

/// Where threads wait for others.
pub(crate) struct Condvar(sync::Condvar);

/// Said of a wait that had a limit.
pub(crate) struct WaitTimeoutResult;

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("the guard holds the lock");
        guard.held = Some(self.0.wait(held).expect("a model that panics has ended"));
    }

    /// Time may be over at any moment, so that no model leans on a limit being long.
    #[expect(clippy::unused_self, reason = "the manner of the lock that it stands for")]
    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _limit: Duration,
    ) -> WaitTimeoutResult {
        drop(guard.held.take());
        thread::yield_now();
        guard.held = Some(guard.mutex.held());
        WaitTimeoutResult
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
