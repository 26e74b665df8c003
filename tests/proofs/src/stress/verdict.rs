//! What a round came to: the checks of its end, and why one may fail.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread;

use slotkeep::reshard::{ReshardError, Resume, resume};
use slotkeep::{CommandError, Error, MovePhase, Refused};

use super::traffic::Recorded;
use super::{Arena, HISTORIES, KEYS, KEYS_PER_SLOT, Report};
use crate::linearizability::{
    BoundedRegister, Call, Event, Outcome, Register, Verb, Violation, check as explain,
};

/// What was not right.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A call ended with an error that no call here may get.
    Call(Error),
    /// A verb was refused for a reason that no move here may meet.
    Move(Error),
    /// A resharding or a repair failed for a reason that none here may meet.
    Reshard(ReshardError),
    /// A set of slots was handed over in part.
    SetHalfDone {
        /// What a driver was told.
        flipped: bool,
        /// What the records of its slots say.
        phases: Vec<MovePhase>,
    },
    /// A call saw one of two keys that are only ever written together without the other.
    Torn(Option<u64>, Option<u64>),
    /// The value behind a handle changed.
    HandleChanged,
    /// The answers about a key cannot be explained.
    History(String, Box<Violation>),
    /// The nodes hold another number of live keys than can be read.
    Count {
        /// Keys that can be read.
        read: usize,
        /// Keys that the nodes hold.
        held: usize,
    },
    /// A node holds more entries than it may.
    OverBound {
        /// Entries that it holds.
        held: usize,
        /// Entries that it may hold.
        bound: u64,
    },
    /// The engine's own checks failed.
    Invariants,
    /// A thread panicked.
    Panicked(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => write!(f, "a call failed: {error}"),
            Self::Move(error) => write!(f, "a move failed: {error}"),
            Self::Reshard(error) => write!(f, "a resharding failed: {error}"),
            Self::SetHalfDone { flipped, phases } => {
                write!(f, "a set has ended, flipped: {flipped}, but its records say {phases:?}")
            }
            Self::Torn(one, other) => write!(f, "a pair holds {one:?} and {other:?}"),
            Self::HandleChanged => f.write_str("the value behind a handle changed"),
            Self::History(key, violation) => write!(f, "key {key}: {violation}"),
            Self::Count { read, held } => write!(f, "{read} keys are read, {held} are held"),
            Self::OverBound { held, bound } => {
                write!(f, "a node that may hold {bound} entries holds {held}")
            }
            Self::Invariants => f.write_str("the invariants do not hold"),
            Self::Panicked(who) => write!(f, "{who} panicked"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl From<Refused<u64>> for Failure {
    fn from(refused: Refused<u64>) -> Self {
        Self::Call(refused.into())
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        Self::Call(error.into())
    }
}

/// How many threads check histories.
const CHECKERS: usize = 2;

/// Ends what is open, reads every key once more, and checks all of it.
pub(super) fn check(
    arena: &Arena,
    mut histories: Vec<Vec<Recorded>>,
    mut report: Report,
) -> Result<Report, Failure> {
    resume(&arena.cluster, Resume::Finish).map_err(Failure::Reshard)?;
    expect_bounded(arena)?;
    read_all(arena, &mut histories)?;
    report.add(&explain_all(arena, &histories)?);
    for record in arena.ended.lock().values() {
        report.flips += u64::from(record.phase == MovePhase::Completed);
        let aborted = record.phase == MovePhase::Aborted;
        report.aborts += u64::from(aborted);
        report.aborts_split += u64::from(aborted && record.keys_returned > 0);
    }
    let invariants = catch_unwind(AssertUnwindSafe(|| arena.cluster.check_invariants()));
    invariants.map_err(|_| Failure::Invariants)?;
    arena.cluster.shutdown();
    Ok(report)
}

/// While nobody writes, no node holds more than it may, expired entries included.
fn expect_bounded(arena: &Arena) -> Result<(), Failure> {
    let Some(bound) = arena.plan.bound else { return Ok(()) };
    for node in arena.cluster.nodes() {
        let stored = node.stored_slots().map_err(|error| Failure::Move(error.into()))?;
        let held = stored.into_iter().map(|(_, count)| count).sum();
        if held as u64 > bound {
            return Err(Failure::OverBound { held, bound });
        }
    }
    Ok(())
}

/// The last events of the histories, and a count: what is read is all that the nodes hold.
fn read_all(arena: &Arena, histories: &mut [Vec<Recorded>]) -> Result<(), Failure> {
    let nodes = arena.cluster.nodes();
    let (of_keys, of_pairs) = histories.split_at_mut(KEYS);
    let of_slots = of_keys.chunks_mut(KEYS_PER_SLOT).zip(of_pairs);
    let names = arena.keys.chunks(KEYS_PER_SLOT).zip(&arena.pairs);
    for ((&slot, (keys, pair)), (of_keys, of_pair)) in arena.slots.iter().zip(names).zip(of_slots) {
        let mut read = read_last(arena, pair.each_ref(), of_pair)?;
        for (name, history) in keys.iter().zip(of_keys) {
            read += read_last(arena, [name], history)?;
        }
        let counts = nodes.iter().map(|node| node.count_live_keys_in_slot(slot));
        let held = counts.sum::<Result<usize, _>>().map_err(|error| Failure::Move(error.into()))?;
        if read != held {
            return Err(Failure::Count { read, held });
        }
    }
    Ok(())
}

/// Reads the keys of one history, which all hold the same; how many are there.
fn read_last<const N: usize>(
    arena: &Arena,
    names: [&String; N],
    history: &mut Vec<Recorded>,
) -> Result<usize, Failure> {
    let (client, now, invoked) = (arena.cluster.client(), arena.now(), arena.tick());
    let mut values = names.map(|_| None);
    for (value, name) in values.iter_mut().zip(names) {
        *value = client.get(name)?.as_deref().copied();
    }
    let mut held = values[0];
    for value in values {
        held = arena.joined([held, value])?;
    }
    let op = Call { verb: Verb::Get, now_low: now, now_high: now };
    let (output, returned) = (Some(Outcome::Value(held)), arena.tick());
    history.push(Event { client: u8::MAX, op, output, invoked, returned });
    Ok(values.iter().flatten().count())
}

/// Checks every history, on several threads, and counts what is in them.
fn explain_all(arena: &Arena, histories: &[Vec<Recorded>]) -> Result<Report, Failure> {
    let explained: Vec<_> = thread::scope(|scope| {
        let share = |first| (first..HISTORIES).step_by(CHECKERS);
        let checkers = (0..CHECKERS).map(|first| {
            scope.spawn(move || -> Result<Report, Failure> {
                let mut report = Report::default();
                for index in share(first) {
                    let found = explain_one(arena, &histories[index], &mut report);
                    found.map_err(|violation| {
                        Failure::History(arena.name_of(index).to_owned(), Box::new(violation))
                    })?;
                }
                Ok(report)
            })
        });
        let checkers: Vec<_> = checkers.collect();
        checkers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut total = Report::default();
    for report in explained {
        total.add(&report.map_err(|_| Failure::Panicked("a checker"))??);
    }
    Ok(total)
}

fn explain_one(arena: &Arena, history: &[Recorded], report: &mut Report) -> Result<(), Violation> {
    let statistics = match arena.plan.bound {
        Some(_) => explain(&BoundedRegister, history)?,
        None => explain(&Register, history)?,
    };
    report.events += statistics.event_count as u64;
    report.overlap_max = report.overlap_max.max(statistics.overlap_max as u64);
    report.configurations += statistics.configuration_count;
    count_overlaps(history, report);
    count_deadlines(history, report);
    count_vanished(history, report);
    Ok(())
}

fn count_overlaps(history: &[Recorded], report: &mut Report) {
    let mut spans: Vec<_> = history.iter().map(|event| (event.invoked, event.returned)).collect();
    spans.sort_unstable();
    let mut last = 0;
    for (invoked, returned) in spans {
        report.overlapping += u64::from(invoked < last);
        last = last.max(returned);
    }
}

fn count_deadlines(history: &[Recorded], report: &mut Report) {
    let deadline = |event: &Recorded| {
        let Verb::SetUntil { deadline, .. } = event.op.verb else { return None };
        Some(deadline)
    };
    let deadlines: BTreeSet<u64> = history.iter().filter_map(deadline).collect();
    for event in history {
        let (low, high) = (event.op.now_low, event.op.now_high);
        report.at_deadline += u64::from(low == high && deadlines.contains(&low));
        report.across_deadline +=
            u64::from(low < high && deadlines.range(low + 1..=high).count() > 0);
    }
}

/// Counts values that were written for good, and were found gone although nobody can have taken
/// them away meanwhile. There are more of which that is not as certain.
fn count_vanished(history: &[Recorded], report: &mut Report) {
    let mut events: Vec<_> = history.iter().collect();
    events.sort_unstable_by_key(|event| event.invoked);
    // When the write of what must be there had returned, and when the last call that may take it
    // away had, of those that have begun.
    let (mut written, mut taken): (Option<u64>, u64) = (None, 0);
    let mut events = events.into_iter().peekable();
    while let Some(event) = events.next() {
        let finds_nothing = matches!(
            (event.op.verb, event.output),
            (Verb::Get | Verb::Take, Some(Outcome::Value(None)))
                | (Verb::Remove, Some(Outcome::Flag(false)))
                | (Verb::SetIfAbsent(_), Some(Outcome::Flag(true)))
        );
        let is_alone = events.peek().is_none_or(|next| next.invoked > event.returned);
        if finds_nothing && is_alone && written.is_some_and(|written| written < event.invoked) {
            report.vanished += 1;
            written = None;
        }
        match event.op.verb {
            Verb::Set(_) => written = (taken < event.invoked).then_some(event.returned),
            Verb::SetUntil { .. } | Verb::Take | Verb::Remove => {
                (written, taken) = (None, taken.max(event.returned));
            }
            Verb::Get | Verb::SetIfAbsent(_) | Verb::Incr(_) | Verb::CompareReplace { .. } => {}
        }
    }
}
