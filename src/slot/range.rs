//! Ranges of slots, both ends included, so that the last slot of a node is never left out.

use core::fmt;
use core::str::FromStr;

use super::SLOT_COUNT;
use super::Slot;
use super::SlotError;

/// Slots without a gap, from [`start`](Self::start) to [`end`](Self::end), both included.
///
/// A range is never empty. Ranges are ordered by start, then by end.
///
/// # Examples
///
/// ```
/// use slotkeep::{Slot, SlotRange};
///
/// let range: SlotRange = "12288-16383".parse()?;
/// assert_eq!(range.len(), 4096);
/// assert!(range.contains(Slot::MAX));
/// assert_eq!(range.to_string(), "12288-16383");
/// # Ok::<(), slotkeep::SlotError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotRange {
    // Invariant: start <= end.
    start: Slot,
    end: Slot,
}

impl SlotRange {
    /// All slots, 0 to 16383.
    pub const FULL: Self = Self { start: Slot::MIN, end: Slot::MAX };

    /// The range from `start` to `end`, both included.
    ///
    /// # Errors
    ///
    /// [`SlotError::Reversed`], with both slots, when `end` is less than `start`: fix the call.
    pub const fn new(start: Slot, end: Slot) -> Result<Self, SlotError> {
        if start.0 <= end.0 {
            Ok(Self { start, end })
        } else {
            Err(SlotError::Reversed { start, end })
        }
    }

    /// The first slot.
    #[inline]
    pub const fn start(self) -> Slot {
        self.start
    }

    /// The last slot, which belongs to the range.
    #[inline]
    pub const fn end(self) -> Slot {
        self.end
    }

    /// How many slots the range holds: 1 to 16384.
    #[expect(clippy::len_without_is_empty, reason = "a range holds at least one slot")]
    #[inline]
    pub const fn len(self) -> usize {
        self.end.index() - self.start.index() + 1
    }

    /// Whether `slot` lies in the range.
    #[inline]
    pub const fn contains(self, slot: Slot) -> bool {
        self.start.0 <= slot.0 && slot.0 <= self.end.0
    }

    /// The slots of the range, in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Slot> + ExactSizeIterator + Clone {
        (self.start.0..=self.end.0).map(Slot)
    }
}

impl From<Slot> for SlotRange {
    /// The range of this one slot.
    fn from(slot: Slot) -> Self {
        Self { start: slot, end: slot }
    }
}

impl fmt::Display for SlotRange {
    /// `5461-10922`, or `5461` for one slot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end } = self;
        if start == end { write!(f, "{start}") } else { write!(f, "{start}-{end}") }
    }
}

impl fmt::Debug for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotRange({self})")
    }
}

impl FromStr for SlotRange {
    type Err = SlotError;

    /// Reads `5461-10922` or `5461`; each number as [`Slot`] reads it.
    ///
    /// # Errors
    ///
    /// Those of [`Slot`] for either number, [`SlotError::Reversed`] when the second is less than
    /// the first: fix the text.
    fn from_str(text: &str) -> Result<Self, SlotError> {
        match text.split_once('-') {
            Some((start, end)) => Self::new(start.parse()?, end.parse()?),
            None => Ok(Self::from(text.parse::<Slot>()?)),
        }
    }
}

const _: () = assert!(SlotRange::FULL.len() == SLOT_COUNT as usize);
