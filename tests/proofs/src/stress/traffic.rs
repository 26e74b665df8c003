//! The calls of one client, each recorded with its answer, its ticks and the clock around it.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use slotkeep::{
    Answer, Client, Compute, Error, Handle, Hop, MoveId, MovePhase, SetOptions, Steps, Transaction,
};

use super::{Arena, CLOCK_STEP, Failure, KEYS, KEYS_PER_SLOT, Report};
use crate::linearizability::{Call, Event, Outcome, Verb};

/// How many handles a client keeps, to see that what they hold never changes.
const KEPT_MAX: usize = 8;

/// How many steps of the clock a deadline lies ahead.
const DEADLINE_STEPS: u64 = 12;

/// How many ticks a slow call lets pass between two of its steps.
const SLOW_TICKS: u64 = 40;

pub(super) type Recorded = Event<Call, Outcome>;

/// When a call began: a tick, and a reading of the clock.
struct Start {
    invoked: u64,
    now_low: u64,
}

impl Start {
    fn of(arena: &Arena) -> Self {
        Self { invoked: arena.tick(), now_low: arena.now() }
    }
}

/// A history, what was called, and what it answered.
type Answered = (usize, Verb, Outcome);

/// What a client recorded, by history, and what it counted.
pub(super) type Account = (Vec<(usize, Recorded)>, Report);

pub(super) struct Traffic<'a> {
    arena: &'a Arena,
    client: Client<u64>,
    number: u8,
    rng: Rng,
    events: Vec<(usize, Recorded)>,
    /// The last value of each key that this client met.
    met: [u64; KEYS],
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
            met: [0; KEYS],
            kept: Vec::new(),
            report: Report::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<Account, Failure> {
        for _ in 0..self.arena.plan.calls / u64::from(self.arena.plan.clients) {
            self.call_something()?;
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

    fn call_something(&mut self) -> Result<(), Failure> {
        // The first keys are the busiest.
        let key = self.rng.usize(..KEYS).min(self.rng.usize(..KEYS));
        match self.rng.u8(..42) {
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
            28..32 => self.slow_call(key),
            32..34 => self.get_many(key),
            34..36 => self.set_many(key),
            _ => self.pair(key / KEYS_PER_SLOT),
        }
    }

    fn name(&self, key: usize) -> &'a str {
        &self.arena.keys[key]
    }

    /// A value that nobody else writes, so that a value names its write.
    fn fresh(&mut self) -> u64 {
        self.rng.u64(1..)
    }

    /// Whether a closure gives way while it holds the token, so that others meet a token that is
    /// taken.
    fn lingers(&mut self) -> bool {
        self.rng.bool()
    }

    fn get(&mut self, key: usize) -> Result<(), Failure> {
        let mut got = None;
        let name = self.name(key);
        self.record("get", key, |client, _| {
            got = client.get(name)?;
            Ok([(key, Verb::Get, Outcome::Value(got.as_deref().copied()))])
        })?;
        let Some(got) = got else { return Ok(()) };
        self.met[key] = *got;
        if self.kept.len() == KEPT_MAX {
            self.kept.swap_remove(self.rng.usize(..KEPT_MAX));
        }
        self.kept.push((*got, got));
        Ok(())
    }

    fn set(&mut self, key: usize) -> Result<(), Failure> {
        let value = self.fresh();
        let name = self.name(key);
        self.record("set", key, |client, _| {
            client.set(name, value)?;
            Ok([(key, Verb::Set(value), Outcome::Done)])
        })
    }

    /// Deadlines are near, some of them in the past.
    fn set_until(&mut self, key: usize) -> Result<(), Failure> {
        let value = self.fresh();
        let step = u64::try_from(CLOCK_STEP.as_nanos()).expect("a short step");
        let deadline = (self.arena.now() / step + self.rng.u64(..DEADLINE_STEPS)) * step;
        let time = self.arena.began + Duration::from_nanos(deadline);
        let options = SetOptions::new().expire_at(time);
        let name = self.name(key);
        self.record("set until", key, |client, _| {
            client.set_with(name, value, &options)?;
            Ok([(key, Verb::SetUntil { value, deadline }, Outcome::Done)])
        })
    }

    fn set_if_absent(&mut self, key: usize) -> Result<(), Failure> {
        let value = self.fresh();
        let name = self.name(key);
        self.record("set if absent", key, |client, _| {
            let set = client.set_with(name, value, &SetOptions::new().if_absent())?.is_set();
            Ok([(key, Verb::SetIfAbsent(value), Outcome::Flag(set))])
        })
    }

    fn incr(&mut self, key: usize) -> Result<(), Failure> {
        let (by, lingers) = (self.fresh(), self.lingers());
        let name = self.name(key);
        self.record("incr", key, |client, _| {
            let sum = client.compute(name, |seen| {
                linger(lingers);
                Compute::Replace(seen.map_or(by, |seen| seen.wrapping_add(by)))
            })?;
            let sum = sum.as_deref().copied().expect("an increment leaves a value");
            Ok([(key, Verb::Incr(by), Outcome::Count(sum))])
        })
    }

    fn compare_replace(&mut self, key: usize) -> Result<(), Failure> {
        let (expected, new, lingers) = (self.met[key], self.fresh(), self.lingers());
        let name = self.name(key);
        self.record("compare and replace", key, |client, _| {
            let mut replaced = false;
            client.compute(name, |seen| {
                linger(lingers);
                replaced = seen == Some(&expected);
                if replaced { Compute::Replace(new) } else { Compute::Keep }
            })?;
            let verb = Verb::CompareReplace { expected, new };
            Ok([(key, verb, Outcome::Flag(replaced))])
        })
    }

    /// Values name their writes, so that the same entry and the same value are the same thing.
    fn replace_if_same(&mut self, key: usize) -> Result<(), Failure> {
        self.get(key)?;
        let Some((expected, handle)) = self.kept.pop() else { return Ok(()) };
        let key = self.key_of(&handle);
        let new = self.fresh();
        self.record("replace if same", key, |client, _| {
            let replaced = client.replace(&handle, new)?;
            let verb = Verb::CompareReplace { expected, new };
            Ok([(key, verb, Outcome::Flag(replaced))])
        })
    }

    fn key_of(&self, handle: &Handle<u64>) -> usize {
        let name = Handle::key(handle);
        let found = self.arena.keys.iter().position(|other| other.as_bytes() == name);
        found.expect("a handle of a key of the run")
    }

    fn take(&mut self, key: usize) -> Result<(), Failure> {
        let name = self.name(key);
        self.record("take", key, |client, _| {
            let taken = client.take(name)?.as_deref().copied();
            Ok([(key, Verb::Take, Outcome::Value(taken))])
        })
    }

    fn remove(&mut self, key: usize) -> Result<(), Failure> {
        let name = self.name(key);
        self.record("remove", key, |client, _| {
            let removed = client.remove(name)?;
            Ok([(key, Verb::Remove, Outcome::Flag(removed))])
        })
    }

    /// All keys of the slot: each of them is read at an instant.
    fn mget(&mut self, key: usize) -> Result<(), Failure> {
        let first = key / KEYS_PER_SLOT * KEYS_PER_SLOT;
        let names = &self.arena.keys[first..first + KEYS_PER_SLOT];
        self.record("mget", key, |client, _| {
            let got = client.mget(names)?;
            let values = got.iter().map(|got| Outcome::Value(got.as_deref().copied()));
            let gets = (first..).zip(values).map(|(key, value)| (key, Verb::Get, value));
            Ok(gets.collect::<Vec<_>>())
        })
    }

    fn mset(&mut self, key: usize) -> Result<(), Failure> {
        let other = key / KEYS_PER_SLOT * KEYS_PER_SLOT + (key + 1) % KEYS_PER_SLOT;
        let entries = [(key, self.fresh()), (other, self.fresh())];
        let names = &self.arena.keys;
        self.record("mset", key, |client, _| {
            client.mset(entries.map(|(key, value)| (&names[key], value)))?;
            Ok(entries.map(|(key, value)| (key, Verb::Set(value), Outcome::Done)))
        })
    }

    /// A key of every slot: each of them is read at an instant.
    fn get_many(&mut self, key: usize) -> Result<(), Failure> {
        let keys: Vec<_> = (key % KEYS_PER_SLOT..KEYS).step_by(KEYS_PER_SLOT).collect();
        let names: Vec<_> = keys.iter().map(|&key| self.name(key)).collect();
        self.record("get many", key, |client, _| {
            let got = client.get_many(&names)?;
            let values = got.iter().map(|got| Outcome::Value(got.as_deref().copied()));
            let gets = keys.into_iter().zip(values).map(|(key, value)| (key, Verb::Get, value));
            Ok(gets.collect::<Vec<_>>())
        })
    }

    /// Two keys of this slot, and one of the next.
    fn set_many(&mut self, key: usize) -> Result<(), Failure> {
        let other = key / KEYS_PER_SLOT * KEYS_PER_SLOT + (key + 1) % KEYS_PER_SLOT;
        let keys = [key, other, (key + KEYS_PER_SLOT) % KEYS];
        let entries = keys.map(|key| (key, self.fresh()));
        let names = &self.arena.keys;
        self.record("set many", key, |client, _| {
            client.set_many(entries.map(|(key, value)| (&names[key], value)))?;
            Ok(entries.map(|(key, value)| (key, Verb::Set(value), Outcome::Done)))
        })
    }

    /// A call that is kept up between two nodes, so that what it was told is often out of date.
    fn slow_call(&mut self, key: usize) -> Result<(), Failure> {
        let (arena, value, pause) = (self.arena, self.fresh(), self.rng.u64(..SLOW_TICKS));
        let (what, name) = (self.rng.u8(..3), self.name(key).as_bytes());
        self.record("slow call", key, |client, start| {
            Ok([match what {
                0 => {
                    let got = step_slowly((arena, start), pause, client.step_get(name))?;
                    (key, Verb::Get, Outcome::Value(got.as_deref().copied()))
                }
                1 => {
                    step_slowly((arena, start), pause, client.step_set(name, value, None))?;
                    (key, Verb::Set(value), Outcome::Done)
                }
                _ => {
                    let taken = step_slowly((arena, start), pause, client.step_take(name))?;
                    (key, Verb::Take, Outcome::Value(taken.as_deref().copied()))
                }
            }])
        })
    }

    /// Two keys that hold one value are one register, as long as every call sees both at once.
    fn pair(&mut self, slot: usize) -> Result<(), Failure> {
        let (arena, value, history) = (self.arena, self.fresh(), KEYS + slot);
        let names = &arena.pairs[slot];
        let what = self.rng.u8(..11);
        self.record("pair", history, |client, _| {
            let (verb, outcome) = match what {
                0..4 => {
                    let got = if what == 3 { client.get_many(names) } else { client.mget(names) }?;
                    let halves = [0, 1].map(|half: usize| got[half].as_deref().copied());
                    (Verb::Get, Outcome::Value(arena.joined(halves)?))
                }
                4..7 => {
                    let entries = names.each_ref().map(|name| (name, value));
                    if what == 6 { client.set_many(entries) } else { client.mset(entries) }?;
                    (Verb::Set(value), Outcome::Done)
                }
                7..9 => {
                    let removed = if what == 8 {
                        client.remove_many(names)
                    } else {
                        client.remove_all(names)
                    }?;
                    let were_there = [removed > 0, removed > 1];
                    arena.joined(were_there.map(|was_there| was_there.then_some(0)))?;
                    (Verb::Remove, Outcome::Flag(removed > 0))
                }
                _ => {
                    let summed =
                        client.transaction(names, |both| add(arena, both, value, names))?;
                    (Verb::Incr(value), Outcome::Count(summed?))
                }
            };
            Ok([(history, verb, outcome)])
        })
    }

    /// Makes a call between two ticks and two readings of the clock.
    fn record<I: IntoIterator<Item = Answered>>(
        &mut self,
        what: &'static str,
        about: usize,
        call: impl FnOnce(&Client<u64>, &mut Start) -> Result<I, Failure>,
    ) -> Result<(), Failure> {
        let arena = self.arena;
        *arena.doing[usize::from(self.number)].lock() = (what, about);
        let slot = about.checked_sub(KEYS).unwrap_or(about / KEYS_PER_SLOT);
        let split = arena.split[slot].load(Ordering::SeqCst);
        let mut start = Start::of(arena);
        // A client that notes its hops is never served at once, nor in windows of a batch.
        let (answered, hops) = if self.rng.u8(..3) == 0 {
            (call(&self.client, &mut start), Vec::new())
        } else {
            self.client.traced(|client| call(client, &mut start))
        };
        let Start { invoked, now_low } = start;
        let (now_high, returned) = (arena.now(), arena.tick());
        self.report.calls += 1;
        self.report.untraced += u64::from(hops.is_empty());
        self.count_hops(&hops, split);
        for (history, verb, outcome) in answered? {
            let op = Call { verb, now_low, now_high };
            let output = Some(outcome);
            let event = Event { client: self.number, op, output, invoked, returned };
            self.events.push((history, event));
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

fn linger(lingers: bool) {
    if lingers {
        thread::yield_now();
    }
}

/// Adds to both keys of a pair; a missing one counts as 0.
fn add(
    arena: &Arena,
    both: &mut Transaction<'_, u64>,
    by: u64,
    names: &[String; 2],
) -> Result<u64, Failure> {
    let held = [both.get(&names[0])?.copied(), both.get(&names[1])?.copied()];
    let sum = arena.joined(held)?.unwrap_or(0).wrapping_add(by);
    for name in names {
        both.set(name, sum)?;
    }
    Ok(sum)
}

/// Lets others get on before each step, the first one included: what the call was prepared with may
/// be out of date by then. A call takes effect in the hold of its last step, so that is when it
/// begins, for the checker.
fn step_slowly<T>(
    (arena, start): (&Arena, &mut Start),
    pause: u64,
    mut steps: Steps<'_, T>,
) -> Result<T, Error> {
    loop {
        arena.pause(pause);
        *start = Start::of(arena);
        if let Some(ended) = steps.step() {
            return ended;
        }
    }
}
