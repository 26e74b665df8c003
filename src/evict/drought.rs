//! `Drought`: whether the window goes on losing entries without finding one to keep.

use crate::sync::AtomicU32;
use crate::sync::Ordering;

/// The window has found nothing to keep among so many entries. Where one in twenty is hit in time
/// that is so for 4 % of the time, where one in fifty is, for a quarter of it; in a loop always.
const LOSSES: u32 = 64;

/// How many entries the window has lost since it kept one: [`LOSSES`] at most, so that nothing is
/// written while that goes on.
///
/// Relaxed, and read and written apart: one or the other may be lost. It is a guess anyway.
#[derive(Debug, Default)]
pub(crate) struct Drought {
    losses: AtomicU32,
}

impl Drought {
    /// The window has kept an entry, because it was hit: there is no drought.
    pub(crate) fn kept(&self) {
        if self.losses.load(Ordering::Relaxed) != 0 {
            self.losses.store(0, Ordering::Relaxed);
        }
    }

    /// The window has lost an entry.
    pub(crate) fn lost(&self) {
        let losses = self.losses.load(Ordering::Relaxed);
        if losses < LOSSES {
            self.losses.store(losses + 1, Ordering::Relaxed);
        }
    }

    /// Whether it has lost many in a row.
    pub(crate) fn is_on(&self) -> bool {
        self.losses.load(Ordering::Relaxed) == LOSSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drought_begins_after_many_losses_and_ends_with_the_first_entry_that_is_kept() {
        let drought = Drought::default();
        for _ in 0..2 {
            (1..LOSSES).for_each(|_| drought.lost());
            assert!(!drought.is_on());
            (0..100).for_each(|_| drought.lost());
            assert!(drought.is_on());
            drought.kept();
            assert!(!drought.is_on());
        }
    }
}
