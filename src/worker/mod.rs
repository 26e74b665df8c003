//! `Worker`: a thread that owns shards, with its mailbox. It knows jobs, never routing.

mod alarm;
mod clock;
mod mailbox;
mod oneshot;
mod scoped;

use std::cell::Cell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::time::Duration;

use thiserror::Error;

use crate::sync;
use crate::sync::Arc;
use crate::sync::AtomicU64;
use crate::sync::JoinHandle;
use crate::sync::Ordering;
use crate::time::Clock;
use crate::time::NEVER;
use crate::worker::alarm::Alarm;
use crate::worker::alarm::Round;
use crate::worker::mailbox::Mailbox;
use crate::worker::mailbox::Received;
use crate::worker::mailbox::Rejected;
use crate::worker::scoped::Job;
use crate::worker::scoped::run_scoped;

pub(crate) use clock::ClusterClock;

/// Why a call did not reach its worker. It had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The mailbox is full or the token is taken, and the call was not to wait.
    #[error("busy")]
    Busy,
    /// The cluster was shut down.
    #[error("the cluster is closed")]
    Closed,
    /// The calling thread holds a token, or is a worker that would wait for a worker.
    #[error("called from inside a closure that must not wait")]
    Reentrant,
}

/// Whether a call waits for a token that is taken or a mailbox that is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Patience {
    #[default]
    Wait,
    /// The call answers [`WorkerError::Busy`] instead.
    Try,
}

/// Work that a worker finds for itself.
pub(crate) trait Chores: Send + Sync + 'static {
    /// Sweeps the worker's next shard at or after `from` that has a deadline, in one hold.
    ///
    /// Returns where to go on and when that shard wants the next sweep; nothing when there is no
    /// such shard.
    fn sweep(&self, worker: &Worker, from: u32) -> Option<(u32, u64)>;
}

thread_local! {
    /// The serial of the worker that this thread is; 0 for other threads.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

static SERIALS: AtomicU64 = AtomicU64::new(1);

/// Whether this thread is a worker, of whatever cluster.
pub(crate) fn on_worker() -> bool {
    CURRENT.get() != 0
}

/// One worker: its mailbox and what is published about it.
pub(crate) struct Worker {
    name: String,
    serial: u64,
    /// Its number among the workers of its node, or of the pool that nodes share.
    number: usize,
    mailbox: Mailbox<Job>,
    /// When the worker wants to sweep next.
    alarm: Alarm,
    job_count: AtomicU64,
    /// Without a thread, in step mode, jobs run on the caller's.
    threaded: bool,
}

impl Worker {
    pub(crate) fn new(name: String, number: usize, capacity: usize, threaded: bool) -> Self {
        Self {
            name,
            // Relaxed: serials only have to differ.
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            number,
            mailbox: Mailbox::new(capacity),
            alarm: Alarm::new(),
            job_count: AtomicU64::new(0),
            threaded,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// How many jobs ran on this worker.
    pub(crate) fn job_count(&self) -> u64 {
        self.job_count.load(Ordering::Relaxed)
    }

    /// How often the worker was parked and came back.
    pub(crate) fn wakeup_count(&self) -> u64 {
        self.mailbox.wakeup_count()
    }

    /// Whether the calling thread is this worker.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        CURRENT.get() == self.serial
    }

    /// Starts the worker's thread; it ends when the worker is closed.
    pub(crate) fn start(
        self: &Arc<Self>,
        clock: Arc<ClusterClock>,
        chores: Arc<dyn Chores>,
    ) -> io::Result<JoinHandle<()>> {
        let worker = Arc::clone(self);
        sync::spawn(self.name.clone(), move || worker.run(&clock, &*chores))
    }

    /// Runs a closure on this worker and waits for it.
    ///
    /// A panic in the closure goes on in the caller. On the worker itself the closure runs at once;
    /// any other worker may not wait for this one.
    pub(crate) fn call<R: Send>(
        &self,
        patience: Patience,
        closure: impl FnOnce() -> R + Send,
    ) -> Result<R, WorkerError> {
        if sync::holds_token() {
            return Err(WorkerError::Reentrant);
        }
        if self.is_current() {
            return Ok(self.count(closure));
        }
        if on_worker() {
            return Err(WorkerError::Reentrant);
        }
        if !self.threaded {
            let _here = CurrentScope::enter(self.serial);
            return Ok(self.count(closure));
        }
        let submit = |job| match patience {
            Patience::Wait => self.mailbox.push(job).map_err(|job| {
                drop(job);
                WorkerError::Closed
            }),
            Patience::Try => self.mailbox.try_push(job).map_err(|rejected| match rejected {
                Rejected::Full(job) => {
                    drop(job);
                    WorkerError::Busy
                }
                Rejected::Closed(job) => {
                    drop(job);
                    WorkerError::Closed
                }
            }),
        };
        run_scoped(submit, closure)?.ok_or(WorkerError::Closed)
    }

    fn count<R>(&self, closure: impl FnOnce() -> R) -> R {
        self.job_count.fetch_add(1, Ordering::Relaxed);
        closure()
    }

    /// Tells the worker that one of its shards has an entry that expires at `deadline`.
    ///
    /// Called after the token is given back, with the shard already marked for the sweep.
    pub(crate) fn expect_deadline(&self, deadline: u64) {
        if self.alarm.expect(deadline) && !self.is_current() {
            self.mailbox.wake();
        }
    }

    /// Lets a parked worker look at the clock again.
    #[cfg(feature = "testing")]
    pub(crate) fn wake(&self) {
        self.mailbox.wake();
    }

    /// Ends the worker: jobs that wait are dropped, and their callers hear `Closed`.
    pub(crate) fn close(&self) {
        for job in self.mailbox.close() {
            // What a waiting closure holds may panic when it is dropped. The panic was reported by
            // its hook, and keeps neither the other jobs nor the other workers alive.
            drop(catch_unwind(AssertUnwindSafe(|| drop(job))));
        }
    }

    fn run(&self, clock: &ClusterClock, chores: &dyn Chores) {
        let _here = CurrentScope::enter(self.serial);
        let mut round = None;
        loop {
            match self.mailbox.pop(self.idle_time(clock, round.as_ref())) {
                Received::Job(job) => self.count(|| job.run()),
                Received::Nothing => {}
                Received::Closed => return,
            }
            // A value whose drop panics must not end the worker; the shard is valid by then.
            let swept = catch_unwind(AssertUnwindSafe(|| {
                self.alarm.step(&mut round, || clock.nanos(), |from| chores.sweep(self, from));
            }));
            drop(swept);
        }
    }

    fn idle_time(&self, clock: &ClusterClock, round: Option<&Round>) -> Option<Duration> {
        if round.is_some() {
            return Some(Duration::ZERO);
        }
        match self.alarm.wake_at() {
            NEVER => None,
            wake_at => clock.until(wake_at),
        }
    }
}

/// Says for a while that this thread is a worker.
struct CurrentScope(u64);

impl CurrentScope {
    fn enter(serial: u64) -> Self {
        Self(CURRENT.replace(serial))
    }
}

impl Drop for CurrentScope {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
