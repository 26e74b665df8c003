//! `MoveControl`: pauses, resumes and aborts a driver from another thread.

use std::fmt;

use crate::cluster::Cluster;
use crate::migration::MoveId;
use crate::reshard::MoveStep;
use crate::shard::Value;
use crate::sync::Arc;
use crate::sync::Mutex;
use crate::sync::back_off;
use crate::sync::pause;

/// A hand on a running [`Move`](crate::reshard::Move) or [`Reshard`](crate::reshard::Reshard), for
/// any thread; clones are the same hand.
///
/// A pause takes effect before the driver's next step: the marks of the move that is open stay,
/// its record says that it is paused, and calls are served as they are while a slot moves. A
/// classic move that has flipped is completed all the same. Once one is open its record decides:
/// [`Cluster::pause_move`] and [`Cluster::resume_move`] do the same for that one move. Handovers
/// wait between two slots, or between two steps of a set.
pub struct MoveControl<V: Value + ?Sized = [u8]> {
    cluster: Cluster<V>,
    wishes: Arc<Mutex<Wishes>>,
}

#[derive(Default)]
struct Wishes {
    paused: bool,
    aborted: bool,
    /// The move that the driver has open.
    open: Option<MoveId>,
}

impl<V: Value + ?Sized> Clone for MoveControl<V> {
    fn clone(&self) -> Self {
        Self { cluster: self.cluster.clone(), wishes: Arc::clone(&self.wishes) }
    }
}

impl<V: Value + ?Sized> fmt::Debug for MoveControl<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (paused, aborted) = (self.is_paused(), self.is_aborted());
        let mut hand = f.debug_struct("MoveControl");
        hand.field("paused", &paused).field("aborted", &aborted).finish_non_exhaustive()
    }
}

impl<V: Value + ?Sized> MoveControl<V> {
    pub(super) fn of(cluster: &Cluster<V>) -> Self {
        Self { cluster: cluster.clone(), wishes: Arc::default() }
    }

    /// The driver waits before its next step.
    pub fn pause(&self) {
        self.set_paused(true);
    }

    /// The driver goes on.
    pub fn resume(&self) {
        self.set_paused(false);
    }

    /// The driver turns round at its next step, paused or not, and takes the keys of the move that
    /// is open back, or releases the set; a slot that has flipped and a set that is committed are
    /// completed. A resharding then ends, and says that it was stopped. This cannot be undone.
    pub fn abort(&self) {
        self.wishes.lock().aborted = true;
        self.resume();
    }

    /// Whether the driver waits, or will before its next step.
    pub fn is_paused(&self) -> bool {
        let wishes = self.wishes.lock();
        let record = wishes.open.and_then(|id| self.cluster.move_record(id));
        record.map_or(wishes.paused, |record| record.paused)
    }

    /// Whether an abort was asked for.
    pub fn is_aborted(&self) -> bool {
        self.wishes.lock().aborted
    }

    /// The driver has this move open from here on, or none.
    pub(super) fn attend(&self, open: Option<MoveId>) {
        let mut wishes = self.wishes.lock();
        if wishes.open == open {
            return;
        }
        wishes.open = open;
        if wishes.paused {
            self.tell_record(&wishes);
        }
    }

    fn set_paused(&self, paused: bool) {
        let mut wishes = self.wishes.lock();
        wishes.paused = paused;
        self.tell_record(&wishes);
    }

    /// A move that has ended meanwhile has nothing to pause.
    fn tell_record(&self, wishes: &Wishes) {
        let Some(id) = wishes.open else { return };
        let told = if wishes.paused { Cluster::pause_move } else { Cluster::resume_move };
        let _ = told(&self.cluster, id);
    }
}

/// What a blocking driver does between two steps that may not be made yet; it holds no token.
pub(super) fn wait_out(step: MoveStep, tries: u32) {
    match step {
        MoveStep::Wait { time } => pause(time),
        MoveStep::Busy | MoveStep::Paused => back_off(tries),
        MoveStep::More | MoveStep::Done { .. } => {}
    }
}
