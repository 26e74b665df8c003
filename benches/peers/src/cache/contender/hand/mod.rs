//! Design A: a window of tickets, and a hand over the slots instead of a main queue.
//!
//! - New keys enter the window, a queue of 5 % of the room. At its head an entry that was hit since
//!   becomes main where it stands; another one is evicted, and the ghost remembers it.
//! - The main entries stand in their slots only. The hand takes one mark off each that it meets,
//!   and evicts the first that has none.
//! - A key that the ghost remembers enters main at once, and so does every new one until something
//!   is evicted for the first time, as far as main has room: what a loop needs.
//!
//! One thread and no engine: what is measured here is the design alone.

mod ghost;
mod slots;

use std::collections::VecDeque;

use slotkeep::Slot;

use crate::cache::contender::Cache;
use crate::cache::contender::hand::ghost::Ghost;
use crate::cache::contender::hand::slots::Slots;
use crate::cache::trace::Access;
use crate::cache::trace::Room;
use crate::cache::trace::Trace;

/// The window's share of the room, in percent.
const WINDOW_PERCENT: u64 = 5;

/// Marks do not grow beyond this: so often a main entry lets the hand pass without another hit.
const MARKS_MAX: u8 = 3;

/// Fingerprints of the ghost for every two entries of the room.
const GHOSTS_FOR_TWO: usize = 3;

/// A cache of design A.
#[derive(Debug)]
pub struct Hand {
    /// By key number.
    entries: Vec<Entry>,
    slots: Slots,
    window: VecDeque<u32>,
    ghost: Ghost,
    room: u64,
    window_weight: u64,
    main_weight: u64,
    has_evicted: bool,
}

/// What the header of an entry would hold.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    slot: Slot,
    weight: u64,
    marks: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Absent,
    Window,
    Main,
}

impl Hand {
    /// An empty one.
    pub fn new(trace: &Trace, room: Room) -> Self {
        let absent = Entry { place: Place::Absent, slot: Slot::MIN, weight: 0, marks: 0 };
        Self {
            entries: vec![absent; trace.distinct()],
            slots: Slots::new(),
            window: VecDeque::new(),
            ghost: Ghost::new(room.entries * GHOSTS_FOR_TWO / 2),
            room: room.weight,
            window_weight: 0,
            main_weight: 0,
            has_evicted: false,
        }
    }

    fn entry(&mut self, number: u32) -> &mut Entry {
        &mut self.entries[number as usize]
    }

    /// Where a new key enters.
    fn entrance(&mut self, access: Access<'_>) -> Place {
        let is_filling = !self.has_evicted
            && (self.main_weight + access.weight) * 100 <= self.room * (100 - WINDOW_PERCENT);
        if is_filling || self.ghost.take(hash(access.number)) { Place::Main } else { Place::Window }
    }

    /// Makes room for an entry of such a weight, which will stand in `place`.
    fn reserve(&mut self, weight: u64, place: Place) {
        let entering = if place == Place::Window { weight } else { 0 };
        while self.window_weight + self.main_weight + weight > self.room {
            self.has_evicted = true;
            let is_window_full = (self.window_weight + entering) * 100 > self.room * WINDOW_PERCENT;
            if self.main_weight == 0 || is_window_full && !self.window.is_empty() {
                self.pop_window();
            } else {
                self.turn_hand();
            }
        }
    }

    /// Decides about the entry at the head of the window.
    fn pop_window(&mut self) {
        let number = self.window.pop_front().expect("the window weighs something");
        let entry = self.entry(number);
        let Entry { weight, marks, .. } = *entry;
        if marks > 0 {
            (entry.place, entry.marks) = (Place::Main, 0);
        }
        self.window_weight -= weight;
        if marks > 0 {
            self.main_weight += weight;
        } else {
            self.evict(number);
            self.ghost.remember(hash(number));
        }
    }

    /// Decides about the next main entry.
    fn turn_hand(&mut self) {
        let number = self.slots.turn().expect("main weighs something");
        let entry = self.entry(number);
        if entry.place != Place::Main {
            return;
        }
        if let Some(fewer) = entry.marks.checked_sub(1) {
            entry.marks = fewer;
        } else {
            self.main_weight -= entry.weight;
            self.evict(number);
        }
    }

    fn evict(&mut self, number: u32) {
        let entry = self.entry(number);
        entry.place = Place::Absent;
        let slot = entry.slot;
        self.slots.remove(slot, number);
    }

    fn insert(&mut self, access: Access<'_>, place: Place) {
        let slot = Slot::of(access.key);
        *self.entry(access.number) = Entry { place, slot, weight: access.weight, marks: 0 };
        self.slots.insert(slot, access.number);
        if place == Place::Window {
            self.window.push_back(access.number);
            self.window_weight += access.weight;
        } else {
            self.main_weight += access.weight;
        }
    }
}

impl Cache for Hand {
    fn access(&mut self, access: Access<'_>) -> bool {
        let entry = self.entry(access.number);
        if entry.place != Place::Absent {
            entry.marks = (entry.marks + 1).min(MARKS_MAX);
            return true;
        }
        if access.weight <= self.room {
            let place = self.entrance(access);
            self.reserve(access.weight, place);
            self.insert(access, place);
        }
        false
    }
}

/// A hash of a key, by its number: the mixer of `SplitMix64`.
fn hash(number: u32) -> u64 {
    let mut mixed = (u64::from(number) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
