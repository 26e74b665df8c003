//! Abort: the keys of an open move travel back, under load, and both marks go.

use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::SlotState;
use crate::migration::abort_begin;
use crate::migration::abort_end;
use crate::migration::check_pull_back;
use crate::node::AdminError;
use crate::node::BatchLimits;
use crate::node::MovePhase;
use crate::node::MoveRecord;
use crate::node::Node;
use crate::node::Roster;
use crate::node::SetSlot;
use crate::shard::Batch;
use crate::shard::Context;
use crate::shard::Existing;
use crate::shard::Transfer;
use crate::shard::Value;
use crate::shard::transfer;
use crate::sync::Arc;
use crate::worker::Patience;

/// Whether an abort has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbortStep {
    /// Keys are left at the target.
    More,
    /// Both marks are gone.
    Done,
}

impl<V: Value + ?Sized> Roster<V> {
    /// One hold of the abort of a move: first both sides change their marks, then a batch of keys a
    /// step comes back, and the last of these clears the marks.
    ///
    /// Any driver may take any step, the first one's or another's.
    pub(crate) fn abort_step(
        self: &Arc<Self>,
        id: MoveId,
        limits: BatchLimits,
    ) -> Result<AbortStep, AdminError> {
        let limits = limits.check()?;
        self.expect_open()?;
        let Some(record) = self.moves.get(id).filter(|record| !record.phase.is_ended()) else {
            return Err(AdminError::NoSuchMove { id });
        };
        self.expect_gate_open(record.slot).inspect_err(|_| self.moves.waited(id))?;
        if record.source == record.target {
            return Err(AdminError::NoSuchMove { id });
        }
        let source = self.known(record.source);
        let taken =
            source.worker(record.slot).call(Patience::Wait, || self.abort_hold(&record, limits))?;
        if taken == Err(SetSlotError::NoSuchMove) && record.phase == MovePhase::Importing {
            // The source never took the move over: only the importer is marked.
            let target = Node::new(Arc::clone(self), record.target);
            let target = target.ok_or(AdminError::UnknownNode { node: record.target })?;
            return match target.set_slot_step(record.slot, SetSlot::Stable, id) {
                Ok(_) => Ok(AbortStep::Done),
                // Another driver has opened the source meanwhile, and sent keys: they come back.
                // What else lies there came by no move, so that no step of one brings it home.
                Err(AdminError::SetSlot { error: SetSlotError::KeysSplit, .. })
                    if self.has_left_phase(id, MovePhase::Importing) =>
                {
                    Ok(AbortStep::More)
                }
                Err(error) => Err(error),
            };
        }
        // What came back may be more than the source may hold.
        self.make_room(source, None);
        taken.map_err(|error| {
            let error = AdminError::SetSlot { slot: record.slot, error };
            self.moves.refused(id, error);
            error
        })
    }

    /// Whether a move has come further than this, or has ended.
    fn has_left_phase(&self, id: MoveId, phase: MovePhase) -> bool {
        self.moves.get(id).is_none_or(|record| record.phase != phase)
    }

    fn abort_hold(
        &self,
        record: &MoveRecord,
        limits: BatchLimits,
    ) -> Result<AbortStep, SetSlotError> {
        let members = (self.known(record.source), self.known(record.target));
        self.on_marks(members, record.slot, |pair| {
            if matches!(pair.me.state, SlotState::Migrating { .. }) {
                abort_begin(&mut pair.me, &mut pair.peer, record.id)?;
                let left = pair.peer_shard.len() as u64;
                self.moves.change(record.id, |record| {
                    record.phase = MovePhase::Aborting;
                    record.keys_left = left;
                });
                return Ok(AbortStep::More);
            }
            check_pull_back(&pair.me, &pair.peer, record.id)?;
            let back = (Batch::Any(self.quota(limits, pair.now)), Existing::Keep);
            // Asks for no room: what comes home was here, and has nowhere else to go.
            let mut context = Context::new(pair.now, pair.hasher, pair.dropped);
            context.hit = members.0.hit(record.slot, 0);
            let returned = transfer(pair.peer_shard, pair.my_shard, back, &mut context);
            if let Transfer::Moved(returned) = returned {
                let left = pair.peer_shard.len();
                self.moves.change(record.id, |record| {
                    record.keys_returned += returned.keys as u64;
                    record.bytes_moved += returned.bytes;
                    record.keys_left = left as u64;
                });
            }
            // Expired ones count here: the next steps drop them, a bounded number each.
            if pair.peer_shard.len() > 0 {
                return Ok(AbortStep::More);
            }
            let closed = abort_end(&mut pair.me, &mut pair.peer, record.id)?;
            pair.peer_shard.clear(pair.dropped);
            self.end_move(closed, pair.now);
            Ok(AbortStep::Done)
        })
    }
}
