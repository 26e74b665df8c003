//! Models of the races between the hand-written parts of the engine, over its real sources.
//!
//! The files of the engine are included as they are; what they import from `crate` are stand-ins
//! of the same names: locks and atomics of shuttle, which tries the threads in many orders, and 256
//! slots instead of 16384. Each model is named after its race, and runs over small copies of the
//! same part too: a sound one, which has to hold, and ones with a planted bug, which the search has
//! to find. shuttle knows no weak memory: what an ordering is for is said where it stands.

pub mod alarms;
pub mod chunks;
pub mod gates;
pub mod mail;
pub mod replies;
pub mod views;

pub(crate) mod slot;
pub(crate) mod sync;
pub(crate) mod topology;
mod worker;

pub(crate) use slotkeep::limits;

#[expect(dead_code, reason = "the models use a part of it")]
#[path = "../../../../src/time.rs"]
pub(crate) mod time;

use std::any::Any;
use std::panic::catch_unwind;

use shuttle::Config;
use shuttle::FailurePersistence;
use shuttle::Runner;
use shuttle::scheduler::PctScheduler;
use shuttle::scheduler::RandomScheduler;
use shuttle::scheduler::Scheduler;

/// How many orders of the threads each of the two searches tries.
const ORDERS: usize = 1000;

/// In how many places the second search interrupts a thread that could go on.
const PREEMPTIONS: usize = 3;

/// Where the searches begin.
const SEED: u64 = 0x5107_4EE9;

/// Runs a model in many orders; shuttle prints the order in which it fails.
///
/// # Panics
/// When the model fails in one of them.
pub fn holds(model: fn()) {
    println!("seed {SEED:#x}");
    search(RandomScheduler::new_from_seed(SEED, ORDERS), model, FailurePersistence::Print);
    let pct = PctScheduler::new_from_seed(SEED, PREEMPTIONS, ORDERS);
    search(pct, model, FailurePersistence::Print);
}

/// What the search finds wrong with a model within the same orders.
pub fn caught(model: fn()) -> Option<String> {
    println!("seed {SEED:#x}");
    let random = || RandomScheduler::new_from_seed(SEED, ORDERS);
    let pct = || PctScheduler::new_from_seed(SEED, PREEMPTIONS, ORDERS);
    let found = catch_unwind(|| search(random(), model, FailurePersistence::None))
        .and_then(|()| catch_unwind(|| search(pct(), model, FailurePersistence::None)));
    found.err().map(|panic| words_of(&*panic))
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let fixed = panic.downcast_ref::<&str>().map(|&words| words.to_owned());
    fixed.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn search(scheduler: impl Scheduler + 'static, model: fn(), persistence: FailurePersistence) {
    let mut config = Config::new();
    config.failure_persistence = persistence;
    // Orderings weaker than SeqCst are meant; that they are not modelled is said above.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(model);
}
