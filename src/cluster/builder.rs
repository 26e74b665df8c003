//! `Builder`: how many nodes and workers, who runs operations, and what is checked before.

use std::fmt;
use std::marker::PhantomData;

use crate::cluster::Cluster;
use crate::error::BuildError;
use crate::error::Error;
use crate::limits::MAILBOX_JOBS_DEFAULT;
use crate::limits::MAILBOX_JOBS_MAX;
use crate::limits::NODES_MAX;
use crate::limits::WORKERS_MAX;
use crate::node::Roster;
use crate::node::RosterOptions;
use crate::node::WorkerPlan;
use crate::shard::Value;
use crate::slot::SLOT_COUNT;
use crate::sync::Arc;
use crate::sync::parallelism;
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
    values: PhantomData<fn() -> Box<V>>,
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
    assign: bool,
    #[cfg(feature = "testing")]
    pub(crate) testing: crate::cluster::step::Testing,
}

impl<V: Value + ?Sized> Clone for Builder<V> {
    fn clone(&self) -> Self {
        Self { options: self.options, values: PhantomData }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Builder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.options).finish()
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
            assign: true,
            #[cfg(feature = "testing")]
            testing: crate::cluster::step::Testing::default(),
        };
        Self { options, values: PhantomData }
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

    /// No slot has an owner at the start; `ADDSLOTS` assigns them. Unless told, the nodes share
    /// them out evenly, in ranges.
    pub fn unassigned(mut self) -> Self {
        self.options.assign = false;
        self
    }

    /// The type of the values; `[u8]` unless told.
    pub fn values<W: Value + ?Sized>(self) -> Builder<W> {
        Builder { options: self.options, values: PhantomData }
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
        let roster = Arc::new(Roster::new(options.roster_options(plan)));
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

    fn roster_options(&self, workers: WorkerPlan) -> RosterOptions {
        RosterOptions {
            workers,
            mailbox_jobs: self.mailbox_jobs,
            truth: if self.assign { even_shares(self.nodes) } else { View::new() },
            strict: self.ownership == Ownership::Strict,
            full_coverage: self.full_coverage,
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
