//! Sets of slots: a bitmap of 2 KiB, one bit a slot.

use core::fmt;
use core::iter::FusedIterator;
use core::ops::BitAndAssign;
use core::ops::BitOrAssign;
use core::ops::SubAssign;
use core::str::FromStr;

use super::SLOT_COUNT;
use super::Slot;
use super::SlotError;
use super::SlotRange;

const WORD_BITS: u16 = 64;
const WORD_COUNT: usize = (SLOT_COUNT / WORD_BITS) as usize;

/// A set of slots.
///
/// It is one allocation of 2 KiB, whatever it holds. One slot is looked up, inserted or removed in
/// constant time; what concerns the whole set looks at 256 words.
///
/// # Examples
///
/// ```
/// use slotkeep::{Slot, SlotSet};
///
/// let mut slots: SlotSet = "0-5460,5500".parse()?;
/// assert_eq!(slots.len(), 5462);
/// assert!(slots.remove(Slot::MIN));
/// assert_eq!(slots.to_string(), "1-5460,5500");
/// # Ok::<(), slotkeep::SlotError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SlotSet {
    /// Slot `s` is bit `s % 64` of word `s / 64`.
    words: Box<[u64; WORD_COUNT]>,
}

impl SlotSet {
    /// The empty set.
    pub fn new() -> Self {
        Self { words: Box::new([0; WORD_COUNT]) }
    }

    /// All slots.
    pub fn full() -> Self {
        Self { words: Box::new([u64::MAX; WORD_COUNT]) }
    }

    /// How many slots the set holds: 0 to 16384. Counts 256 words.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set holds no slot.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Whether the set holds `slot`.
    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        let (index, bit) = place(slot);
        self.words[index] & bit != 0
    }

    /// Adds `slot`; true when it was not in the set before.
    #[inline]
    pub fn insert(&mut self, slot: Slot) -> bool {
        let (index, bit) = place(slot);
        let absent = self.words[index] & bit == 0;
        self.words[index] |= bit;
        absent
    }

    /// Takes `slot` out; true when it was in the set before.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> bool {
        let (index, bit) = place(slot);
        let present = self.words[index] & bit != 0;
        self.words[index] &= !bit;
        present
    }

    /// Adds every slot of `range`, a word at a time.
    pub fn insert_range(&mut self, range: SlotRange) {
        self.each_word(range, |word, mask| *word |= mask);
    }

    /// Takes every slot of `range` out, a word at a time.
    pub fn remove_range(&mut self, range: SlotRange) {
        self.each_word(range, |word, mask| *word &= !mask);
    }

    /// Takes every slot out; the memory stays.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The slots, in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { set: self, next: 0 }
    }

    /// The runs of slots without a gap, in ascending order: as few ranges as can be.
    ///
    /// ```
    /// use slotkeep::SlotSet;
    ///
    /// let slots: SlotSet = "7,0-3,4-5".parse()?;
    /// let ranges: Vec<String> = slots.ranges().map(|range| range.to_string()).collect();
    /// assert_eq!(ranges, ["0-5", "7"]);
    /// # Ok::<(), slotkeep::SlotError>(())
    /// ```
    pub fn ranges(&self) -> Ranges<'_> {
        Ranges { set: self, next: 0 }
    }

    /// The slots that are in this set or in `other`. `a |= &b` does it in place.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set |= other;
        set
    }

    /// The slots that are in this set and in `other`. `a &= &b` does it in place.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set &= other;
        set
    }

    /// The slots that are in this set and not in `other`. `a -= &b` does it in place.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set -= other;
        set
    }

    /// Whether no slot is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&*other.words).all(|(a, b)| a & b == 0)
    }

    /// Whether every slot of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(&*other.words).all(|(a, b)| a & !b == 0)
    }

    /// Calls `change` with every word that `range` touches, and with the range's bits in it.
    fn each_word(&mut self, range: SlotRange, change: impl Fn(&mut u64, u64)) {
        let (first, last) = (range.start().number(), range.end().number());
        let head = u64::MAX << (first % WORD_BITS);
        let tail = u64::MAX >> (WORD_BITS - 1 - last % WORD_BITS);
        let (first, last) = (usize::from(first / WORD_BITS), usize::from(last / WORD_BITS));
        for index in first..=last {
            let head = if index == first { head } else { u64::MAX };
            let tail = if index == last { tail } else { u64::MAX };
            change(&mut self.words[index], head & tail);
        }
    }

    /// The first number at or after `from` whose bit is set in the words xor `flip`, or
    /// `SLOT_COUNT`. A `flip` of all ones looks for a slot that is not in the set.
    fn seek(&self, from: u16, flip: u64) -> u16 {
        let mut base = from - from % WORD_BITS;
        let mut mask = u64::MAX << (from % WORD_BITS);
        for word in self.words.iter().skip(usize::from(from / WORD_BITS)) {
            let hits = (word ^ flip) & mask;
            if hits != 0 {
                return base + lowest(hits);
            }
            base += WORD_BITS;
            mask = u64::MAX;
        }
        SLOT_COUNT
    }
}

/// Word and bit of a slot.
#[inline]
const fn place(slot: Slot) -> (usize, u64) {
    (slot.index() / WORD_BITS as usize, 1 << (slot.number() % WORD_BITS))
}

/// The lowest set bit of a word that is not zero.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a word has 64 bits")]
const fn lowest(word: u64) -> u16 {
    word.trailing_zeros() as u16
}

impl Default for SlotSet {
    /// The empty set.
    fn default() -> Self {
        Self::new()
    }
}

impl BitOrAssign<&Self> for SlotSet {
    fn bitor_assign(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&*other.words) {
            *word |= other;
        }
    }
}

impl BitAndAssign<&Self> for SlotSet {
    fn bitand_assign(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&*other.words) {
            *word &= other;
        }
    }
}

impl SubAssign<&Self> for SlotSet {
    fn sub_assign(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&*other.words) {
            *word &= !other;
        }
    }
}

impl From<Slot> for SlotSet {
    fn from(slot: Slot) -> Self {
        Self::from(SlotRange::from(slot))
    }
}

impl From<SlotRange> for SlotSet {
    fn from(range: SlotRange) -> Self {
        Self::from_iter([range])
    }
}

impl Extend<Slot> for SlotSet {
    fn extend<I: IntoIterator<Item = Slot>>(&mut self, slots: I) {
        for slot in slots {
            self.insert(slot);
        }
    }
}

impl Extend<SlotRange> for SlotSet {
    fn extend<I: IntoIterator<Item = SlotRange>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert_range(range);
        }
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::new();
        set.extend(slots);
        set
    }
}

impl FromIterator<SlotRange> for SlotSet {
    fn from_iter<I: IntoIterator<Item = SlotRange>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

impl<'a> IntoIterator for &'a SlotSet {
    type Item = Slot;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Display for SlotSet {
    /// The ranges, separated by commas: `0-5460,5500`. The empty set is the empty text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{range}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotSet({self})")
    }
}

impl FromStr for SlotSet {
    type Err = SlotError;

    /// Reads slots and ranges separated by commas, in any order: `0-5460,5500`.
    /// The empty text is the empty set.
    ///
    /// # Errors
    ///
    /// Those of [`SlotRange`] for each part, [`SlotError::ListedTwice`] when parts overlap:
    /// fix the text.
    fn from_str(text: &str) -> Result<Self, SlotError> {
        let mut set = Self::new();
        if text.is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let range: SlotRange = part.parse()?;
            let seen = set.seek(range.start().number(), 0);
            if let Some(slot) = Slot::new(seen).filter(|&slot| range.contains(slot)) {
                return Err(SlotError::ListedTwice { slot });
            }
            set.insert_range(range);
        }
        Ok(set)
    }
}

/// The slots of a [`SlotSet`], in ascending order; made by [`SlotSet::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    set: &'a SlotSet,
    /// The least slot number not yet looked at; `SLOT_COUNT` at the end.
    next: u16,
}

impl Iterator for Iter<'_> {
    type Item = Slot;

    #[inline]
    fn next(&mut self) -> Option<Slot> {
        let slot = Slot::new(self.set.seek(self.next, 0));
        self.next = slot.map_or(SLOT_COUNT, |slot| slot.number() + 1);
        slot
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(usize::from(SLOT_COUNT - self.next)))
    }
}

impl FusedIterator for Iter<'_> {}

/// The runs of slots of a [`SlotSet`], in ascending order; made by [`SlotSet::ranges`].
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    set: &'a SlotSet,
    /// The least slot number not yet looked at; `SLOT_COUNT` at the end.
    next: u16,
}

impl Iterator for Ranges<'_> {
    type Item = SlotRange;

    fn next(&mut self) -> Option<SlotRange> {
        let Some(start) = Slot::new(self.set.seek(self.next, 0)) else {
            self.next = SLOT_COUNT;
            return None;
        };
        // The first slot after the run; it is above `start`, which is in the set.
        self.next = self.set.seek(start.number(), u64::MAX);
        let end = Slot::new(self.next - 1)?;
        SlotRange::new(start, end).ok()
    }
}

impl FusedIterator for Ranges<'_> {}

#[cfg(test)]
mod tests {
    use super::Slot;
    use super::SlotRange;
    use super::SlotSet;

    /// Word borders and their neighbours: where a mask could be off by one.
    const EDGES: [u16; 12] = [0, 1, 62, 63, 64, 65, 127, 128, 8191, 8192, 16_382, 16_383];

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn every_range_between_edges_holds_exactly_its_slots() {
        for start in EDGES {
            for end in EDGES.into_iter().filter(|&end| start <= end) {
                let range = SlotRange::new(slot(start), slot(end)).unwrap();
                let mut set = SlotSet::from(range);
                assert_eq!(set, range.iter().collect(), "{range}");
                assert_eq!(set.len(), range.len(), "{range}");
                assert!(set.iter().eq(range.iter()), "{range}");
                assert!(set.ranges().eq([range]), "{range}");

                let mut rest = SlotSet::full();
                rest.remove_range(range);
                assert_eq!(rest, SlotSet::full().difference(&set), "{range}");
                assert!(rest.is_disjoint(&set), "{range}");

                set |= &rest;
                assert_eq!(set, SlotSet::full(), "{range}");
            }
        }
    }

    #[test]
    fn iterators_stay_at_their_end() {
        let set = SlotSet::from(Slot::MAX);
        let mut slots = set.iter();
        assert_eq!(slots.next(), Some(Slot::MAX));
        assert_eq!((slots.next(), slots.next()), (None, None));
        let mut ranges = set.ranges();
        assert_eq!(ranges.next(), Some(SlotRange::from(Slot::MAX)));
        assert_eq!((ranges.next(), ranges.next()), (None, None));
    }
}
