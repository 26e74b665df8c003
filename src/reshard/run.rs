//! `Reshard`: a list of moves, one after another, while traffic runs.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use thiserror::Error as ThisError;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::limits::MIGRATE_KEYS_DEFAULT;
use crate::node::MovePhase;
use crate::reshard::Move;
use crate::reshard::MoveStep;
use crate::reshard::PlanError;
use crate::reshard::PlannedMove;
use crate::reshard::plan_drain;
use crate::reshard::plan_join;
use crate::reshard::plan_moves;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::sync::back_off;
use crate::topology::NodeId;

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
/// at which it failed was aborted, or is listed by [`Cluster::moves`] for [`resume`].
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

    /// How many keys travel at once: [`MIGRATE_KEYS_DEFAULT`] unless told, from 1 to
    /// [`MIGRATE_KEYS_MAX`](crate::limits::MIGRATE_KEYS_MAX), which `run` checks.
    #[must_use]
    pub fn batch_keys(mut self, count: usize) -> Self {
        self.batch_keys = count;
        self
    }

    /// Calls back after every batch and every slot. `Break` ends the resharding: the move that is
    /// open is aborted, those that have ended stay.
    #[must_use]
    pub fn on_progress(mut self, callback: impl FnMut(&Progress) -> ControlFlow<()> + 'c) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// The moves, in their order.
    pub fn moves(&self) -> &[PlannedMove] {
        &self.moves
    }

    /// Moves slot after slot, on the calling thread.
    ///
    /// # Errors
    /// [`ReshardError::Step`]; the move of that slot was aborted as far as that was possible.
    pub fn run(mut self) -> Result<Report, ReshardError> {
        let began = (self.uptime(), self.cluster.redirect_count());
        let mut report = Report::default();
        let moves = std::mem::take(&mut self.moves);
        for &planned in &moves {
            let moved = self.run_one(planned, moves.len(), &mut report);
            report.elapsed = self.uptime().saturating_sub(began.0);
            report.redirects = self.cluster.redirect_count() - began.1;
            match moved {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => {
                    report.stopped = true;
                    break;
                }
                Err(error) => {
                    return Err(ReshardError::Step { slot: planned.slot, error, report });
                }
            }
        }
        Ok(report)
    }

    fn run_one(
        &mut self,
        planned: PlannedMove,
        slots_total: usize,
        report: &mut Report,
    ) -> Result<ControlFlow<()>, Error> {
        let mut driver = Move::new(&self.cluster, planned, self.batch_keys)?;
        let keys_before = report.keys_moved;
        let mut busy = 0;
        let mut flow = ControlFlow::Continue(());
        loop {
            let stepped = driver.step();
            report.keys_moved = keys_before + driver.keys_moved();
            match stepped {
                Ok(MoveStep::More) => busy = 0,
                Ok(MoveStep::Busy) => {
                    report.waits += 1;
                    busy += 1;
                    back_off(busy);
                    continue;
                }
                Ok(MoveStep::Done { flipped }) => {
                    report.slots_moved += usize::from(flipped);
                    let told = self.tell(planned.slot, report, slots_total);
                    return Ok(if flow.is_break() { flow } else { told });
                }
                Err(error) => {
                    give_back(&mut driver);
                    return Err(error);
                }
            }
            if flow.is_continue() && self.tell(planned.slot, report, slots_total).is_break() {
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
        self.cluster.nodes().first().map_or(Duration::ZERO, crate::node::Node::uptime)
    }
}

/// Aborts a move whose step was refused, as far as that is possible.
fn give_back<V: Value + ?Sized>(driver: &mut Move<V>) {
    driver.abort();
    let mut busy = 0;
    loop {
        match driver.step() {
            Ok(MoveStep::More) => {}
            Ok(MoveStep::Busy) => {
                busy += 1;
                back_off(busy);
            }
            Ok(MoveStep::Done { .. }) | Err(_) => return,
        }
    }
}

/// What [`resume`] does with the moves that their drivers left open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// They are finished; one that its source never took over, and cannot take over now, is
    /// aborted.
    Finish,
    /// They are aborted; those that have flipped are finished.
    Abort,
}

/// Finishes or aborts every move that is open, whoever began it. Only while no other driver works
/// on them: two drivers of one move get in each other's way, though they lose nothing.
///
/// # Errors
/// [`ReshardError::Step`]; the moves before it are closed.
pub fn resume<V: Value + ?Sized>(
    cluster: &Cluster<V>,
    how: Resume,
) -> Result<Report, ReshardError> {
    let mut report = Report::default();
    for record in cluster.moves().into_iter().filter(|record| !record.phase.is_ended()) {
        let slot = record.slot;
        let failed = |error, report| ReshardError::Step { slot, error, report };
        let mut driver = Move::take_over(cluster, record.id, MIGRATE_KEYS_DEFAULT)
            .map_err(|error| failed(error, report))?;
        // Only the target is marked: when the source has lost the slot, or gives it to somebody
        // else, the mark is all that is left of the move.
        let mut may_turn = how == Resume::Finish && record.phase == MovePhase::Importing;
        if how == Resume::Abort {
            driver.abort();
        }
        let mut busy = 0;
        loop {
            match driver.step() {
                Ok(MoveStep::More) => busy = 0,
                Ok(MoveStep::Busy) => {
                    report.waits += 1;
                    busy += 1;
                    back_off(busy);
                }
                Ok(MoveStep::Done { flipped }) => {
                    report.slots_moved += usize::from(flipped);
                    break;
                }
                Err(_) if may_turn => {
                    may_turn = false;
                    driver.abort();
                }
                Err(error) => return Err(failed(error, report)),
            }
        }
        report.keys_moved += driver.keys_moved();
    }
    Ok(report)
}
