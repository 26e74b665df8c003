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

/// The entries that one hold puts into the window, under serials that follow each other, because
/// they are all of one slot; nearly always one, and no more than an operation has keys.
///
/// Whoever makes an entry await a ticket notes it here, so that each of them gets one and nothing
/// else does.
#[derive(Debug)]
pub(crate) struct Entrants {
    /// That of the first one.
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
            return Entrance::Window { serial: self.serial };
        }
        self.note_another(entrant)
    }

    #[cold]
    #[inline(never)]
    fn note_another(&mut self, entrant: Entrant) -> Entrance {
        self.others.push(entrant);
        Entrance::Window { serial: serial_after(self.serial, self.others.len()) }
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
        let ticket = |Entrant { hash, weight }, before| {
            let (cost, serial) = (cost(weight), serial_after(self.serial, before));
            Ticket { hash, cost, slot, serial }
        };
        each(ticket(first, 0));
        for (before, other) in (1..).zip(self.others) {
            each(ticket(other, before));
        }
    }
}

/// The serial after so many others. Only the low bits of one count.
#[expect(clippy::cast_possible_truncation, reason = "serials go round")]
const fn serial_after(first: u16, others: usize) -> u16 {
    first.wrapping_add(others as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evict::Standing;

    #[test]
    fn each_entrant_awaits_its_own_ticket_and_no_other() {
        let mut entrants = Entrants::new(u16::MAX - 1);
        let entrances: Vec<_> = (0..40).map(|hash| entrants.note(hash, 10 + hash)).collect();
        let mut tickets = Vec::new();
        entrants.each_ticket(Slot::MIN, |weight| weight * 2, |ticket| tickets.push(ticket));
        for (ticket, hash) in tickets.iter().zip(0..) {
            assert_eq!((ticket.hash, ticket.cost), (hash, 2 * (10 + hash)));
            let awaits = |&entrance: &Entrance| Standing::entered(entrance).awaits(ticket.serial);
            let awaiting: Vec<_> = entrances.iter().map(awaits).collect();
            assert_eq!(awaiting.iter().filter(|&&awaits| awaits).count(), 1);
            assert!(awaiting[usize::try_from(hash).expect("a small number")]);
        }
        assert_eq!(tickets.len(), entrances.len());
    }
}
