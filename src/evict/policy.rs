//! `Policy`: what a node does when it holds as much as it may.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::evict::By;
use crate::evict::Choice;

/// What a bounded node does at its bound.
///
/// The policies that Redis has bear its names; [`Display`](fmt::Display) and [`FromStr`] know them
/// as `maxmemory-policy` spells them. As in Redis they look at samples: the one that goes is the
/// best of sixteen neighbouring entries, not the best of all. Time is counted in what comes in, so
/// that no clock is read.
///
/// The volatile ones evict nothing that has no deadline, be it one of its own or of idleness. When
/// there is nothing else left, they refuse like [`NoEviction`](Self::NoEviction). A write makes its
/// room beforehand; one whose closure has run (`compute`, `update`, `transaction`) is refused if
/// the room that was made by a guess does not do.
///
/// # Examples
/// ```
/// use slotkeep::Policy;
/// assert_eq!("noeviction".parse(), Ok(Policy::NoEviction));
/// assert_eq!(Policy::NoEviction.redis_name(), Some("noeviction"));
/// assert_eq!(Policy::default(), Policy::Adaptive);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Evicts what is not likely to be asked for, by how recently and how often it was: new entries
    /// have to be hit in a window to stay, and of the others those go that were not hit for the
    /// longest time. The window takes 1 to 60 % of the room, as what comes back tells. Where the
    /// best order changes, it follows. Redis has nothing like it.
    #[default]
    Adaptive,
    /// Evicts nothing: what would make the node hold more than it may is refused with
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory). Reads, removals, deadlines, and writes
    /// that take no more room than what they replace go on. Redis calls it `noeviction`.
    ///
    /// Entries that have expired take room until a sweep has freed them or somebody has met them.
    NoEviction,
    /// Evicts the entry that was not read or written for the longest time. Redis calls it
    /// `allkeys-lru`.
    AllKeysLru,
    /// Evicts the entry that is read and written least: a counter that grows with the logarithm of
    /// the hits, and decays. Redis calls it `allkeys-lfu`.
    AllKeysLfu,
    /// Evicts any entry. Redis calls it `allkeys-random`.
    AllKeysRandom,
    /// As [`AllKeysLru`](Self::AllKeysLru), of the entries with a deadline. Redis calls it
    /// `volatile-lru`.
    VolatileLru,
    /// As [`AllKeysLfu`](Self::AllKeysLfu), of the entries with a deadline. Redis calls it
    /// `volatile-lfu`.
    VolatileLfu,
    /// Evicts any entry that has a deadline. Redis calls it `volatile-random`.
    VolatileRandom,
    /// Evicts the entry that expires next. Redis calls it `volatile-ttl`.
    VolatileTtl,
}

/// A name that no policy has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("no policy has this name")]
pub struct UnknownPolicy;

impl Policy {
    const ALL: [Self; 9] = [
        Self::Adaptive,
        Self::NoEviction,
        Self::AllKeysLru,
        Self::AllKeysLfu,
        Self::AllKeysRandom,
        Self::VolatileLru,
        Self::VolatileLfu,
        Self::VolatileRandom,
        Self::VolatileTtl,
    ];

    /// The name that Redis has for it, if it has one.
    pub const fn redis_name(self) -> Option<&'static str> {
        match self {
            Self::Adaptive => None,
            Self::NoEviction => Some("noeviction"),
            Self::AllKeysLru => Some("allkeys-lru"),
            Self::AllKeysLfu => Some("allkeys-lfu"),
            Self::AllKeysRandom => Some("allkeys-random"),
            Self::VolatileLru => Some("volatile-lru"),
            Self::VolatileLfu => Some("volatile-lfu"),
            Self::VolatileRandom => Some("volatile-random"),
            Self::VolatileTtl => Some("volatile-ttl"),
        }
    }

    /// How it chooses among samples, if it does.
    pub(crate) const fn choice(self) -> Option<Choice> {
        let (by, spares_lasting) = match self {
            Self::Adaptive | Self::NoEviction => return None,
            Self::AllKeysLru => (By::Recency, false),
            Self::AllKeysLfu => (By::Frequency, false),
            Self::AllKeysRandom => (By::Chance, false),
            Self::VolatileLru => (By::Recency, true),
            Self::VolatileLfu => (By::Frequency, true),
            Self::VolatileRandom => (By::Chance, true),
            Self::VolatileTtl => (By::Deadline, true),
        };
        Some(Choice { by, spares_lasting })
    }

    /// Whether a write can find that there is no room for it.
    pub(crate) const fn refuses(self) -> bool {
        match self.choice() {
            Some(choice) => choice.spares_lasting,
            None => matches!(self, Self::NoEviction),
        }
    }

    const fn name(self) -> &'static str {
        match self.redis_name() {
            Some(name) => name,
            None => "adaptive",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let mut policies = Self::ALL.into_iter();
        policies.find(|policy| policy.name().eq_ignore_ascii_case(name)).ok_or(UnknownPolicy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_spares_some_entries_refuses_and_what_may_evict_all_does_not() {
        for policy in Policy::ALL {
            let name = policy.to_string();
            let refuses = name == "noeviction" || name.starts_with("volatile");
            assert_eq!(policy.refuses(), refuses, "{name}");
        }
    }

    #[test]
    fn every_name_is_read_back_and_no_other() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.to_string().to_uppercase().parse(), Ok(policy));
        }
        assert_eq!("allkeys".parse::<Policy>(), Err(UnknownPolicy));
        assert_eq!("".parse::<Policy>(), Err(UnknownPolicy));
    }
}
