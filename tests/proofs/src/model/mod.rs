//! Model test of a cluster in step mode: every answer is compared with one map, at its instant.
//!
//! A run makes a small cluster without threads and lets a seed pick, step after step, what happens
//! next: a client's call goes one hold further, an operator gives a verb, a driver moves keys,
//! dies or is replaced, a message arrives late or never, time passes, a sweep runs. The whole
//! cluster is meanwhile one `BTreeMap`, changed in the step that returns an answer: a step is one
//! hold, so that is the instant at which the call took effect. After each step the cluster is
//! compared with that map, and at the end of the run everything is closed, healed and read.
//!
//! The same seed replays the same run, hold by hold: a failure names its seed and its last steps.

mod action;
mod admin;
mod finale;
mod look;
mod movers;
mod op;
mod oracle;
mod sets;
mod stage;
mod tally;
mod trail;
mod world;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic;
use std::panic::AssertUnwindSafe;
use std::sync::Once;

use slotkeep::Fault;

pub use self::action::Action;
pub use self::tally::Tally;

use self::stage::Stage;
use self::trail::Trail;
use self::world::World;

/// What one run is to be.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Picks the cluster's shape and everything that happens.
    pub seed: u64,
    /// How many steps there are before the run is brought to its end.
    pub steps: u32,
    /// A fault that the checks of the run have to catch.
    pub fault: Option<Fault>,
}

/// A check of a run that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The plan of the run; the same one fails again.
    pub plan: Plan,
    /// What did not hold.
    pub message: String,
    /// How many steps there were.
    pub steps: u32,
    /// The last steps, oldest first.
    pub last_steps: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.last_steps {
            writeln!(f, "  {step}")?;
        }
        let Self { plan, message, steps, .. } = self;
        write!(f, "{plan:?} failed at step {steps}: {message}")
    }
}

impl std::error::Error for Failure {}

/// Runs one plan and adds what happened to the tally; the hash of everything that was done and
/// answered.
///
/// # Errors
/// The first check that did not hold.
pub fn run(plan: Plan, tally: &mut Tally) -> Result<u64, Failure> {
    let mut trail = Trail::default();
    let ended = without_report(AssertUnwindSafe(|| {
        let stage = Stage::build(plan);
        let mut world = World::new(&stage, plan.seed, tally, &mut trail);
        (0..plan.steps).for_each(|_| world.step());
        world.end();
    }));
    match ended {
        Ok(()) => Ok(trail.hash()),
        Err(message) => {
            let (steps, last_steps) = trail.into_last_steps();
            Err(Failure { plan, message, steps, last_steps })
        }
    }
}

thread_local! {
    /// While a run is on: what its panic said, instead of a report on stderr.
    static REPORT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Catches a panic of this thread and returns its message; no other thread's panics are touched.
fn without_report(run: AssertUnwindSafe<impl FnOnce()>) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let caught = REPORT.with_borrow_mut(|report| {
                let Some(report) = report else { return false };
                panic_text(info.payload()).clone_into(report);
                if let Some(location) = info.location() {
                    *report = format!("{report} ({location})");
                }
                true
            });
            if !caught {
                usual(info);
            }
        }));
    });
    REPORT.set(Some(String::new()));
    let ended = panic::catch_unwind(run);
    let report = REPORT.take().unwrap_or_default();
    ended.map_err(|_| report)
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
