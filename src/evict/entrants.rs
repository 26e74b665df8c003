//! `Entrants`: what enters the window in one hold.

use smallvec::SmallVec;

use crate::evict::Entrance;
use crate::evict::Ticket;
use crate::slot::Slot;

/// An entry in the window that has no ticket yet.
#[derive(Clone, Copy, Debug)]
struct Entrant {
    hash: u64,
    weight: u64,
}

/// The entries that one hold puts into the window, all under one serial; nearly always one, and no
/// more than an operation has keys.
///
/// Whoever makes an entry await a ticket notes it here, so that each of them gets one and nothing
/// else does.
#[derive(Debug)]
pub(crate) struct Entrants {
    serial: u16,
    noted: SmallVec<[Entrant; 2]>,
}

impl Entrants {
    /// Nobody yet.
    #[inline]
    pub(crate) fn new(serial: u16) -> Self {
        Self { serial, noted: SmallVec::new() }
    }

    /// Notes an entry that comes in at this weight; where it stands.
    pub(crate) fn note(&mut self, hash: u64, weight: u64) -> Entrance {
        self.noted.push(Entrant { hash, weight });
        Entrance::Window { serial: self.serial }
    }

    /// A ticket for each of them, in the order in which they came in; `cost` says what an entry of
    /// a weight takes of the budget.
    pub(crate) fn tickets(
        self,
        slot: Slot,
        cost: impl Fn(u64) -> u64,
    ) -> impl Iterator<Item = Ticket> {
        let serial = self.serial;
        let ticket =
            move |Entrant { hash, weight }| Ticket { hash, cost: cost(weight), slot, serial };
        self.noted.into_iter().map(ticket)
    }
}
