//! Planted faults: the checks of the model test catch each of them, and nothing else.
//!
//! A model test that finds nothing proves little until it is seen to find something. The fault that
//! reads a slot's state outside the token is a race inside one step, which step mode cannot show:
//! it is left to tests with threads.

use slotkeep::Fault;
use slotkeep_proofs::model::{Plan, Tally, run};

/// A fault that hides for more runs than this is not caught.
const RUNS_MAX: u64 = 60;
const STEPS: u32 = 1000;

/// Runs seed after seed with the fault until a check fails, and the same seeds without it.
#[track_caller]
fn check(fault: Fault, first_seed: u64) {
    let plan = |seed, fault| Plan { seed, steps: STEPS, fault };
    let mut seeds = first_seed..first_seed + RUNS_MAX;
    let caught = seeds.find_map(|seed| {
        let failure = run(plan(seed, Some(fault)), &mut Tally::default()).err()?;
        Some((seed, failure))
    });
    let Some((seed, failure)) = caught else {
        panic!("{fault:?} was not caught with the seeds {first_seed}..{}", seeds.end);
    };
    println!("{fault:?}, seed {seed}, step {}: {}", failure.steps, failure.message);
    for seed in first_seed..=seed {
        if let Err(failure) = run(plan(seed, None), &mut Tally::default()) {
            panic!("without the fault:\n{failure}");
        }
    }
}

#[test]
fn serving_an_importing_slot_without_asking_is_caught() {
    check(Fault::NoAskingCheck, 0);
}

#[test]
fn honouring_asking_for_another_move_is_caught() {
    check(Fault::AskWithoutId, 0);
}

#[test]
fn leaving_migrated_keys_at_the_source_is_caught() {
    check(Fault::CopyWithoutDelete, 0);
}

#[test]
fn reading_the_clock_before_the_token_is_caught() {
    check(Fault::NowBeforeToken, 0);
}

#[test]
fn a_pull_that_does_not_look_at_the_marks_is_caught() {
    check(Fault::PullWithoutCheck, 0);
}

#[test]
fn a_handover_over_keys_of_the_target_is_caught() {
    check(Fault::HandoverOverKeys, 0);
}

#[test]
fn a_handover_of_one_header_alone_is_caught() {
    check(Fault::HandoverOneSide, 0);
}
