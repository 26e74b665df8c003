//! The mover: a node joins while traffic runs, and when it has its share, slots go to and fro until
//! the traffic ends.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use slotkeep::NodeId;
use slotkeep::reshard::{MoveKind, Progress, Report, Reshard, ReshardError};

use crate::Run;
use crate::watchdog::Mark;

/// How many keys travel at once: few, so that calls meet slots whose keys are split.
const BATCH_KEYS: usize = 2;

/// After the join, every so many batches the mover lets others run: where there are fewer cores
/// than threads, nobody would meet a half moved slot otherwise. The join is not slowed down.
const STEPS_TO_A_PAUSE: u32 = 50;

/// What was moved.
#[derive(Default)]
pub struct Moved {
    /// The first join.
    pub join: Report,
    /// Slots and keys of all rounds.
    pub slots: usize,
    pub keys: u64,
    /// How often a mover waited for a call.
    pub waits: u64,
}

/// Which way a round goes.
#[derive(Clone, Copy)]
enum Round {
    Join,
    Drain,
}

/// Adds a node and moves until no traffic runs. An error of the engine counts as unanswered.
pub fn keep_moving(run: &Run, caller: usize) -> Moved {
    let mark = run.watchdog.mark(caller);
    let mut moved = Moved::default();
    if let Err(error) = join_and_go_on(run, mark, &mut moved) {
        run.ledger.findings.unanswered(|| format!("the mover: {error}"));
    }
    mark.end();
    moved
}

fn join_and_go_on(
    run: &Run,
    mark: &Mark,
    moved: &mut Moved,
) -> Result<(), Box<dyn std::error::Error>> {
    let node = run.cluster.add_node()?.id();
    moved.join = one_round(run, mark, (node, Round::Join), moved)?;
    run.joined.store(true, Ordering::Release);
    for round in [Round::Drain, Round::Join].into_iter().cycle() {
        if run.running.load(Ordering::Acquire) == 0 {
            break;
        }
        one_round(run, mark, (node, round), moved)?;
    }
    Ok(())
}

fn one_round(
    run: &Run,
    mark: &Mark,
    (node, round): (NodeId, Round),
    moved: &mut Moved,
) -> Result<Report, ReshardError> {
    let reshard = Reshard::of(&run.cluster).by(MoveKind::Classic);
    let (reshard, name) = match round {
        Round::Join => (reshard.join(node)?, "joins"),
        Round::Drain => (reshard.drain(node)?, "leaves"),
    };
    mark.begin(run.clock.uptime());
    let bar = Bar::new(reshard.moves().len(), format!("node {} {name}", node.index()));
    let joined = run.joined.load(Ordering::Acquire);
    let mut steps = 0;
    let report = reshard
        .batch_keys(BATCH_KEYS)
        .on_progress(|progress| {
            mark.begin(run.clock.uptime());
            run.moving.store(progress.slot.number(), Ordering::Relaxed);
            bar.show(progress);
            steps += 1;
            if joined && steps % STEPS_TO_A_PAUSE == 0 {
                thread::yield_now();
            }
            match run.running.load(Ordering::Acquire) {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })
        .run()?;
    moved.slots += report.slots_moved;
    moved.keys += report.keys_moved;
    moved.waits += report.waits;
    bar.end(&report);
    Ok(report)
}

/// A progress bar on stderr; where that is no terminal, a line at the end of each round.
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
        let Report { slots_moved, keys_moved, elapsed, .. } = report;
        let millis = Duration::as_millis(elapsed);
        eprintln!("{}: {slots_moved} slots with {keys_moved} keys in {millis} ms", self.name);
    }
}
