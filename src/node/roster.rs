//! `Roster`: the nodes of one cluster and what they share.

#[cfg(test)]
use crate::evict::Policy;
use crate::migration::MoveId;
use crate::node::AdminError;
use crate::node::Bound;
use crate::node::Member;
use crate::node::MemberOptions;
use crate::node::bus::Bus;
use crate::node::handover_set::Handovers;
use crate::node::moves::Moves;
use crate::node::nodes::Nodes;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::KeyHasher;
use crate::shard::Terms;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync;
use crate::sync::Arc;
use crate::sync::AtomicBool;
use crate::sync::AtomicU64;
use crate::sync::CachePadded;
use crate::sync::JoinHandle;
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::sync::fence;
use crate::testing::Faults;
use crate::time::Now;
use crate::topology::Epoch;
use crate::topology::Gate;
use crate::topology::NodeId;
use crate::topology::SlotOwner;
use crate::topology::View;
use crate::worker::Chores;
use crate::worker::ClusterClock;
use crate::worker::Worker;
use crate::worker::WorkerError;
use crate::worker::on_worker;

/// Which threads own the shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkerPlan {
    /// So many for each node.
    PerNode(usize),
    /// So many that all nodes share.
    Shared(usize),
}

/// What the builder decides.
pub(crate) struct RosterOptions<V: Value + ?Sized> {
    pub(crate) workers: WorkerPlan,
    pub(crate) mailbox_jobs: usize,
    /// Every operation runs on its worker.
    pub(crate) strict: bool,
    pub(crate) member: MemberOptions,
    /// Without threads jobs run on the caller's, as in step mode.
    pub(crate) threaded: bool,
    pub(crate) faults: Faults,
    pub(crate) clock: ClusterClock,
    pub(crate) hasher: KeyHasher,
    /// What applies to entries of which a caller says nothing else, if it is anything.
    pub(crate) terms: Option<Terms<V>>,
    /// Who owns what at the start. The nodes that it names are to be added before anything else
    /// happens.
    pub(crate) truth: View,
}

#[cfg(test)]
impl<V: Value + ?Sized> RosterOptions<V> {
    /// Without threads, one worker a node, the same hashes in every run, and slots without owners.
    pub(crate) fn of_unit_tests() -> Self {
        Self {
            workers: WorkerPlan::PerNode(1),
            mailbox_jobs: 1,
            strict: false,
            member: MemberOptions { full_coverage: true, bound: None, policy: Policy::default() },
            threaded: false,
            faults: Faults::default(),
            clock: ClusterClock::real(),
            hasher: KeyHasher::seeded(1),
            terms: None,
            truth: View::new(),
        }
    }
}

/// The nodes of one cluster and what they share.
pub(crate) struct Roster<V: Value + ?Sized> {
    pub(crate) clock: Arc<ClusterClock>,
    pub(crate) hasher: KeyHasher,
    pub(crate) strict: bool,
    pub(crate) faults: Faults,
    /// What applies to entries of which a caller says nothing else, if it is anything.
    pub(crate) terms: Option<Box<Terms<V>>>,
    /// Whether tokens are lent, nothing is bounded, entries are kept for ever unless their writer
    /// says otherwise, and no fault is planted.
    pub(crate) plain: bool,
    /// The owner of every slot, for the whole cluster: what ADDSLOTS and flips compare and swap.
    pub(crate) truth: View,
    pub(crate) gate: Gate,
    pub(crate) bus: Bus,
    pub(crate) moves: Moves,
    pub(crate) handovers: Handovers,
    /// Padded like all that is written while calls run: calls read the fields beside it.
    pub(crate) answers: CachePadded<Answers>,
    closed: AtomicBool,
    nodes: Nodes<Member<V>>,
    /// The greatest epoch that was drawn.
    epochs: CachePadded<AtomicU64>,
    /// The greatest move id that was drawn.
    move_ids: CachePadded<AtomicU64>,
    workers: WorkerPlan,
    mailbox_jobs: usize,
    member: MemberOptions,
    threaded: bool,
    joining: Mutex<Joining>,
}

/// How often calls were not served at once.
#[derive(Default)]
pub(crate) struct Answers {
    redirects: AtomicU64,
    moved: AtomicU64,
    asks: AtomicU64,
    try_agains: AtomicU64,
    pulls: AtomicU64,
}

impl Answers {
    pub(crate) fn count_redirect(&self) {
        self.redirects.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_moved(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_ask(&self) {
        self.asks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_try_again(&self) {
        self.try_agains.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_pull(&self) {
        self.pulls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn redirects(&self) -> u64 {
        self.redirects.load(Ordering::Relaxed)
    }

    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    pub(crate) fn asks(&self) -> u64 {
        self.asks.load(Ordering::Relaxed)
    }

    pub(crate) fn try_agains(&self) -> u64 {
        self.try_agains.load(Ordering::Relaxed)
    }

    pub(crate) fn pulls(&self) -> u64 {
        self.pulls.load(Ordering::Relaxed)
    }
}

/// What only changes while a node joins or the cluster ends.
#[derive(Default)]
struct Joining {
    /// The workers that nodes share; empty when each node has its own.
    shared: Vec<Arc<Worker>>,
    /// Every worker, also after the end.
    workers: Vec<Arc<Worker>>,
    /// The threads that are not joined yet.
    threads: Vec<(Arc<Worker>, JoinHandle<()>)>,
}

impl<V: Value + ?Sized> Roster<V> {
    pub(crate) fn new(options: RosterOptions<V>) -> Self {
        let is_free = options.member.bound.is_none() && options.terms.is_none();
        let plain = is_free && !options.strict && options.faults.is_empty();
        let newest = options.truth.iter().map(|(_, known)| known.epoch).max().unwrap_or_default();
        Self {
            clock: Arc::new(options.clock),
            hasher: options.hasher,
            strict: options.strict,
            faults: options.faults,
            terms: options.terms.map(Box::new),
            plain,
            truth: options.truth,
            gate: Gate::new(),
            bus: Bus::new(),
            moves: Moves::new(),
            handovers: Handovers::default(),
            answers: CachePadded::default(),
            closed: AtomicBool::new(false),
            nodes: Nodes::new(),
            epochs: CachePadded::new(AtomicU64::new(newest.get())),
            move_ids: CachePadded::default(),
            workers: options.workers,
            mailbox_jobs: options.mailbox_jobs,
            member: options.member,
            threaded: options.threaded,
            joining: Mutex::new(Joining::default()),
        }
    }

    /// Adds a node without keys that knows the owners of all slots. It owns a slot only if the
    /// cluster began with its id as the owner.
    pub(crate) fn add_node(self: &Arc<Self>) -> Result<NodeId, AdminError> {
        if sync::holds_token() {
            return Err(WorkerError::Reentrant.into());
        }
        let mut joining = self.joining.lock();
        self.expect_open()?;
        let id = self.nodes.next_id().ok_or(AdminError::TooManyNodes)?;
        let workers = match self.workers {
            WorkerPlan::PerNode(count) => self.start_workers(&mut joining, count, |number| {
                format!("node-{}-worker-{number}", id.index())
            })?,
            WorkerPlan::Shared(count) if joining.shared.is_empty() => {
                joining.shared =
                    self.start_workers(&mut joining, count, |number| format!("worker-{number}"))?;
                joining.shared.clone()
            }
            WorkerPlan::Shared(_) => joining.shared.clone(),
        };
        let workers = workers.into_boxed_slice();
        self.nodes.add(Member::new(id, self.truth.copy(), workers, self.member));
        drop(joining);
        // Pairs with the fence of `broadcast`: a claim that did not find this node is in the
        // cluster's words, which are merged below.
        fence(Ordering::SeqCst);
        // From here on the node hears claims; what was claimed since its view was copied is in the
        // cluster's words.
        let joined = self.known(id);
        joined.view.merge(&self.truth);
        joined.saw_epoch(self.last_epoch());
        Ok(id)
    }

    fn start_workers(
        self: &Arc<Self>,
        joining: &mut Joining,
        count: usize,
        name: impl Fn(usize) -> String,
    ) -> Result<Vec<Arc<Worker>>, AdminError> {
        let mut workers = Vec::with_capacity(count);
        let mut threads = Vec::new();
        for number in 0..count {
            let worker =
                Arc::new(Worker::new(name(number), number, self.mailbox_jobs, self.threaded));
            if self.threaded {
                let chores: Arc<dyn Chores> = Arc::<Self>::clone(self);
                let Ok(thread) = worker.start(Arc::clone(&self.clock), chores) else {
                    end_threads(threads);
                    return Err(AdminError::NoThread);
                };
                threads.push((Arc::clone(&worker), thread));
            }
            workers.push(worker);
        }
        joining.workers.extend(workers.iter().map(Arc::clone));
        joining.threads.append(&mut threads);
        Ok(workers)
    }

    /// Ends every thread but the calling one and joins it; further calls answer `Closed`.
    ///
    /// Takes no longer than the longest closure that is running. From inside a closure under a
    /// token, and from a worker of another cluster, it tells the threads to end and does not wait
    /// for them. A call that comes while another one joins returns at once.
    pub(crate) fn shut_down(&self) {
        // Under the lock, so that no node joins afterwards.
        let threads = {
            let mut joining = self.joining.lock();
            // Release pairs with the Acquire of `expect_open`.
            self.closed.store(true, Ordering::Release);
            std::mem::take(&mut joining.threads)
        };
        for (worker, _) in &threads {
            worker.close();
        }
        let is_own_worker = threads.iter().any(|(worker, _)| worker.is_current());
        if sync::holds_token() || (on_worker() && !is_own_worker) {
            // A worker may wait for that very token, or its closure may end the cluster of this
            // worker. Whoever ends the cluster next joins them.
            self.joining.lock().threads.extend(threads);
            return;
        }
        end_threads(threads);
    }

    /// Refuses calls after shutdown, and calls from inside a token.
    #[inline]
    pub(crate) fn expect_open(&self) -> Result<(), WorkerError> {
        // Acquire pairs with the Release of `shut_down`.
        if self.closed.load(Ordering::Acquire) {
            return Err(WorkerError::Closed);
        }
        if sync::holds_token() {
            return Err(WorkerError::Reentrant);
        }
        Ok(())
    }

    /// Whether calls may be served at once: tokens are lent, no fault is planted, and nothing
    /// refuses calls.
    #[inline]
    pub(super) fn serves_at_once(&self) -> bool {
        !self.strict && self.faults.is_empty() && self.expect_open().is_ok()
    }

    /// Refuses a verb on a slot that is held still for a call.
    pub(crate) fn expect_gate_open(&self, slot: Slot) -> Result<(), WorkerError> {
        if self.gate.is_open(slot) { Ok(()) } else { Err(WorkerError::Busy) }
    }

    /// A node, if it exists.
    #[inline]
    pub(crate) fn member(&self, id: NodeId) -> Option<&Member<V>> {
        self.nodes.get(id)
    }

    /// The one node, if there is no other.
    #[inline]
    pub(crate) fn only(&self) -> Option<&Member<V>> {
        self.nodes.only()
    }

    /// A node that exists: its id came from this cluster.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn known(&self, id: NodeId) -> &Member<V> {
        self.member(id).expect("the id of a node that exists")
    }

    pub(crate) fn named(&self, id: NodeId) -> Result<&Member<V>, AdminError> {
        self.member(id).ok_or(AdminError::UnknownNode { node: id })
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.count()
    }

    /// Every node, by id.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member<V>> + '_ {
        self.nodes.iter()
    }

    /// Every worker, once.
    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        self.joining.lock().workers.clone()
    }

    /// Draws the epoch of a flip: greater than every one that was drawn before.
    pub(crate) fn draw_epoch(&self) -> Epoch {
        // AcqRel: who draws a later epoch sees what the earlier flips did before they drew theirs.
        Epoch::new(self.epochs.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// The greatest epoch that was drawn.
    pub(crate) fn last_epoch(&self) -> Epoch {
        Epoch::new(self.epochs.load(Ordering::Acquire))
    }

    pub(crate) fn draw_move_id(&self) -> MoveId {
        // Relaxed: ids only have to differ.
        MoveId::new(self.move_ids.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Records a flip in the word that the whole cluster compares and swaps; returns the ownership.
    pub(crate) fn flip_to(&self, slot: Slot, owner: Option<NodeId>) -> SlotOwner {
        let ownership = SlotOwner::new(owner, self.draw_epoch());
        self.truth.raise(slot, ownership);
        ownership
    }

    /// What work on a shard takes along that may write.
    #[inline]
    pub(super) fn context<'c>(
        &'c self,
        now: &'c Now<'c>,
        dropped: &'c mut Dropped<V>,
    ) -> Context<'c, V> {
        let terms = self.terms.as_deref();
        Context { terms, ..Context::new(now, &self.hasher, dropped) }
    }

    /// How much each node may hold, if that is bounded.
    pub(crate) fn bound(&self) -> Option<Bound> {
        self.member.bound
    }

    /// A time that is read when it is needed.
    pub(crate) fn now(&self) -> Now<'_> {
        Now::new(&*self.clock)
    }

    /// What tells the names of this cluster's nodes from others'.
    pub(crate) fn seed(&self) -> u128 {
        u128::from(self.hasher.hash(b"node")) << 64 | u128::from(self.hasher.hash(b"name"))
    }
}

/// Ends workers and joins their threads, but for the calling one.
fn end_threads(threads: Vec<(Arc<Worker>, JoinHandle<()>)>) {
    // All are told before the first is waited for.
    for (worker, _) in &threads {
        worker.close();
    }
    for (worker, thread) in threads {
        if !worker.is_current() {
            // A worker ends by returning; a panic of its own was reported by its hook.
            drop(thread.join());
        }
    }
}
