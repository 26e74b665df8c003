//! `Standing`: what eviction knows of one entry, in 16 bits of its head.

/// Marks do not grow beyond this: so often an entry lets the hand pass without another hit. A third
/// one keeps what was once popular longer than it finds: a fifth of a point more where popularity
/// never changes, and half a point less where it does.
const MARKS_MAX: u16 = 2;

/// The bits that count them.
const MARKS: u16 = 0b11;

/// The entry was hit since the hand met it.
const FRESH: u16 = 1 << 2;

/// The entry is in the window: a ticket in the node's queue decides about it.
const WINDOW: u16 = 1 << 3;

/// The hand has met the entry in the window.
const MET: u16 = 1 << 4;

/// Above these bits lies the serial of the ticket.
const SERIAL_SHIFT: u32 = 5;

/// Serials are smaller.
const SERIALS: u16 = 1 << (16 - SERIAL_SHIFT);

/// How often an entry was hit, and where it stands: in the window, or with the main entries.
///
/// The default is that of a main entry that nobody has hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing(u16);

/// Where new entries enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Entrance {
    /// With the main entries.
    #[default]
    Main,
    /// In the window, under a ticket of this serial; only its low bits count.
    Window { serial: u16 },
}

impl Standing {
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// That of an entry that has just come in.
    pub(crate) const fn entered(entrance: Entrance) -> Self {
        match entrance {
            Entrance::Main => Self(0),
            Entrance::Window { serial } => Self(WINDOW | ((serial % SERIALS) << SERIAL_SHIFT)),
        }
    }

    /// With one more hit; nothing where one more changes nothing.
    #[inline]
    pub(crate) const fn hit(self) -> Option<Self> {
        const FULL: u16 = MARKS_MAX | FRESH;
        if self.0 & FULL == FULL {
            return None;
        }
        let more = if self.marks() < MARKS_MAX { self.0 + 1 } else { self.0 };
        Some(Self(more | FRESH))
    }

    /// Whether a ticket of this serial decides about the entry.
    pub(crate) const fn awaits(self, serial: u16) -> bool {
        let ticket = WINDOW | ((serial % SERIALS) << SERIAL_SHIFT);
        self.0 & !(MARKS | FRESH | MET) == ticket
    }

    pub(crate) const fn is_in_window(self) -> bool {
        self.0 & WINDOW != 0
    }

    /// After its time in the window: a main entry with a mark less, if it was hit.
    pub(crate) const fn promoted(self) -> Option<Self> {
        match self.marks() {
            0 => None,
            marks => Some(Self((marks - 1) | (self.0 & FRESH))),
        }
    }

    /// A main entry with the same marks, whatever it was.
    pub(crate) const fn in_main(self) -> Self {
        Self(self.0 & (MARKS | FRESH))
    }

    /// What the hand leaves of an entry in the window. Nothing when it has met it before: the
    /// window is large, or the ticket is lost, as after the whole slot was handed over.
    pub(crate) const fn met_in_window(self) -> Option<Self> {
        if self.0 & MET == 0 { Some(Self(self.0 | MET)) } else { None }
    }

    /// Whether it was hit since the hand met it.
    pub(crate) const fn is_fresh(self) -> bool {
        self.0 & FRESH != 0
    }

    pub(crate) const fn marks(self) -> u16 {
        self.0 & MARKS
    }

    /// What the hand leaves of a main entry that stays: a mark less, and no longer fresh.
    pub(crate) const fn passed(self) -> Self {
        Self(self.marks().saturating_sub(1))
    }
}
