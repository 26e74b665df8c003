//! When an entry expires: what the caller asks for, and the deadline that it becomes.

use std::time::Duration;
use std::time::SystemTime;

use crate::shard::Context;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::Value;
use crate::time::NEVER;
use crate::time::nanos_of;

/// When an entry expires, as a caller says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Expiry {
    /// As the cluster was built to do, whatever was there before; never, unless that was told
    /// otherwise.
    #[default]
    Default,
    /// Never.
    Never,
    /// When the entry that it replaces would have; as the cluster was built to do, if there is
    /// none.
    Keep,
    /// After this time, counted from the moment the call runs. Too long to count means never.
    In(Duration),
    /// At this time of the wall clock, converted once, when the call arrives. A time that has
    /// passed means at once.
    At(SystemTime),
}

/// An [`Expiry`] whose wall clock time was converted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deadline {
    Default,
    Keep,
    After(Duration),
    /// Nanoseconds since the cluster began.
    At(u64),
}

impl Deadline {
    /// The plain number to store; `present` is how the entry is kept that is there.
    #[inline]
    pub(crate) fn resolve<V: Value + ?Sized>(
        self,
        present: Option<Kept>,
        key: &Key<'_>,
        context: &Context<'_, V>,
    ) -> u64 {
        let default = || context.terms.map_or(NEVER, |terms| terms.expires(key, context.now));
        match self {
            Self::At(deadline) => deadline,
            Self::After(wait) => context.now.after(wait),
            Self::Keep => present.map_or_else(default, |present| present.expires),
            Self::Default => default(),
        }
    }
}

/// For how long an entry may stay unread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Idle {
    #[default]
    Default,
    Keep,
    For(Duration),
}

impl Idle {
    /// Nanoseconds; `present` is how the entry is kept that is there.
    #[inline]
    pub(crate) fn resolve<V: Value + ?Sized>(
        self,
        present: Option<Kept>,
        context: &Context<'_, V>,
    ) -> u64 {
        match (self, present) {
            (Self::For(time), _) => nanos_of(time),
            (Self::Keep, Some(present)) => present.idle,
            (Self::Keep, None) | (Self::Default, _) => {
                context.terms.map_or(NEVER, |terms| terms.idle)
            }
        }
    }
}
