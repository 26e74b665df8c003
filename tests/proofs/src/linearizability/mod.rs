//! Linearizability checker: does one key's history fit some order of instants?
//!
//! The search is that of Wing and Gong with Lowe's just-in-time linearization: the events are read
//! in the order of their ends, and an event takes effect only when a return forces it. What is
//! known at any time is a set of configurations (state, pending events that took effect already),
//! each kept once. The cost is linear in the events and exponential only in the effects that
//! overlap on one key.
//!
//! Three rules keep the set small, none of them changes the verdict:
//! - An event that keeps the state takes effect as soon as its output fits.
//! - An event that never returns may as well not have happened: of two configurations that differ
//!   in such events alone, the one with fewer is kept.
//! - Equal events that never return take effect in the order of their calls.

mod register;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::hash::Hash;

use ahash::RandomState;
use hashbrown::HashTable;

pub use self::register::{BoundedRegister, Call, Outcome, Register, RegisterState, Verb};

/// Bound of the events pending at one time: the bits of a mask.
///
/// Events that never return stay pending, unless they keep the state.
pub const PENDING_MAX: usize = 64;
/// Bound of the configurations alive at one time; a search beyond it is given up.
pub const CONFIGURATIONS_MAX: usize = 1 << 20;
/// The `returned` of an event that never returned.
pub const NEVER: u64 = u64::MAX;

/// How many finished events, and how many states, a report shows.
const SHOWN_MAX: usize = 8;

/// A sequential object: what each operation does, and what it may answer.
pub trait Model {
    /// All that one key holds.
    type State: Clone + Eq + Hash + fmt::Debug;
    /// A call with its arguments.
    type Op: PartialEq + fmt::Debug;
    /// The answer to a call.
    type Output: fmt::Debug;

    /// The state before the first event.
    fn initial(&self) -> Self::State;

    /// The state after `op`, or `None` if `output` does not fit `state`.
    ///
    /// Without an output the effect is applied whatever the answer would have been.
    fn apply(
        &self,
        state: &Self::State,
        op: &Self::Op,
        output: Option<&Self::Output>,
    ) -> Option<Self::State>;

    /// What the state may become by itself just before `op`, such as an expiry; `op` may see both.
    fn lapse(&self, _state: &Self::State, _op: &Self::Op) -> Option<Self::State> {
        None
    }

    /// True only for an event that changes no state that it fits, lapses aside: a read.
    fn keeps_state(&self, _op: &Self::Op, _output: Option<&Self::Output>) -> bool {
        false
    }
}

/// One call of one client.
///
/// Leave out calls that certainly had no effect, such as refused ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<Op, Output> {
    /// Who called. For the report only: a client may have many calls under way.
    pub client: u8,
    /// What was called.
    pub op: Op,
    /// The answer; `None` if it is unknown, which fits any state.
    pub output: Option<Output>,
    /// The tick drawn before the call, from the one counter of the history.
    pub invoked: u64,
    /// The tick drawn after the call; with [`NEVER`] it may take effect at any later time or not
    /// at all.
    pub returned: u64,
}

/// The history of a [`Model`].
pub type History<M> = [Event<<M as Model>::Op, <M as Model>::Output>];

/// The size of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Events in the history.
    pub event_count: usize,
    /// Most events pending at one time.
    pub overlap_max: usize,
    /// Configurations visited in all.
    pub configuration_count: u64,
}

/// Why a history was not accepted. Numbers of events are indexes into the history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// No order of instants explains the history.
    NotLinearizable(Box<Window>),
    /// More than [`PENDING_MAX`] events were pending when this one was called: no verdict.
    TooManyPending(usize),
    /// More than [`CONFIGURATIONS_MAX`] configurations at the return of this event: no verdict.
    TooManyConfigurations(usize),
    /// This event returned before it was called: the recording is wrong.
    Malformed(usize),
}

/// The shortest beginning of a history that cannot be explained, by its last events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The event whose return could not be explained.
    pub event: usize,
    /// The other events that were under way at that return.
    pub pending: Vec<usize>,
    /// What the key could hold before that return, and which pending events had taken effect.
    pub states: Vec<String>,
    /// All of it, and the last events that returned before, for a reader.
    report: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinearizable(window) => f.write_str(&window.report),
            Self::TooManyPending(event) => {
                write!(f, "no verdict: over {PENDING_MAX} events pending at the call of #{event}")
            }
            Self::TooManyConfigurations(event) => {
                write!(f, "no verdict: over {CONFIGURATIONS_MAX} configurations at #{event}")
            }
            Self::Malformed(event) => write!(f, "event #{event} returned before it was called"),
        }
    }
}

impl Error for Violation {}

/// Checks the history of one key; the events may stand in any order.
///
/// A call and a return at the same tick count as overlapping. A million events in small windows
/// take a few seconds.
///
/// # Errors
///
/// [`Violation::NotLinearizable`] is the verdict; the others say that none could be reached.
pub fn check<M: Model>(model: &M, history: &History<M>) -> Result<Statistics, Violation> {
    let mut ends = Vec::with_capacity(history.len() * 2);
    for (index, event) in history.iter().enumerate() {
        if event.returned < event.invoked {
            return Err(Violation::Malformed(index));
        }
        let returns = event.returned != NEVER;
        if returns {
            ends.push((event.returned, true, index));
        }
        // What never returns and changes nothing cannot matter.
        if returns || !model.keeps_state(&event.op, event.output.as_ref()) {
            ends.push((event.invoked, false, index));
        }
    }
    // At one tick, calls come before returns.
    ends.sort_unstable();
    let mut search = Search::new(model, history);
    for &(_, is_return, index) in &ends {
        if is_return {
            search.finish(index)?;
        } else {
            search.call(index)?;
        }
    }
    Ok(search.statistics)
}

/// The state of a search: what is pending, and the configurations that explain all returns so far.
struct Search<'a, M: Model> {
    model: &'a M,
    history: &'a History<M>,
    /// The event in each slot of the mask.
    events: [usize; PENDING_MAX],
    /// The slot of each event that was called.
    slots: Vec<u8>,
    used: u64,
    /// Slots of events that keep the state.
    quiet: u64,
    /// Slots of events that never return.
    forever: u64,
    /// By slot: slots of equal events that never return and were called before.
    twins: [u64; PENDING_MAX],
    current: Configurations<M::State>,
    next: Configurations<M::State>,
    work: Configurations<M::State>,
    /// The last events that returned, oldest first.
    recent: Vec<usize>,
    statistics: Statistics,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, history: &'a History<M>) -> Self {
        let mut current = Configurations::new();
        current.insert(model.initial(), 0, 0);
        Self {
            model,
            history,
            events: [0; PENDING_MAX],
            slots: vec![0; history.len()],
            used: 0,
            quiet: 0,
            forever: 0,
            twins: [0; PENDING_MAX],
            current,
            next: Configurations::new(),
            work: Configurations::new(),
            recent: Vec::new(),
            statistics: Statistics { event_count: history.len(), ..Statistics::default() },
        }
    }

    /// Gives the event a slot. Nothing takes effect yet.
    fn call(&mut self, index: usize) -> Result<(), Violation> {
        let slot = (!self.used).trailing_zeros() as usize;
        if slot == PENDING_MAX {
            return Err(Violation::TooManyPending(index));
        }
        let event = &self.history[index];
        self.twins[slot] = 0;
        if event.returned == NEVER {
            // Only unknown outcomes are interchangeable: a known one fits some states alone.
            if event.output.is_none() {
                self.twins[slot] = bits(self.forever)
                    .filter(|&other| {
                        let other = &self.history[self.events[other]];
                        other.output.is_none() && other.op == event.op
                    })
                    .fold(0, |mask, other| mask | 1 << other);
            }
            self.forever |= 1 << slot;
        } else if self.model.keeps_state(&event.op, event.output.as_ref()) {
            self.quiet |= 1 << slot;
        }
        self.used |= 1 << slot;
        self.events[slot] = index;
        self.slots[index] = u8::try_from(slot).expect("a slot is below 64");
        let overlap = self.used.count_ones() as usize;
        self.statistics.overlap_max = self.statistics.overlap_max.max(overlap);
        Ok(())
    }

    /// Expands the configurations until the event took effect in each, drops those in which it
    /// cannot, and frees its slot.
    fn finish(&mut self, index: usize) -> Result<(), Violation> {
        let slot = usize::from(self.slots[index]);
        self.next.clear();
        self.work.clear();
        for at in 0..self.current.list.len() {
            let (state, effects) = self.current.list[at].clone();
            self.admit(state, effects, slot);
        }
        let mut at = 0;
        while let Some((state, effects)) = self.work.list.get(at).cloned() {
            at += 1;
            for pending in bits(self.used & !effects) {
                if self.twins[pending] & !effects != 0 {
                    continue;
                }
                let event = &self.history[self.events[pending]];
                let lapsed = self.model.lapse(&state, &event.op);
                for before in lapsed.iter().chain([&state]) {
                    if let Some(after) = self.model.apply(before, &event.op, event.output.as_ref())
                    {
                        self.admit(after, effects | 1 << pending, slot);
                    }
                }
            }
            if self.work.list.len() + self.next.list.len() > CONFIGURATIONS_MAX {
                return Err(Violation::TooManyConfigurations(index));
            }
        }
        self.statistics.configuration_count += (self.work.list.len() + self.next.list.len()) as u64;
        if self.next.list.is_empty() {
            return Err(Violation::NotLinearizable(Box::new(self.window(index))));
        }
        std::mem::swap(&mut self.current, &mut self.next);
        self.used &= !(1 << slot);
        self.quiet &= !(1 << slot);
        if self.recent.len() == SHOWN_MAX {
            self.recent.remove(0);
        }
        self.recent.push(index);
        Ok(())
    }

    /// Adds a configuration: to the next ones, without the bit, if the returning event took
    /// effect in it, to the work otherwise.
    fn admit(&mut self, state: M::State, mut effects: u64, returning: usize) {
        for pending in bits(self.quiet & !effects) {
            let event = &self.history[self.events[pending]];
            let after = self.model.apply(&state, &event.op, event.output.as_ref());
            if after.is_some_and(|after| after == state) {
                effects |= 1 << pending;
            }
        }
        let bit = 1 << returning;
        if effects & bit == 0 {
            self.work.insert(state, effects, self.forever);
        } else {
            self.next.insert(state, effects & !bit, self.forever);
        }
    }

    #[cold]
    fn window(&self, index: usize) -> Window {
        let at = |slot: usize| self.events[slot];
        let pending: Vec<usize> = bits(self.used).map(at).filter(|&other| other != index).collect();
        let states = self.current.list.iter().take(SHOWN_MAX).map(|(state, effects)| {
            let effects: Vec<String> =
                bits(*effects).map(|slot| format!(" #{}", at(slot))).collect();
            let with = if effects.is_empty() { "" } else { " with the effect of" };
            format!("{state:?}{with}{}", effects.concat())
        });
        let mut states: Vec<String> = states.collect();
        if let Some(more @ 1..) = self.current.list.len().checked_sub(SHOWN_MAX) {
            states.push(format!("and {more} more"));
        }
        let lines = |events: &[usize]| events.iter().map(|&event| self.line(event)).collect();
        let parts: [(&str, Vec<String>); 4] = [
            ("\nreturned before:", lines(&self.recent)),
            ("\npossible states then:", states.clone()),
            ("\nunder way:", lines(&pending)),
            ("\ncannot be explained:", lines(&[index])),
        ];
        let mut report = "not linearizable".to_owned();
        for (title, lines) in parts.iter().filter(|(_, lines)| !lines.is_empty()) {
            report.push_str(title);
            for line in lines {
                report.extend(["\n  ", line]);
            }
        }
        Window { event: index, pending, states, report }
    }

    fn line(&self, index: usize) -> String {
        let Event { client, op, output, invoked, returned } = &self.history[index];
        let output = output.as_ref().map_or("unknown".to_owned(), |output| format!("{output:?}"));
        let returned = if *returned == NEVER { "never".to_owned() } else { returned.to_string() };
        format!("#{index} client {client} [{invoked}, {returned}] {op:?} -> {output}")
    }
}

/// A set of (state, slots whose events took effect), in the order of insertion.
struct Configurations<S> {
    list: Vec<(S, u64)>,
    index: HashTable<usize>,
}

impl<S: Eq + Hash> Configurations<S> {
    fn new() -> Self {
        Self { list: Vec::new(), index: HashTable::new() }
    }

    fn clear(&mut self) {
        self.list.clear();
        // Clearing costs by capacity: one wide window must not slow down all that follow.
        if self.index.capacity() > 1024 {
            self.index = HashTable::new();
        } else {
            self.index.clear();
        }
    }

    /// Adds a configuration, unless one is there that differs at most by fewer `forever` slots.
    fn insert(&mut self, state: S, effects: u64, forever: u64) {
        let hash_of = |state: &S, effects: u64| HASHER.hash_one((state, effects & !forever));
        let hash = hash_of(&state, effects);
        let present = self.index.find(hash, |&at| {
            let (other, other_effects) = &self.list[at];
            (other_effects ^ effects) & !forever == 0
                && other_effects & !effects == 0
                && *other == state
        });
        if present.is_none() {
            let list = &self.list;
            let rehash = |&at: &usize| hash_of(&list[at].0, list[at].1);
            self.index.insert_unique(hash, list.len(), rehash);
            self.list.push((state, effects));
        }
    }
}

/// Fixed keys: a search visits the same configurations in every run.
const HASHER: RandomState = RandomState::with_seeds(1, 2, 3, 4);

/// The indexes of the bits that are set.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < PENDING_MAX).then_some(bit)
    })
}
