//! The stand-in for the engine's door to locks and atomics, with the names and manners of its own.

pub(crate) use shuttle::sync::Arc;
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
