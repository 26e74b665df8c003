//! Design A: a window of tickets, and a hand over the slots instead of a main queue.
//!
//! - New keys enter the window, a queue of 5 % of the room. At its head an entry that was hit since
//!   becomes main where it stands; another one is evicted, and the ghost remembers it.
//! - The main entries stand in their slots only. The hand takes one mark off each that it meets,
//!   and evicts the first that has none.
//! - A key that the ghost remembers enters main at once, and so does every new one until something
//!   is evicted for the first time, as far as main has room: what a loop needs.
//!
//! The mended design differs by two [`Rules`]: what is promoted takes its marks along but one, and
//! the window learns its size. It grows by a step for each key that comes back just after the
//! window lost it, and shrinks by one for each that main has just lost. While only the window loses
//! entries, the hand looks at a main entry now and then, and the head of the window replaces one
//! that was not hit since the last look.
//!
//! One thread and no engine: what is measured here is the design alone.

mod ghost;
mod share;
mod slots;

use std::collections::VecDeque;
use std::mem;

use slotkeep::Slot;

use crate::cache::contender::Cache;
use crate::cache::contender::hand::ghost::Ghost;
use crate::cache::contender::hand::share::Share;
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

/// Fingerprints in a set for what the window lost.
const WINDOW_WAYS: usize = 28;

/// Fingerprints in a set for what main lost; and so many of the newest that the window lost count
/// as lost just now.
const MAIN_WAYS: usize = 4;

/// So often in a row the window gives way before the hand looks at a main entry.
const WINDOW_STREAK: u32 = 32;

/// What the two designs differ in.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A promoted entry keeps all its marks but one: hits in the window count as those in main do.
    keeps_marks: bool,
    /// The window's share of the room follows what comes back, and the hand looks at main entries
    /// though only the window gives way.
    learns: bool,
}

impl Rules {
    /// Design A as it was found.
    pub const PLAIN: Self = Self { keeps_marks: false, learns: false };

    /// Design A with both weak spots mended.
    pub const MENDED: Self = Self { keeps_marks: true, learns: true };
}

/// A cache of design A.
#[derive(Debug)]
pub struct Hand {
    rules: Rules,
    /// By key number.
    entries: Vec<Entry>,
    slots: Slots,
    window: VecDeque<u32>,
    ghost: Ghost<WINDOW_WAYS>,
    main_ghost: Ghost<MAIN_WAYS>,
    share: Share,
    /// How often the window gave way since main last did.
    streak: u32,
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
    /// Whether it was hit since the hand met it.
    is_fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Absent,
    Window,
    Main,
}

impl Hand {
    /// An empty one.
    pub fn new(rules: Rules, trace: &Trace, room: Room) -> Self {
        let (place, slot) = (Place::Absent, Slot::MIN);
        let absent = Entry { place, slot, weight: 0, marks: 0, is_fresh: false };
        let sets = (room.entries * GHOSTS_FOR_TWO / 2).div_ceil(WINDOW_WAYS);
        Self {
            rules,
            entries: vec![absent; trace.distinct()],
            slots: Slots::new(),
            window: VecDeque::new(),
            ghost: Ghost::new(sets),
            main_ghost: Ghost::new(sets),
            share: Share::new(room.entries),
            streak: 0,
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
        if is_filling || self.comes_back(hash(access.number)) { Place::Main } else { Place::Window }
    }

    /// Whether the window has lost a key not long ago.
    fn comes_back(&mut self, hash: u64) -> bool {
        let lost = self.ghost.take(hash);
        if self.rules.learns {
            match lost {
                Some(newer) if newer < MAIN_WAYS => self.share.grow(),
                None if self.main_ghost.take(hash).is_some() => self.share.shrink(),
                _ => {}
            }
        }
        lost.is_some()
    }

    /// Makes room for an entry of such a weight, which will stand in `place`.
    fn reserve(&mut self, weight: u64, place: Place) {
        let entering = if place == Place::Window { weight } else { 0 };
        while self.window_weight + self.main_weight + weight > self.room {
            self.has_evicted = true;
            let is_full = self.share.is_exceeded(self.window_weight + entering, self.room);
            if self.main_weight > 0 && (!is_full || self.window.is_empty()) {
                self.streak = 0;
                self.turn_hand();
            } else {
                self.pop_window();
            }
        }
    }

    /// Decides about the entry at the head of the window.
    fn pop_window(&mut self) {
        let keeps_marks = self.rules.keeps_marks;
        self.streak += 1;
        let replaces = self.streak > WINDOW_STREAK && self.main_weight > 0 && self.drop_stale();
        let number = self.window.pop_front().expect("the window weighs something");
        let entry = self.entry(number);
        let weight = entry.weight;
        if replaces || entry.marks > 0 {
            entry.place = Place::Main;
            entry.marks = if keeps_marks { entry.marks.saturating_sub(1) } else { 0 };
            self.main_weight += weight;
        } else {
            self.evict(number);
            self.ghost.remember(hash(number));
        }
        self.window_weight -= weight;
    }

    /// Looks at the next main entry, and evicts it if it was not hit since the last look; whether
    /// it does.
    fn drop_stale(&mut self) -> bool {
        if !self.rules.learns {
            return false;
        }
        self.streak = 0;
        let number = self.next_of_main();
        let entry = self.entry(number);
        let is_stale = !mem::take(&mut entry.is_fresh);
        if is_stale {
            self.evict_from_main(number);
        } else {
            entry.marks = entry.marks.saturating_sub(1);
        }
        is_stale
    }

    /// Decides about the next main entry.
    fn turn_hand(&mut self) {
        let number = self.next_of_main();
        let entry = self.entry(number);
        entry.is_fresh = false;
        match entry.marks.checked_sub(1) {
            Some(fewer) => entry.marks = fewer,
            None => self.evict_from_main(number),
        }
    }

    /// The main entry that the hand meets next.
    fn next_of_main(&mut self) -> u32 {
        loop {
            let number = self.slots.turn().expect("main weighs something");
            if self.entry(number).place == Place::Main {
                return number;
            }
        }
    }

    fn evict_from_main(&mut self, number: u32) {
        self.main_weight -= self.entry(number).weight;
        self.evict(number);
        self.main_ghost.remember(hash(number));
    }

    fn evict(&mut self, number: u32) {
        let entry = self.entry(number);
        entry.place = Place::Absent;
        let slot = entry.slot;
        self.slots.remove(slot, number);
    }

    fn insert(&mut self, access: Access<'_>, place: Place) {
        let slot = Slot::of(access.key);
        let weight = access.weight;
        *self.entry(access.number) = Entry { place, slot, weight, marks: 0, is_fresh: false };
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
            entry.is_fresh = true;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::contender::play;
    use crate::cache::contender::tests::room;
    use crate::cache::contender::tests::small;
    use crate::cache::generate;
    use crate::cache::generate::Scale;
    use crate::cache::trace::Recorder;
    use crate::random::Random;

    const BOTH: [Rules; 2] = [Rules::PLAIN, Rules::MENDED];

    /// The sums and the slots are those of the entries, and all of it fits.
    #[track_caller]
    fn check_sums(cache: &Hand) {
        let weight_in = |place: Place| {
            let entries = cache.entries.iter().filter(|entry| entry.place == place);
            entries.map(|entry| entry.weight).sum::<u64>()
        };
        assert_eq!(cache.window_weight, weight_in(Place::Window), "{cache:?}");
        assert_eq!(cache.main_weight, weight_in(Place::Main), "{cache:?}");
        assert!(cache.window_weight + cache.main_weight <= cache.room, "{cache:?}");
        let held = cache.entries.iter().filter(|entry| entry.place != Place::Absent).count();
        assert_eq!(cache.slots.len(), held, "{cache:?}");
    }

    #[test]
    fn sums_fit_and_agree_with_the_entries_after_every_access() {
        let mut random = Random::new();
        for round in 0..100 {
            let trace = small(&mut random, round % 2 == 0);
            let mut cache = Hand::new(BOTH[round / 2 % 2], &trace, room(1 + round as u64 % 9));
            for access in trace.accesses() {
                cache.access(access);
                check_sums(&cache);
            }
        }
    }

    /// Plays keys on a cache for 40 entries: 38 fill main, the window has room for two.
    fn played(rules: Rules, keys: impl IntoIterator<Item = u32>) -> (Trace, Hand) {
        let mut recorder = Recorder::new("a test");
        keys.into_iter().for_each(|key| recorder.access(&key.to_string()));
        let trace = recorder.finish();
        let mut cache = Hand::new(rules, &trace, room(40));
        trace.accesses().for_each(|access| {
            cache.access(access);
        });
        (trace, cache)
    }

    #[track_caller]
    fn check_place(rules: Rules, keys: impl IntoIterator<Item = u32>, key: &str, place: Place) {
        let (trace, cache) = played(rules, keys);
        let access = trace.accesses().find(|access| access.key == key).expect("a key of it");
        assert_eq!(cache.entries[access.number as usize].place, place, "{cache:?}");
    }

    #[test]
    fn new_keys_fill_main_first_and_then_pass_through_the_window() {
        for rules in BOTH {
            check_place(rules, 0..38, "37", Place::Main);
            check_place(rules, 0..39, "38", Place::Window);
            check_place(rules, 0..41, "38", Place::Absent);
            check_place(rules, 0..200, "37", Place::Main);
        }
    }

    #[test]
    fn a_hit_in_the_window_and_a_return_from_the_ghost_lead_to_main() {
        for rules in BOTH {
            check_place(rules, (0..39).chain([38]).chain(39..50), "38", Place::Main);
            check_place(rules, (0..45).chain([38]), "38", Place::Main);
        }
    }

    #[test]
    fn a_promoted_entry_keeps_its_marks_but_one_where_the_rules_say_so() {
        for (rules, kept) in [(Rules::PLAIN, 0), (Rules::MENDED, 2)] {
            let (_, cache) = played(rules, (0..39).chain([38; 3]).chain(39..42));
            let entry = &cache.entries[38];
            assert_eq!((entry.place, entry.marks), (Place::Main, kept));
        }
    }

    #[test]
    fn after_a_change_of_phase_the_mended_design_finds_more() {
        let trace = generate::trace("phase", Scale::QUICK).expect("a known name");
        let found =
            BOTH.map(|rules| play(&trace, &mut Hand::new(rules, &trace, trace.room(25))).objects);
        assert!(found[1] > found[0] + 0.5, "{found:?}");
    }
}
