//! Values: what rivals store, and how a value that was read is held against what was written.

use std::hint::black_box;
use std::sync::Arc;

use slotkeep::Handle;

/// How many bytes at the start of a value tell whose it is.
const STAMP: usize = 8;

/// A value that was read.
pub trait Kept {
    /// Whether it is the one that was written, or one of the same start; touches its end as well,
    /// as a caller that reads all of it does.
    fn holds(&self, written: &[u8]) -> bool;
}

/// What a rival stores.
pub trait Stored: Kept + Clone + Send + Sync + 'static {
    /// The value of these bytes.
    fn of(written: &[u8]) -> Self;

    /// Another value with the same start.
    #[must_use]
    fn changed(&self) -> Self;
}

/// The number of a value's first bytes; the topmost byte counts changes.
pub fn number(written: &[u8]) -> u64 {
    let stamp = written.first_chunk::<STAMP>().expect("values are longer than their stamp");
    u64::from_le_bytes(*stamp)
}

/// A number that was changed once more.
pub fn changed_number(number: u64) -> u64 {
    number.wrapping_add(1 << 56)
}

/// Bytes that were changed once more: another last byte.
pub fn change_bytes(bytes: &mut [u8]) {
    let last = bytes.last_mut().expect("values are longer than their stamp");
    *last = last.wrapping_add(1);
}

impl Kept for [u8] {
    #[inline]
    fn holds(&self, written: &[u8]) -> bool {
        black_box(self.last());
        self.len() >= STAMP && self[..STAMP] == written[..STAMP]
    }
}

impl Kept for u64 {
    #[inline]
    fn holds(&self, written: &[u8]) -> bool {
        (self ^ number(written)) << 8 == 0
    }
}

impl Kept for Arc<[u8]> {
    #[inline]
    fn holds(&self, written: &[u8]) -> bool {
        (**self).holds(written)
    }
}

impl<V: Kept + slotkeep::Value + ?Sized> Kept for Handle<V> {
    #[inline]
    fn holds(&self, written: &[u8]) -> bool {
        (**self).holds(written)
    }
}

impl Stored for Arc<[u8]> {
    #[inline]
    fn of(written: &[u8]) -> Self {
        Self::from(written)
    }

    fn changed(&self) -> Self {
        let mut bytes = Self::from(&**self);
        // Nobody else has it yet, so this makes no second copy.
        change_bytes(Self::make_mut(&mut bytes));
        bytes
    }
}

impl Stored for u64 {
    #[inline]
    fn of(written: &[u8]) -> Self {
        number(written)
    }

    fn changed(&self) -> Self {
        changed_number(*self)
    }
}
