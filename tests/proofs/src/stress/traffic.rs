//! The calls of one client, each recorded with its answer, its ticks and the clock around it.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use slotkeep::{Answer, Client, Compute, Error, Handle, Hop, MoveId, MovePhase, SetOptions, Steps};

use super::{Arena, CLOCK_STEP, Failure, KEYS_PER_SLOT, Report, SLOTS};
use crate::linearizability::{Call, Event, Outcome, Verb};

/// How many handles a client keeps, to see that what they hold never changes.
const KEPT_MAX: usize = 8;

/// How many steps of the clock a deadline lies ahead.
const DEADLINE_STEPS: u64 = 12;

/// How many ticks a slow call lets pass between two of its steps.
const SLOW_TICKS: u64 = 40;

pub(super) type Recorded = Event<Call, Outcome>;

/// A call on one key, and what it answered.
type Answered = (usize, Verb, Outcome);

/// What a client recorded, by key, and what it counted.
pub(super) type Account = (Vec<(usize, Recorded)>, Report);

pub(super) struct Traffic<'a> {
    arena: &'a Arena,
    client: Client<u64>,
    number: u8,
    rng: Rng,
    events: Vec<(usize, Recorded)>,
    /// The last value of each key that this client met.
    met: [u64; SLOTS * KEYS_PER_SLOT],
    kept: Vec<(u64, Handle<u64>)>,
    report: Report,
}

impl<'a> Traffic<'a> {
    pub(super) fn new(arena: &'a Arena, number: u8, rng: Rng) -> Self {
        Self {
            arena,
            client: arena.cluster.client(),
            number,
            rng,
            events: Vec::new(),
            met: [0; SLOTS * KEYS_PER_SLOT],
            kept: Vec::new(),
            report: Report::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<Account, Failure> {
        for _ in 0..self.arena.plan.calls / u64::from(self.arena.plan.clients) {
            self.call_something().map_err(Failure::Call)?;
            // Calls are far shorter than the time that a thread may run: without this the movers
            // would make a step in a thousand calls.
            if self.rng.u8(..4) == 0 {
                thread::yield_now();
            }
            if self.kept.iter().any(|(value, handle)| *value != **handle) {
                return Err(Failure::HandleChanged);
            }
        }
        Ok((self.events, self.report))
    }

    fn call_something(&mut self) -> Result<(), Error> {
        let key = self.rng.usize(..SLOTS * KEYS_PER_SLOT);
        match self.rng.u8(..32) {
            0..6 => self.get(key),
            6..10 => self.set(key),
            10..13 => self.set_until(key),
            13..16 => self.set_if_absent(key),
            16..18 => self.incr(key),
            18..21 => self.compare_replace(key),
            21..23 => self.replace_if_same(key),
            23 => self.take(key),
            24 => self.remove(key),
            25 => self.mget(key),
            26..28 => self.mset(key),
            _ => self.slow_call(key),
        }
    }

    /// A value that nobody else writes, so that a value names its write.
    fn fresh(&mut self) -> u64 {
        self.rng.u64(1..)
    }

    fn get(&mut self, key: usize) -> Result<(), Error> {
        let mut got = None;
        self.record("get", key, |client, name| {
            got = client.get(name)?;
            Ok(vec![(key, Verb::Get, Outcome::Value(got.as_deref().copied()))])
        })?;
        let Some(got) = got else { return Ok(()) };
        self.met[key] = *got;
        if self.kept.len() == KEPT_MAX {
            self.kept.swap_remove(self.rng.usize(..KEPT_MAX));
        }
        self.kept.push((*got, got));
        Ok(())
    }

    fn set(&mut self, key: usize) -> Result<(), Error> {
        let value = self.fresh();
        self.record("set", key, |client, name| {
            client.set(name, value)?;
            Ok(vec![(key, Verb::Set(value), Outcome::Done)])
        })
    }

    /// Deadlines are near, some of them in the past.
    fn set_until(&mut self, key: usize) -> Result<(), Error> {
        let value = self.fresh();
        let step = u64::try_from(CLOCK_STEP.as_nanos()).expect("a short step");
        let deadline = (self.arena.now() / step + self.rng.u64(..DEADLINE_STEPS)) * step;
        let time = self.arena.began + Duration::from_nanos(deadline);
        let options = SetOptions::new().expire_at(time);
        self.record("set until", key, |client, name| {
            client.set_with(name, value, &options)?;
            Ok(vec![(key, Verb::SetUntil { value, deadline }, Outcome::Done)])
        })
    }

    fn set_if_absent(&mut self, key: usize) -> Result<(), Error> {
        let value = self.fresh();
        self.record("set if absent", key, |client, name| {
            let set = client.set_with(name, value, &SetOptions::new().if_absent())?.is_set();
            Ok(vec![(key, Verb::SetIfAbsent(value), Outcome::Flag(set))])
        })
    }

    fn incr(&mut self, key: usize) -> Result<(), Error> {
        let by = self.fresh();
        self.record("incr", key, |client, name| {
            let sum = client.compute(name, |seen| {
                Compute::Replace(seen.map_or(by, |seen| seen.wrapping_add(by)))
            })?;
            let sum = sum.as_deref().copied().expect("an increment leaves a value");
            Ok(vec![(key, Verb::Incr(by), Outcome::Count(sum))])
        })
    }

    fn compare_replace(&mut self, key: usize) -> Result<(), Error> {
        let (expected, new) = (self.met[key], self.fresh());
        self.record("compare and replace", key, |client, name| {
            let mut replaced = false;
            client.compute(name, |seen| {
                replaced = seen == Some(&expected);
                if replaced { Compute::Replace(new) } else { Compute::Keep }
            })?;
            let verb = Verb::CompareReplace { expected, new };
            Ok(vec![(key, verb, Outcome::Flag(replaced))])
        })
    }

    /// Values name their writes, so that the same entry and the same value are the same thing.
    fn replace_if_same(&mut self, key: usize) -> Result<(), Error> {
        self.get(key)?;
        let Some((expected, handle)) = self.kept.pop() else { return Ok(()) };
        let key = self.key_of(&handle);
        let new = self.fresh();
        self.record("replace if same", key, |client, _| {
            let replaced = client.replace(&handle, new)?;
            let verb = Verb::CompareReplace { expected, new };
            Ok(vec![(key, verb, Outcome::Flag(replaced))])
        })
    }

    fn key_of(&self, handle: &Handle<u64>) -> usize {
        let name = Handle::key(handle);
        let found = self.arena.keys.iter().position(|other| other.as_bytes() == name);
        found.expect("a handle of a key of the run")
    }

    fn take(&mut self, key: usize) -> Result<(), Error> {
        self.record("take", key, |client, name| {
            let taken = client.take(name)?.as_deref().copied();
            Ok(vec![(key, Verb::Take, Outcome::Value(taken))])
        })
    }

    fn remove(&mut self, key: usize) -> Result<(), Error> {
        self.record("remove", key, |client, name| {
            let removed = client.remove(name)?;
            Ok(vec![(key, Verb::Remove, Outcome::Flag(removed))])
        })
    }

    /// All keys of the slot: each of them is read at an instant.
    fn mget(&mut self, key: usize) -> Result<(), Error> {
        let first = key / KEYS_PER_SLOT * KEYS_PER_SLOT;
        let names = &self.arena.keys[first..first + KEYS_PER_SLOT];
        self.record("mget", key, |client, _| {
            let got = client.mget(names)?;
            let values = got.iter().map(|got| Outcome::Value(got.as_deref().copied()));
            Ok((first..).zip(values).map(|(key, value)| (key, Verb::Get, value)).collect())
        })
    }

    fn mset(&mut self, key: usize) -> Result<(), Error> {
        let other = key / KEYS_PER_SLOT * KEYS_PER_SLOT + (key + 1) % KEYS_PER_SLOT;
        let entries = [(key, self.fresh()), (other, self.fresh())];
        let names = &self.arena.keys;
        self.record("mset", key, |client, _| {
            client.mset(entries.map(|(key, value)| (&names[key], value)))?;
            Ok(entries.map(|(key, value)| (key, Verb::Set(value), Outcome::Done)).to_vec())
        })
    }

    /// A call that is kept up between two nodes, so that what it was told is often out of date.
    fn slow_call(&mut self, key: usize) -> Result<(), Error> {
        let (arena, value, pause) = (self.arena, self.fresh(), self.rng.u64(..SLOW_TICKS));
        let what = self.rng.u8(..3);
        self.record("slow call", key, |client, name| {
            let name = name.as_bytes();
            Ok(vec![match what {
                0 => {
                    let got = step_slowly(arena, pause, client.step_get(name))?;
                    (key, Verb::Get, Outcome::Value(got.as_deref().copied()))
                }
                1 => {
                    step_slowly(arena, pause, client.step_set(name, value, None))?;
                    (key, Verb::Set(value), Outcome::Done)
                }
                _ => {
                    let taken = step_slowly(arena, pause, client.step_take(name))?;
                    (key, Verb::Take, Outcome::Value(taken.as_deref().copied()))
                }
            }])
        })
    }

    /// Makes a call between two ticks and two readings of the clock.
    fn record(
        &mut self,
        what: &'static str,
        key: usize,
        call: impl FnOnce(&Client<u64>, &str) -> Result<Vec<Answered>, Error>,
    ) -> Result<(), Error> {
        let arena = self.arena;
        arena.doing.lock()[usize::from(self.number)] = (what, key);
        let split = arena.split[key / KEYS_PER_SLOT].load(Ordering::SeqCst);
        let (invoked, now_low) = (arena.tick(), arena.now());
        let (answered, hops) = self.client.traced(|client| call(client, &arena.keys[key]));
        let (now_high, returned) = (arena.now(), arena.tick());
        self.report.calls += 1;
        self.count_hops(&hops, split);
        for (key, verb, outcome) in answered? {
            let op = Call { verb, now_low, now_high };
            let output = Some(outcome);
            self.events.push((key, Event { client: self.number, op, output, invoked, returned }));
        }
        Ok(())
    }

    fn count_hops(&mut self, hops: &[Hop], split: u64) {
        // Before the call the move had sent keys, and after it the move is open still.
        let record = (split != 0).then(|| self.arena.cluster.move_record(MoveId::new(split)));
        let is_split = record.flatten().is_some_and(|record| record.phase == MovePhase::Migrating);
        let report = &mut self.report;
        let mut pulled = false;
        for hop in hops {
            match hop.answer {
                Answer::Ask { .. } => report.asks += 1,
                Answer::Moved { .. } => {
                    report.moved += 1;
                    report.late_asks += u64::from(hop.asking.is_some());
                }
                Answer::Pull { .. } => {
                    report.pulls += 1;
                    pulled = true;
                }
                Answer::PullBack { .. } => report.pulls_back += 1,
                Answer::Served if is_split => {
                    if pulled || hop.asking.is_some() {
                        report.split_at_target += 1;
                    } else {
                        report.split_at_source += 1;
                    }
                }
                // How the call went on is counted where it shows.
                Answer::Served
                | Answer::TryAgain
                | Answer::Again
                | Answer::Down
                | Answer::Refused
                | _ => {}
            }
        }
    }
}

fn step_slowly<T>(arena: &Arena, pause: u64, mut steps: Steps<'_, T>) -> Result<T, Error> {
    loop {
        if let Some(ended) = steps.step() {
            return ended;
        }
        arena.pause(pause);
    }
}
