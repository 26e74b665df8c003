//! The handovers of sets of slots: what is reserved, whether that is final, and how they ended.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::fmt;

use crate::limits::HANDOVERS_KEPT_MAX;
use crate::limits::HANDOVERS_OPEN_MAX;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::node::AdminError;
use crate::node::Roster;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::sync::Arc;
use crate::sync::Mutex;
use crate::topology::PlannedMove;

/// The identity of the handover of one set of slots; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HandoverId(u64);

impl fmt::Display for HandoverId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far the handover of a set has come.
///
/// | phase | a step | a driver that dies leaves what can be |
/// |---|---|---|
/// | `Reserving` | reserves the next slot; the last one commits the set | finished or undone |
/// | `Committed` | flips the next slot; the last step makes the owners known | finished |
/// | `Releasing` | releases the last reservation | undone |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HandoverPhase {
    /// Slot after slot is checked and reserved; all of them are served by their sources.
    Reserving,
    /// Every slot was reserved: nothing can fail any more, and slot after slot flips.
    Committed,
    /// The reservations are given up; every slot stays where it is.
    Releasing,
}

/// What is known of the handover of a set that is open.
#[derive(Clone, Debug)]
pub struct HandoverRecord {
    /// The handover.
    pub id: HandoverId,
    /// How far it has come.
    pub phase: HandoverPhase,
    /// The slots, in their order.
    pub moves: Arc<[PlannedMove]>,
    /// How many of them, from the first on, were reserved and not released again.
    pub reserved: usize,
    /// How many of them, from the first on, have flipped.
    pub flipped: usize,
    /// Why the last step that was refused was refused.
    pub last_error: Option<AdminError>,
}

/// What a step of the handover of a set did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HandoverStep {
    /// A slot was reserved.
    Reserved {
        /// The slot.
        slot: Slot,
    },
    /// A slot has its new owner.
    Flipped {
        /// The slot.
        slot: Slot,
        /// How many keys changed hands.
        keys: u64,
    },
    /// A reservation was given up.
    Released {
        /// The slot.
        slot: Slot,
    },
    /// Nothing: another driver of the same handover was faster.
    More,
    /// The handover has ended.
    Done {
        /// Whether its slots have their new owners.
        flipped: bool,
    },
}

/// What a step has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// One slot of the set changes.
    Change(PlannedMove, Change),
    /// Nothing is left.
    End { flipped: bool },
}

/// How one slot of a set changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Reserve,
    Flip(Reservation),
    Release(Reservation),
}

/// A slot that is reserved, with room for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reservation {
    /// The id under which both sides are marked.
    pub(super) id: MoveId,
    /// What was reserved of the target's budget, for what the slot held then. What comes in
    /// afterwards comes over as well, room or not: nothing may fail then.
    pub(super) room: u64,
}

struct OpenSet {
    phase: HandoverPhase,
    moves: Arc<[PlannedMove]>,
    /// The reservations of the first of the slots.
    reserved: Vec<Reservation>,
    flipped: usize,
    last_error: Option<AdminError>,
}

impl OpenSet {
    fn next(&self) -> Next {
        let reserved = self.reserved.len();
        match self.phase {
            HandoverPhase::Reserving => Next::Change(self.moves[reserved], Change::Reserve),
            HandoverPhase::Committed => match self.reserved.get(self.flipped) {
                Some(&slot) => Next::Change(self.moves[self.flipped], Change::Flip(slot)),
                None => Next::End { flipped: true },
            },
            HandoverPhase::Releasing => match self.reserved.last() {
                Some(&slot) => Next::Change(self.moves[reserved - 1], Change::Release(slot)),
                None => Next::End { flipped: false },
            },
        }
    }
}

/// The handovers of a cluster. The lock is taken under tokens and takes no other.
#[derive(Default)]
pub(crate) struct Handovers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<HandoverId, OpenSet>,
    /// Those that have ended, the latest last, and whether they flipped.
    ended: VecDeque<(HandoverId, bool)>,
    /// The greatest id that was drawn.
    drawn: u64,
}

impl Handovers {
    fn begin(&self, moves: Arc<[PlannedMove]>) -> Result<HandoverId, AdminError> {
        let mut state = self.state.lock();
        if state.open.len() == HANDOVERS_OPEN_MAX {
            return Err(AdminError::TooManyHandovers);
        }
        state.drawn += 1;
        let id = HandoverId(state.drawn);
        let phase = phase_of(&moves, 0);
        let reserved = Vec::with_capacity(moves.len());
        state.open.insert(id, OpenSet { phase, moves, reserved, flipped: 0, last_error: None });
        Ok(id)
    }

    pub(super) fn next(&self, id: HandoverId) -> Option<Next> {
        self.state.lock().open.get(&id).map(OpenSet::next)
    }

    fn change<R>(&self, id: HandoverId, change: impl FnOnce(&mut OpenSet) -> R) -> Option<R> {
        self.state.lock().open.get_mut(&id).map(change)
    }

    /// Takes note of a reservation, in its hold, unless the set has turned round; with the last one
    /// the set is committed. Nobody reserves the same slot twice: its marks refuse that.
    pub(super) fn reserved(&self, set: HandoverId, slot: Reservation) -> bool {
        let accepted = self.change(set, |set| {
            let goes_on = set.phase == HandoverPhase::Reserving;
            if goes_on {
                set.reserved.push(slot);
                set.phase = phase_of(&set.moves, set.reserved.len());
            }
            goes_on
        });
        accepted == Some(true)
    }

    /// Takes note of a flip, in its hold.
    pub(super) fn flipped(&self, set: HandoverId) {
        self.change(set, |set| set.flipped += 1);
    }

    /// Takes note of a release, in its hold.
    pub(super) fn released(&self, set: HandoverId) {
        self.change(set, |set| set.reserved.pop());
    }

    pub(super) fn note_error(&self, set: HandoverId, error: AdminError) {
        self.change(set, |set| set.last_error = Some(error));
    }

    /// Ends a set, and remembers how, in place of the oldest one if there are too many. Of several
    /// drivers that come to the end the first one does it.
    pub(super) fn end(&self, id: HandoverId, flipped: bool) {
        let mut state = self.state.lock();
        if state.open.remove(&id).is_none() {
            return;
        }
        if state.ended.len() == HANDOVERS_KEPT_MAX {
            state.ended.pop_front();
        }
        state.ended.push_back((id, flipped));
    }

    /// How a set ended; nothing when it is open, or is not remembered.
    pub(super) fn ended(&self, id: HandoverId) -> Option<bool> {
        let state = self.state.lock();
        state.ended.iter().rev().find(|(ended, _)| *ended == id).map(|&(_, flipped)| flipped)
    }

    pub(super) fn get(&self, id: HandoverId) -> Option<HandoverRecord> {
        self.state.lock().open.get(&id).map(|set| record_of(id, set))
    }

    pub(crate) fn all(&self) -> Vec<HandoverRecord> {
        self.state.lock().open.iter().map(|(&id, set)| record_of(id, set)).collect()
    }
}

fn record_of(id: HandoverId, set: &OpenSet) -> HandoverRecord {
    HandoverRecord {
        id,
        phase: set.phase,
        moves: Arc::clone(&set.moves),
        reserved: set.reserved.len(),
        flipped: set.flipped,
        last_error: set.last_error,
    }
}

/// A set is committed by its last reservation, in the same hold.
fn phase_of(moves: &[PlannedMove], reserved: usize) -> HandoverPhase {
    if reserved < moves.len() { HandoverPhase::Reserving } else { HandoverPhase::Committed }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Opens the handover of a set; nothing is reserved yet.
    pub(crate) fn begin_handover(&self, moves: &[PlannedMove]) -> Result<HandoverId, AdminError> {
        self.expect_open()?;
        let mut slots = SlotSet::new();
        for &PlannedMove { slot, source, target } in moves {
            self.named(source)?;
            self.named(target)?;
            if source == target {
                let error = SetSlotError::MoveToSelf { node: source };
                return Err(AdminError::SetSlot { slot, error });
            }
            if !slots.insert(slot) {
                return Err(AdminError::SlotListedTwice { slot });
            }
        }
        self.handovers.begin(moves.into())
    }

    /// Turns a handover round, unless it is committed; returns how far it has come.
    pub(crate) fn abort_handover(&self, id: HandoverId) -> Result<HandoverPhase, AdminError> {
        self.expect_open()?;
        let turned = self.handovers.change(id, |set| {
            if set.phase == HandoverPhase::Reserving {
                set.phase = HandoverPhase::Releasing;
            }
            set.phase
        });
        turned.ok_or(AdminError::NoSuchHandover { id })
    }
}
