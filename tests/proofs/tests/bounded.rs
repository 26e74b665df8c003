//! A bounded node against a plain map: what it holds, what may be missing, and why.
//!
//! One thread calls, on a clock that stands still, so that all that changes by itself is what
//! evictions take. After each call every entry is compared with what was written last: nothing else
//! may be there, the bound holds, what is missing must have been in the way, and calls that add
//! nothing lose nothing. So the answer of the next call is known beforehand.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use slotkeep::{Bound, Client, Cluster, Compute, Handle, SetOptions, Slot};

type Tested = Result<(), Box<dyn Error>>;

/// The seeds of each setup, and how many calls each makes. `SLOTKEEP_BOUNDED_SEEDS=0..100` asks for
/// other seeds.
const SEEDS: Range<u64> = 0..2;
const CALLS: usize = 500;

const CAPACITIES: [u64; 6] = [0, 1, 2, 3, 17, 100];

/// How far the clock goes at once; a sweep is due after each step.
const STEP: Duration = Duration::from_secs(1);

/// The most that an entry takes beside its key and value, where bytes of memory are counted.
const OVERHEAD_MAX: u64 = 200;

/// What the bound is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counts {
    Entries,
    /// What [`weigh`] says.
    Weights,
    /// What entries take of memory, which is known here about.
    Bytes,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
struct Setup {
    counts: Counts,
    capacity: u64,
    /// All keys lie in one slot.
    one_slot: bool,
    /// How many steps of the clock entries live of which nobody says otherwise.
    ttl: Option<u32>,
    seed: u64,
}

fn weigh(key: &[u8], value: &[u8]) -> u64 {
    // Some entries weigh nothing, which counts as 1.
    (key.len() as u64 + value.len() as u64).saturating_sub(16) / 4
}

/// The last that was written under a key.
#[derive(Clone, Debug)]
struct Written {
    value: Vec<u8>,
    /// The clock's time at which it expires.
    deadline: Option<Duration>,
}

impl Written {
    fn is_past(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Takes some out of what was written.
fn take_out(
    all: &mut BTreeMap<usize, Written>,
    goes: impl Fn(usize, &Written) -> bool,
) -> BTreeMap<usize, Written> {
    let (gone, left) = mem::take(all).into_iter().partition(|(key, written)| goes(*key, written));
    *all = left;
    gone
}

/// What a call may have evicted.
#[derive(Clone, Copy, Debug)]
enum Adds {
    /// It adds nothing.
    Nothing,
    /// It wrote all that it wrote, then made room.
    AtOnce,
    /// It may have made room before all was written. So much was taken at the most.
    Piecemeal(u64),
}

struct World {
    setup: Setup,
    cluster: Cluster,
    client: Client,
    rng: Rng,
    names: Vec<String>,
    /// What is there.
    present: BTreeMap<usize, Written>,
    /// What expired, and may be there still, although nobody can read it.
    expired: BTreeMap<usize, Written>,
    serial: u64,
    evicted: usize,
    lapsed: usize,
}

impl World {
    fn new(setup: Setup) -> Result<Self, Box<dyn Error>> {
        let Setup { counts, capacity, seed, .. } = setup;
        let bound = match counts {
            Counts::Entries => Bound::Entries(capacity),
            Counts::Weights | Counts::Bytes => Bound::Weight(capacity),
        };
        let mut builder = Cluster::builder().nodes(1).step_mode(seed).bound(bound);
        if counts == Counts::Weights {
            builder = builder.weigher(weigh);
        }
        if let Some(steps) = setup.ttl {
            builder = builder.time_to_live(STEP * steps);
        }
        let cluster = builder.build()?;
        let most = if counts == Counts::Bytes { capacity / 100 } else { capacity };
        let tag = if setup.one_slot { "{tag}" } else { "" };
        Ok(Self {
            setup,
            client: cluster.client(),
            cluster,
            rng: Rng::with_seed(seed),
            names: (0..2 * most + 3).map(|key| format!("{tag}{key}")).collect(),
            present: BTreeMap::new(),
            expired: BTreeMap::new(),
            serial: 0,
            evicted: 0,
            lapsed: 0,
        })
    }

    /// The least and the most that an entry takes of the bound.
    fn cost(&self, key: usize, written: &Written) -> (u64, u64) {
        let (name, value) = (self.names[key].as_bytes(), &written.value);
        let bytes = (name.len() + value.len()) as u64;
        let exactly = |cost| (cost, cost);
        match self.setup.counts {
            Counts::Entries => exactly(1),
            Counts::Weights => exactly(weigh(name, value).max(1)),
            Counts::Bytes => (bytes, bytes + OVERHEAD_MAX),
        }
    }

    /// The least that the entries which are there take, and the most, with the expired ones.
    fn taken(&self) -> (u64, u64) {
        let cost = |(&key, written)| self.cost(key, written);
        let least = self.present.iter().map(cost).map(|(least, _)| least).sum();
        let all = self.present.iter().chain(&self.expired);
        (least, all.map(cost).map(|(_, most)| most).sum())
    }

    /// A value that no other write writes, of some size; a few outweigh the whole bound.
    fn fresh(&mut self) -> Vec<u8> {
        self.serial += 1;
        let size = match self.rng.u8(..32) {
            0 => self.rng.usize(..800),
            _ => self.rng.usize(..40),
        };
        let mut value = self.serial.to_be_bytes().to_vec();
        value.resize(8 + size, 7);
        value
    }

    /// The first keys are asked for most.
    fn key(&mut self) -> usize {
        self.rng.usize(..self.names.len()).min(self.rng.usize(..self.names.len()))
    }

    fn default_deadline(&self) -> Option<Duration> {
        self.setup.ttl.map(|steps| self.cluster.now() + STEP * steps)
    }

    /// The key's entry is met: if it has expired, it is gone for good.
    fn meet(&mut self, key: usize) -> Option<Written> {
        self.expired.remove(&key);
        self.present.get(&key).cloned()
    }

    fn put(&mut self, key: usize, value: Vec<u8>, deadline: Option<Duration>) {
        let written = Written { value, deadline };
        let is_past = written.is_past(self.cluster.now());
        let (into, out_of) = if is_past {
            (&mut self.expired, &mut self.present)
        } else {
            (&mut self.present, &mut self.expired)
        };
        out_of.remove(&key);
        into.insert(key, written);
    }

    fn call_something(&mut self) -> Result<Adds, Box<dyn Error>> {
        let key = self.key();
        match self.rng.u8(..40) {
            0..8 => self.set(key),
            8..11 => self.set_with(key),
            22..25 => self.remove(key),
            25..29 => self.compute(key),
            29..31 => self.append(key),
            31..33 => self.set_expiry(key),
            33..35 => self.mset(key),
            35..37 => self.set_many(),
            37 if self.rng.u8(..20) == 0 => self.clear(),
            // Seldom enough that nodes which may hold many entries come to their bound.
            38.. if self.rng.usize(..self.names.len()) < 16 => Ok(self.advance()),
            _ => self.get(key),
        }
    }

    /// Whether a call was applied: what outweighs the whole bound is refused, and nothing else is.
    fn is_applied(
        &self,
        answer: Result<(), slotkeep::Error>,
        writes: &[(usize, &Vec<u8>)],
    ) -> Result<bool, slotkeep::Error> {
        let written = |value: &Vec<u8>| Written { value: value.clone(), deadline: None };
        let costs = writes.iter().map(|&(key, value)| self.cost(key, &written(value)));
        let costs: Vec<_> = costs.collect();
        let capacity = self.setup.capacity;
        match answer {
            Ok(()) => {
                let fits = costs.iter().all(|&(least, _)| least <= capacity);
                // Where nothing may be, nothing is kept, and nothing is refused.
                assert!(fits || capacity == 0, "{costs:?} were not refused");
                Ok(true)
            }
            Err(slotkeep::Error::TooHeavy { .. }) => {
                let may_fit = costs.iter().all(|&(_, most)| most <= capacity);
                assert!(!may_fit && capacity > 0, "{costs:?} were refused");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn set(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let value = self.fresh();
        let answer = self.client.set(&self.names[key], &value).map_err(slotkeep::Error::from);
        if !self.is_applied(answer, &[(key, &value)])? {
            return Ok(Adds::Nothing);
        }
        let deadline = self.default_deadline();
        self.put(key, value, deadline);
        Ok(Adds::AtOnce)
    }

    fn set_with(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let (value, steps) = (self.fresh(), self.rng.u32(..6));
        let (is_if_absent, keeps) = (self.rng.bool(), self.rng.bool());
        let condition = SetOptions::new();
        let condition = if is_if_absent { condition.if_absent() } else { condition.if_present() };
        let options =
            if keeps { condition.keep_expiry() } else { condition.expire_in(STEP * steps) };
        let mut set = false;
        let answer = self.client.set_with(&self.names[key], &value, &options);
        let answer = answer.map(|outcome| set = outcome.is_set()).map_err(slotkeep::Error::from);
        // One whose condition does not hold need not fit.
        if (set || answer.is_err()) && !self.is_applied(answer, &[(key, &value)])? {
            return Ok(Adds::Nothing);
        }
        let present = self.meet(key);
        assert_eq!(set, present.is_none() == is_if_absent, "a condition on {present:?}");
        if set {
            let kept = present.map_or_else(|| self.default_deadline(), |present| present.deadline);
            let deadline = self.cluster.now() + STEP * steps;
            self.put(key, value, if keeps { kept } else { Some(deadline) });
        }
        Ok(if set { Adds::AtOnce } else { Adds::Nothing })
    }

    fn get(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let expected = self.meet(key).map(|present| present.value);
        assert_eq!(self.client.get(&self.names[key])?.as_deref(), expected.as_deref());
        Ok(Adds::Nothing)
    }

    fn remove(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let expected = self.meet(key).map(|present| present.value);
        self.present.remove(&key);
        assert_eq!(self.client.take(&self.names[key])?.as_deref(), expected.as_deref());
        Ok(Adds::Nothing)
    }

    fn compute(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let (value, present) = (self.fresh(), self.present.get(&key).cloned());
        let what = self.rng.u8(..4);
        let decision = match what {
            0 => Compute::Keep,
            1 => Compute::Remove,
            _ => Compute::Replace(value.clone()),
        };
        let mut seen = None;
        let mut left = None;
        let answer = self.client.compute(&self.names[key], |held| {
            seen = held.map(<[u8]>::to_vec);
            decision
        });
        let answer = answer.map(|held| left = held);
        let expected = present.as_ref().map(|present| &present.value);
        assert_eq!(seen.as_ref(), expected, "what a closure sees");
        let replaces = (what > 1).then_some((key, &value));
        if !self.is_applied(answer, replaces.as_slice())? {
            return Ok(Adds::Nothing);
        }
        let after = [expected, None, Some(&value), Some(&value)][usize::from(what)];
        assert_eq!(left.as_deref(), after.map(Vec::as_slice), "what a closure leaves");
        if what < 2 {
            self.meet(key);
            if what == 1 {
                self.present.remove(&key);
            }
            return Ok(Adds::Nothing);
        }
        let deadline = present.map_or_else(|| self.default_deadline(), |present| present.deadline);
        self.put(key, value, deadline);
        Ok(Adds::AtOnce)
    }

    fn append(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let suffix = self.fresh();
        let present = self.present.get(&key).cloned();
        let deadline =
            present.as_ref().map_or_else(|| self.default_deadline(), |present| present.deadline);
        let mut value = present.map(|present| present.value).unwrap_or_default();
        value.extend_from_slice(&suffix);
        let answer = self.client.append(&self.names[key], &suffix);
        let answer = answer.map(|length| assert_eq!(length, value.len(), "an appended length"));
        if !self.is_applied(answer, &[(key, &value)])? {
            return Ok(Adds::Nothing);
        }
        self.put(key, value, deadline);
        Ok(Adds::AtOnce)
    }

    fn set_expiry(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let (steps, persists) = (self.rng.u32(1..6), self.rng.bool());
        let present = self.meet(key);
        let name = &self.names[key];
        if persists {
            let had_deadline = present.is_some_and(|present| present.deadline.is_some());
            assert_eq!(self.client.persist(name)?, had_deadline);
        } else {
            assert_eq!(self.client.expire(name, STEP * steps)?, present.is_some());
        }
        let deadline = (!persists).then(|| self.cluster.now() + STEP * steps);
        if let Some(present) = self.present.get_mut(&key) {
            present.deadline = deadline;
        }
        Ok(Adds::Nothing)
    }

    /// Two keys of one slot, or one key twice.
    fn mset(&mut self, key: usize) -> Result<Adds, Box<dyn Error>> {
        let other = if self.setup.one_slot { self.key() } else { key };
        let entries = [key, other].map(|key| (key, self.fresh()));
        let named = entries.each_ref().map(|(key, value)| (&self.names[*key], value.as_slice()));
        let answer = self.client.mset(named);
        if !self.is_applied(answer, &entries.each_ref().map(|(key, value)| (*key, value)))? {
            return Ok(Adds::Nothing);
        }
        for (key, value) in entries {
            let deadline = self.default_deadline();
            self.put(key, value, deadline);
        }
        Ok(Adds::AtOnce)
    }

    fn set_many(&mut self) -> Result<Adds, Box<dyn Error>> {
        let mut entries: Vec<_> = (0..5).map(|_| (self.key(), self.fresh())).collect();
        // A batch that is refused may have been applied in part.
        entries.retain(|(key, value)| {
            let written = Written { value: value.clone(), deadline: None };
            self.cost(*key, &written).1 <= self.setup.capacity || self.setup.capacity == 0
        });
        let (_, mut most) = self.taken();
        let named = entries.iter().map(|(key, value)| (&self.names[*key], value.as_slice()));
        self.client.set_many(named)?;
        for (key, value) in entries {
            let deadline = self.default_deadline();
            self.put(key, value, deadline);
            most += self.cost(key, &self.present[&key]).1;
        }
        Ok(Adds::Piecemeal(most))
    }

    fn clear(&mut self) -> Result<Adds, Box<dyn Error>> {
        let cleared = self.client.clear()?;
        assert!((self.present.len()..=self.held_max()).contains(&cleared), "cleared {cleared}");
        self.present.clear();
        self.expired.clear();
        Ok(Adds::Nothing)
    }

    /// Every other time, what expired is swept.
    fn advance(&mut self) -> Adds {
        self.cluster.advance(STEP);
        let now = self.cluster.now();
        let past = take_out(&mut self.present, |_, written| written.is_past(now));
        self.lapsed += past.len();
        self.expired.extend(past);
        if self.rng.bool() {
            let node = self.cluster.node_ids()[0];
            for slot in self.names.iter().map(Slot::of) {
                while self.cluster.sweep_step(node, slot) {}
            }
            self.expired.clear();
        }
        Adds::Nothing
    }

    fn held_max(&self) -> usize {
        self.present.len() + self.expired.len()
    }

    /// Compares all that is there with what was written, and takes note of what is not.
    fn check(&mut self, adds: Adds) -> Tested {
        let shown = self.client.iter().collect::<Result<Vec<_>, _>>()?;
        let shown: Vec<_> = shown.iter().map(|shown| (Handle::key(shown), &**shown)).collect();
        let count = shown.len();
        let shown: BTreeMap<&[u8], &[u8]> = shown.into_iter().collect();
        assert_eq!(shown.len(), count, "a key is shown twice");
        let (_, most) = self.taken();
        let names = &self.names;
        let is_missing = |key: usize, _: &Written| !shown.contains_key(names[key].as_bytes());
        let evicted = take_out(&mut self.present, is_missing);
        let written = self.present.iter();
        let written = written.map(|(&key, written)| (names[key].as_bytes(), &written.value[..]));
        let written: BTreeMap<&[u8], &[u8]> = written.collect();
        assert_eq!(shown, written, "what is there, and what was written last");

        let (capacity, held) = (self.setup.capacity, self.client.len()?);
        assert!((self.present.len()..=self.held_max()).contains(&held), "{held} are counted");
        let (least, left) = self.taken();
        assert!(least <= capacity, "{least} are more than {capacity}");
        if self.setup.counts == Counts::Entries {
            assert!(held as u64 <= capacity, "{held} are more than {capacity}");
        }
        self.evicted += evicted.len();
        let Some(largest) = evicted.iter().map(|(key, was)| self.cost(*key, was).1).max() else {
            return Ok(());
        };
        match adds {
            Adds::Nothing => panic!("nothing was added, and these are gone: {evicted:?}"),
            Adds::AtOnce => {
                assert!(most > capacity, "{most} were no more than {capacity}");
                // Without one of them it would have been too much still.
                assert!(left + largest > capacity, "{left} are left: {evicted:?} is too much");
            }
            Adds::Piecemeal(most) => assert!(most > capacity, "{most} were at most {capacity}"),
        }
        Ok(())
    }
}

fn seeds() -> Result<Range<u64>, Box<dyn Error>> {
    let Ok(named) = env::var("SLOTKEEP_BOUNDED_SEEDS") else { return Ok(SEEDS) };
    let (first, end) = named.split_once("..").ok_or("no range")?;
    Ok(first.parse()?..end.parse()?)
}

/// Runs one setup with each seed; how many entries expired.
#[track_caller]
fn check(setup: Setup) -> usize {
    let (mut evicted, mut lapsed) = (0, 0);
    for seed in seeds().expect("a range of seeds is written 0..100") {
        let setup = Setup { seed, ..setup };
        println!("{setup:?}");
        let mut world = World::new(setup).expect("a cluster of one node");
        for _ in 0..CALLS {
            let adds = world.call_something().expect("every call is served");
            world.check(adds).expect("entries can be read");
        }
        world.cluster.check_invariants();
        evicted += world.evicted;
        lapsed += world.lapsed;
    }
    println!("{evicted} evicted, {lapsed} expired");
    assert!(evicted > CALLS / 50, "{evicted} evictions are too few to test them");
    lapsed
}

#[track_caller]
fn check_all(counts: Counts, capacities: &[u64]) {
    let mut lapsed = 0;
    for &capacity in capacities {
        for (one_slot, ttl) in [(true, None), (false, None), (true, Some(2)), (false, Some(2))] {
            lapsed += check(Setup { counts, capacity, one_slot, ttl, seed: 0 });
        }
    }
    assert!(lapsed > CALLS / 10, "{lapsed} expired: too few to test them");
}

#[test]
fn a_node_of_so_many_entries_holds_what_was_written_last_or_evicted_it_at_the_bound() {
    check_all(Counts::Entries, &CAPACITIES);
}

#[test]
fn a_node_of_so_much_weight_holds_what_was_written_last_or_evicted_it_at_the_bound() {
    check_all(Counts::Weights, &CAPACITIES);
}

#[test]
fn a_node_of_so_many_bytes_holds_what_was_written_last_or_evicted_it_at_the_bound() {
    check_all(Counts::Bytes, &[100, 1000, 5000]);
}
