//! The record of every move: phase, keys, last error, times; a bounded history of ended ones.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::MOVES_KEPT_MAX;
use crate::migration::MoveId;
use crate::node::AdminError;
use crate::node::HandoverId;
use crate::slot::Slot;
use crate::sync::Mutex;
use crate::time::Now;
use crate::topology::NodeId;

/// How far a move has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MovePhase {
    /// The target is marked.
    Importing,
    /// Both sides are reserved for a handover.
    Reserved,
    /// Both sides are marked; keys travel.
    Migrating,
    /// The keys travel back.
    Aborting,
    /// The target owns the slot; the source's mark is still there.
    Flipped,
    /// Ended: the slot has its new owner.
    Completed,
    /// Ended: the slot stayed where it was.
    Aborted,
}

impl MovePhase {
    /// Whether the move has ended.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Aborted)
    }
}

/// What is known of a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveRecord {
    /// The move.
    pub id: MoveId,
    /// The slot.
    pub slot: Slot,
    /// Where the slot comes from.
    pub source: NodeId,
    /// Where the slot goes.
    pub target: NodeId,
    /// How far it has come.
    pub phase: MovePhase,
    /// How many keys have travelled to the target.
    pub keys_moved: u64,
    /// How many keys have travelled back.
    pub keys_returned: u64,
    /// How many copies of keys were put to the target before the move (MIGRATE with COPY).
    pub keys_copied: u64,
    /// How many entries are still to travel, back while the move is aborted, as its last step left
    /// them: expired ones that nobody met yet included. 0 until the source is marked.
    pub keys_left: u64,
    /// How many bytes of entries have travelled, both ways; those of a handover do not count.
    pub bytes_moved: u64,
    /// How many steps were refused, or found the slot held still for a call; those that a driver
    /// of a handover took before the record began count too.
    pub retries: u64,
    /// Whether the move is paused: its drivers wait, its marks stay, calls are served.
    pub paused: bool,
    /// Why the last step that was refused was refused. A slot that was held still is no reason.
    pub last_error: Option<AdminError>,
    /// When it began, since the cluster did.
    pub began: Duration,
    /// When it ended, since the cluster began.
    pub ended: Option<Duration>,
    /// The handover of a set to which it belongs.
    pub set: Option<HandoverId>,
}

impl MoveRecord {
    /// The record of a move that begins now, of a slot from a source to a target.
    pub(crate) fn new(
        id: MoveId,
        (slot, source, target): (Slot, NodeId, NodeId),
        phase: MovePhase,
        now: &Now<'_>,
    ) -> Self {
        Self {
            id,
            slot,
            source,
            target,
            phase,
            keys_moved: 0,
            keys_returned: 0,
            keys_copied: 0,
            keys_left: 0,
            bytes_moved: 0,
            retries: 0,
            paused: false,
            last_error: None,
            began: Duration::from_nanos(now.nanos()),
            ended: None,
            set: None,
        }
    }

    /// Whether this is an open move from `source` to `target`.
    pub(crate) fn is_open_between(&self, source: NodeId, target: NodeId) -> bool {
        !self.phase.is_ended() && (self.source, self.target) == (source, target)
    }

    /// Whether so many live keys at the target, while the source is not marked, are but copies: no
    /// key was there when the move began, none can have travelled, and no more were copied.
    pub(crate) fn explains_copies(&self, live_keys: usize) -> bool {
        self.phase == MovePhase::Importing && live_keys as u64 <= self.keys_copied
    }
}

/// The moves of a cluster. Its lock is taken under tokens and takes no other.
pub(crate) struct Moves {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<MoveId, MoveRecord>,
    ended: VecDeque<MoveRecord>,
}

impl State {
    /// Remembers an ended move, in place of the oldest one if there are too many.
    fn keep(&mut self, record: MoveRecord) {
        if self.ended.len() == MOVES_KEPT_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(record);
    }
}

impl Moves {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default() }
    }

    pub(crate) fn begin(&self, record: MoveRecord) {
        self.state.lock().open.insert(record.id, record);
    }

    /// Changes the record of an open move; nothing happens to one that has ended.
    pub(crate) fn change<R>(
        &self,
        id: MoveId,
        change: impl FnOnce(&mut MoveRecord) -> R,
    ) -> Option<R> {
        self.state.lock().open.get_mut(&id).map(change)
    }

    /// A step was refused.
    pub(crate) fn refused(&self, id: MoveId, error: AdminError) {
        self.change(id, |record| {
            record.retries += 1;
            record.last_error = Some(error);
        });
    }

    /// A step found the slot held still for a call.
    pub(crate) fn waited(&self, id: MoveId) {
        self.change(id, |record| record.retries += 1);
    }

    /// Pauses an open move, or lets it go on; whether it is open and no slot of a set.
    pub(crate) fn set_paused(&self, id: MoveId, paused: bool) -> bool {
        let obeyed = self.change(id, |record| {
            let is_alone = record.set.is_none();
            record.paused = paused && is_alone;
            is_alone
        });
        obeyed == Some(true)
    }

    /// Ends a move in the hold that clears its marks.
    pub(crate) fn end(&self, id: MoveId, phase: MovePhase, now: Duration) {
        let mut state = self.state.lock();
        let Some(mut record) = state.open.remove(&id) else { return };
        record.phase = phase;
        record.ended = Some(now);
        record.paused = false;
        record.keys_left = 0;
        state.keep(record);
    }

    /// Takes note of a move that began and ended in one hold.
    pub(crate) fn note_ended(&self, record: MoveRecord) {
        self.state.lock().keep(record);
    }

    pub(crate) fn get(&self, id: MoveId) -> Option<MoveRecord> {
        let state = self.state.lock();
        let ended = || state.ended.iter().rev().find(|record| record.id == id);
        state.open.get(&id).or_else(ended).cloned()
    }

    /// Open moves, then ended ones, newest first.
    pub(crate) fn all(&self) -> Vec<MoveRecord> {
        let state = self.state.lock();
        state.open.values().chain(state.ended.iter().rev()).cloned().collect()
    }
}
