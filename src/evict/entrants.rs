//! `Entrants`: what enters the window in one hold.

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
    first: Option<Entrant>,
    others: Vec<Entrant>,
}

impl Entrants {
    /// Nobody yet.
    #[inline]
    pub(crate) fn new(serial: u16) -> Self {
        Self { serial, first: None, others: Vec::new() }
    }

    /// Notes an entry that comes in at this weight; where it stands.
    #[inline]
    pub(crate) fn note(&mut self, hash: u64, weight: u64) -> Entrance {
        let entrant = Entrant { hash, weight };
        if self.first.is_none() {
            self.first = Some(entrant);
        } else {
            self.note_another(entrant);
        }
        Entrance::Window { serial: self.serial }
    }

    #[cold]
    #[inline(never)]
    fn note_another(&mut self, entrant: Entrant) {
        self.others.push(entrant);
    }

    /// Makes a ticket for each of them, in the order in which they came in; `cost` says what an
    /// entry of a weight takes of the budget.
    #[inline]
    pub(crate) fn each_ticket(
        self,
        slot: Slot,
        cost: impl Fn(u64) -> u64,
        mut each: impl FnMut(Ticket),
    ) {
        let Some(first) = self.first else { return };
        let ticket = |Entrant { hash, weight }| {
            let (cost, serial) = (cost(weight), self.serial);
            Ticket { hash, cost, slot, serial }
        };
        each(ticket(first));
        self.others.into_iter().map(ticket).for_each(each);
    }
}
