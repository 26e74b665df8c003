//! Races: writers, the reader, a wake-up and the end meet at a mailbox with room for one job.

use std::collections::VecDeque;
use std::time::Duration;

use shuttle::thread;

use crate::sync::Arc;
use crate::sync::AtomicU32;
use crate::sync::Condvar;
use crate::sync::Mutex;
use crate::sync::Ordering;

use super::worker::mailbox::Mailbox;
use super::worker::mailbox::Received;
use super::worker::mailbox::Rejected;

const CAPACITY: usize = 1;

/// What a worker and its callers do with a mailbox.
trait Mail: Send + Sync + 'static {
    fn push(&self, job: u32) -> Result<(), u32>;
    fn try_push(&self, job: u32) -> Result<(), u32>;
    fn pop(&self, wait: Option<Duration>) -> Received<u32>;
    fn wake(&self);
    fn close(&self) -> VecDeque<u32>;
}

impl Mail for Mailbox<u32> {
    fn push(&self, job: u32) -> Result<(), u32> {
        self.push(job)
    }

    fn try_push(&self, job: u32) -> Result<(), u32> {
        self.try_push(job).map_err(|rejected| match rejected {
            Rejected::Full(job) | Rejected::Closed(job) => job,
        })
    }

    fn pop(&self, wait: Option<Duration>) -> Received<u32> {
        self.pop(wait)
    }

    fn wake(&self) {
        self.wake();
    }

    fn close(&self) -> VecDeque<u32> {
        self.close()
    }
}

/// Every accepted job is read or handed out by `close`, once; nobody sleeps for ever.
pub fn a_push_races_the_end() {
    jobs_arrive_once(Mailbox::new(CAPACITY));
}

/// Whoever is woken comes back and sees why.
pub fn a_wake_up_races_the_parking() {
    wakers_are_heard(Mailbox::new(CAPACITY));
}

/// The copy without a bug.
pub fn a_sound_copy() {
    jobs_arrive_once(Planted::new(Bug::None));
    wakers_are_heard(Planted::new(Bug::None));
}

/// Planted: a writer that waited for room looks for the end alone, not for room.
pub fn a_writer_that_waits_once() {
    jobs_arrive_once(Planted::new(Bug::WaitsOnce));
}

/// Planted: a writer that waited for room puts its job in without another look.
pub fn a_writer_that_does_not_look_again() {
    jobs_arrive_once(Planted::new(Bug::NoSecondLook));
}

/// Planted: the end wakes the reader alone.
pub fn an_end_that_forgets_the_writers() {
    jobs_arrive_once(Planted::new(Bug::WritersForgotten));
}

/// Planted: a wake-up that only a parked reader hears.
pub fn a_wake_up_without_a_mark() {
    wakers_are_heard(Planted::new(Bug::NoMark));
}

fn jobs_arrive_once(mail: impl Mail) {
    let mail = Arc::new(mail);
    let writers = [[1, 2], [3, 4]].map(|jobs| {
        let mail = Arc::clone(&mail);
        thread::spawn(move || {
            let [first, second] = jobs;
            let tries = first == 3;
            let first = if tries { mail.try_push(first) } else { mail.push(first) };
            let second = mail.push(second);
            let accepted = |(job, result): (u32, Result<(), u32>)| match result {
                Ok(()) => Some(job),
                Err(back) => {
                    assert_eq!(back, job, "another job came back");
                    None
                }
            };
            jobs.into_iter().zip([first, second]).filter_map(accepted).collect::<Vec<_>>()
        })
    });
    let reader = {
        let mail = Arc::clone(&mail);
        thread::spawn(move || {
            let mut read = Vec::new();
            // Now and then with a limit, as a worker that has a deadline.
            let waits = [None, Some(Duration::MAX)].into_iter().cycle();
            for wait in waits {
                match mail.pop(wait) {
                    Received::Job(job) => read.push(job),
                    Received::Nothing => {}
                    Received::Closed => break,
                }
            }
            read
        })
    };
    let closer = thread::spawn(move || mail.close());
    let mut accepted: Vec<u32> =
        writers.into_iter().flat_map(|writer| writer.join().expect("writers end")).collect();
    let mut arrived = reader.join().expect("the reader ends");
    let left = closer.join().expect("the closer ends");
    assert!(left.len() <= CAPACITY, "more jobs than there is room for: {}", left.len());
    arrived.extend(left);
    let place = |job| arrived.iter().position(|&other| other == job);
    for (earlier, later) in [(1, 2), (3, 4)] {
        if let (Some(earlier), Some(later)) = (place(earlier), place(later)) {
            assert!(earlier < later, "the jobs of one writer changed places");
        }
    }
    accepted.sort_unstable();
    arrived.sort_unstable();
    assert_eq!(arrived, accepted, "jobs that arrived, and jobs that were accepted");
}

fn wakers_are_heard(mail: impl Mail) {
    let mail = Arc::new(mail);
    let news = Arc::new(AtomicU32::new(0));
    let wakers = [0, 1].map(|job| {
        let (mail, news) = (Arc::clone(&mail), Arc::clone(&news));
        thread::spawn(move || {
            news.fetch_add(1, Ordering::SeqCst);
            mail.wake();
            // A job comes in between, which is news as well.
            assert!(job == 0 || mail.push(job).is_ok());
        })
    });
    let (mut heard, mut jobs) = (0, 0);
    while (heard, jobs) != (2, 1) {
        match mail.pop(None) {
            Received::Job(_) => jobs += 1,
            Received::Nothing => {}
            Received::Closed => unreachable!("nobody closes"),
        }
        heard = news.load(Ordering::SeqCst);
    }
    for waker in wakers {
        waker.join().expect("wakers end");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    WaitsOnce,
    NoSecondLook,
    WritersForgotten,
    NoMark,
}

/// The same mailbox with a bug.
struct Planted {
    state: Mutex<State>,
    not_empty: Condvar,
    not_full: Condvar,
    bug: Bug,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<u32>,
    closed: bool,
    woken: bool,
}

impl Planted {
    fn new(bug: Bug) -> Self {
        let state = Mutex::new(State::default());
        Self { state, not_empty: Condvar::new(), not_full: Condvar::new(), bug }
    }

    fn accept(&self, state: &mut State, job: u32) {
        state.jobs.push_back(job);
        self.not_empty.notify_one();
    }
}

impl Mail for Planted {
    fn push(&self, job: u32) -> Result<(), u32> {
        let mut state = self.state.lock();
        while !state.closed && state.jobs.len() >= CAPACITY {
            self.not_full.wait(&mut state);
            if self.bug == Bug::NoSecondLook {
                self.accept(&mut state, job);
                return Ok(());
            }
            if self.bug == Bug::WaitsOnce {
                break;
            }
        }
        if state.closed {
            return Err(job);
        }
        self.accept(&mut state, job);
        Ok(())
    }

    fn try_push(&self, job: u32) -> Result<(), u32> {
        let mut state = self.state.lock();
        if state.closed || state.jobs.len() >= CAPACITY {
            return Err(job);
        }
        self.accept(&mut state, job);
        Ok(())
    }

    fn pop(&self, _wait: Option<Duration>) -> Received<u32> {
        let mut state = self.state.lock();
        if state.jobs.is_empty() && !state.closed && !state.woken {
            self.not_empty.wait(&mut state);
        }
        if state.closed {
            return Received::Closed;
        }
        state.woken = false;
        let job = state.jobs.pop_front();
        self.not_full.notify_one();
        job.map_or(Received::Nothing, Received::Job)
    }

    fn wake(&self) {
        self.state.lock().woken = self.bug != Bug::NoMark;
        self.not_empty.notify_one();
    }

    fn close(&self) -> VecDeque<u32> {
        let mut state = self.state.lock();
        state.closed = true;
        self.not_empty.notify_all();
        if self.bug != Bug::WritersForgotten {
            self.not_full.notify_all();
        }
        std::mem::take(&mut state.jobs)
    }
}
