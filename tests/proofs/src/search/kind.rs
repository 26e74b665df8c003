//! Kinds of what can happen, of which setups are made and which reports count.

/// What happens, without its details.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Importing,
    Migrating,
    /// NODE on the target.
    Take,
    /// NODE on another node.
    Yield,
    Stable,
    Batch,
    AbortBegin,
    AbortBack,
    /// A claim is sent.
    Send,
    Deliver,
    Lose,
    Expire,
    Sweep,
    Get,
    Set,
    SetExpiring,
    Remove,
    GetBoth,
    SetBoth,
    /// A call that was not served at once goes on. It comes with every call.
    GoOn,
    /// Without a reservation.
    HandOver,
    Reserve,
    HandOverReserved,
    GiveUp,
    /// The first hold of ADDSLOTS.
    Add,
    /// The last one.
    Own,
    /// Instead of the last one.
    Release,
    /// The first hold of DELSLOTS.
    Delete,
    /// The last one.
    Disown,
    /// Instead of the last one.
    Keep,
    /// Known to earlier wordings only.
    OtherSlotFlips,
}

impl Kind {
    pub(crate) const ALL: [Self; 31] = [
        Self::Importing,
        Self::Migrating,
        Self::Take,
        Self::Yield,
        Self::Stable,
        Self::Batch,
        Self::AbortBegin,
        Self::AbortBack,
        Self::Send,
        Self::Deliver,
        Self::Lose,
        Self::Expire,
        Self::Sweep,
        Self::Get,
        Self::Set,
        Self::SetExpiring,
        Self::Remove,
        Self::GetBoth,
        Self::SetBoth,
        Self::GoOn,
        Self::HandOver,
        Self::Reserve,
        Self::HandOverReserved,
        Self::GiveUp,
        Self::Add,
        Self::Own,
        Self::Release,
        Self::Delete,
        Self::Disown,
        Self::Keep,
        Self::OtherSlotFlips,
    ];

    /// The verbs of SETSLOT and the steps of an abort look at the gate; batches, claims, ADDSLOTS
    /// and DELSLOTS pass.
    pub(crate) fn looks_at_the_gate(self) -> bool {
        matches!(
            self,
            Self::Importing
                | Self::Migrating
                | Self::Take
                | Self::Yield
                | Self::Stable
                | Self::AbortBegin
                | Self::AbortBack
                | Self::HandOver
                | Self::HandOverReserved
        )
    }
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds(u64);

impl Kinds {
    /// The verbs of a move, which look at the gate.
    pub const VERBS: Self =
        Self::of(&[Kind::Importing, Kind::Migrating, Kind::Take, Kind::Yield, Kind::Stable]);

    /// The verbs of a move and its batches.
    pub const MOVES: Self = Self::VERBS.and(Self::of(&[Kind::Batch]));

    /// The holds of an abort.
    pub const ABORTS: Self = Self::of(&[Kind::AbortBegin, Kind::AbortBack]);

    /// Handovers, of one hold, and of a reservation and a hold.
    pub const HANDOVERS: Self =
        Self::of(&[Kind::HandOver, Kind::Reserve, Kind::HandOverReserved, Kind::GiveUp]);

    /// ADDSLOTS and DELSLOTS.
    pub const SLOTS: Self =
        Self::of(&[Kind::Add, Kind::Own, Kind::Release, Kind::Delete, Kind::Disown, Kind::Keep]);

    /// Claims that arrive when they are sent.
    pub const CLAIMS: Self = Self::of(&[Kind::Send]);

    /// Claims that are held, reordered and lost.
    pub const HELD_CLAIMS: Self = Self::of(&[Kind::Send, Kind::Deliver, Kind::Lose]);

    /// Deadlines pass.
    pub const EXPIRY: Self = Self::of(&[Kind::SetExpiring, Kind::Expire, Kind::Sweep]);

    /// Calls that read and write one key.
    pub const READS_AND_WRITES: Self = Self::of(&[Kind::Get, Kind::Set, Kind::GoOn]);

    /// Calls on one key.
    pub const CALLS: Self = Self::READS_AND_WRITES.and(Self::of(&[Kind::Remove]));

    /// Calls on both keys.
    pub const CALLS_ON_BOTH: Self = Self::of(&[Kind::GetBoth, Kind::SetBoth, Kind::GoOn]);

    /// These kinds.
    pub const fn of(kinds: &[Kind]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < kinds.len() {
            set |= 1 << kinds[index] as u64;
            index += 1;
        }
        Self(set)
    }

    /// The kinds of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u64 != 0
    }
}
