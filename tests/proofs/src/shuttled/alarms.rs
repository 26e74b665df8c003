//! Race: a deadline is set while the worker ends a round, begins one, or parks.
//!
//! The model has one worker with its mailbox, three shards, and a clock with a timer: the timer
//! wakes the worker only for the time for which it said that it would sleep. So a deadline that was
//! forgotten leaves the worker asleep, and shuttle reports that nobody can go on.

use std::time::Duration;

use shuttle::thread;

use crate::slot::Slot;
use crate::sync::Arc;
use crate::sync::AtomicU64;
use crate::sync::Condvar;
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::time::NEVER;
use crate::topology::SlotBits;

use super::worker::alarm::Alarm;
use super::worker::alarm::Round;
use super::worker::mailbox::Mailbox;
use super::worker::mailbox::Received;

const SHARDS: usize = 3;

/// What callers and the worker do with an alarm.
trait Bell: Send + Sync + 'static {
    fn expect(&self, deadline: u64) -> bool;
    fn wake_at(&self) -> u64;
    fn step(
        &self,
        round: &mut Option<Round>,
        now: &dyn Fn() -> u64,
        sweep: &dyn Fn(u32) -> Option<(u32, u64)>,
    );
}

impl Bell for Alarm {
    fn expect(&self, deadline: u64) -> bool {
        self.expect(deadline)
    }

    fn wake_at(&self) -> u64 {
        self.wake_at()
    }

    fn step(
        &self,
        round: &mut Option<Round>,
        now: &dyn Fn() -> u64,
        sweep: &dyn Fn(u32) -> Option<(u32, u64)>,
    ) {
        self.step(round, now, sweep);
    }
}

/// Every deadline is swept when its time comes, whenever it was set.
pub fn a_deadline_races_the_round() {
    deadlines_are_met(Alarm::new());
}

/// The copy without a bug.
pub fn a_sound_copy() {
    deadlines_are_met(Planted(AtomicU64::new(NEVER), Bug::None));
}

/// Planted: a round ends by writing over what was set meanwhile.
pub fn a_round_that_ends_with_a_store() {
    deadlines_are_met(Planted(AtomicU64::new(NEVER), Bug::EndsWithStore));
}

/// Planted: the alarm is cleared when the round has ended, not when it begins.
pub fn a_round_that_clears_the_alarm_late() {
    deadlines_are_met(Planted(AtomicU64::new(NEVER), Bug::ClearsLate));
}

/// Planted: an earlier deadline is written down, but wakes nobody.
pub fn a_deadline_that_wakes_nobody() {
    deadlines_are_met(Planted(AtomicU64::new(NEVER), Bug::WakesNobody));
}

struct Model<B> {
    bell: B,
    mailbox: Mailbox<()>,
    marks: SlotBits,
    /// The next deadline of each shard, under its token.
    shards: [Mutex<u64>; SHARDS],
    clock: AtomicU64,
    /// For when the worker has set its timer.
    timer: AtomicU64,
    /// How many deadlines were met.
    met: Mutex<usize>,
    met_more: Condvar,
}

fn deadlines_are_met(bell: impl Bell) {
    let model = Arc::new(Model {
        bell,
        mailbox: Mailbox::new(1),
        marks: SlotBits::new(),
        shards: [(); SHARDS].map(|()| Mutex::new(NEVER)),
        clock: AtomicU64::new(1),
        timer: AtomicU64::new(NEVER),
        met: Mutex::new(0),
        met_more: Condvar::new(),
    });
    let worker = {
        let model = Arc::clone(&model);
        thread::spawn(move || model.work())
    };
    // One deadline is due at once, so that a round runs while the others are set.
    let callers = [(0, 9), (2, 1), (1, 5)].map(|(shard, deadline)| {
        let model = Arc::clone(&model);
        thread::spawn(move || model.set(shard, deadline))
    });
    for caller in callers {
        caller.join().expect("callers end");
    }
    for (time, met) in [(1, 1), (5, 2), (9, 3)] {
        model.advance_to(time);
        model.wait_for(met);
    }
    drop(model.mailbox.close());
    worker.join().expect("the worker ends");
}

impl<B: Bell> Model<B> {
    /// A call that sets a deadline: mark and deadline under the token, the alarm after it.
    fn set(&self, shard: usize, deadline: u64) {
        let mut held = self.shards[shard].lock();
        *held = deadline;
        self.marks.insert(slot(shard));
        drop(held);
        if self.bell.expect(deadline) {
            self.mailbox.wake();
        }
    }

    /// The loop of a worker.
    fn work(&self) {
        let mut round = None;
        while !matches!(self.mailbox.pop(self.idle_time(round.is_some())), Received::Closed) {
            let now = || self.clock.load(Ordering::SeqCst);
            self.bell.step(&mut round, &now, &|from| self.sweep(from));
        }
    }

    fn idle_time(&self, in_round: bool) -> Option<Duration> {
        let wake_at = self.bell.wake_at();
        self.timer.store(wake_at, Ordering::SeqCst);
        let due = wake_at != NEVER && self.clock.load(Ordering::SeqCst) >= wake_at;
        (in_round || due).then_some(Duration::ZERO)
    }

    fn sweep(&self, from: u32) -> Option<(u32, u64)> {
        let found = self.marks.from(from).next()?;
        let mut held = self.shards[found.index()].lock();
        let now = self.clock.load(Ordering::SeqCst);
        let next = *held;
        if next <= now {
            *held = NEVER;
            *self.met.lock() += 1;
            self.met_more.notify_one();
        }
        if *held == NEVER {
            self.marks.remove(found);
        }
        let place = u32::try_from(found.index()).expect("three shards") + 1;
        Some((place, *held))
    }

    fn advance_to(&self, time: u64) {
        self.clock.store(time, Ordering::SeqCst);
        if self.timer.load(Ordering::SeqCst) <= time {
            self.mailbox.wake();
        }
    }

    fn wait_for(&self, count: usize) {
        let mut met = self.met.lock();
        while *met < count {
            self.met_more.wait(&mut met);
        }
    }
}

fn slot(shard: usize) -> Slot {
    u16::try_from(shard).ok().and_then(Slot::new).expect("three shards")
}

#[derive(PartialEq)]
enum Bug {
    None,
    EndsWithStore,
    ClearsLate,
    WakesNobody,
}

struct Planted(AtomicU64, Bug);

impl Bell for Planted {
    fn expect(&self, deadline: u64) -> bool {
        self.0.fetch_min(deadline, Ordering::SeqCst) > deadline && self.1 != Bug::WakesNobody
    }

    fn wake_at(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// A whole round in one step.
    fn step(
        &self,
        _round: &mut Option<Round>,
        now: &dyn Fn() -> u64,
        sweep: &dyn Fn(u32) -> Option<(u32, u64)>,
    ) {
        let wake_at = self.wake_at();
        if wake_at == NEVER || now() < wake_at {
            return;
        }
        if self.1 != Bug::ClearsLate {
            self.0.swap(NEVER, Ordering::SeqCst);
        }
        let (mut from, mut earliest) = (0, NEVER);
        while let Some((place, next)) = sweep(from) {
            (from, earliest) = (place, earliest.min(next));
        }
        if self.1 == Bug::ClearsLate {
            self.0.swap(NEVER, Ordering::SeqCst);
        }
        if self.1 == Bug::EndsWithStore {
            self.0.store(earliest, Ordering::SeqCst);
        } else {
            self.0.fetch_min(earliest, Ordering::SeqCst);
        }
    }
}
