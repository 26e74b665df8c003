//! Hash slots: the 16384 parts of the keyspace, and which of them a key belongs to.
//!
//! A key's slot is the CRC-16/XMODEM checksum of its [hash tag](hash_tag), modulo 16384: the same
//! slot as in Redis Cluster, for every key.
//!
//! | item | is |
//! |---|---|
//! | [`Slot`] | one slot, 0 to 16383 |
//! | [`SlotRange`] | slots without a gap, both ends included |
//! | [`SlotSet`] | any slots, a bitmap of 2 KiB |
//! | [`hash_tag`] | the bytes of a key that are hashed |
//! | [`slots_of`] | the slots of many keys at once |
//! | [`slot_of_pattern`] | the one slot that a glob pattern is confined to |

mod pattern;
mod range;
mod set;

use core::fmt;
use core::str::FromStr;

use crate::crc16::Tier;
use crate::crc16::crc16_const;

pub use crate::crc16::tag::hash_tag;
pub use pattern::slot_of_pattern;
pub use range::SlotRange;
pub use set::Iter;
pub use set::Ranges;
pub use set::SlotSet;

/// How many slots there are.
pub const SLOT_COUNT: u16 = 16_384;

/// One hash slot: a number from 0 to 16383.
///
/// # Examples
///
/// ```
/// use slotkeep::Slot;
///
/// let slot = Slot::of("user:{1000}:profile");
/// assert_eq!(slot, Slot::of("1000"));
/// assert_eq!(slot.to_string(), "11326");
/// assert_eq!("11326".parse(), Ok(slot));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(
    // Invariant: below SLOT_COUNT.
    u16,
);

impl Slot {
    /// The first slot, 0.
    pub const MIN: Self = Self(0);

    /// The last slot, 16383.
    pub const MAX: Self = Self(SLOT_COUNT - 1);

    /// The slot with this number, or `None` when there is none: 16384 and above.
    ///
    /// ```
    /// use slotkeep::Slot;
    ///
    /// assert_eq!(Slot::new(16_383), Some(Slot::MAX));
    /// assert_eq!(Slot::new(16_384), None);
    /// ```
    #[inline]
    pub const fn new(number: u16) -> Option<Self> {
        if number < SLOT_COUNT { Some(Self(number)) } else { None }
    }

    /// The slot of a key. Any bytes are a key, none included: the empty key lies in slot 0.
    ///
    /// Cost: a few nanoseconds, and no allocation. Where the active [`Tier`] is `wide`, the same
    /// load of up to 64 bytes serves the search for the [hash tag](hash_tag) and its checksum;
    /// otherwise the key is searched, and then its tag hashed. Many keys cost less with
    /// [`slots_of`].
    ///
    /// ```
    /// use slotkeep::Slot;
    ///
    /// assert_eq!(Slot::of("foo").index(), 12_182);
    /// assert_eq!(Slot::of([0xff, 0xfe, 0xfd]).index(), 287);
    /// ```
    #[inline]
    pub fn of(key: impl AsRef<[u8]>) -> Self {
        Self::from_checksum(Tier::active().crc16_of_tag(key.as_ref()))
    }

    /// [`Slot::of`] for const contexts.
    ///
    /// ```
    /// use slotkeep::Slot;
    ///
    /// const FOO: Slot = Slot::of_const(b"foo");
    /// assert_eq!(FOO, Slot::of("foo"));
    /// ```
    #[inline]
    pub const fn of_const(key: &[u8]) -> Self {
        Self::from_checksum(crc16_const(hash_tag(key)))
    }

    /// The slot of a key whose hash tag has this checksum.
    #[inline]
    const fn from_checksum(checksum: u16) -> Self {
        // SLOT_COUNT is a power of two, so the mask is the modulus.
        Self(checksum & (SLOT_COUNT - 1))
    }

    /// The slot's number, 0 to 16383.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The slot's number as an index into an array of [`SLOT_COUNT`] elements.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every slot, in ascending order.
    ///
    /// ```
    /// use slotkeep::{SLOT_COUNT, Slot};
    ///
    /// assert_eq!(Slot::all().len(), usize::from(SLOT_COUNT));
    /// assert_eq!(Slot::all().next_back(), Some(Slot::MAX));
    /// ```
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
        (0..SLOT_COUNT).map(Self)
    }
}

/// The slots of many keys, in their order: `slots[n]` becomes that of `keys[n]`.
///
/// Cost: less than [`Slot::of`] for each, above all where keys are short and have no braces. A key
/// is asked for its bytes up to three times.
///
/// # Errors
///
/// [`SlotError::LengthMismatch`] when there are not as many `slots` as `keys`, and then no slot is
/// written: fix the call.
///
/// # Examples
///
/// ```
/// use slotkeep::{Slot, slots_of};
///
/// let keys = ["foo", "user:{1000}:profile"];
/// let mut slots = [Slot::MIN; 2];
/// slots_of(&keys, &mut slots)?;
/// assert_eq!(slots, keys.map(Slot::of));
/// # Ok::<(), slotkeep::SlotError>(())
/// ```
#[inline]
pub fn slots_of<K: AsRef<[u8]>>(keys: &[K], slots: &mut [Slot]) -> Result<(), SlotError> {
    if keys.len() != slots.len() {
        return Err(SlotError::LengthMismatch { keys: keys.len(), slots: slots.len() });
    }
    Tier::active().of_tags(keys, slots, Slot::from_checksum);
    Ok(())
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Slot> for u16 {
    #[inline]
    fn from(slot: Slot) -> Self {
        slot.0
    }
}

impl TryFrom<u16> for Slot {
    type Error = SlotError;

    /// # Errors
    ///
    /// [`SlotError::OutOfRange`] for 16384 and above: fix the call.
    #[inline]
    fn try_from(number: u16) -> Result<Self, SlotError> {
        Self::new(number).ok_or(SlotError::OutOfRange { number: number.into() })
    }
}

impl FromStr for Slot {
    type Err = SlotError;

    /// Reads a decimal number as [`Slot`] prints it: no sign, no blank, no leading zero.
    ///
    /// # Errors
    ///
    /// [`SlotError::NotANumber`] for any other text, [`SlotError::OutOfRange`] for 16384 and above:
    /// fix the text.
    fn from_str(text: &str) -> Result<Self, SlotError> {
        let digits = text.as_bytes();
        let padded = digits.len() > 1 && digits[0] == b'0';
        if digits.is_empty() || padded || !digits.iter().all(u8::is_ascii_digit) {
            return Err(SlotError::NotANumber);
        }
        // Only digits are left, so the one way to fail is to be too great.
        let number = text.parse().unwrap_or(u64::MAX);
        u16::try_from(number).ok().and_then(Self::new).ok_or(SlotError::OutOfRange { number })
    }
}

/// Why a number, a text or a call is wrong about slots.
///
/// Each of them means the same for the caller: the input is wrong, and trying again does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// The number is 16384 or above.
    #[error("slot {number} is out of range, the last slot is 16383")]
    OutOfRange {
        /// The number that was given; `u64::MAX` when it is that or above.
        number: u64,
    },

    /// The text is not a decimal number without sign, blanks and leading zeros.
    #[error("not a slot number")]
    NotANumber,

    /// The range ends before it starts.
    #[error("range {start}-{end} is reversed")]
    Reversed {
        /// The slot that was given as the first one.
        start: Slot,
        /// The slot that was given as the last one.
        end: Slot,
    },

    /// There are not as many slots to write as keys.
    #[error("{keys} keys and {slots} slots are not equally many")]
    LengthMismatch {
        /// How many keys were given.
        keys: usize,
        /// How many slots were given.
        slots: usize,
    },

    /// The list names a slot twice, by itself or inside of ranges.
    #[error("slot {slot} is listed twice")]
    ListedTwice {
        /// The first slot, in the order of the list, that was listed before.
        slot: Slot,
    },
}

#[cfg(test)]
mod tests {
    use super::Slot;
    use super::SlotError;

    #[test]
    fn only_plain_decimal_is_a_slot() {
        for text in ["", " ", "+1", "-1", "-0", "00", "01", "1 ", " 1", "0x1", "1.0", "1e3", "one"]
        {
            assert_eq!(text.parse::<Slot>(), Err(SlotError::NotANumber), "{text:?}");
        }
        // Digits of another script are digits to `char`, and not to us.
        assert_eq!("\u{664}".parse::<Slot>(), Err(SlotError::NotANumber));
    }

    #[test]
    fn a_number_above_the_last_slot_is_out_of_range() {
        let cases = [
            ("16384", 16_384),
            ("65536", 65_536),
            ("65537", 65_537),
            ("18446744073709551615", u64::MAX),
            ("99999999999999999999999", u64::MAX),
        ];
        for (text, number) in cases {
            assert_eq!(text.parse::<Slot>(), Err(SlotError::OutOfRange { number }), "{text}");
        }
    }

    #[test]
    fn every_slot_reads_as_it_prints() {
        for slot in Slot::all() {
            assert_eq!(slot.to_string().parse(), Ok(slot));
        }
    }
}
