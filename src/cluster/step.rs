//! Step mode and the other controls of the `testing` feature.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::cluster::Builder;
use crate::cluster::Client;
use crate::cluster::Cluster;
use crate::cluster::call::Call;
use crate::command::Condition;
use crate::command::Deadline;
use crate::command::Get;
use crate::command::GetAll;
use crate::command::Idle;
use crate::command::Incr;
use crate::command::Operation;
use crate::command::Remove;
use crate::command::RemoveAll;
use crate::command::Set;
use crate::command::SetAll;
use crate::command::Take;
use crate::error::Error;
use crate::node::Message;
use crate::node::Roster;
use crate::shard::Handle;
use crate::shard::Key;
use crate::shard::KeyHasher;
use crate::shard::Value;
use crate::slot::Slot;
use crate::testing::Fault;
use crate::testing::Faults;
use crate::time::NEVER;
use crate::topology::NodeId;
use crate::worker::ClusterClock;

/// What a builder's testing options say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Testing {
    seed: Option<u64>,
    stopped_clock: bool,
    step_mode: bool,
    held_bus: bool,
    fault: Option<Fault>,
}

impl Testing {
    pub(crate) fn clock(&self) -> ClusterClock {
        if self.stopped_clock {
            ClusterClock::stopped(Duration::from_secs(1_000_000_000))
        } else {
            ClusterClock::real()
        }
    }

    pub(crate) fn hasher(&self) -> KeyHasher {
        self.seed.map_or_else(KeyHasher::random, KeyHasher::seeded)
    }

    pub(crate) fn faults(&self) -> Faults {
        self.fault.map_or_else(Faults::default, Faults::plant)
    }

    pub(crate) fn is_threaded(&self) -> bool {
        !self.step_mode
    }

    pub(crate) fn hold_bus<V: Value + ?Sized>(&self, roster: &Roster<V>) {
        if self.held_bus {
            roster.bus.hold();
        }
    }
}

/// Options for tests.
impl<V: Value + ?Sized> Builder<V> {
    /// No threads: jobs of workers run on the calling thread, and what takes several holds is
    /// stepped by the test. The clock stands still, and `seed` decides the order in tables.
    pub fn step_mode(mut self, seed: u64) -> Self {
        self.options.testing.step_mode = true;
        self.options.testing.stopped_clock = true;
        self.options.testing.seed = Some(seed);
        self
    }

    /// The clock stands still until [`Cluster::advance`].
    pub fn stopped_clock(mut self) -> Self {
        self.options.testing.stopped_clock = true;
        self
    }

    /// The bus holds messages back from the start; see [`Cluster::bus`].
    pub fn held_bus(mut self) -> Self {
        self.options.testing.held_bus = true;
        self
    }

    /// Plants a fault, which the checks of a test have to catch.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.options.testing.fault = Some(fault);
        self
    }
}

/// Controls for tests.
impl<V: Value + ?Sized> Cluster<V> {
    /// Moves a stopped clock, and lets workers look at it.
    pub fn advance(&self, by: Duration) {
        self.roster().clock.advance(by);
        self.roster().workers().iter().for_each(|worker| worker.wake());
    }

    /// The time since the cluster began, by its clock.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.roster().now().nanos())
    }

    /// The bus between the nodes.
    pub fn bus(&self) -> BusControl<'_, V> {
        BusControl { roster: self.roster() }
    }

    /// One hold of the sweep of one shard of one node; whether the pass goes on.
    pub fn sweep_step(&self, node: NodeId, slot: Slot) -> bool {
        let Some(member) = self.roster().member(node) else { return false };
        self.roster().sweep_shard(member, slot) == crate::shard::Sweep::More
    }

    /// Recomputes what is derived, on every node: entries under their own hash and slot, deadlines
    /// noted, one owner a slot in the cluster's words, every live key in exactly one home, counts
    /// that add up, and what a bounded node holds. Called while nobody else calls.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn check_invariants(&self) {
        let roster = self.roster();
        for member in roster.members() {
            for slot in member.populated.iter() {
                let hold = member.headers.get(slot).lock();
                hold.check_invariants(|key| roster.hasher.hash(key), slot);
                hold.check_counts();
            }
            if let Some(budget) = member.headers.budget() {
                let costs = member.populated.iter();
                let costs = costs.map(|slot| member.peek(slot, |body| budget.cost_of(body)));
                assert_eq!(costs.sum::<u64>(), budget.taken(), "what is taken does not add up");
            }
        }
        roster.populated().iter().for_each(|slot| roster.check_slot(slot));
    }
}

/// Holds, delays, drops and reorders the messages between the nodes.
pub struct BusControl<'c, V: Value + ?Sized> {
    roster: &'c Roster<V>,
}

impl<V: Value + ?Sized> fmt::Debug for BusControl<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusControl").field("held", &self.held_count()).finish()
    }
}

impl<V: Value + ?Sized> BusControl<'_, V> {
    /// From now on messages are held back.
    pub fn hold(&self) {
        self.roster.bus.hold();
    }

    /// Delivers what is held, oldest first, and from now on everything at once.
    pub fn release(&self) {
        let held: VecDeque<Message> = self.roster.bus.release();
        for message in &held {
            self.roster.deliver(message);
        }
    }

    /// How many messages are held.
    pub fn held_count(&self) -> usize {
        self.roster.bus.held_count()
    }

    /// Delivers one of the held messages, the index of which says which; whether there was one.
    pub fn deliver(&self, index: usize) -> bool {
        let message = self.roster.bus.take(index);
        message.inspect(|message| self.roster.deliver(message)).is_some()
    }

    /// Drops one of the held messages; whether there was one.
    pub fn discard(&self, index: usize) -> bool {
        self.roster.bus.take(index).is_some()
    }
}

/// A call that is made one hold at a time.
pub struct Steps<'c, T> {
    step: Box<dyn FnMut() -> Option<Result<T, Error>> + 'c>,
}

impl<T> fmt::Debug for Steps<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").finish_non_exhaustive()
    }
}

impl<T> Steps<'_, T> {
    /// At most one hold; the answer when the call has ended. Not to be called again after that.
    pub fn step(&mut self) -> Option<Result<T, Error>> {
        (self.step)()
    }

    /// Goes on to the end.
    ///
    /// # Errors
    /// The call's.
    pub fn finish(mut self) -> Result<T, Error> {
        loop {
            if let Some(ended) = self.step() {
                return ended;
            }
        }
    }
}

/// Calls for tests, one hold at a time.
impl<V: Value + ?Sized> Client<V> {
    fn steps<'c, O>(&'c self, slot: Slot, operation: O) -> Steps<'c, O::Output>
    where
        O: Operation<V> + Send + 'c,
        O::Output: Send,
    {
        let mut call = Call::new(self, (slot, self.patience), operation);
        Steps { step: Box::new(move || Some(call.step()?.map_err(|(error, _)| error))) }
    }

    fn key_of<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key(bytes).expect("tests name keys within the bounds")
    }

    /// [`get`](Client::get).
    pub fn step_get<'c>(&'c self, key: &'c [u8]) -> Steps<'c, Option<Handle<V>>> {
        let key = self.key_of(key);
        self.steps(key.slot, Get { key })
    }

    /// [`set`](Client::set), with a time to live if one is named.
    pub fn step_set<'c>(
        &'c self,
        key: &'c [u8],
        value: V::Source<'c>,
        ttl: Option<Duration>,
    ) -> Steps<'c, ()> {
        let key = self.key_of(key);
        let deadline = ttl.map_or(Deadline::At(NEVER), Deadline::After);
        let (idle, condition) = (Idle::Default, Condition::Always);
        let weight = self.weigh(&key, &value);
        let set = Set { key, value, deadline, idle, weight, condition, return_old: false };
        let mut call = Call::new(self, (key.slot, self.patience), set);
        Steps { step: Box::new(move || Some(call.step()?.map(drop).map_err(|(error, _)| error))) }
    }

    /// [`remove`](Client::remove).
    pub fn step_remove<'c>(&'c self, key: &'c [u8]) -> Steps<'c, bool> {
        let key = self.key_of(key);
        self.steps(key.slot, Remove { key })
    }

    /// [`take`](Client::take).
    pub fn step_take<'c>(&'c self, key: &'c [u8]) -> Steps<'c, Option<Handle<V>>> {
        let key = self.key_of(key);
        self.steps(key.slot, Take { key })
    }

    /// [`mget`](Client::mget).
    pub fn step_mget<'c>(&'c self, keys: &[&'c [u8]]) -> Steps<'c, Vec<Option<Handle<V>>>> {
        let keys: Vec<_> = keys.iter().map(|key| self.key_of(key)).collect();
        self.steps(keys[0].slot, GetAll { keys: keys.into() })
    }

    /// [`mset`](Client::mset).
    pub fn step_mset<'c>(&'c self, entries: Vec<(&'c [u8], V::Source<'c>)>) -> Steps<'c, ()> {
        let (keys, values): (Vec<_>, Vec<_>) =
            entries.into_iter().map(|(key, value)| (self.key_of(key), value)).unzip();
        let weights = self.weigh_all(&keys, &values);
        self.steps(keys[0].slot, SetAll { keys: keys.into(), values, weights })
    }

    /// [`remove_all`](Client::remove_all).
    pub fn step_remove_all<'c>(&'c self, keys: &[&'c [u8]]) -> Steps<'c, usize> {
        let keys: Vec<_> = keys.iter().map(|key| self.key_of(key)).collect();
        self.steps(keys[0].slot, RemoveAll { keys: keys.into() })
    }
}

impl Client<[u8]> {
    /// [`incr`](Client::incr).
    pub fn step_incr<'c>(&'c self, key: &'c [u8], by: i64) -> Steps<'c, i64> {
        let key = self.key_of(key);
        let mut call = Call::new(self, (key.slot, self.patience), Incr { key, by });
        Steps {
            step: Box::new(move || {
                let ended = call.step()?.map_err(|(error, _)| error);
                Some(ended.and_then(|sum| Ok(sum?)))
            }),
        }
    }
}
