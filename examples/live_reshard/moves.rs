//! The mover: a node joins while traffic runs, and when it has its share, slots go to and fro until
//! the time is over; in one way, or half of the time in each.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use slotkeep::reshard::{MoveKind, Progress, Report, Reshard, ReshardError};
use slotkeep::{Counters, NodeId};

use crate::Run;
use crate::report::plural;
use crate::watchdog::Mark;

/// How many keys travel at once: few, so that calls meet slots whose keys are split.
const BATCH_KEYS: usize = 2;

/// After the first join, every so many classic steps the mover lets others run: where there are
/// fewer cores than threads, nobody would meet a half moved slot otherwise. The join is not slowed
/// down, and a slot that is handed over is never half moved.
const STEPS_TO_A_PAUSE: u32 = 50;

/// Rounds that end sooner than this after the last one that was told of are not told of.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// How slots move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Way {
    /// A whole slot at one instant.
    Handover,
    /// Key by key, by the state machine of Redis Cluster.
    Classic,
    /// Each for one half of the time.
    Both,
}

impl Way {
    /// One after another; each has as much of the time.
    pub fn kinds(self) -> &'static [MoveKind] {
        match self {
            Self::Handover => &[MoveKind::Handover],
            Self::Classic => &[MoveKind::Classic],
            Self::Both => &[MoveKind::Handover, MoveKind::Classic],
        }
    }
}

/// What was moved in one way.
#[derive(Default)]
pub struct Moved {
    /// The first join.
    pub join: Report,
    /// Slots and keys of all rounds.
    pub slots: usize,
    pub keys: u64,
    /// How often a mover waited for a call.
    pub waits: u64,
    /// How long it went on, traffic beside it.
    pub elapsed: Duration,
    /// What the moves of all slots took together, and the longest one.
    pub busy: Duration,
    pub worst: Duration,
    /// Answers that sent clients on meanwhile.
    pub answers: Answers,
}

/// Answers that were no service.
#[derive(Default)]
pub struct Answers {
    pub redirects: u64,
    pub moved: u64,
    pub asks: u64,
    pub try_agains: u64,
}

impl Answers {
    fn between(before: &Counters, after: &Counters) -> Self {
        Self {
            redirects: after.redirects - before.redirects,
            moved: after.moved - before.moved,
            asks: after.asks - before.asks,
            try_agains: after.try_agains - before.try_agains,
        }
    }
}

/// Which way a round goes.
#[derive(Clone, Copy)]
enum Round {
    Join,
    Drain,
}

/// The thread that moves.
pub struct Mover<'r> {
    run: &'r Run,
    mark: &'r Mark,
    node: NodeId,
    kind: MoveKind,
    /// The first join is over.
    joined: bool,
    /// When a round was told of last.
    told: Option<Duration>,
    moved: Moved,
}

/// Adds a node and moves slots, in each way for a `part` of the time and whole rounds only. An
/// error of the engine counts as unanswered.
pub fn keep_moving(run: &Run, caller: usize, part: Duration) -> Vec<Moved> {
    let mark = run.watchdog.mark(caller);
    let mut moved = Vec::new();
    if let Err(error) = join_and_go_on(run, mark, part, &mut moved) {
        run.ledger.findings.unanswered(|| format!("the mover: {error}"));
    }
    mark.end();
    moved.resize_with(run.kinds.len(), Moved::default);
    moved
}

fn join_and_go_on(
    run: &Run,
    mark: &Mark,
    part: Duration,
    moved: &mut Vec<Moved>,
) -> Result<(), Box<dyn std::error::Error>> {
    let node = run.cluster.add_node()?.id();
    for &kind in run.kinds {
        run.part.store(moved.len(), Ordering::Relaxed);
        let mut mover = Mover::new(run, mark, node, kind);
        mover.go_on_for(part)?;
        if moved.len() + 1 < run.kinds.len() {
            mover.round(Round::Drain)?;
        }
        moved.push(mover.moved);
    }
    Ok(())
}

impl<'r> Mover<'r> {
    fn new(run: &'r Run, mark: &'r Mark, node: NodeId, kind: MoveKind) -> Self {
        let moved = Moved::default();
        Self { run, mark, node, kind, joined: false, told: None, moved }
    }

    /// The node joins, then leaves and joins until the time is over.
    fn go_on_for(&mut self, lasts: Duration) -> Result<(), ReshardError> {
        let (began, before) = (self.now(), self.run.cluster.counters());
        self.moved.join = self.round(Round::Join)?;
        self.joined = true;
        while self.now() < began + lasts {
            self.round(Round::Drain)?;
            self.round(Round::Join)?;
        }
        self.moved.elapsed = self.now().saturating_sub(began);
        self.moved.answers = Answers::between(&before, &self.run.cluster.counters());
        Ok(())
    }

    fn now(&self) -> Duration {
        self.run.clock.uptime()
    }

    fn round(&mut self, round: Round) -> Result<Report, ReshardError> {
        let reshard = Reshard::of(&self.run.cluster).by(self.kind).batch_keys(BATCH_KEYS);
        let (reshard, does) = match round {
            Round::Join => (reshard.join(self.node)?, "joins"),
            Round::Drain => (reshard.drain(self.node)?, "leaves"),
        };
        let name = format!("{}: node {} {does}", name_of(self.kind), self.node.index());
        let bar = self.is_told().then(|| Bar::new(reshard.moves().len(), name));
        let mut steps = Steps::from(self);
        let report = reshard.on_progress(|progress| steps.note(progress, bar.as_ref())).run()?;
        let Steps { busy, worst, .. } = steps;
        self.moved.busy += busy;
        self.moved.worst = self.moved.worst.max(worst);
        self.moved.slots += report.slots_moved;
        self.moved.keys += report.keys_moved;
        self.moved.waits += report.waits;
        if let Some(bar) = bar {
            bar.end(&report);
        }
        Ok(report)
    }

    /// Whether the round that begins is told of: the first one, then one a second or so.
    fn is_told(&mut self) -> bool {
        let now = self.now();
        let is_told = self.told.is_none_or(|told| now >= told + TOLD_EVERY);
        if is_told {
            self.told = Some(now);
        }
        is_told
    }
}

/// The steps of a round: how long its slots take, each from the end of the step before it.
struct Steps<'r> {
    run: &'r Run,
    mark: &'r Mark,
    pauses: bool,
    count: u32,
    slots_moved: usize,
    /// When the last step had ended, and what the slot that is moving has taken up to then.
    ended: Duration,
    slot: Duration,
    busy: Duration,
    worst: Duration,
}

impl<'r> Steps<'r> {
    fn from(mover: &Mover<'r>) -> Self {
        let (run, mark, now) = (mover.run, mover.mark, mover.now());
        mark.begin(now);
        Self {
            run,
            mark,
            pauses: mover.joined && mover.kind == MoveKind::Classic,
            count: 0,
            slots_moved: 0,
            ended: now,
            slot: Duration::ZERO,
            busy: Duration::ZERO,
            worst: Duration::ZERO,
        }
    }

    fn note(&mut self, progress: &Progress, bar: Option<&Bar>) -> ControlFlow<()> {
        self.slot += self.run.clock.uptime().saturating_sub(self.ended);
        if progress.slots_moved > self.slots_moved {
            self.slots_moved = progress.slots_moved;
            self.busy += self.slot;
            self.worst = self.worst.max(self.slot);
            self.slot = Duration::ZERO;
        }
        self.run.moving.store(progress.slot.number(), Ordering::Relaxed);
        if let Some(bar) = bar {
            bar.show(progress);
        }
        self.count += 1;
        if self.pauses && self.count.is_multiple_of(STEPS_TO_A_PAUSE) {
            thread::yield_now();
        }
        self.ended = self.run.clock.uptime();
        self.mark.begin(self.ended);
        ControlFlow::Continue(())
    }
}

/// The way's name.
pub fn name_of(kind: MoveKind) -> &'static str {
    match kind {
        MoveKind::Handover => "handover",
        MoveKind::Classic => "classic",
    }
}

/// A progress bar on stderr; where that is no terminal, a line at the end of the round.
struct Bar {
    bar: ProgressBar,
    name: String,
}

impl Bar {
    fn new(slots: usize, name: String) -> Self {
        let bar = ProgressBar::new(slots as u64).with_message(name.clone());
        let style = "{msg} [{bar:40}] {pos} of {len} slots, {prefix} keys";
        // The template is a constant; the default style would do as well.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, name }
    }

    fn show(&self, progress: &Progress) {
        if self.bar.is_hidden() || self.bar.position() == progress.slots_moved as u64 {
            return;
        }
        self.bar.set_prefix(progress.keys_moved.to_string());
        self.bar.set_position(progress.slots_moved as u64);
    }

    fn end(&self, report: &Report) {
        self.bar.finish_and_clear();
        let slots = plural(report.slots_moved as u64, "slot");
        let keys = plural(report.keys_moved, "key");
        eprintln!("{}: {slots} with {keys} in {} ms", self.name, report.elapsed.as_millis());
    }
}
