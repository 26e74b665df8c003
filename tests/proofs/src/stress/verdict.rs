//! What a run came to: the checks of its end, and the figures that make it a test.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use slotkeep::{Error, MovePhase};

use super::movers::finish_all;
use super::traffic::Recorded;
use super::{Arena, KEYS_PER_SLOT};
use crate::linearizability::{Call, Event, Outcome, Register, Verb, Violation, check as explain};

/// What was not right.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A call ended with an error that no call here may get.
    Call(Error),
    /// A verb was refused for a reason that no move here may meet.
    Move(Error),
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
            Self::HandleChanged => f.write_str("the value behind a handle changed"),
            Self::History(key, violation) => write!(f, "key {key}: {violation}"),
            Self::Count { read, held } => write!(f, "{read} keys are read, {held} are held"),
            Self::Invariants => f.write_str("the invariants do not hold"),
            Self::Panicked(who) => write!(f, "{who} panicked"),
        }
    }
}

impl std::error::Error for Failure {}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names say what is counted; the rest is said")]
pub struct Report {
    pub calls: u64,
    /// Events in the histories: a call on several keys has several.
    pub events: u64,
    /// Events that began before another one of their key had ended.
    pub overlapping: u64,
    /// Most events of one key under way at a time.
    pub overlap_max: usize,
    pub asks: u64,
    pub moved: u64,
    /// Calls that carried ASKING and were answered MOVED: their move had ended meanwhile.
    pub late_asks: u64,
    /// Calls whose keys were pulled to the target of a move.
    pub pulls: u64,
    /// Calls that had keys pulled back from the target of an abort.
    pub pulls_back: u64,
    /// Calls that the source served while the target held keys too.
    pub split_at_source: u64,
    /// Calls that the target served before the flip.
    pub split_at_target: u64,
    pub flips: u64,
    pub aborts: u64,
    /// Aborts that had keys to bring back.
    pub aborts_split: u64,
    pub drivers_dropped: u64,
    pub taken_over: u64,
    /// Steps that waited for a call in the gate.
    pub busy_steps: u64,
    pub refused_steps: u64,
    /// Events at whose instant the clock stood on a deadline of their key.
    pub at_deadline: u64,
    /// Events during which the clock came to a deadline of their key.
    pub across_deadline: u64,
    /// Configurations that the checker visited.
    pub configurations: u64,
}

impl Report {
    /// Adds what one thread counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.asks += other.asks;
        self.moved += other.moved;
        self.late_asks += other.late_asks;
        self.pulls += other.pulls;
        self.pulls_back += other.pulls_back;
        self.split_at_source += other.split_at_source;
        self.split_at_target += other.split_at_target;
        self.drivers_dropped += other.drivers_dropped;
        self.taken_over += other.taken_over;
        self.busy_steps += other.busy_steps;
        self.refused_steps += other.refused_steps;
    }
}

/// Ends what is open, reads every key once more, and checks all of it.
pub(super) fn check(
    arena: &Arena,
    mut events: Vec<Vec<Recorded>>,
    mut report: Report,
) -> Result<Report, Failure> {
    finish_all(&arena.cluster)?;
    read_all(arena, &mut events)?;
    for (name, history) in arena.keys.iter().zip(&events) {
        let statistics = explain(&Register, history)
            .map_err(|violation| Failure::History(name.clone(), Box::new(violation)))?;
        report.events += statistics.event_count as u64;
        report.overlap_max = report.overlap_max.max(statistics.overlap_max);
        report.configurations += statistics.configuration_count;
        count_overlaps(history, &mut report);
        count_deadlines(history, &mut report);
    }
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

/// The last events of the histories, and a count: what is read is all that the nodes hold.
fn read_all(arena: &Arena, events: &mut [Vec<Recorded>]) -> Result<(), Failure> {
    let client = arena.cluster.client();
    let now = arena.now();
    let nodes = arena.cluster.nodes();
    for (slot, (names, events)) in
        arena.keys.chunks(KEYS_PER_SLOT).zip(events.chunks_mut(KEYS_PER_SLOT)).enumerate()
    {
        let mut read = 0;
        for (name, history) in names.iter().zip(events) {
            let invoked = arena.tick();
            let got = client.get(name).map_err(Failure::Call)?.as_deref().copied();
            read += usize::from(got.is_some());
            let op = Call { verb: Verb::Get, now_low: now, now_high: now };
            let output = Some(Outcome::Value(got));
            let returned = arena.tick();
            history.push(Event { client: u8::MAX, op, output, invoked, returned });
        }
        let counts = nodes.iter().map(|node| node.count_live_keys_in_slot(arena.slots[slot]));
        let held = counts.sum::<Result<usize, _>>().map_err(|error| Failure::Move(error.into()))?;
        if read != held {
            return Err(Failure::Count { read, held });
        }
    }
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
