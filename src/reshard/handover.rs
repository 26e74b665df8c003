//! `Handover`: the driver of a set of slots that change hands all or nothing, one hold a step.

use crate::cluster::Cluster;
use crate::error::Error;
use crate::limits::MIGRATE_KEYS_DEFAULT;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::node::AbortStep;
use crate::node::AdminError;
use crate::node::BatchLimits;
use crate::node::HandoverId;
use crate::node::HandoverStep;
use crate::node::Node;
use crate::node::Tried;
use crate::reshard::MoveStep;
use crate::reshard::Pace;
use crate::reshard::PlannedMove;
use crate::reshard::driver::Driver;
use crate::reshard::driver::check_batch_keys;
use crate::shard::Value;
use crate::slot::Slot;
use crate::worker::WorkerError;

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Begin,
    /// The set says what.
    Step(HandoverId),
    /// The keys of a slot that is open between the same two nodes come back, then go on.
    Join(HandoverId, MoveId),
    Done {
        flipped: bool,
    },
}

/// The driver of the handover of a set of slots, perhaps of several nodes, all or nothing.
///
/// Slot after slot is checked and reserved; its source serves it meanwhile, as ever. The last
/// reservation commits the set: then slot after slot flips with everything in it, and nothing can
/// fail any more, though a call that lost too many races may make a flip wait. When a slot cannot
/// be reserved, the others are released, and every slot stays where it is.
///
/// All or nothing is about failure: observers may see the slots flip one after another.
///
/// A slot that is open between the same two nodes is joined first: its keys come back in batches,
/// by the abort of its move. They do not go on to the target, because until the set is committed it
/// has to be possible that every slot stays where it is.
///
/// It may be dropped at any step. [`Handover::take_over`] makes another driver that finishes the
/// handover or releases it, and so does [`resume`](crate::reshard::resume).
///
/// # Examples
/// ```
/// use slotkeep::Cluster;
/// use slotkeep::reshard::{Handover, MoveStep, plan_drain};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::builder().nodes(3).build()?;
/// let leaving = cluster.node_ids()[0];
/// let moves = plan_drain(&cluster.slot_map(), leaving, &cluster.node_ids())?;
/// let mut handover = Handover::new(&cluster, &moves);
/// while !matches!(handover.step()?, MoveStep::Done { .. }) {}
/// assert!(cluster.slot_map().slots_of(leaving).is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Handover<V: Value + ?Sized> {
    cluster: Cluster<V>,
    moves: Vec<PlannedMove>,
    batch_keys: usize,
    pace: Pace,
    phase: Phase,
    /// The slot that the last step was about.
    slot: Slot,
    slots_moved: usize,
    keys_moved: u64,
}

impl<V: Value + ?Sized> Handover<V> {
    /// A driver that has not begun.
    pub fn new(cluster: &Cluster<V>, moves: &[PlannedMove]) -> Self {
        Self {
            cluster: cluster.clone(),
            moves: moves.to_vec(),
            batch_keys: MIGRATE_KEYS_DEFAULT,
            pace: Pace::new(),
            phase: Phase::Begin,
            slot: moves.first().map_or(Slot::MIN, |planned| planned.slot),
            slots_moved: 0,
            keys_moved: 0,
        }
    }

    /// A driver that goes on where another one stopped.
    ///
    /// # Errors
    /// [`Error::Admin`] with `NoSuchHandover` when no handover `id` is open.
    pub fn take_over(cluster: &Cluster<V>, id: HandoverId) -> Result<Self, Error> {
        let mut open = cluster.handovers().into_iter();
        let found = open.find(|record| record.id == id);
        let record = found.ok_or(AdminError::NoSuchHandover { id })?;
        let mut driver = Self::new(cluster, &record.moves);
        driver.phase = Phase::Step(id);
        Ok(driver)
    }

    /// How many keys travel at once where a slot has to be joined: [`MIGRATE_KEYS_DEFAULT`] unless
    /// told.
    ///
    /// # Errors
    /// [`Error::Admin`] with `BatchSize` when it is not from 1 to
    /// [`MIGRATE_KEYS_MAX`](crate::limits::MIGRATE_KEYS_MAX).
    pub fn batch_keys(mut self, count: usize) -> Result<Self, Error> {
        check_batch_keys(count)?;
        self.batch_keys = count;
        Ok(self)
    }

    /// Where a slot has to be joined, a batch is within the bounds of this pace. Nothing waits for
    /// its rate: an abort does not.
    #[must_use]
    pub fn pace(mut self, pace: &Pace) -> Self {
        self.pace = pace.clone();
        self
    }

    /// The handover that this driver drives, once it has begun and until it has ended.
    pub fn id(&self) -> Option<HandoverId> {
        match self.phase {
            Phase::Begin | Phase::Done { .. } => None,
            Phase::Step(id) | Phase::Join(id, _) => Some(id),
        }
    }

    /// The slots, in their order.
    pub fn moves(&self) -> &[PlannedMove] {
        &self.moves
    }

    /// How many slots this driver has flipped.
    pub fn slots_moved(&self) -> usize {
        self.slots_moved
    }

    /// How many keys changed hands in the slots that this driver has flipped.
    pub fn keys_moved(&self) -> u64 {
        self.keys_moved
    }

    /// Turns round: from the next step on the reservations are released. Once the set is committed
    /// it is too late, and it is completed. Of a set that another driver has ended the next step
    /// says how.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn abort(&mut self) -> Result<(), Error> {
        if let Some(id) = self.id() {
            match self.cluster.abort_handover(id) {
                Ok(_) | Err(AdminError::NoSuchHandover { .. }) => self.phase = Phase::Step(id),
                Err(error) => return Err(error.into()),
            }
        } else if self.phase == Phase::Begin {
            self.phase = Phase::Done { flipped: false };
        }
        Ok(())
    }

    /// One step, at most one hold of two tokens.
    ///
    /// # Errors
    /// Why the set cannot be handed over; the driver has turned round, and the next steps release
    /// what was reserved, up to [`MoveStep::Done`]. [`Error::Closed`] and [`Error::Reentrant`]
    /// leave the driver where it is, and so does what [`Cluster::begin_handover`] answers.
    pub fn step(&mut self) -> Result<MoveStep, Error> {
        let stepped = match self.phase {
            Phase::Begin => self.cluster.begin_handover(&self.moves).map(Phase::Step),
            Phase::Step(id) => self.cluster.handover_step(id).map(|step| self.note(id, step)),
            Phase::Join(id, open) => take_back(&self.cluster, open, self.batch())
                .map(|back| if back { Phase::Step(id) } else { Phase::Join(id, open) }),
            done @ Phase::Done { .. } => Ok(done),
        };
        match stepped {
            Ok(phase) => self.phase = phase,
            Err(AdminError::Worker(WorkerError::Busy)) => return Ok(MoveStep::Busy),
            Err(error) => self.refused(error)?,
        }
        let done = if let Phase::Done { flipped } = self.phase { Some(flipped) } else { None };
        Ok(done.map_or(MoveStep::More, |flipped| MoveStep::Done { flipped }))
    }

    /// The bounds of a batch where a slot has to be joined.
    fn batch(&self) -> BatchLimits {
        self.pace.batch(self.batch_keys)
    }

    fn note(&mut self, id: HandoverId, step: HandoverStep) -> Phase {
        match step {
            HandoverStep::Reserved { slot } | HandoverStep::Released { slot } => self.slot = slot,
            HandoverStep::Flipped { slot, keys } => {
                self.slot = slot;
                self.slots_moved += 1;
                self.keys_moved += keys;
            }
            HandoverStep::More => {}
            HandoverStep::Done { flipped } => return Phase::Done { flipped },
        }
        Phase::Step(id)
    }

    /// A slot that another move holds open is joined, if that is a move between the same nodes;
    /// for whatever else a slot was refused, the set turns round.
    #[expect(clippy::wildcard_enum_match_arm, reason = "of the others none is about a slot")]
    fn refused(&mut self, error: AdminError) -> Result<(), Error> {
        let (slot, reason) = match error {
            AdminError::SetSlot { slot, error } => (slot, Some(error)),
            AdminError::TargetFull { slot, .. } => (slot, None),
            error => return Err(error.into()),
        };
        let Some(id) = self.id() else { return Err(error.into()) };
        self.slot = slot;
        let planned = self.moves.iter().find(|planned| planned.slot == slot);
        let open = planned.zip(reason);
        let open = open.and_then(|(&planned, reason)| open_move(&self.cluster, planned, reason));
        if let (Some(open), Phase::Step(_)) = (open, self.phase) {
            self.phase = Phase::Join(id, open);
            return Ok(());
        }
        self.abort()?;
        Err(error.into())
    }
}

impl<V: Value + ?Sized> Driver for Handover<V> {
    fn step(&mut self) -> Result<MoveStep, Error> {
        self.step()
    }

    fn abort(&mut self) {
        // What is refused here, because the cluster is closed or a token is held, the next step is
        // refused for as well.
        let _ = self.abort();
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    /// At the end all or none, whoever flipped them.
    fn slots_moved(&self) -> usize {
        match self.phase {
            Phase::Done { flipped: true } => self.moves.len(),
            Phase::Begin | Phase::Step(_) | Phase::Join(..) | Phase::Done { flipped: false } => {
                self.slots_moved
            }
        }
    }

    fn keys_moved(&self) -> u64 {
        self.keys_moved
    }
}

/// The driver of one slot's handover: mostly one step. A slot whose keys are split by a move
/// between the same two nodes is joined first.
pub(super) struct SlotHandover<V: Value + ?Sized> {
    cluster: Cluster<V>,
    source: Node<V>,
    planned: PlannedMove,
    batch_keys: usize,
    pace: Pace,
    joining: Option<MoveId>,
    /// Nothing is begun any more.
    turned: bool,
    tried: Tried,
    keys_moved: Option<u64>,
}

impl<V: Value + ?Sized> SlotHandover<V> {
    pub(super) fn new(
        cluster: &Cluster<V>,
        planned: PlannedMove,
        batch_keys: usize,
        pace: &Pace,
    ) -> Result<Self, AdminError> {
        check_batch_keys(batch_keys)?;
        let node = planned.source;
        let source = cluster.node(node).ok_or(AdminError::UnknownNode { node })?;
        Ok(Self {
            cluster: cluster.clone(),
            source,
            planned,
            batch_keys,
            pace: pace.clone(),
            joining: None,
            turned: false,
            tried: Tried::default(),
            keys_moved: None,
        })
    }

    fn hand_over(&mut self) -> Result<MoveStep, AdminError> {
        if let Some(open) = self.joining {
            let batch = self.pace.batch(self.batch_keys);
            if take_back(&self.cluster, open, batch)? {
                self.joining = None;
            }
            return Ok(MoveStep::More);
        }
        if self.turned {
            return Ok(MoveStep::Done { flipped: self.keys_moved.is_some() });
        }
        let PlannedMove { slot, target, .. } = self.planned;
        let handed = self.source.hand_over_after(self.tried, slot, target);
        match handed.inspect_err(|&error| self.tried.note(error)) {
            Ok(handed) => {
                self.keys_moved = Some(handed.keys);
                Ok(MoveStep::Done { flipped: true })
            }
            Err(refused @ AdminError::SetSlot { error, .. }) => {
                self.joining = open_move(&self.cluster, self.planned, error);
                if self.joining.is_some() { Ok(MoveStep::More) } else { Err(refused) }
            }
            Err(error) => Err(error),
        }
    }
}

impl<V: Value + ?Sized> Driver for SlotHandover<V> {
    fn step(&mut self) -> Result<MoveStep, Error> {
        match self.hand_over() {
            Err(AdminError::Worker(WorkerError::Busy)) => Ok(MoveStep::Busy),
            stepped => Ok(stepped?),
        }
    }

    /// A join that was begun goes on to its end: the keys come back, as they would anyway.
    fn abort(&mut self) {
        self.turned = true;
    }

    fn slot(&self) -> Slot {
        self.planned.slot
    }

    fn slots_moved(&self) -> usize {
        usize::from(self.keys_moved.is_some())
    }

    fn keys_moved(&self) -> u64 {
        self.keys_moved.unwrap_or(0)
    }
}

/// The move for which a handover was refused, if it is one of the same slot between the same two
/// nodes, key by key.
fn open_move<V: Value + ?Sized>(
    cluster: &Cluster<V>,
    planned: PlannedMove,
    refused: SetSlotError,
) -> Option<MoveId> {
    let PlannedMove { slot, source, target } = planned;
    let id = if let SetSlotError::SlotIsOpen { id, .. } = refused {
        id
    } else if refused == SetSlotError::KeysSplit {
        cluster.node(source)?.slot_state(slot).ok()?.move_id()?
    } else {
        return None;
    };
    let record = cluster.move_record(id)?;
    let same = (record.slot, record.source, record.target) == (slot, source, target);
    (same && record.set.is_none()).then_some(id)
}

/// One step of the abort of a move; whether it has ended.
fn take_back<V: Value + ?Sized>(
    cluster: &Cluster<V>,
    open: MoveId,
    batch: BatchLimits,
) -> Result<bool, AdminError> {
    match cluster.abort_step(open, batch) {
        Ok(step) => Ok(step == AbortStep::Done),
        Err(AdminError::NoSuchMove { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_single_handover_counts_the_waits_before_it_began() {
        let cluster = Cluster::builder().nodes(2).build().unwrap();
        let source = cluster.slot_map().owner(Slot::MIN).unwrap();
        let target = cluster.node_ids().into_iter().find(|&id| id != source).unwrap();
        let planned = PlannedMove { slot: Slot::MIN, source, target };
        let mut driver = SlotHandover::new(&cluster, planned, 1, &Pace::new()).unwrap();
        let pass = cluster.roster().gate.enter(Slot::MIN);
        for _ in 0..2 {
            assert_eq!(driver.step(), Ok(MoveStep::Busy));
        }
        drop(pass);
        assert_eq!(driver.step(), Ok(MoveStep::Done { flipped: true }));
        let record = cluster.moves().remove(0);
        assert_eq!((record.retries, record.last_error), (2, None));
    }
}
