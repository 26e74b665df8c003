//! Mixed traffic of one client thread. It writes its own keys, version after version, and reads
//! everybody's; every answer is held against the ledger.

use std::sync::atomic::Ordering;
use std::time::Duration;

use slotkeep::{Client, Error, Handle, Node};

use crate::Hours;
use crate::Run;
use crate::ledger::Ledger;
use crate::plant::Plant;
use crate::report::{Call, Tally};
use crate::script::Write;
use crate::watchdog::Mark;

/// How many keys a batch names.
const BATCH: usize = 8;

/// How much of the traffic goes to the slot that is moving.
const MOVING_PERCENT: u32 = 20;

/// How long a call on several keys waits for a move that splits them.
const SPLIT_WAIT: Duration = Duration::from_secs(4);

/// One client thread.
pub struct Load<'r> {
    pub run: &'r Run,
    pub ledger: &'r Ledger,
    pub client: Client,
    /// What this thread has done, part by part.
    pub tallies: Vec<Tally>,
    index: usize,
    clock: Node,
    mark: &'r Mark,
    dice: fastrand::Rng,
    /// The keys that this thread writes, in the order in which they were named.
    own: Vec<u32>,
}

impl<'r> Load<'r> {
    /// The thread with this index; the index is its seed as well.
    pub fn new(run: &'r Run, index: usize) -> Self {
        let ledger = &run.ledger;
        let own = ledger.keys.stream().iter().copied();
        Self {
            run,
            ledger,
            client: run.cluster.client().waiting(SPLIT_WAIT),
            tallies: vec![Tally::default(); run.kinds.len()],
            index,
            clock: run.clock.clone(),
            mark: run.watchdog.mark(index),
            dice: fastrand::Rng::with_seed(index as u64),
            own: own.filter(|&key| ledger.writer_of(key) == index).collect(),
        }
    }

    /// Writes the first version of every key that is this thread's.
    pub fn fill(&mut self) {
        for at in 0..self.own.len() {
            let key = self.own[at];
            if self.ledger.floor(key) == 0 {
                self.write(key);
            }
        }
    }

    /// Calls until the time is over and the last moves have ended.
    pub fn run(&mut self, hours: Hours) {
        let mut plant = self.run.plant.filter(|_| self.ledger.writer_of(0) == self.index);
        loop {
            let now = self.clock.uptime();
            if now >= hours.ends && self.run.moves_over.load(Ordering::Acquire) {
                return;
            }
            if now >= hours.plants {
                match plant.take() {
                    Some(Plant::Stale) => self.plant_stale(),
                    Some(Plant::Unanswered) => self.plant_unanswered(),
                    Some(Plant::Lost | Plant::Duplicated) | None => {}
                }
            }
            self.call_something();
        }
    }

    fn call_something(&mut self) {
        let moving = self.pick_moving();
        let any = moving.unwrap_or_else(|| self.pick_any());
        let own = moving.filter(|&key| self.ledger.writer_of(key) == self.index);
        match (self.dice.u32(0..100), own.or_else(|| self.pick_own())) {
            (0..30, Some(own)) => self.write(own),
            (30..34, Some(_)) => self.write_many(),
            (34..38, Some(own)) => self.write_slot(own),
            (38..46, _) => self.read_many(),
            (46..54, _) => self.read_slot(any),
            _ => self.read(any),
        }
    }

    /// Now and then, a key of the slot that is moving: most of what can go wrong goes wrong there.
    fn pick_moving(&mut self) -> Option<u32> {
        if self.dice.u32(0..100) >= MOVING_PERCENT {
            return None;
        }
        let keys = self.ledger.keys.of_slot(self.run.moving.load(Ordering::Relaxed));
        self.dice.choice(keys).copied()
    }

    fn pick_any(&mut self) -> u32 {
        let stream = self.ledger.keys.stream();
        stream[self.dice.usize(0..stream.len())]
    }

    fn pick_own(&mut self) -> Option<u32> {
        let count = self.own.len();
        (count > 0).then(|| self.own[self.dice.usize(0..count)])
    }

    /// Reads one key.
    pub fn read(&mut self, key: u32) {
        let (floor, name) = (self.ledger.floor(key), self.ledger.keys.name(key));
        if let Some(value) = self.call(Call::Get, |client| client.get(name)) {
            self.check(key, floor, value.as_deref());
        }
    }

    fn read_many(&mut self) {
        let keys: Vec<u32> = (0..BATCH).map(|_| self.pick_any()).collect();
        self.read_all(Call::GetMany, &keys, Client::get_many);
    }

    /// Reads keys of one slot at one instant.
    fn read_slot(&mut self, key: u32) {
        let keys = self.ledger.keys.neighbours(key);
        self.read_all(Call::Mget, &keys[..keys.len().min(BATCH)], Client::mget);
    }

    fn read_all<'k>(
        &mut self,
        call: Call,
        keys: &[u32],
        read: impl FnOnce(&Client, &[&'k [u8]]) -> Result<Vec<Option<Handle<[u8]>>>, Error>,
    ) where
        'r: 'k,
    {
        let ledger = self.ledger;
        let floors: Vec<u64> = keys.iter().map(|&key| ledger.floor(key)).collect();
        let names: Vec<&[u8]> = keys.iter().map(|&key| ledger.keys.name(key)).collect();
        let Some(values) = self.call(call, |client| read(client, &names)) else { return };
        for ((&key, floor), value) in keys.iter().zip(floors).zip(&values) {
            self.check(key, floor, value.as_deref());
        }
    }

    /// Holds what was read against the ledger.
    fn check(&mut self, key: u32, floor: u64, value: Option<&[u8]>) {
        self.tally().checked += 1;
        match self.ledger.version(key, floor, value) {
            Some(version) => self.ledger.raise(key, version),
            None => self.report(key, floor, value),
        }
    }

    #[cold]
    fn report(&self, key: u32, floor: u64, value: Option<&[u8]>) {
        self.ledger.findings.stale(|| {
            let name = self.ledger.keys.name(key).escape_ascii();
            let read = self.ledger.script(key).describe(value);
            format!("key {name}: read {read}, expected version {floor} or a newer one")
        });
    }

    /// Writes the next version of one key that is this thread's, and checks the answer.
    pub fn write(&mut self, key: u32) {
        let (ledger, name) = (self.ledger, self.ledger.keys.name(key));
        let (script, version) = (ledger.script(key), ledger.floor(key) + 1);
        ledger.issue(key, version);
        let right = match script.write(version) {
            Write::Set(value) => {
                let set = |client: &Client| Ok(client.set(name, &value)?);
                self.call(Call::Set, set).map(|()| true)
            }
            Write::Remove => {
                let was_there = script.content(version - 1).is_some();
                self.call(Call::Remove, |client| client.remove(name)).map(|was| was == was_there)
            }
            Write::Increment => {
                let sum = self.call(Call::Incr, |client| client.incr(name, 1));
                sum.map(|sum| u64::try_from(sum) == Ok(version))
            }
            Write::Append(line) => {
                let bytes = script.content(version).map(|value| value.len());
                let length = self.call(Call::Append, |client| client.append(name, &line));
                length.map(|length| Some(length) == bytes)
            }
        };
        if right == Some(false) {
            let name = name.escape_ascii();
            ledger.findings.stale(|| format!("key {name}: version {version} met another one"));
        }
        if right.is_some() {
            ledger.raise(key, version);
        }
    }

    fn write_many(&mut self) {
        let mut keys: Vec<u32> = (0..BATCH).filter_map(|_| self.pick_own()).collect();
        keys.sort_unstable();
        keys.dedup();
        self.write_all(Call::SetMany, &keys, |client, entries| client.set_many(entries));
    }

    /// Writes keys of one slot at one instant.
    fn write_slot(&mut self, key: u32) {
        let keys = self.ledger.keys.neighbours(key);
        let keys = &keys[..keys.len().min(BATCH)];
        self.write_all(Call::Mset, keys, |client, entries| client.mset(entries));
    }

    /// Writes the next version of those keys for which it is a plain value.
    fn write_all<'k>(
        &mut self,
        call: Call,
        keys: &[u32],
        write: impl FnOnce(&Client, Vec<(&'k [u8], &[u8])>) -> Result<(), Error>,
    ) where
        'r: 'k,
    {
        let ledger = self.ledger;
        let next = |&key: &u32| {
            let version = ledger.floor(key) + 1;
            match ledger.script(key).write(version) {
                Write::Set(value) => Some((key, version, value)),
                Write::Remove | Write::Increment | Write::Append(_) => None,
            }
        };
        let writes: Vec<(u32, u64, Vec<u8>)> = keys.iter().filter_map(next).collect();
        if writes.is_empty() {
            return;
        }
        for &(key, version, _) in &writes {
            ledger.issue(key, version);
        }
        let entries = writes.iter().map(|(key, _, value)| (ledger.keys.name(*key), &value[..]));
        let entries = entries.collect();
        if self.call(call, |client| write(client, entries)).is_some() {
            for &(key, version, _) in &writes {
                ledger.raise(key, version);
            }
        }
    }

    /// The tally of the part that is on.
    fn tally(&mut self) -> &mut Tally {
        &mut self.tallies[self.run.part.load(Ordering::Relaxed)]
    }

    /// One call: marked for the watchdog, timed, counted. An error is no answer.
    fn call<T>(&mut self, call: Call, run: impl FnOnce(&Client) -> Result<T, Error>) -> Option<T> {
        let began = self.clock.uptime();
        self.mark.begin(began);
        let answer = run(&self.client);
        self.mark.end();
        let took = self.clock.uptime().saturating_sub(began);
        self.tally().note(call, took);
        answer
            .map_err(|error| self.ledger.findings.unanswered(|| format!("{call:?}: {error}")))
            .ok()
    }
}
