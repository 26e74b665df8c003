//! `Client`: the way into a cluster, with its slot map and its manner of waiting.

use std::fmt;
use std::time::Duration;

use crate::cluster::Hop;
use crate::cluster::Lifeline;
use crate::cluster::call::Call;
use crate::cluster::call::Ended;
use crate::cluster::map::ClientMap;
use crate::cluster::trace::Trace;
use crate::command::CommandError;
use crate::command::Operation;
use crate::error::Error;
use crate::migration::Semantics;
use crate::node::Asking;
use crate::node::Attempt;
use crate::node::Member;
use crate::node::Roster;
use crate::shard::Key;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::testing::Fault;
use crate::topology::NodeId;
use crate::topology::SlotMap;
use crate::worker::Patience;

/// A client of a cluster, like one of a Redis Cluster: it keeps a slot map, and follows MOVED and
/// ASK. A call on several keys that a move splits has them pulled together.
///
/// Cheap to clone; clones share the slot map. Calls run on the calling thread, under the token of
/// the key's shard, and wait for that token only, so async code may call them. In strict mode they
/// wait for the shard's worker.
pub struct Client<V: Value + ?Sized = [u8]> {
    life: Arc<Lifeline<V>>,
    /// The same as in `life`, one step nearer.
    pub(crate) roster: Arc<Roster<V>>,
    pub(crate) map: Arc<ClientMap>,
    pub(crate) patience: Patience,
    pub(crate) semantics: Semantics,
    /// The one node that calls ask, and with which ASKING; they follow nothing.
    pub(crate) pinned: Option<(NodeId, Asking)>,
    /// How long a call waits out `TRYAGAIN`.
    pub(crate) waiting: Duration,
    pub(crate) trace: Option<Trace>,
}

impl<V: Value + ?Sized> Clone for Client<V> {
    fn clone(&self) -> Self {
        Self {
            life: Arc::clone(&self.life),
            roster: Arc::clone(&self.roster),
            map: Arc::clone(&self.map),
            patience: self.patience,
            semantics: self.semantics,
            pinned: self.pinned,
            waiting: self.waiting,
            trace: self.trace.clone(),
        }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Client<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Who runs what concerns a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnerOf {
    /// The key's slot.
    pub slot: Slot,
    /// The node that the client's map names.
    pub node: NodeId,
    /// The name of the worker that owns the slot's shard there.
    pub worker: String,
}

impl<V: Value + ?Sized> Client<V> {
    pub(crate) fn new(life: Arc<Lifeline<V>>) -> Self {
        let roster = Arc::clone(&life.0);
        let map = Arc::new(ClientMap::of(&roster.truth));
        Self {
            life,
            roster,
            map,
            patience: Patience::Wait,
            semantics: Semantics::Pull,
            pinned: None,
            waiting: Duration::ZERO,
            trace: None,
        }
    }

    /// A client with a slot map of its own, as fresh as a new one's.
    #[must_use]
    pub fn with_own_map(&self) -> Self {
        Self { map: Arc::new(ClientMap::of(&self.roster.truth)), ..self.clone() }
    }

    /// A client whose calls on keys do not wait: where a token is taken or a mailbox is full they
    /// answer [`Error::Busy`]. In strict mode an accepted call waits for the worker's answer.
    #[must_use]
    pub fn trying(&self) -> Self {
        Self { patience: Patience::Try, ..self.clone() }
    }

    /// A client with the answers of Redis, or with the engine's, which a new client has.
    ///
    /// Under [`Semantics::Redis`] a call on several keys that a move splits gets TRYAGAIN or ASK,
    /// as from a real server. It repeats a few times without pause, or for as long as
    /// [`waiting`](Self::waiting) says, and then answers [`Error::TryAgain`]. Batches go key by
    /// key, as pipelines of real clients do.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::{Cluster, Error, Semantics, SetSlot, Slot};
    /// # fn main() -> Result<(), Error> {
    /// let cluster = Cluster::builder().nodes(2).build()?;
    /// let (client, slot) = (cluster.client(), Slot::of("{b}"));
    /// let (source, target) = (&cluster.nodes()[0], &cluster.nodes()[1]);
    /// target.set_slot(slot, SetSlot::Importing { source: source.id() })?;
    /// source.set_slot(slot, SetSlot::Migrating { target: target.id() })?;
    /// // Two new keys in a slot that moves: no server of a real cluster takes them.
    /// let entries = [("{b}:1", &b"v"[..]), ("{b}:2", b"v")];
    /// let as_redis = client.with_semantics(Semantics::Redis);
    /// assert_eq!(as_redis.mset(entries), Err(Error::TryAgain { slot }));
    /// client.mset(entries)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_semantics(&self, semantics: Semantics) -> Self {
        Self { semantics, ..self.clone() }
    }

    /// A client that asks this node only, and returns what it answers instead of following it: for
    /// doors, and for tests of clients that follow by themselves.
    ///
    /// Each call on keys makes one attempt, with this ASKING: it is served there, or ends with
    /// [`Error::Redirected`], [`Error::TryAgain`] or [`Error::ClusterDown`], whose
    /// [`redis_text`](Error::redis_text) is that of Redis. Keys in different slots are refused
    /// before. A batch makes an attempt for each slot. The slot map learns nothing; calls on whole
    /// slots, such as [`iter`](Self::iter), ask all nodes as ever.
    ///
    /// # Errors
    /// [`Error::Admin`] with `UnknownNode`.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::{Asking, Cluster, Error, Redirect, Semantics};
    /// # fn main() -> Result<(), Error> {
    /// let cluster = Cluster::builder().nodes(3).build()?;
    /// let ids = cluster.node_ids();
    /// let client = cluster.client().with_semantics(Semantics::Redis);
    /// let answer = client.at(ids[1], Asking::Any)?.set("{b}", b"v");
    /// let Err(Error::Redirected(redirect)) = answer.map_err(Error::from) else { unreachable!() };
    /// assert_eq!(redirect.redis_text("127.0.0.1:7000"), "MOVED 3300 127.0.0.1:7000");
    /// client.at(redirect.node(), Asking::No)?.set("{b}", b"v")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(&self, node: NodeId, asking: Asking) -> Result<Self, Error> {
        self.roster.named(node)?;
        Ok(Self { pinned: Some((node, asking)), ..self.clone() })
    }

    /// A client of [`Semantics::Redis`] whose calls wait up to `limit` for keys that a move splits,
    /// with growing pauses, before they answer [`Error::TryAgain`]. Calls of other clients have
    /// nothing to wait for, so there it changes nothing.
    #[must_use]
    pub fn waiting(&self, limit: Duration) -> Self {
        Self { waiting: limit, ..self.clone() }
    }

    /// Runs `calls` on a client that notes each node it asks, and returns the hops, oldest first;
    /// of more than [`TRACE_HOPS_MAX`](crate::limits::TRACE_HOPS_MAX) the newest.
    pub fn traced<R>(&self, calls: impl FnOnce(&Self) -> R) -> (R, Vec<Hop>) {
        let trace = Trace::default();
        let client = Self { trace: Some(trace.clone()), ..self.clone() };
        (calls(&client), trace.take())
    }

    /// What this client believes about the owners.
    pub fn slot_map(&self) -> SlotMap {
        SlotMap::of(self.map.view())
    }

    /// Who runs what concerns a key, by this client's map.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`].
    pub fn owner_of(&self, key: impl AsRef<[u8]>) -> Result<OwnerOf, Error> {
        let slot = self.key(key.as_ref())?.slot;
        let node = self.first_node(slot);
        let worker = self.roster.known(node).worker(slot).name().to_owned();
        Ok(OwnerOf { slot, node, worker })
    }

    /// Runs a closure on the worker that owns the key's shard on the node that this client's map
    /// names, and waits for it.
    ///
    /// The closure holds no token and may call the engine; on its own worker nothing has to hop.
    /// A panic in the closure goes on in the caller.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`]; [`Error::Closed`] after shutdown (the closure was dropped);
    /// [`Error::Reentrant`] from inside a token or from another worker; [`Error::Busy`] for a
    /// client that does not wait and a full mailbox.
    pub fn run_on_owner<R: Send>(
        &self,
        key: impl AsRef<[u8]>,
        closure: impl FnOnce() -> R + Send,
    ) -> Result<R, Error> {
        let slot = self.key(key.as_ref())?.slot;
        self.roster.expect_open()?;
        let member = self.roster.known(self.first_node(slot));
        Ok(member.worker(slot).call(self.patience, closure)?)
    }

    /// Hashes a key.
    #[inline]
    pub(crate) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, Error> {
        Key::new(bytes, &self.roster.hasher).map_err(|bytes| Error::KeyTooLong { bytes })
    }

    /// The node that the map names, or any node, which will know better; or the pinned one.
    #[inline]
    pub(crate) fn first_node(&self, slot: Slot) -> NodeId {
        match self.pinned {
            None => self.map.owner(slot).unwrap_or_else(|| self.any_node()),
            Some((node, _)) => node,
        }
    }

    #[cold]
    fn any_node(&self) -> NodeId {
        self.roster.members().next().map(|member| member.id).expect("a cluster has a node")
    }

    /// Runs one operation to its end.
    #[inline]
    pub(crate) fn run<O>(&self, slot: Slot, operation: O) -> Ended<O, O::Output>
    where
        O: Operation<V> + Send,
        O::Output: Send,
    {
        Call::begin(self, (slot, self.patience), operation)
    }

    /// [`call`](Self::call) that does not wait.
    pub(crate) fn try_call<O>(&self, slot: Slot, operation: O) -> Result<O::Output, Error>
    where
        O: Operation<V> + Send,
        O::Output: Send,
    {
        Call::begin(self, (slot, Patience::Try), operation).map_err(|(error, _)| error)
    }

    /// How the first attempt of a call is made.
    #[inline]
    pub(crate) fn attempt(&self, slot: Slot, patience: Patience) -> Attempt {
        let early = self.roster.faults.has(Fault::NowBeforeToken);
        let early = early.then(|| self.roster.now().nanos());
        let asking = self.pinned.map_or(Asking::No, |(_, asking)| asking);
        Attempt { slot, asking, semantics: self.semantics, patience, early, is_last: false }
    }

    /// [`run`](Self::run) for operations that nobody wants back.
    #[inline]
    pub(crate) fn call<O>(&self, slot: Slot, operation: O) -> Result<O::Output, Error>
    where
        O: Operation<V> + Send,
        O::Output: Send,
    {
        self.run(slot, operation).map_err(|(error, _)| error)
    }

    /// The node that is asked first.
    #[inline]
    pub(crate) fn first_member(&self, slot: Slot) -> &Member<V> {
        if self.pinned.is_none()
            && let Some(only) = self.roster.only()
        {
            // Whatever the map says, nobody else is there to be asked.
            return only;
        }
        self.roster.known(self.first_node(slot))
    }
}

/// Refuses a value that is longer than the bound.
#[inline]
pub(crate) fn check_value<V: Value + ?Sized>(value: &V::Source<'_>) -> Result<(), CommandError> {
    crate::command::check_value_bytes(V::source_bytes(value))
}
