//! The stand-in for slots: 256 of them, two in each chunk of a view.

/// How many slots there are.
pub(crate) const SLOT_COUNT: u16 = 256;

/// One slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u16);

impl Slot {
    pub(crate) const MIN: Self = Self(0);

    pub(crate) fn new(number: u16) -> Option<Self> {
        (number < SLOT_COUNT).then_some(Self(number))
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..SLOT_COUNT).map(Self)
    }
}
