//! `resume`: moves and handovers that their drivers left open are finished or undone.

use crate::cluster::Cluster;
use crate::error::Error;
use crate::limits::MIGRATE_KEYS_DEFAULT;
use crate::node::AdminError;
use crate::node::MovePhase;
use crate::node::MoveRecord;
use crate::reshard::Handover;
use crate::reshard::Move;
use crate::reshard::Report;
use crate::reshard::ReshardError;
use crate::reshard::driver::Driver;
use crate::reshard::driver::finish;
use crate::shard::Value;
use crate::slot::Slot;

/// What [`resume`] does with what drivers left open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// Moves and handovers are finished. A move that its source never took over, and cannot take
    /// over now, is aborted; a handover one of whose slots cannot be reserved is released.
    Finish,
    /// They are undone; moves that have flipped and handovers that are committed are finished.
    Abort,
}

/// Finishes or undoes every handover and every move that is open, whoever began it, also one that
/// is paused. Only while no other driver works on them: two drivers get in each other's way, though
/// they lose nothing.
///
/// # Errors
/// [`ReshardError::Step`]; what came before it is closed.
pub fn resume<V: Value + ?Sized>(
    cluster: &Cluster<V>,
    how: Resume,
) -> Result<Report, ReshardError> {
    let mut report = Report::default();
    for record in cluster.handovers() {
        let slot = record.moves.first().map_or(Slot::MIN, |planned| planned.slot);
        let mut driver = match Handover::take_over(cluster, record.id) {
            Ok(driver) => driver,
            // Another driver has just ended it.
            Err(Error::Admin(AdminError::NoSuchHandover { .. })) => continue,
            Err(error) => return Err(ReshardError::Step { slot, error, report }),
        };
        close(&mut driver, how, how == Resume::Finish, &mut report)?;
    }
    let open = |record: &MoveRecord| !record.phase.is_ended() && record.set.is_none();
    for record in cluster.moves().into_iter().filter(open) {
        let slot = record.slot;
        // One that has just ended has nothing to pause.
        let _ = cluster.resume_move(record.id);
        let mut driver = Move::take_over(cluster, record.id, MIGRATE_KEYS_DEFAULT)
            .map_err(|error| ReshardError::Step { slot, error, report })?;
        // Only the target is marked: when the source has lost the slot, or gives it to somebody
        // else, the mark is all that is left of the move.
        let may_turn = how == Resume::Finish && record.phase == MovePhase::Importing;
        close(&mut driver, how, may_turn, &mut report)?;
    }
    Ok(report)
}

/// Drives to the end; a driver that is refused and may turn does so once.
fn close(
    driver: &mut dyn Driver,
    how: Resume,
    may_turn: bool,
    report: &mut Report,
) -> Result<(), ReshardError> {
    if how == Resume::Abort {
        driver.abort();
    }
    let mut ended: Result<(), Error> = finish(driver, &mut report.waits);
    if ended.is_err() && may_turn {
        driver.abort();
        ended = finish(driver, &mut report.waits);
    }
    report.slots_moved += driver.slots_moved();
    report.keys_moved += driver.keys_moved();
    ended.map_err(|error| ReshardError::Step { slot: driver.slot(), error, report: *report })
}
