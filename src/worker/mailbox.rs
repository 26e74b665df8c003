//! `Mailbox`: a bounded queue of jobs with one reader, which parks when there is nothing to do.
//!
//! Everything lies under one lock, so that closing is exact: no job is accepted after `close`, and
//! `close` hands out every job that was accepted and not taken.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::Condvar;
use crate::sync::Mutex;

/// A bounded queue with one reader.
pub(crate) struct Mailbox<J> {
    state: Mutex<State<J>>,
    /// The reader waits here for a job, a wake-up or the end.
    not_empty: Condvar,
    /// Writers wait here for room or the end.
    not_full: Condvar,
    capacity: usize,
}

struct State<J> {
    jobs: VecDeque<J>,
    closed: bool,
    /// `wake` was called since the reader last returned.
    woken: bool,
    /// How often the reader was parked and came back.
    wakeup_count: u64,
}

/// What the reader got.
pub(crate) enum Received<J> {
    Job(J),
    /// No job: the time is over, or somebody called `wake`.
    Nothing,
    Closed,
}

/// A job that was not accepted.
pub(crate) enum Rejected<J> {
    Full(J),
    Closed(J),
}

impl<J> Mailbox<J> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = State { jobs: VecDeque::new(), closed: false, woken: false, wakeup_count: 0 };
        Self {
            state: Mutex::new(state),
            not_empty: Condvar::new(),
            not_full: Condvar::new(),
            capacity,
        }
    }

    /// Puts a job in; waits while the mailbox is full. A closed mailbox gives the job back.
    pub(crate) fn push(&self, job: J) -> Result<(), J> {
        let mut state = self.state.lock();
        while !state.closed && state.jobs.len() >= self.capacity {
            self.not_full.wait(&mut state);
        }
        if state.closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        drop(state);
        self.not_empty.notify_one();
        Ok(())
    }

    /// Puts a job in if there is room.
    pub(crate) fn try_push(&self, job: J) -> Result<(), Rejected<J>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Rejected::Closed(job));
        }
        if state.jobs.len() >= self.capacity {
            return Err(Rejected::Full(job));
        }
        state.jobs.push_back(job);
        drop(state);
        self.not_empty.notify_one();
        Ok(())
    }

    /// Takes the next job. Without one, parks until one comes, `wake` or `close` is called, or
    /// `wait` is over; `None` waits for ever.
    pub(crate) fn pop(&self, wait: Option<Duration>) -> Received<J> {
        let mut state = self.state.lock();
        if state.jobs.is_empty() && !state.closed && !state.woken && wait != Some(Duration::ZERO) {
            match wait {
                None => self.not_empty.wait(&mut state),
                Some(wait) => drop(self.not_empty.wait_for(&mut state, wait)),
            }
            state.wakeup_count += 1;
        }
        if state.closed {
            return Received::Closed;
        }
        state.woken = false;
        let job = state.jobs.pop_front();
        drop(state);
        match job {
            Some(job) => {
                self.not_full.notify_one();
                Received::Job(job)
            }
            None => Received::Nothing,
        }
    }

    /// Makes the reader come back at once, now or the next time it would park.
    pub(crate) fn wake(&self) {
        self.state.lock().woken = true;
        self.not_empty.notify_one();
    }

    /// Closes the mailbox and returns the jobs that nobody will take, for the caller to drop.
    pub(crate) fn close(&self) -> VecDeque<J> {
        let mut state = self.state.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        self.not_empty.notify_all();
        self.not_full.notify_all();
        left
    }

    /// How often the reader was parked and came back.
    pub(crate) fn wakeup_count(&self) -> u64 {
        self.state.lock().wakeup_count
    }
}
