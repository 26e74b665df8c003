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
    /// Why the last step that was refused was refused.
    pub last_error: Option<AdminError>,
    /// When it began, since the cluster did.
    pub began: Duration,
    /// When it ended, since the cluster began.
    pub ended: Option<Duration>,
    /// The handover of a set to which it belongs.
    pub set: Option<HandoverId>,
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

    /// Changes the record of an open move.
    pub(crate) fn change(&self, id: MoveId, change: impl FnOnce(&mut MoveRecord)) {
        if let Some(record) = self.state.lock().open.get_mut(&id) {
            change(record);
        }
    }

    /// Ends a move in the hold that clears its marks.
    pub(crate) fn end(&self, id: MoveId, phase: MovePhase, now: Duration) {
        let mut state = self.state.lock();
        let Some(mut record) = state.open.remove(&id) else { return };
        record.phase = phase;
        record.ended = Some(now);
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
