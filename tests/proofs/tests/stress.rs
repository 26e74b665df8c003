//! Answers stay linearizable, key by key, while slots move in every way, drivers die, messages are
//! lost, keys expire, and nodes at their bound evict.

use std::env;
use std::error::Error;
use std::ops::Range;

use slotkeep::reshard::{Move, MoveStep, PlannedMove};
use slotkeep::{Client, Cluster, Fault, NodeId, Ownership, SetSlot, Slot};
use slotkeep_proofs::stress::{Plan, ROUND_CALLS, Report, run, run_rounds};

/// Calls of the run with lent ownership. `SLOTKEEP_STRESS_SEEDS=0..80` asks for a long one instead:
/// a round of [`ROUND_CALLS`] for each of these seeds. The seed that was printed last is where to
/// go on, or to look again.
const CALLS: u64 = 150_000;
/// Calls of the run in which every operation is a job of a worker.
const CALLS_STRICT: u64 = 24_000;
/// Calls of a run on bounded nodes.
const CALLS_BOUNDED: u64 = 50_000;
/// Calls of a run with a planted fault, and how many runs may miss it.
const CALLS_FAULT: u64 = 20_000;
const ROUNDS_FAULT: u64 = 40;

/// Where the choices of a run begin, unless a range of seeds says otherwise.
const SEED: u64 = 0x0057_2E55;

type Tested = Result<(), Box<dyn Error>>;

/// The seeds that the environment names.
fn seeds() -> Result<Option<Range<u64>>, Box<dyn Error>> {
    let Ok(named) = env::var("SLOTKEEP_STRESS_SEEDS") else { return Ok(None) };
    let (first, end) = named.split_once("..").ok_or("a range of seeds is written 0..80")?;
    Ok(Some(first.parse()?..end.parse()?))
}

fn plan(calls: u64) -> Plan {
    let ownership = Ownership::Lent;
    Plan { seed: SEED, clients: 4, movers: 2, calls, ownership, bound: None, fault: None }
}

/// How many entries nodes may hold that evict: less than one for each slot, and as many as a slot
/// has keys. In all there are 15.
const BOUND_TIGHT: u64 = 2;
const BOUND_WIDE: u64 = 5;

fn bounded(calls: u64, entries: u64) -> Plan {
    Plan { bound: Some(entries), ..plan(calls) }
}

/// A round of a long run; the nodes of every fourth one are bounded.
fn round(seed: u64) -> Plan {
    let plan = match seed % 8 {
        3 => bounded(ROUND_CALLS, BOUND_TIGHT),
        7 => bounded(ROUND_CALLS, BOUND_WIDE),
        _ => plan(ROUND_CALLS),
    };
    Plan { seed, ..plan }
}

/// How many rounds a run of few calls may take until it has tested what it claims to test: how many
/// moves come to a call depends on how the threads are scheduled.
const ROUNDS_MAX: u64 = 4;

/// What was counted too rarely: less than that has not tested what it claims to test.
fn shortfall(report: &Report, calls: u64, evicting_calls: u64) -> Option<String> {
    let minima = [
        ("calls", report.calls, calls),
        ("calls that could be served at once", report.untraced, calls / 5),
        ("overlapping events", report.overlapping, calls / 50),
        ("events of a key at a time", report.overlap_max, 3),
        ("ASK", report.asks, calls / 50),
        ("late ASK", report.late_asks, 5.max(calls / 20_000)),
        ("calls whose keys were pulled together", report.pulls, calls / 500),
        ("calls that had keys pulled back", report.pulls_back, 5.max(calls / 2000)),
        ("calls that the source of split keys served", report.split_at_source, calls / 200),
        ("calls that the target of split keys served", report.split_at_target, calls / 100),
        ("moves", report.moves(), calls / 200),
        ("flips", report.flips, calls / 1000),
        ("aborts with keys on both sides", report.aborts_split, calls / 2000),
        ("handovers", report.handovers, calls / 1000),
        ("handovers of open slots", report.handovers_of_open, 1.max(calls / 50_000)),
        ("flips of slots in sets", report.set_flips, calls / 1000),
        ("sets of which all slots moved", report.sets_committed, calls / 4000),
        ("sets of which none moved", report.sets_released, calls / 4000),
        ("faults", report.faults(), calls / 1000),
        ("drivers dropped", report.drivers_dropped, calls / 4000),
        ("moves taken over", report.taken_over, calls / 4000),
        ("repairs", report.repairs, calls / 10_000),
        ("messages that came late", report.messages_late, calls / 10_000),
        ("messages that were lost", report.messages_dropped, calls / 10_000),
        ("steps that waited for a call", report.busy_steps, calls / 50_000),
        ("events on a deadline", report.at_deadline, calls / 100),
        ("values that certainly were evicted", report.vanished, evicting_calls / 50),
        ("events across a deadline", report.across_deadline, 5.max(calls / 20_000)),
    ];
    let short = minima.into_iter().find(|&(_, counted, minimum)| counted < minimum);
    short.map(|(what, counted, minimum)| format!("{what}: {counted} are fewer than {minimum}"))
}

/// Runs a round, and a few more as long as something was counted too rarely.
#[track_caller]
fn check_rounds(plan: &Plan) {
    let evicting_calls = if plan.bound.is_some() { plan.calls } else { 0 };
    let mut total = Report::default();
    for seed in plan.seed..plan.seed + ROUNDS_MAX {
        let round = run(&Plan { seed, ..*plan });
        total.add(&round.unwrap_or_else(|failure| panic!("{failure}")));
        if shortfall(&total, plan.calls, evicting_calls).is_none() {
            break;
        }
    }
    println!("{total:#?}");
    let shortfall = shortfall(&total, plan.calls, evicting_calls);
    assert_eq!(shortfall, None, "after at most {ROUNDS_MAX} rounds");
    assert!(plan.bound.is_some() || total.vanished == 0, "without a bound nothing is evicted");
}

#[test]
fn answers_are_linearizable_while_slots_move() {
    let Some(seeds) = seeds().unwrap() else { return check_rounds(&plan(CALLS)) };
    let rounds = seeds.end.saturating_sub(seeds.start);
    let total = run_rounds(round, seeds).unwrap_or_else(|f| panic!("{f}"));
    println!("{total:#?}");
    let calls = ROUND_CALLS.saturating_mul(rounds);
    assert_eq!(shortfall(&total, calls, calls / 8), None);
}

#[test]
fn answers_are_linearizable_while_nodes_evict_and_slots_move() {
    check_rounds(&bounded(CALLS_BOUNDED, BOUND_TIGHT));
    check_rounds(&bounded(CALLS_BOUNDED, BOUND_WIDE));
    let strict = Plan { ownership: Ownership::Strict, ..bounded(CALLS_STRICT, BOUND_WIDE) };
    check_rounds(&strict);
}

#[test]
fn answers_are_linearizable_when_every_operation_is_a_job() {
    check_rounds(&Plan { ownership: Ownership::Strict, ..plan(CALLS_STRICT) });
}

/// Runs seed after seed with the fault until a check fails.
#[track_caller]
fn check_caught(fault: Fault) {
    check_caught_by(&plan(CALLS_FAULT), fault);
}

#[track_caller]
fn check_caught_by(plan: &Plan, fault: Fault) {
    for seed in SEED..SEED + ROUNDS_FAULT {
        if let Err(failure) = run(&Plan { seed, fault: Some(fault), ..*plan }) {
            println!("{fault:?}, caught with seed {seed}: {failure}");
            return;
        }
    }
    panic!("{fault:?}: nothing noticed in {ROUNDS_FAULT} rounds");
}

#[test]
fn serving_an_importing_slot_without_asking_is_caught() {
    check_caught(Fault::NoAskingCheck);
}

#[test]
fn honouring_asking_for_another_move_is_caught() {
    check_caught(Fault::AskWithoutId);
}

#[test]
fn leaving_migrated_keys_at_the_source_is_caught() {
    check_caught(Fault::CopyWithoutDelete);
}

#[test]
fn an_evicted_value_that_comes_back_is_caught() {
    check_caught_by(&bounded(CALLS_FAULT, BOUND_WIDE), Fault::EvictionInTwoHolds);
}

#[test]
fn a_state_that_is_read_outside_the_token_is_caught() {
    check_caught(Fault::StateOutsideToken);
}

#[test]
fn reading_the_clock_before_the_token_is_caught() {
    check_caught(Fault::NowBeforeToken);
}

#[test]
fn a_pull_that_does_not_look_at_the_marks_is_caught() {
    check_caught(Fault::PullWithoutCheck);
}

#[test]
fn a_handover_over_keys_of_the_target_is_caught() {
    check_caught(Fault::HandoverOverKeys);
}

#[test]
fn a_handover_of_one_header_alone_is_caught() {
    check_caught(Fault::HandoverOneSide);
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
