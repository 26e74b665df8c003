//! The slots of one node, each with its entries as they came in, and the hand that walks over them.

use slotkeep::SLOT_COUNT;
use slotkeep::Slot;

/// The entries by slot, and where the hand is.
#[derive(Debug)]
pub struct Slots {
    shards: Vec<Vec<u32>>,
    entry_count: usize,
    /// The hand: a slot, and a place among its entries.
    slot: usize,
    place: usize,
}

impl Slots {
    /// No entries, the hand at the first slot.
    pub fn new() -> Self {
        Self { shards: vec![Vec::new(); SLOT_COUNT.into()], entry_count: 0, slot: 0, place: 0 }
    }

    /// How many entries there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.shards.iter().map(Vec::len).sum()
    }

    /// Puts an entry to the end of its slot.
    pub fn insert(&mut self, slot: Slot, entry: u32) {
        self.shards[slot.index()].push(entry);
        self.entry_count += 1;
    }

    /// Takes an entry out of its slot. Those behind it move up, and the hand with them.
    pub fn remove(&mut self, slot: Slot, entry: u32) {
        let shard = &mut self.shards[slot.index()];
        let place = shard.iter().position(|&held| held == entry).expect("an entry of its slot");
        shard.remove(place);
        self.entry_count -= 1;
        if slot.index() == self.slot && place < self.place {
            self.place -= 1;
        }
    }

    /// The entry under the hand, which moves on; goes round for ever, if there is any.
    pub fn turn(&mut self) -> Option<u32> {
        if self.entry_count == 0 {
            return None;
        }
        loop {
            if let Some(&entry) = self.shards[self.slot].get(self.place) {
                self.place += 1;
                return Some(entry);
            }
            (self.slot, self.place) = ((self.slot + 1) % self.shards.len(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(slots: &mut Slots, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| slots.turn()).collect()
    }

    #[test]
    fn the_hand_meets_every_entry_by_slot_and_by_age_and_loses_its_place_to_no_removal() {
        let [low, high] = [7, 16_000].map(|number| Slot::new(number).expect("a slot"));
        let mut slots = Slots::new();
        assert_eq!(slots.turn(), None);
        for (slot, entry) in [(high, 1), (low, 2), (high, 3), (low, 4), (low, 5)] {
            slots.insert(slot, entry);
        }
        assert_eq!(turns(&mut slots, 6), [2, 4, 5, 1, 3, 2]);
        slots.remove(low, 2);
        assert_eq!(turns(&mut slots, 1), [4]);
        slots.remove(low, 5);
        slots.remove(high, 3);
        assert_eq!(turns(&mut slots, 3), [1, 4, 1]);
    }
}
