//! `Driver`: what moves slots a step at a time, in whatever way, and how one is driven to its end.

use crate::error::Error;
use crate::limits::MIGRATE_KEYS_MAX;
use crate::node::AdminError;
use crate::reshard::Move;
use crate::reshard::MoveStep;
use crate::reshard::wait_out;
use crate::shard::Value;
use crate::slot::Slot;

/// What moves one slot or several, a step at a time.
pub(super) trait Driver {
    /// One step.
    fn step(&mut self) -> Result<MoveStep, Error>;

    /// Turns round, if that is possible still.
    fn abort(&mut self);

    /// The slot that the last step was about.
    fn slot(&self) -> Slot;

    /// How many slots have their new owner.
    fn slots_moved(&self) -> usize;

    /// How many keys have travelled.
    fn keys_moved(&self) -> u64;
}

impl<V: Value + ?Sized> Driver for Move<V> {
    fn step(&mut self) -> Result<MoveStep, Error> {
        self.step()
    }

    fn abort(&mut self) {
        self.abort();
    }

    fn slot(&self) -> Slot {
        self.planned().slot
    }

    fn slots_moved(&self) -> usize {
        usize::from(self.has_flipped())
    }

    fn keys_moved(&self) -> u64 {
        self.keys_moved()
    }
}

/// How many keys may travel at once.
pub(super) fn check_batch_keys(keys: usize) -> Result<(), AdminError> {
    if (1..=MIGRATE_KEYS_MAX).contains(&keys) {
        Ok(())
    } else {
        Err(AdminError::BatchSize { keys })
    }
}

/// Steps until the driver has ended or is refused; whatever makes it wait is waited for.
pub(super) fn finish(driver: &mut dyn Driver, waits: &mut u64) -> Result<(), Error> {
    let mut busy = 0_u32;
    loop {
        match driver.step()? {
            MoveStep::More => busy = 0,
            waiting @ (MoveStep::Busy | MoveStep::Paused | MoveStep::Wait { .. }) => {
                *waits += u64::from(waiting == MoveStep::Busy);
                busy = busy.saturating_add(1);
                wait_out(waiting, busy);
            }
            MoveStep::Done { .. } => return Ok(()),
        }
    }
}
