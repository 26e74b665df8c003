//! Options of `set`, and what it answers.

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use crate::command::Condition;
use crate::command::Expiry;
use crate::command::Idle;
use crate::shard::Handle;
use crate::shard::Value;

/// When a `set` applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum When {
    #[default]
    Always,
    Absent,
    Present,
}

/// Options of [`Client::set_with`](crate::Client::set_with): expiry, condition, and whether the old
/// value is wanted. The default is what a plain `set` does.
pub struct SetOptions<'h, V: Value + ?Sized = [u8]> {
    expiry: Expiry,
    idle: Idle,
    when: When,
    same: Option<&'h Handle<V>>,
    return_old: bool,
}

impl<V: Value + ?Sized> Default for SetOptions<'_, V> {
    fn default() -> Self {
        Self {
            expiry: Expiry::Default,
            idle: Idle::Default,
            when: When::Always,
            same: None,
            return_old: false,
        }
    }
}

impl<V: Value + ?Sized> Clone for SetOptions<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Value + ?Sized> Copy for SetOptions<'_, V> {}

impl<V: Value + ?Sized> fmt::Debug for SetOptions<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetOptions")
            .field("expiry", &self.expiry)
            .field("idle", &self.idle)
            .field("when", &self.when)
            .field("if_same", &self.same.is_some())
            .field("return_old", &self.return_old)
            .finish()
    }
}

impl<'h, V: Value + ?Sized> SetOptions<'h, V> {
    /// The options of a plain `set`.
    pub fn new() -> Self {
        Self::default()
    }

    /// When the entry expires.
    #[must_use]
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }

    /// The entry expires after this time, counted from the moment the call runs.
    #[must_use]
    pub fn expire_in(self, wait: Duration) -> Self {
        self.expiry(Expiry::In(wait))
    }

    /// The entry expires at this time of the wall clock.
    #[must_use]
    pub fn expire_at(self, time: SystemTime) -> Self {
        self.expiry(Expiry::At(time))
    }

    /// The deadline of the entry that is replaced stays, and so does the time that it may stay
    /// unread.
    #[must_use]
    pub fn keep_expiry(self) -> Self {
        Self { idle: Idle::Keep, ..self.expiry(Expiry::Keep) }
    }

    /// The entry expires when nobody has read it for this time, if not before. Too long to count
    /// means never.
    #[must_use]
    pub fn expire_idle(mut self, time: Duration) -> Self {
        self.idle = Idle::For(time);
        self
    }

    /// Only if the key is not there. The last condition that is named counts.
    #[must_use]
    pub fn if_absent(mut self) -> Self {
        self.when = When::Absent;
        self.same = None;
        self
    }

    /// Only if the key is there. The last condition that is named counts.
    #[must_use]
    pub fn if_present(mut self) -> Self {
        self.when = When::Present;
        self.same = None;
        self
    }

    /// Only if the entry is still the one of this handle: nobody has written it since. The last
    /// condition that is named counts.
    #[must_use]
    pub fn if_same(mut self, handle: &'h Handle<V>) -> Self {
        self.same = Some(handle);
        self
    }

    /// The value that was there is wanted.
    #[must_use]
    pub fn return_old(mut self) -> Self {
        self.return_old = true;
        self
    }

    pub(crate) fn asked_expiry(&self) -> Expiry {
        self.expiry
    }

    pub(crate) fn asked_idle(&self) -> Idle {
        self.idle
    }

    pub(crate) fn wants_old(&self) -> bool {
        self.return_old
    }

    pub(crate) fn condition(&self) -> Condition<'h, V> {
        match (self.same, self.when) {
            (Some(handle), _) => Condition::Same(handle),
            (None, When::Always) => Condition::Always,
            (None, When::Absent) => Condition::Absent,
            (None, When::Present) => Condition::Present,
        }
    }
}

/// What [`Client::set_with`](crate::Client::set_with) did.
pub enum SetOutcome<V: Value + ?Sized> {
    /// The value was written.
    Set {
        /// What was there before, if the options want it.
        old: Option<Handle<V>>,
    },
    /// The condition was not met; nothing was written.
    NotSet {
        /// The value, handed back; nothing for `[u8]` and `str`, of which the caller has the bytes.
        value: V::Returned,
        /// What is there, if the options want it.
        current: Option<Handle<V>>,
    },
}

impl<V: Value + ?Sized> SetOutcome<V> {
    /// Whether the value was written.
    pub fn is_set(&self) -> bool {
        matches!(self, Self::Set { .. })
    }

    /// What was there before the call, if the options want it.
    pub fn into_old(self) -> Option<Handle<V>> {
        match self {
            Self::Set { old } => old,
            Self::NotSet { current, .. } => current,
        }
    }
}

impl<V: Value + ?Sized> fmt::Debug for SetOutcome<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "Set" } else { "NotSet" })
    }
}
