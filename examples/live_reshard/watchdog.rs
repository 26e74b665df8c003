//! The watchdog: every caller marks when its call began; a call that is not answered in time counts
//! as unanswered, and one that never is ends the run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use slotkeep::Node;

use crate::ledger::Findings;

/// After this time without an answer nobody waits any more.
const GIVE_UP: Duration = Duration::from_secs(15);

/// When the call of one caller began, by the cluster's clock, or `IDLE`. A cache line of its own,
/// because it is written twice a call.
#[repr(align(64))]
pub struct Mark(AtomicU64);

const IDLE: u64 = u64::MAX;

impl Mark {
    pub fn begin(&self, now: Duration) {
        self.0.store(u64::try_from(now.as_nanos()).unwrap_or(IDLE), Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

/// The marks of all callers, and how long each call may take.
pub struct Watchdog {
    marks: Box<[Mark]>,
    patience: Duration,
    over: AtomicBool,
}

impl Watchdog {
    pub fn new(callers: usize, patience: Duration) -> Self {
        let marks = (0..callers).map(|_| Mark(AtomicU64::new(IDLE))).collect();
        Self { marks, patience, over: AtomicBool::new(false) }
    }

    pub fn mark(&self, caller: usize) -> &Mark {
        &self.marks[caller]
    }

    /// Ends [`watch`](Self::watch) with its next look.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Looks at the marks until [`stop`](Self::stop). A call counts once, however long it takes.
    pub fn watch(&self, clock: &Node, findings: &Findings) {
        let mut reported = vec![IDLE; self.marks.len()];
        while !self.over.load(Ordering::Relaxed) {
            thread::park_timeout(self.patience.min(Duration::from_millis(500)) / 10);
            let now = clock.uptime();
            for (caller, mark) in self.marks.iter().enumerate() {
                let began = mark.0.load(Ordering::Relaxed);
                let waited = now.saturating_sub(Duration::from_nanos(began));
                if began == IDLE || waited < self.patience {
                    continue;
                }
                if reported[caller] != began {
                    reported[caller] = began;
                    findings.unanswered(|| format!("caller {caller} waits since {waited:?}"));
                }
                if waited > GIVE_UP {
                    println!("{}", findings.line());
                    std::process::exit(1);
                }
            }
        }
    }
}
