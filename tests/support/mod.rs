//! What tests share: each kind of cluster in one line, a half-moved slot among them.

use std::cell::Cell;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use slotkeep::{
    AbortStep, Client, Cluster, Compute, Error, Expiry, Handle, MigrateOptions, MoveId, Node,
    NodeId, Ownership, SetOptions, SetSlot, Slot, SlotState, Value,
};

pub type Tested = Result<(), Error>;

/// How long a test may hang before its watchdog ends it.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// The cluster that a test runs over, and what is going on in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    OneNode,
    ThreeNodes,
    Strict,
    /// `Fixture::disturb` opens a move of the slot and sends half of its keys.
    Moving,
    /// The same with every operation on its worker.
    MovingStrict,
    /// `Fixture::disturb` sends half of the keys and then turns the move round.
    Aborting,
}

pub const KINDS: [Kind; 6] = [
    Kind::OneNode,
    Kind::ThreeNodes,
    Kind::Strict,
    Kind::Moving,
    Kind::MovingStrict,
    Kind::Aborting,
];

/// A cluster, a client, and the slot in which the test's keys lie.
pub struct Fixture<V: Value + ?Sized> {
    pub kind: Kind,
    pub cluster: Cluster<V>,
    pub client: Client<V>,
    open: Cell<Option<MoveId>>,
}

impl Kind {
    /// Whether keys are split between two nodes after `Fixture::disturb`.
    pub fn splits(self) -> bool {
        matches!(self, Self::Moving | Self::MovingStrict | Self::Aborting)
    }

    pub fn is_strict(self) -> bool {
        matches!(self, Self::Strict | Self::MovingStrict)
    }
}

/// A key of the slot that moves.
pub fn key(name: impl std::fmt::Display) -> String {
    format!("{{moving}}:{name}")
}

/// So many keys of the slot that moves.
pub fn keys(count: usize) -> Vec<String> {
    (0..count).map(key).collect()
}

/// The slot of all keys that [`key`] makes.
pub fn slot() -> Slot {
    Slot::of("moving")
}

impl<V: Value + ?Sized> Fixture<V> {
    pub fn new(kind: Kind) -> Result<Self, Error> {
        let nodes = if kind == Kind::OneNode { 1 } else { 3 };
        let ownership = if kind.is_strict() { Ownership::Strict } else { Ownership::Lent };
        let builder = Cluster::builder().nodes(nodes).workers_per_node(1).ownership(ownership);
        let cluster = builder.values::<V>().build()?;
        let client = cluster.client();
        Ok(Self { kind, cluster, client, open: Cell::new(None) })
    }

    /// Source and target of the slot's move.
    pub fn sides(&self) -> (Node<V>, Node<V>) {
        let source = self.cluster.slot_map().owner(slot()).expect("every slot has an owner");
        let target = (source.index() + 1) % self.cluster.node_count();
        let node = |id| self.cluster.node(id).expect("a node of this cluster");
        (node(source), node(NodeId::new(target).expect("a small index")))
    }

    /// Splits the slot, if this kind of cluster does that: half of its keys go to the target.
    pub fn disturb(&self) {
        if !self.kind.splits() || self.open.get().is_some() {
            return;
        }
        let (source, target) = self.sides();
        let id = target.set_slot(slot(), SetSlot::Importing { source: source.id() });
        let id = id.expect("nobody has the slot open").expect("IMPORTING draws an id");
        let migrating = SetSlot::Migrating { target: target.id() };
        source.set_slot_step(slot(), migrating, id).expect("the target imports");
        let half = source.count_keys_in_slot(slot()).expect("an open cluster") / 2;
        if half > 0 {
            source.migrate_batch(slot(), id, half).expect("an open move");
        }
        self.open.set(Some(id));
        if self.kind == Kind::Aborting {
            // The first step only turns both marks round.
            assert_eq!(self.cluster.abort_step(id, 1), Ok(AbortStep::More));
            let state = source.slot_state(slot());
            assert!(matches!(state, Ok(SlotState::Aborting { .. })), "{state:?}");
        }
    }

    /// Ends the move: completes it, or brings the last key back.
    pub fn restore(&self) {
        let Some(id) = self.open.take() else { return };
        if self.kind == Kind::Aborting {
            while self.cluster.abort_step(id, 1).expect("an open abort") == AbortStep::More {}
            return;
        }
        let (source, target) = self.sides();
        while source.migrate_batch(slot(), id, 1).expect("an open move").left > 0 {}
        let flip = SetSlot::Node { owner: target.id() };
        target.set_slot_step(slot(), flip, id).expect("the source is empty");
        source.set_slot(slot(), flip).expect("the target has flipped");
    }

    /// Ends the move and counts: nothing is there twice, and nothing outside the slot's owner.
    #[track_caller]
    fn close(&self) {
        self.restore();
        let owner = self.cluster.slot_map().owner(slot());
        let mut stored = 0;
        for node in self.cluster.nodes() {
            let count = node.count_keys_in_slot(slot()).expect("an open cluster");
            assert!(count == 0 || Some(node.id()) == owner, "{} keeps {count} keys", node.id());
            stored += held(&node);
        }
        assert_eq!(self.client.len(), Ok(stored), "keys are counted twice or not at all");
    }
}

/// How many entries a node holds.
#[track_caller]
pub fn held<V: Value + ?Sized>(node: &Node<V>) -> usize {
    let slots = node.stored_slots().expect("an open cluster");
    slots.iter().map(|&(_, count)| count).sum()
}

/// What an entry of bytes weighs besides its key and its value.
pub const OVERHEAD: u64 = 40;

/// What an entry of bytes weighs that nobody has said anything about, if its value was never longer
/// than it is.
pub fn weigh(entry: Result<Handle<[u8]>, Error>) -> Result<u64, Error> {
    entry.map(|entry| OVERHEAD + (Handle::key(&entry).len() + entry.len()) as u64)
}

/// Runs a test over every kind of cluster, each a fresh one.
#[track_caller]
pub fn with_each_cluster<V: Value + ?Sized>(test: impl Fn(&Fixture<V>) -> Tested) {
    for kind in KINDS {
        println!("{kind:?}");
        let fixture = Fixture::new(kind).expect("a small cluster");
        if let Err(error) = test(&fixture) {
            panic!("{kind:?}: {error}");
        }
        fixture.close();
    }
}

/// Runs a closure on a thread of its own; a panic goes on here, and a closure that hangs fails.
#[track_caller]
pub fn watched<R: Send + 'static>(name: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::Builder::new().name(format!("watched {name}"));
    let thread = thread.spawn(move || {
        let result = body();
        drop(done);
        result
    });
    let thread = thread.expect("one thread more");
    // The thread sends nothing: what is heard is that it has ended.
    match ended.recv_timeout(WATCHDOG) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name}: still not done after {WATCHDOG:?}"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {}
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Fills a mailbox of one job whose worker is held: of two calls that do not wait one is refused.
/// Returns what that one answered, and the thread of the other one, whose job waits.
pub fn fill_mailbox<R: Send + 'static>(
    call: impl Fn() -> R + Clone + Send + 'static,
) -> (R, JoinHandle<R>) {
    let spawn = |call| std::thread::Builder::new().spawn(call).expect("one thread more");
    let (one, other) = (spawn(call.clone()), spawn(call));
    while !one.is_finished() && !other.is_finished() {
        std::thread::yield_now();
    }
    let (refused, waiting) = if one.is_finished() { (one, other) } else { (other, one) };
    (refused.join().expect("no panic"), waiting)
}

/// Every call that works on keys of one slot, made once; with its answer.
pub fn key_calls(client: &Client, name: &[u8]) -> Vec<(&'static str, Tested)> {
    let options = SetOptions::new().if_absent();
    vec![
        ("get", client.get(name).map(drop)),
        ("try_get", client.try_get(name).map(drop)),
        ("set", client.set(name, b"v").map_err(Error::from)),
        ("try_set", client.try_set(name, b"v").map_err(Error::from)),
        ("set_with", client.set_with(name, b"v", &options).map(drop).map_err(Error::from)),
        ("remove", client.remove(name).map(drop)),
        ("try_remove", client.try_remove(name).map(drop)),
        ("take", client.take(name).map(drop)),
        ("contains_key", client.contains_key(name).map(drop)),
        ("expiry", client.expiry(name).map(drop)),
        ("ttl", client.ttl(name).map(drop)),
        ("set_expiry", client.set_expiry(name, Expiry::Never).map(drop)),
        ("expire", client.expire(name, Duration::ZERO).map(drop)),
        ("expire_at", client.expire_at(name, std::time::UNIX_EPOCH).map(drop)),
        ("persist", client.persist(name).map(drop)),
        ("incr", client.incr(name, 1).map(drop)),
        ("append", client.append(name, b"x").map(drop)),
        ("compute", client.compute(name, |_| Compute::Remove).map(drop)),
        ("update", client.update(name, Vec::clear).map(drop)),
        ("update_in_place", client.update_in_place(name, |_| ()).map(drop)),
        ("mget", client.mget(&[name]).map(drop)),
        ("mset", client.mset([(name, &b"v"[..])])),
        ("remove_all", client.remove_all(&[name]).map(drop)),
        ("transaction", client.transaction(&[name], |_| Ok::<_, ()>(())).map(drop)),
        ("get_many", client.get_many(&[name]).map(drop)),
        ("set_many", client.set_many([(name, &b"v"[..])])),
        ("remove_many", client.remove_many(&[name]).map(drop)),
    ]
}

/// Every call on slots, nodes and the cluster that can fail, made once; with its answer. Not those
/// that only look at one node.
pub fn other_calls(cluster: &Cluster, client: &Client, name: &[u8]) -> Vec<(&'static str, Tested)> {
    let slot = Slot::of(name);
    let nodes = cluster.nodes();
    let (first, last) = (&nodes[0], &nodes[nodes.len() - 1]);
    let options = MigrateOptions::default();
    let set_slot = |verb| first.set_slot(slot, verb).map(drop).map_err(Error::from);
    vec![
        ("entries_of_slot", client.entries_of_slot(slot).map(drop)),
        ("iter", client.iter().try_for_each(|entry| entry.map(drop))),
        ("len", client.len().map(drop)),
        ("is_empty", client.is_empty().map(drop)),
        ("live", client.live().map(drop)),
        ("weight", client.weight().map(drop)),
        ("retain", client.retain(|_, _| true).map(drop)),
        ("counts", client.counts().map(drop)),
        ("clear", client.clear().map(drop)),
        ("clear_slot", client.clear_slot(slot).map(drop)),
        ("explain", client.explain(name).map(drop)),
        ("hand_over", first.hand_over(slot, last.id()).map(drop).map_err(Error::from)),
        ("begin_handover", cluster.begin_handover(&[]).map(drop).map_err(Error::from)),
        ("run_on_owner", client.run_on_owner(name, || ())),
        ("run_on_worker", first.run_on_worker(slot, || ()).map_err(Error::from)),
        ("add_node", cluster.add_node().map(drop)),
        ("add_slots", first.add_slots(&[slot]).map_err(Error::from)),
        ("del_slots", first.del_slots(&[slot]).map_err(Error::from)),
        ("flush_slots", first.flush_slots().map_err(Error::from)),
        ("bump_epoch", first.bump_epoch().map(drop).map_err(Error::from)),
        ("importing", set_slot(SetSlot::Importing { source: last.id() })),
        ("migrating", set_slot(SetSlot::Migrating { target: last.id() })),
        ("stable", set_slot(SetSlot::Stable)),
        ("node", set_slot(SetSlot::Node { owner: last.id() })),
        (
            "migrate_keys",
            first.migrate_keys(&[name], last.id(), options).map(drop).map_err(Error::from),
        ),
        ("copy_keys", first.copy_keys(&[name], last.id(), options).map(drop).map_err(Error::from)),
    ]
}

/// Every one of the answers is this error.
#[track_caller]
pub fn check_each(answers: Vec<(&'static str, Tested)>, error: Error) {
    for (call, answer) in answers {
        assert_eq!(answer, Err(error), "{call}");
    }
}
