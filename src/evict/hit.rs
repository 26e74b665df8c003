//! `Hit`: what is left in the 16 bits of an entry's head when it comes in and when it is hit, by
//! the policy of its node.

use crate::evict::Entrance;
use crate::evict::Frequency;
use crate::evict::Standing;

/// What a hit leaves behind. Computed once a hold.
///
/// Where no policy looks at the bits, a mark does as well as anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Hit {
    /// One more mark, as the adaptive policy counts them.
    #[default]
    Mark,
    /// The node's tick: when it was.
    Recent { tick: u16 },
    /// Perhaps one more on a counter; `drawn` decides it.
    Frequent { tick: u8, drawn: u16 },
}

impl Hit {
    /// What a hit makes of the bits; nothing where they stay.
    #[inline]
    pub(crate) fn on(self, bits: u16) -> Option<u16> {
        match self {
            Self::Mark => Standing::from_bits(bits).hit().map(Standing::bits),
            Self::Recent { tick } => (tick != bits).then_some(tick),
            Self::Frequent { tick, drawn } => {
                let hit = Frequency::from_bits(bits).hit(tick, drawn).bits();
                (hit != bits).then_some(hit)
            }
        }
    }

    /// The bits of an entry that has just come in.
    #[inline]
    pub(crate) fn entered(self, entrance: Entrance) -> u16 {
        match self {
            Self::Mark => Standing::entered(entrance).bits(),
            Self::Recent { tick } => tick,
            Self::Frequent { tick, .. } => Frequency::new(tick).bits(),
        }
    }

    /// The bits of an entry that has come from another node, whose ticks are not this one's, and
    /// whose tickets decide nothing here.
    pub(crate) fn arrived(self, bits: u16) -> u16 {
        match self {
            Self::Mark => Standing::from_bits(bits).in_main().bits(),
            Self::Recent { tick } => tick,
            Self::Frequent { tick, .. } => Frequency::from_bits(bits).seen_at(tick).bits(),
        }
    }
}
