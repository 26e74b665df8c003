//! The window: tickets of the entries that came in last, oldest first.

use std::mem;

use crate::evict::WINDOW_STREAK;
use crate::evict::queue::Queue;
use crate::limits::TICKETS_UNSEARCHED;
use crate::slot::Slot;

/// What finds an entry again. One that has been removed, replaced or moved leaves its ticket
/// behind; whoever looks it up finds no entry that awaits this serial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub(crate) hash: u64,
    /// What the entry takes of the budget, about: as much as it did when it came in.
    pub(crate) cost: u64,
    pub(crate) slot: Slot,
    pub(crate) serial: u16,
}

/// How many tickets each new one has looked up while stale ones are searched for: more than come
/// in, so that the search ends.
const LOOKED_UP: usize = 2;

/// The queue.
///
/// Tickets of entries that are gone come up in their turn, but where entries are removed as fast as
/// they come in, the turn of none ever comes. So a search begins whenever there are twice as many
/// tickets as the last one left, and [`TICKETS_UNSEARCHED`] more: what comes in takes the oldest
/// ones out to be looked up, and those that are not stale come back.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Those that the search has yet to look up, or all if there is none under way; oldest first.
    tickets: Queue,
    /// Those that the search has found an entry of, all of them older; oldest first.
    found: Queue,
    // Invariant: the sum of what the tickets cost.
    cost: u64,
    is_searching: bool,
    /// How many tickets the last search left.
    left: usize,
    entered: u64,
    /// How many tickets came up since it was a hand's turn.
    streak: u32,
}

impl Window {
    /// What the entries of all tickets take, those that are gone included.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// How many tickets were ever added.
    pub(crate) fn entered(&self) -> u64 {
        self.entered
    }

    /// Adds the newest ticket, and takes out those that are to be looked up: the caller gives back
    /// what is not stale, by [`keep`](Self::keep).
    pub(crate) fn push(&mut self, ticket: Ticket) -> [Option<Ticket>; LOOKED_UP] {
        self.cost = self.cost.saturating_add(ticket.cost);
        self.entered += 1;
        self.tickets.push(ticket);
        let unsearched = self.left.saturating_mul(2).saturating_add(TICKETS_UNSEARCHED);
        self.is_searching |= self.tickets.len() > unsearched;
        if !self.is_searching {
            return [None; LOOKED_UP];
        }
        let taken_out = std::array::from_fn(|_| {
            let ticket = self.tickets.pop();
            self.take_off(ticket)
        });
        if self.tickets.is_empty() {
            self.is_searching = false;
            self.left = self.found.len() + LOOKED_UP;
            self.tickets = mem::take(&mut self.found);
        }
        taken_out
    }

    /// Takes back a ticket that was looked up and is not stale.
    pub(crate) fn keep(&mut self, ticket: Ticket) {
        self.cost = self.cost.saturating_add(ticket.cost);
        if self.is_searching {
            self.found.push(ticket);
        } else {
            // It was the last one of its search, and the newest.
            self.tickets.push(ticket);
        }
    }

    /// Counts one more time that it is the window's turn to give way. Whether a hand has to look at
    /// a main entry first, because the last [`WINDOW_STREAK`] times it was as well.
    pub(crate) fn ends_streak(&mut self) -> bool {
        self.streak += 1;
        let ends = self.streak > WINDOW_STREAK;
        if ends {
            self.streak = 0;
        }
        ends
    }

    /// Takes note that it is a hand's turn.
    pub(crate) fn break_streak(&mut self) {
        self.streak = 0;
    }

    /// The oldest ticket.
    pub(crate) fn pop(&mut self) -> Option<Ticket> {
        let queue = if self.found.is_empty() { &mut self.tickets } else { &mut self.found };
        let ticket = queue.pop();
        self.take_off(ticket)
    }

    /// The one whose turn comes after so many others.
    pub(crate) fn after(&self, others: usize) -> Option<Ticket> {
        let found = self.found.get(others);
        found.or_else(|| self.tickets.get(others - self.found.len())).copied()
    }

    fn take_off(&mut self, ticket: Option<Ticket>) -> Option<Ticket> {
        self.cost = self.cost.saturating_sub(ticket?.cost);
        ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(hash: u64) -> Ticket {
        Ticket { hash, cost: 3, slot: Slot::MIN, serial: 0 }
    }

    /// Pushes a ticket, and keeps those looked up that are not stale.
    fn push(window: &mut Window, hash: u64, is_live: impl Fn(u64) -> bool) {
        for looked_up in window.push(ticket(hash)).into_iter().flatten() {
            if is_live(looked_up.hash) {
                window.keep(looked_up);
            }
        }
    }

    fn all(queue: &Queue) -> impl Iterator<Item = Ticket> {
        (0..queue.len()).filter_map(|others| queue.get(others).copied())
    }

    fn len(window: &Window) -> usize {
        window.tickets.len() + window.found.len()
    }

    #[test]
    fn tickets_of_what_is_gone_do_not_pile_up() {
        // The last so many entries are there, and one in a thousand of the others.
        for recent in [0, 1, 100, 3000] {
            let mut window = Window::default();
            for hash in 0..200_000 {
                let is_live = |other: u64| other + recent > hash || other.is_multiple_of(1000);
                push(&mut window, hash, is_live);
                let live = usize::try_from(recent.min(hash) + hash / 1000 + 1).unwrap();
                // A search leaves what was live when it was looked up: up to twice as many as are
                // live at a time.
                let most = 5 * (live + LOOKED_UP) + TICKETS_UNSEARCHED;
                assert!(len(&window) <= most, "{recent}: {} after {hash}", len(&window));
                assert_eq!(window.cost(), 3 * len(&window) as u64);
            }
        }
    }

    #[test]
    fn live_entries_keep_their_turns_however_often_they_are_looked_up() {
        let mut window = Window::default();
        let is_live = |hash: u64| hash.is_multiple_of(7);
        let pushed = 20 * TICKETS_UNSEARCHED as u64;
        (0..pushed).for_each(|hash| push(&mut window, hash, is_live));
        let turns: Vec<u64> =
            std::iter::from_fn(|| window.pop()).map(|popped| popped.hash).collect();
        assert!(turns.is_sorted());
        let live: Vec<u64> = turns.into_iter().filter(|&hash| is_live(hash)).collect();
        assert!(live.into_iter().eq((0..pushed).step_by(7)));
        assert_eq!(window.cost(), 0);
    }

    #[test]
    fn who_looks_ahead_sees_the_tickets_in_their_turns() {
        let mut window = Window::default();
        for hash in 0..20 * TICKETS_UNSEARCHED as u64 {
            push(&mut window, hash, |hash| hash.is_multiple_of(3));
            let seen = (0..=len(&window)).map_while(|others| window.after(others));
            let turns = [&window.found, &window.tickets].into_iter().flat_map(all);
            assert!(seen.eq(turns), "after {hash}");
        }
        let next = window.after(1);
        assert!(window.pop().is_some());
        assert!(next.is_some() && window.pop() == next);
    }

    #[test]
    fn nothing_is_looked_up_while_a_window_of_live_entries_stays_as_large_as_it_is() {
        let mut window = Window::default();
        let size = 50 * TICKETS_UNSEARCHED as u64;
        (0..size).for_each(|hash| push(&mut window, hash, |_| true));
        let looked_up = |window: &mut Window, hash| {
            assert!(window.pop().is_some());
            window.push(ticket(hash)).into_iter().flatten().map(|kept| window.keep(kept)).count()
        };
        // A search that growing began may have to end first.
        assert!((0..size).any(|hash| looked_up(&mut window, hash) == 0));
        assert_eq!((0..10 * size).map(|hash| looked_up(&mut window, hash)).sum::<usize>(), 0);
    }
}
