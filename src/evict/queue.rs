//! `Queue`: tickets one after the other, in pieces that come and go with them.

use std::collections::VecDeque;

use crate::evict::Ticket;

/// So many tickets lie in one piece: 6 KiB.
const PIECE: usize = 256;

/// The array of pieces does not become shorter than that.
const PIECES_MIN: usize = 16;

/// A queue that takes as much memory as its tickets do, and three pieces more at most, but for 24
/// bytes a piece.
///
/// One that lies in a single array grows by copying all of it, while whoever has just made an entry
/// waits for its lock, and then has room for twice as many.
#[derive(Debug, Default)]
pub(super) struct Queue {
    // Invariant: all but the last one are full, and the last one is not empty.
    pieces: VecDeque<Vec<Ticket>>,
    /// How many tickets of the first piece are gone: less than there are.
    gone: usize,
    /// An empty piece for the next one that is needed.
    spare: Option<Vec<Ticket>>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        let Some(last) = self.pieces.back() else { return 0 };
        (self.pieces.len() - 1) * PIECE + last.len() - self.gone
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds the newest one.
    pub(super) fn push(&mut self, ticket: Ticket) {
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE => last.push(ticket),
            _ => self.begin_piece(ticket),
        }
    }

    #[cold]
    fn begin_piece(&mut self, first: Ticket) {
        let mut piece = self.spare.take().unwrap_or_else(|| Vec::with_capacity(PIECE));
        piece.push(first);
        self.pieces.push_back(piece);
    }

    /// Takes out the oldest one.
    pub(super) fn pop(&mut self) -> Option<Ticket> {
        let first = self.pieces.front()?;
        let ticket = first[self.gone];
        self.gone += 1;
        if self.gone == first.len() {
            self.end_piece();
        }
        Some(ticket)
    }

    #[cold]
    fn end_piece(&mut self) {
        self.gone = 0;
        self.spare = self.pieces.pop_front().map(|mut piece| {
            piece.clear();
            piece
        });
        // Of a queue that was long it would keep that length.
        if self.pieces.capacity() > PIECES_MIN && self.pieces.len() < self.pieces.capacity() / 4 {
            self.pieces.shrink_to(self.pieces.len() * 2);
        }
    }

    /// The one before which so many others are taken out.
    #[inline]
    pub(super) fn get(&self, others: usize) -> Option<&Ticket> {
        let place = self.gone + others;
        self.pieces.get(place / PIECE)?.get(place % PIECE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Slot;

    fn ticket(hash: u64) -> Ticket {
        Ticket { hash, cost: 1, slot: Slot::MIN, serial: 0 }
    }

    /// How many tickets there is memory for.
    fn room(queue: &Queue) -> usize {
        queue.pieces.iter().chain(&queue.spare).map(Vec::capacity).sum()
    }

    #[test]
    fn tickets_come_out_as_they_went_in_and_take_no_more_memory_than_they_need() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut queue, mut model) = (Queue::default(), VecDeque::new());
        // It becomes longer and shorter by turns, and empty now and then.
        for step in 0..20 * 20 * PIECE as u64 {
            let is_growing = (step / (20 * PIECE as u64)).is_multiple_of(2);
            if random.u8(..4) < if is_growing { 3 } else { 1 } {
                queue.push(ticket(step));
                model.push_back(ticket(step));
            } else {
                assert_eq!(queue.pop(), model.pop_front());
            }
            assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            let others = random.usize(..=model.len());
            assert_eq!(queue.get(others), model.get(others));
            assert!(room(&queue) <= model.len() + 3 * PIECE, "{} in {}", model.len(), room(&queue));
            let pieces = queue.pieces.capacity();
            assert!(
                pieces <= (4 * queue.pieces.len()).max(PIECES_MIN) + 4,
                "{pieces} for {}",
                queue.pieces.len()
            );
        }
        assert!(model.len() < PIECE, "it ends when it has become short");
    }
}
