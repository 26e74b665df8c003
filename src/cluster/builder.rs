//! `Builder`: how many nodes and workers, who runs operations, and what is checked before.

use std::fmt;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::error::BuildError;
use crate::error::Error;
use crate::evict::Policy;
use crate::limits::BOUND_WEIGHT_MAX;
use crate::limits::MAILBOX_JOBS_DEFAULT;
use crate::limits::MAILBOX_JOBS_MAX;
use crate::limits::NODES_MAX;
use crate::limits::WORKERS_MAX;
use crate::node::Bound;
use crate::node::MemberOptions;
use crate::node::Roster;
use crate::node::RosterOptions;
use crate::node::WorkerPlan;
use crate::shard::Terms;
use crate::shard::Value;
use crate::slot::SLOT_COUNT;
use crate::sync::Arc;
use crate::sync::parallelism;
use crate::time::nanos_of;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;
use crate::topology::View;

/// Which thread runs an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Ownership {
    /// The shard's owner lends its token to the calling thread, which runs the operation in place.
    #[default]
    Lent,
    /// Every operation runs on the shard's owning worker: pure shared-nothing, at the price of two
    /// thread switches a call.
    Strict,
}

/// Builds a [`Cluster`].
#[must_use]
pub struct Builder<V: Value + ?Sized = [u8]> {
    pub(crate) options: Options,
    terms: Terms<V>,
}

/// What the builder was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    nodes: usize,
    workers_per_node: Option<usize>,
    shared_workers: Option<usize>,
    ownership: Ownership,
    mailbox_jobs: usize,
    full_coverage: bool,
    bound: Option<Bound>,
    policy: Policy,
    assign: bool,
    #[cfg(feature = "testing")]
    pub(crate) testing: crate::cluster::step::Testing,
}

impl<V: Value + ?Sized> Clone for Builder<V> {
    fn clone(&self) -> Self {
        Self { options: self.options, terms: self.terms.clone() }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Builder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.options).field(&self.terms).finish()
    }
}

impl Builder<[u8]> {
    pub(crate) fn new() -> Self {
        let options = Options {
            nodes: 1,
            workers_per_node: None,
            shared_workers: None,
            ownership: Ownership::Lent,
            mailbox_jobs: MAILBOX_JOBS_DEFAULT,
            full_coverage: true,
            bound: None,
            policy: Policy::default(),
            assign: true,
            #[cfg(feature = "testing")]
            testing: crate::cluster::step::Testing::default(),
        };
        Self { options, terms: Terms::default() }
    }
}

impl<V: Value + ?Sized> Builder<V> {
    /// How many nodes there are at the start: 1 unless told, at most
    /// [`NODES_MAX`].
    pub fn nodes(mut self, count: usize) -> Self {
        self.options.nodes = count;
        self
    }

    /// How many worker threads each node has: unless told, this machine's parallelism shared out
    /// between the nodes, at least 1. At most [`WORKERS_MAX`].
    pub fn workers_per_node(mut self, count: usize) -> Self {
        self.options.workers_per_node = Some(count);
        self.options.shared_workers = None;
        self
    }

    /// All nodes share so many worker threads, however many nodes there are.
    pub fn shared_workers(mut self, count: usize) -> Self {
        self.options.shared_workers = Some(count);
        self.options.workers_per_node = None;
        self
    }

    /// Which thread runs an operation: lent unless told.
    pub fn ownership(mut self, ownership: Ownership) -> Self {
        self.options.ownership = ownership;
        self
    }

    /// How many jobs wait in each worker's mailbox:
    /// [`MAILBOX_JOBS_DEFAULT`] unless told, at most [`MAILBOX_JOBS_MAX`].
    pub fn mailbox_jobs(mut self, jobs: usize) -> Self {
        self.options.mailbox_jobs = jobs;
        self
    }

    /// Whether nodes serve only while every slot has an owner: yes unless told.
    pub fn full_coverage(mut self, required: bool) -> Self {
        self.options.full_coverage = required;
        self
    }

    /// How much each node may hold; without bounds unless told. What happens at the bound is up to
    /// the [`policy`](Self::policy).
    ///
    /// What is in a call at the moment may be beyond it; when no call is running, nothing is,
    /// unless a value panicked when it was dropped, or wrote here from [so
    /// deep](crate::limits::EVICTING_PLACES_MAX) within others: then the next write makes the room.
    /// Where entries are evicted, nothing but one that is heavier than the whole bound is ever
    /// refused. A value is dropped by the call that evicts it, which makes room for what that drop
    /// writes here, too, unless writes are refused: a value must not write its like for ever.
    ///
    /// Where writes are refused, these two are not, and may leave a node with more than its bound
    /// until something is removed: keys that an abort or a repair brings home, and those that a
    /// call names which a move splits, and which are pulled to its target.
    pub fn bound(mut self, bound: Bound) -> Self {
        self.options.bound = Some(match bound {
            Bound::Weight(weight) => Bound::Weight(weight.min(BOUND_WEIGHT_MAX)),
            Bound::Entries(_) => bound,
        });
        self
    }

    /// What a node does when it holds as much as it may: [`Policy::Adaptive`] unless told.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// No slot has an owner at the start; `ADDSLOTS` assigns them. Unless told, the nodes share
    /// them out evenly, in ranges.
    pub fn unassigned(mut self) -> Self {
        self.options.assign = false;
        self
    }

    /// What entries weigh, for [`Bound::Weight`]: unless told, the bytes that they take of memory.
    /// 0 counts as 1, and more than [`WEIGHT_MAX`](crate::limits::WEIGHT_MAX) as that.
    ///
    /// Runs once for each value that is written, on the calling thread, before a token is taken;
    /// for values that are made under one (`compute`, `update`, `update_in_place`, `append`,
    /// `incr`, transactions) it runs there, perhaps twice, in strict mode on the worker. So it must
    /// be short, and calls to any cluster inside it answer [`Error::Reentrant`]. A panic goes on in
    /// the caller and changes nothing, but for `update_in_place`, where it removes the entry, and
    /// `set_many`, where slots before it are written. It does not run where the bound is not one by
    /// weight.
    pub fn weigher(mut self, weigh: impl Fn(&[u8], &V) -> u64 + Send + Sync + 'static) -> Self {
        self.terms.weigher = Some(Arc::new(weigh));
        self
    }

    /// Every entry expires after this time, counted from when it is written, unless its writer says
    /// otherwise ([`Expiry::Default`](crate::Expiry::Default) is this time). [`Duration::MAX`], and
    /// whatever is too long to count in nanoseconds, is never.
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.terms.ttl = nanos_of(time);
        self
    }

    /// Entries expire up to this much earlier than [`time_to_live`](Self::time_to_live) says, drawn
    /// for each, so that what was written together does not expire together. No entry lives longer
    /// for it, and none that is meant to live at all expires at once. A time that a writer asks for
    /// is kept to the nanosecond.
    pub fn jitter(mut self, at_most: Duration) -> Self {
        self.terms.jitter = nanos_of(at_most);
        self
    }

    /// Every entry expires when nobody has read or written it for this time, unless its writer says
    /// otherwise. Reads then read the clock. Presence, expiry calls that only look, iteration and
    /// moves put nothing off; another deadline counts as a write.
    pub fn time_to_idle(mut self, time: Duration) -> Self {
        self.terms.idle = nanos_of(time);
        self
    }

    /// The type of the values; `[u8]` unless told. A [`weigher`](Self::weigher) is forgotten.
    pub fn values<W: Value + ?Sized>(self) -> Builder<W> {
        let Terms { ttl, jitter, idle, .. } = self.terms;
        Builder { options: self.options, terms: Terms { weigher: None, ttl, jitter, idle } }
    }

    /// Starts the cluster.
    ///
    /// # Errors
    /// [`Error::Build`] names the option that is out of bounds; nothing was started.
    /// [`Error::Admin`] with `NoThread` when the system has no thread left; what was started is
    /// ended. [`Error::Reentrant`] from inside a closure under a token.
    pub fn build(self) -> Result<Cluster<V>, Error> {
        let options = &self.options;
        let plan = options.worker_plan()?;
        if !(1..=NODES_MAX).contains(&options.nodes) {
            return Err(BuildError::Nodes { count: options.nodes }.into());
        }
        if !(1..=MAILBOX_JOBS_MAX).contains(&options.mailbox_jobs) {
            return Err(BuildError::Mailbox { jobs: options.mailbox_jobs }.into());
        }
        let weighs = matches!(options.bound, Some(Bound::Weight(_)));
        let weigher = self.terms.weigher.filter(|_| weighs);
        let terms = Terms { weigher, ..self.terms };
        let terms = (!terms.are_plain()).then_some(terms);
        let roster = Arc::new(Roster::new(options.roster_options(plan, terms)));
        // From here on whatever was started ends with the cluster, also when a node fails to start.
        let cluster = Cluster::over(Arc::clone(&roster));
        for _ in 0..options.nodes {
            roster.add_node()?;
        }
        #[cfg(feature = "testing")]
        options.testing.hold_bus(&roster);
        Ok(cluster)
    }
}

impl Options {
    fn worker_plan(&self) -> Result<WorkerPlan, BuildError> {
        let checked = |count: usize| {
            let fits = (1..=WORKERS_MAX).contains(&count);
            fits.then_some(count).ok_or(BuildError::Workers { count })
        };
        if let Some(count) = self.shared_workers {
            return checked(count).map(WorkerPlan::Shared);
        }
        let share = parallelism() / self.nodes.max(1);
        let count = self.workers_per_node.unwrap_or(share.clamp(1, WORKERS_MAX));
        checked(count).map(WorkerPlan::PerNode)
    }

    fn roster_options<V: Value + ?Sized>(
        &self,
        workers: WorkerPlan,
        terms: Option<Terms<V>>,
    ) -> RosterOptions<V> {
        RosterOptions {
            workers,
            terms,
            mailbox_jobs: self.mailbox_jobs,
            truth: if self.assign { even_shares(self.nodes) } else { View::new() },
            strict: self.ownership == Ownership::Strict,
            member: MemberOptions {
                full_coverage: self.full_coverage,
                bound: self.bound,
                policy: self.policy,
            },
            #[cfg(feature = "testing")]
            threaded: self.testing.is_threaded(),
            #[cfg(feature = "testing")]
            faults: self.testing.faults(),
            #[cfg(feature = "testing")]
            clock: self.testing.clock(),
            #[cfg(feature = "testing")]
            hasher: self.testing.hasher(),
            #[cfg(not(feature = "testing"))]
            threaded: true,
            #[cfg(not(feature = "testing"))]
            faults: crate::testing::Faults::default(),
            #[cfg(not(feature = "testing"))]
            clock: crate::worker::ClusterClock::real(),
            #[cfg(not(feature = "testing"))]
            hasher: crate::shard::KeyHasher::random(),
        }
    }
}

/// Gives each of `nodes` nodes a range of slots; their lengths differ by at most one.
///
/// All slots of a node have one epoch, as in Redis: most of a view is the same from slot to slot.
fn even_shares(nodes: usize) -> View {
    View::from_fn(|slot| {
        // Range `index` begins at slot `index * SLOT_COUNT / nodes`, rounded down: this is the last
        // one that begins at or before `slot`.
        let index = ((slot.index() + 1) * nodes - 1) / usize::from(SLOT_COUNT);
        SlotOwner::new(NodeId::new(index), Epoch::new(index as u64 + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::SlotMap;

    #[test]
    fn shares_are_even_and_cover_everything() {
        for nodes in [1, 2, 3, 5, 16, 1000, NODES_MAX] {
            let shares = SlotMap::of(&even_shares(nodes)).ranges();
            assert_eq!(shares.len(), nodes, "one range a node");
            assert!(shares.iter().enumerate().all(|(index, (_, node))| node.index() == index));
            let lens: Vec<_> = shares.iter().map(|(range, _)| range.len()).collect();
            assert_eq!(lens.iter().sum::<usize>(), 16_384);
            assert!(lens.iter().max().unwrap() - lens.iter().min().unwrap() <= 1);
        }
    }
}
