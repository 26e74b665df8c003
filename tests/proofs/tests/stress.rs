//! Answers stay linearizable, key by key, while slots move, moves are aborted and keys expire.

use std::env;
use std::error::Error;

use slotkeep::reshard::{Move, MoveStep, PlannedMove};
use slotkeep::{Client, Cluster, Fault, NodeId, Ownership, SetSlot, Slot};
use slotkeep_proofs::stress::{Plan, Report, run};

/// Calls of the run with lent ownership; `SLOTKEEP_STRESS_OPS` asks for more.
const CALLS: u64 = 150_000;
/// Calls of the run in which every operation is a job of a worker.
const CALLS_STRICT: u64 = 12_000;
/// Calls of a run with a planted fault, and how many runs may miss it.
const CALLS_FAULT: u64 = 20_000;
const ROUNDS_FAULT: u64 = 12;

/// Where the choices of a run begin, unless `SLOTKEEP_STRESS_SEED` says otherwise.
const SEED: u64 = 0x0057_2E55;

type Tested = Result<(), Box<dyn Error>>;

fn number(name: &str) -> Result<Option<u64>, Box<dyn Error>> {
    Ok(env::var(name).ok().map(|number| number.parse()).transpose()?)
}

fn plan(calls: u64) -> Result<Plan, Box<dyn Error>> {
    let seed = number("SLOTKEEP_STRESS_SEED")?.unwrap_or(SEED);
    let (ownership, fault) = (Ownership::Lent, None);
    Ok(Plan { seed, clients: 4, movers: 2, calls, ownership, fault })
}

/// Less than this has not tested what it claims to test.
#[track_caller]
fn check_minima(report: &Report, calls: u64) {
    println!("{report:#?}");
    let minima = [
        ("calls", report.calls, calls),
        ("overlapping events", report.overlapping, calls / 50),
        ("events of a key at a time", report.overlap_max as u64, 3),
        ("ASK", report.asks, calls / 50),
        ("late ASK", report.late_asks, 5),
        ("calls whose keys were pulled together", report.pulls, calls / 500),
        ("calls that had keys pulled back", report.pulls_back, 5),
        ("calls that the source of split keys served", report.split_at_source, calls / 200),
        ("calls that the target of split keys served", report.split_at_target, calls / 100),
        ("flips", report.flips, calls / 1000),
        ("aborts with keys on both sides", report.aborts_split, calls / 2000),
        ("drivers dropped", report.drivers_dropped, calls / 4000),
        ("moves taken over", report.taken_over, calls / 4000),
        ("events on a deadline", report.at_deadline, calls / 100),
        ("events across a deadline", report.across_deadline, 5),
    ];
    for (what, counted, minimum) in minima {
        assert!(counted >= minimum, "{what}: {counted} are fewer than {minimum}");
    }
}

#[test]
fn answers_are_linearizable_while_slots_move() -> Tested {
    let calls = number("SLOTKEEP_STRESS_OPS")?.unwrap_or(CALLS).max(CALLS);
    check_minima(&run(&plan(calls)?)?, calls / 4 * 4);
    Ok(())
}

#[test]
fn answers_are_linearizable_when_every_operation_is_a_job() -> Tested {
    let report = run(&Plan { ownership: Ownership::Strict, ..plan(CALLS_STRICT)? })?;
    check_minima(&report, CALLS_STRICT);
    Ok(())
}

#[test]
fn a_state_that_is_read_outside_the_token_is_caught() -> Tested {
    let sound = plan(CALLS_FAULT)?;
    run(&sound)?;
    for round in 0..ROUNDS_FAULT {
        let fault = Some(Fault::StateOutsideToken);
        if let Err(failure) = run(&Plan { seed: sound.seed + round, fault, ..sound }) {
            println!("caught in round {round}: {failure}");
            return Ok(());
        }
    }
    Err(format!("nothing noticed in {ROUNDS_FAULT} rounds").into())
}

#[track_caller]
fn check_read(client: &Client<u64>, key: &str, value: u64) {
    let read = client.get(key).expect("a read is served");
    assert_eq!(read.as_deref(), Some(&value));
}

/// The stress run found it: an importer whose move never began was closed, and with it went the
/// keys that its source had got since, under another move.
#[test]
fn closing_a_stale_importing_mark_leaves_the_keys_of_another_move_alone() -> Tested {
    let cluster = Cluster::builder().nodes(3).workers_per_node(1).values::<u64>().build()?;
    let (client, slot) = (cluster.client(), Slot::of("key"));
    client.set("key", 7)?;
    let owner = cluster.slot_map().owner(slot).ok_or("an owner")?;
    let others: Vec<NodeId> = cluster.node_ids().into_iter().filter(|&id| id != owner).collect();
    let (other, stale) = (others[0], cluster.node(others[1]).ok_or("a node")?);
    stale.set_slot(slot, SetSlot::Importing { source: owner })?;
    let there = PlannedMove { slot, source: owner, target: other };
    let mut driver = Move::new(&cluster, there, 1)?;
    while driver.step()? == MoveStep::More {}
    let mut back = Move::new(&cluster, PlannedMove { source: other, target: owner, ..there }, 1)?;
    while back.keys_moved() == 0 {
        back.step()?;
    }
    stale.set_slot(slot, SetSlot::Stable)?;
    check_read(&client, "key", 7);
    while back.step()? == MoveStep::More {}
    check_read(&client, "key", 7);
    Ok(())
}
