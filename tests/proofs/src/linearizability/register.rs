//! Register: what one key of a cache may answer, expiry included.

use std::fmt;

use super::{Model, NEVER};

/// What may be asked of one key of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the cache's own operations")]
pub enum Verb {
    Get,
    Set(u64),
    SetUntil { value: u64, deadline: u64 },
    SetIfAbsent(u64),
    Incr(u64),
    CompareReplace { expected: u64, new: u64 },
    Take,
    Remove,
}

/// What a [`Verb`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of `Set` and `SetUntil`.
    Done,
    /// Of `Get` and `Take`.
    Value(Option<u64>),
    /// Of `SetIfAbsent`, `CompareReplace` and `Remove`: whether it did so.
    Flag(bool),
    /// Of `Incr`: the new value.
    Count(u64),
}

/// A verb with the clock readings that are possible while it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// What is asked.
    pub verb: Verb,
    /// The clock just before the call.
    pub now_low: u64,
    /// The clock just after it; `u64::MAX` if it never returned.
    pub now_high: u64,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, now_low, now_high } = self;
        match (now_low, now_high) {
            (0, &u64::MAX) => write!(f, "{verb:?}"),
            (_, &u64::MAX) => write!(f, "{verb:?} at {now_low} or later"),
            _ => write!(f, "{verb:?} at {now_low} to {now_high}"),
        }
    }
}

impl From<Verb> for Call {
    /// A call that may run at any time: right where no deadline is set.
    fn from(verb: Verb) -> Self {
        Self { verb, now_low: 0, now_high: u64::MAX }
    }
}

/// One key of a cache, absent at first.
///
/// A value with a deadline vanishes for good. A call may find it gone if `now_high >= deadline`,
/// and may find it there if `now_low < deadline`. `Incr` (missing counts as 0, and it wraps) and
/// `CompareReplace` keep the deadline; the other writes replace it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Register;

/// One key of a cache of bounded size, absent at first.
///
/// As a [`Register`], but for what an eviction may do: a value may vanish at any time. What has
/// vanished, or was replaced, never comes back.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoundedRegister;

/// What one key holds.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RegisterState {
    value: Option<u64>,
    /// `u64::MAX` without one.
    deadline: u64,
    /// A deadline that has passed, while later calls may still claim an earlier clock.
    passed: u64,
}

impl fmt::Debug for RegisterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.value)?;
        if self.deadline != NEVER {
            write!(f, " until {}", self.deadline)?;
        }
        if self.passed != 0 { write!(f, " at {} or later", self.passed) } else { Ok(()) }
    }
}

impl Model for Register {
    type State = RegisterState;
    type Op = Call;
    type Output = Outcome;

    fn initial(&self) -> RegisterState {
        RegisterState { value: None, deadline: NEVER, passed: 0 }
    }

    fn apply(
        &self,
        state: &RegisterState,
        call: &Call,
        output: Option<&Outcome>,
    ) -> Option<RegisterState> {
        // A value that is certainly past its deadline must lapse first.
        if call.now_high < state.passed || call.now_low >= state.deadline {
            return None;
        }
        let held = state.value;
        let mut after = state.clone();
        let made = match call.verb {
            Verb::Get => Outcome::Value(held),
            Verb::Set(value) => {
                (after.value, after.deadline) = (Some(value), NEVER);
                Outcome::Done
            }
            Verb::SetUntil { value, deadline } => {
                (after.value, after.deadline) = (Some(value), deadline);
                Outcome::Done
            }
            Verb::SetIfAbsent(value) => {
                after.value = held.or(Some(value));
                Outcome::Flag(held.is_none())
            }
            Verb::Incr(by) => {
                let sum = held.unwrap_or(0).wrapping_add(by);
                after.value = Some(sum);
                Outcome::Count(sum)
            }
            Verb::CompareReplace { expected, new } => {
                let equal = held == Some(expected);
                after.value = if equal { Some(new) } else { held };
                Outcome::Flag(equal)
            }
            Verb::Take | Verb::Remove => {
                (after.value, after.deadline) = (None, NEVER);
                let taken = Outcome::Value(held);
                if call.verb == Verb::Take { taken } else { Outcome::Flag(held.is_some()) }
            }
        };
        if call.now_low >= state.passed {
            after.passed = 0;
        }
        output.is_none_or(|output| *output == made).then_some(after)
    }

    fn lapse(&self, state: &RegisterState, call: &Call) -> Option<RegisterState> {
        let may_lapse = state.deadline != NEVER && state.deadline <= call.now_high;
        let passed = state.passed.max(state.deadline);
        may_lapse.then_some(RegisterState { value: None, deadline: NEVER, passed })
    }

    fn keeps_state(&self, call: &Call, output: Option<&Outcome>) -> bool {
        call.verb == Verb::Get
            || matches!(output, Some(Outcome::Flag(false) | Outcome::Value(None)))
    }
}

impl Model for BoundedRegister {
    type State = RegisterState;
    type Op = Call;
    type Output = Outcome;

    fn initial(&self) -> RegisterState {
        Register.initial()
    }

    fn apply(
        &self,
        state: &RegisterState,
        call: &Call,
        output: Option<&Outcome>,
    ) -> Option<RegisterState> {
        Register.apply(state, call, output)
    }

    /// An expiry is no more than an eviction, but for the clock, which an eviction says nothing of.
    fn lapse(&self, state: &RegisterState, _call: &Call) -> Option<RegisterState> {
        let passed = state.passed;
        state.value.map(|_| RegisterState { value: None, deadline: NEVER, passed })
    }

    fn keeps_state(&self, call: &Call, output: Option<&Outcome>) -> bool {
        Register.keeps_state(call, output)
    }
}
