//! `Reshard`: a list of moves, one after another or all or nothing, while traffic runs.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use thiserror::Error as ThisError;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::limits::MIGRATE_KEYS_DEFAULT;
use crate::node::Node;
use crate::reshard::Handover;
use crate::reshard::Move;
use crate::reshard::MoveControl;
use crate::reshard::MoveStep;
use crate::reshard::Pace;
use crate::reshard::PlanError;
use crate::reshard::PlannedMove;
use crate::reshard::driver::Driver;
use crate::reshard::driver::finish;
use crate::reshard::handover::SlotHandover;
use crate::reshard::plan_drain;
use crate::reshard::plan_join;
use crate::reshard::plan_moves;
use crate::reshard::wait_out;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::topology::NodeId;

/// How a slot moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MoveKind {
    /// By [`Node::hand_over`](crate::Node::hand_over): the slot changes its owner with everything
    /// in it at one instant. No ASK, no TRYAGAIN, and the same short time whatever it holds.
    #[default]
    Handover,
    /// By [`Move`]: the verbs of SETSLOT and keys in batches, as in Redis Cluster. Clients see what
    /// they see there.
    Classic,
}

/// What `run` does with the list of moves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    SlotBySlot(MoveKind),
    AllOrNothing,
}

/// How far a resharding has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The slot that is moving, or has just moved.
    pub slot: Slot,
    /// How many slots have their new owner.
    pub slots_moved: usize,
    /// How many slots are to move in all.
    pub slots_total: usize,
    /// How many keys have travelled.
    pub keys_moved: u64,
}

/// What a resharding did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// How many slots have their new owner.
    pub slots_moved: usize,
    /// How many keys have travelled.
    pub keys_moved: u64,
    /// How many MOVED and ASK answers all clients followed meanwhile.
    pub redirects: u64,
    /// How often a call that lost too many races made the mover wait.
    pub waits: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether the progress callback ended it early.
    pub stopped: bool,
}

/// Why a resharding ended early. Slots that have moved stay where they are; the move of the slot
/// at which it failed was undone, or is listed by [`Cluster::moves`] or [`Cluster::handovers`] for
/// [`resume`](crate::reshard::resume).
#[derive(Clone, Copy, PartialEq, Eq, Debug, ThisError)]
#[non_exhaustive]
pub enum ReshardError {
    /// The plan cannot be made; nothing was moved.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A step was refused.
    #[error("slot {slot}: {error}")]
    Step {
        /// The slot.
        slot: Slot,
        /// Why.
        error: Error,
        /// What was done before.
        report: Report,
    },
}

/// Whether the callback ended it, or at which slot it failed.
type Ended = Result<ControlFlow<()>, (Slot, Error)>;

type Callback<'c> = Box<dyn FnMut(&Progress) -> ControlFlow<()> + 'c>;

/// Moves of slots that the caller names, or that let a node join or leave.
///
/// # Examples
/// ```
/// use slotkeep::Cluster;
/// use slotkeep::reshard::Reshard;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::builder().nodes(3).build()?;
/// let client = cluster.client();
/// client.set("user:1000", b"Ada")?;
/// let node = cluster.add_node()?;
/// let report = Reshard::of(&cluster).join(node.id())?.run()?;
/// assert_eq!(report.slots_moved, 4096);
/// assert_eq!(client.get("user:1000")?.as_deref(), Some(&b"Ada"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Reshard<'c, V: Value + ?Sized> {
    cluster: Cluster<V>,
    moves: Vec<PlannedMove>,
    batch_keys: usize,
    way: Way,
    pace: Pace,
    control: MoveControl<V>,
    progress: Option<Callback<'c>>,
}

impl<V: Value + ?Sized> fmt::Debug for Reshard<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reshard").field("moves", &self.moves.len()).finish_non_exhaustive()
    }
}

impl<'c, V: Value + ?Sized> Reshard<'c, V> {
    /// A resharding without moves.
    pub fn of(cluster: &Cluster<V>) -> Self {
        Self {
            cluster: cluster.clone(),
            moves: Vec::new(),
            batch_keys: MIGRATE_KEYS_DEFAULT,
            way: Way::SlotBySlot(MoveKind::default()),
            pace: Pace::new(),
            control: MoveControl::of(cluster),
            progress: None,
        }
    }

    /// Adds the moves of named slots from one node to another.
    ///
    /// # Errors
    /// [`ReshardError::Plan`] names what is wrong: an unknown node, a move to oneself, a slot that
    /// is not the source's or that is named already.
    pub fn move_slots(
        self,
        slots: &SlotSet,
        source: NodeId,
        target: NodeId,
    ) -> Result<Self, ReshardError> {
        self.expect_node(source)?;
        self.expect_node(target)?;
        let moves = plan_moves(&self.cluster.slot_map(), slots, source, target)?;
        self.with(moves)
    }

    /// Adds the moves that give a node its share.
    ///
    /// # Errors
    /// [`ReshardError::Plan`]: an unknown node, or a slot that is named already.
    pub fn join(self, node: NodeId) -> Result<Self, ReshardError> {
        self.expect_node(node)?;
        let moves = plan_join(&self.cluster.slot_map(), node);
        self.with(moves)
    }

    /// Adds the moves that take every slot from a node; it stays in the cluster without slots.
    ///
    /// # Errors
    /// [`ReshardError::Plan`]: an unknown node, the only node, or a slot that is named already.
    pub fn drain(self, node: NodeId) -> Result<Self, ReshardError> {
        self.expect_node(node)?;
        let moves = plan_drain(&self.cluster.slot_map(), node, &self.cluster.node_ids())?;
        self.with(moves)
    }

    fn expect_node(&self, node: NodeId) -> Result<(), PlanError> {
        self.cluster.node(node).map(drop).ok_or(PlanError::UnknownNode { node })
    }

    fn with(mut self, moves: Vec<PlannedMove>) -> Result<Self, ReshardError> {
        let mut named: SlotSet = self.moves.iter().map(|planned| planned.slot).collect();
        for planned in moves {
            if !named.insert(planned.slot) {
                return Err(PlanError::MovedTwice { slot: planned.slot }.into());
            }
            self.moves.push(planned);
        }
        Ok(self)
    }

    /// How the slots move, one after another: by [`MoveKind::Handover`] unless told. Of this and
    /// [`all_or_nothing`](Self::all_or_nothing) the last one counts.
    #[must_use]
    pub fn by(mut self, kind: MoveKind) -> Self {
        self.way = Way::SlotBySlot(kind);
        self
    }

    /// Hands over every slot or none, by [`Handover`]: all of them are reserved before the first
    /// one flips, and if one cannot be reserved, none moves. Of this and [`by`](Self::by) the last
    /// one counts.
    ///
    /// When another driver ends the set, [`resume`](crate::reshard::resume) for example, that is no
    /// error: the report says whether its slots have moved, but counts no keys that others moved.
    #[must_use]
    pub fn all_or_nothing(mut self) -> Self {
        self.way = Way::AllOrNothing;
        self
    }

    /// How many keys travel at once where keys travel, in a classic move or where an open slot is
    /// joined: [`MIGRATE_KEYS_DEFAULT`] unless told, from 1 to
    /// [`MIGRATE_KEYS_MAX`](crate::limits::MIGRATE_KEYS_MAX), which `run` checks.
    #[must_use]
    pub fn batch_keys(mut self, count: usize) -> Self {
        self.batch_keys = count;
        self
    }

    /// Keys of classic moves travel at this pace, over all slots together; where an open slot is
    /// joined, they come back in batches within its bounds.
    #[must_use]
    pub fn pace(mut self, pace: &Pace) -> Self {
        self.pace = pace.clone();
        self
    }

    /// The hand by which another thread pauses, resumes and aborts [`run`](Self::run).
    pub fn control(&self) -> MoveControl<V> {
        self.control.clone()
    }

    /// Calls back after every slot, every batch of a classic move, and every step of an
    /// all-or-nothing one. `Break` ends the resharding: the move that is open is undone, those that
    /// have ended stay; a set that is committed already is completed.
    #[must_use]
    pub fn on_progress(mut self, callback: impl FnMut(&Progress) -> ControlFlow<()> + 'c) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// The moves, in their order.
    pub fn moves(&self) -> &[PlannedMove] {
        &self.moves
    }

    /// Moves the slots on the calling thread.
    ///
    /// # Errors
    /// [`ReshardError::Step`]; the move of that slot was undone as far as that was possible, and
    /// with [`all_or_nothing`](Self::all_or_nothing) no slot has moved.
    pub fn run(mut self) -> Result<Report, ReshardError> {
        let began = (self.uptime(), self.cluster.redirect_count());
        let mut report = Report::default();
        let moves = std::mem::take(&mut self.moves);
        let ended = match self.way {
            Way::AllOrNothing => self.run_set(&moves, &mut report),
            Way::SlotBySlot(kind) => self.run_each(&moves, kind, &mut report),
        };
        report.elapsed = self.uptime().saturating_sub(began.0);
        report.redirects = self.cluster.redirect_count() - began.1;
        match ended {
            Ok(flow) => Ok(Report { stopped: flow.is_break(), ..report }),
            Err((slot, error)) => Err(ReshardError::Step { slot, error, report }),
        }
    }

    fn run_set(&mut self, moves: &[PlannedMove], report: &mut Report) -> Ended {
        let Some(first) = moves.first() else { return Ok(ControlFlow::Continue(())) };
        let driver = Handover::new(&self.cluster, moves).pace(&self.pace);
        let driver = driver.batch_keys(self.batch_keys);
        let mut driver = driver.map_err(|error| (first.slot, error))?;
        self.drive(&mut driver, moves.len(), report)
    }

    fn run_each(&mut self, moves: &[PlannedMove], kind: MoveKind, report: &mut Report) -> Ended {
        for &planned in moves {
            if self.control.is_aborted() {
                return Ok(ControlFlow::Break(()));
            }
            let mut driver =
                self.driver_of(planned, kind).map_err(|error| (planned.slot, error))?;
            if self.drive(driver.as_mut(), moves.len(), report)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn driver_of(&self, planned: PlannedMove, kind: MoveKind) -> Result<Box<dyn Driver>, Error> {
        let batch_keys = self.batch_keys;
        Ok(match kind {
            MoveKind::Handover => {
                Box::new(SlotHandover::new(&self.cluster, planned, batch_keys, &self.pace)?)
            }
            MoveKind::Classic => {
                let driver = Move::new(&self.cluster, planned, batch_keys)?;
                Box::new(driver.pace(&self.pace).controlled_by(&self.control))
            }
        })
    }

    /// Whether a handover is paused, which may wait between any two steps; a classic move sees to
    /// that itself.
    fn is_held(&self) -> bool {
        self.way != Way::SlotBySlot(MoveKind::Classic) && self.control.is_paused()
    }

    fn drive(&mut self, driver: &mut dyn Driver, slots_total: usize, report: &mut Report) -> Ended {
        let before = *report;
        let mut busy = 0_u32;
        let mut flow = ControlFlow::Continue(());
        loop {
            if flow.is_continue() && self.control.is_aborted() {
                flow = ControlFlow::Break(());
                driver.abort();
            }
            let stepped = if self.is_held() { Ok(MoveStep::Paused) } else { driver.step() };
            report.keys_moved = before.keys_moved + driver.keys_moved();
            report.slots_moved = before.slots_moved + driver.slots_moved();
            match stepped {
                Ok(MoveStep::More) => busy = 0,
                Ok(waiting @ (MoveStep::Busy | MoveStep::Paused | MoveStep::Wait { .. })) => {
                    report.waits += u64::from(waiting == MoveStep::Busy);
                    busy = busy.saturating_add(1);
                    wait_out(waiting, busy);
                    continue;
                }
                Ok(MoveStep::Done { .. }) => {
                    let told = self.tell(driver.slot(), report, slots_total);
                    return Ok(if flow.is_break() { flow } else { told });
                }
                Err(error) => {
                    let slot = driver.slot();
                    driver.abort();
                    // What cannot be given back either is left for `resume`.
                    let _ = finish(driver, &mut report.waits);
                    return Err((slot, error));
                }
            }
            if flow.is_continue() && self.tell(driver.slot(), report, slots_total).is_break() {
                flow = ControlFlow::Break(());
                driver.abort();
            }
        }
    }

    fn tell(&mut self, slot: Slot, report: &Report, slots_total: usize) -> ControlFlow<()> {
        let (slots_moved, keys_moved) = (report.slots_moved, report.keys_moved);
        let progress = Progress { slot, slots_moved, slots_total, keys_moved };
        self.progress.as_mut().map_or(ControlFlow::Continue(()), |callback| callback(&progress))
    }

    fn uptime(&self) -> Duration {
        self.cluster.nodes().first().map_or(Duration::ZERO, Node::uptime)
    }
}
