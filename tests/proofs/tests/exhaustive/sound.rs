//! The engine's own rules: nothing that can happen breaks them.

use slotkeep_proofs::search::Gate;
use slotkeep_proofs::search::Kind;
use slotkeep_proofs::search::Kinds;
use slotkeep_proofs::search::Semantics;
use slotkeep_proofs::search::Setup;

use crate::report::check_sound;
use crate::report::is_deep;

/// Whatever moves a slot.
const MOVERS: Kinds = Kinds::MOVES.and(Kinds::ABORTS).and(Kinds::HANDOVERS);
const MOVERS_AND_CLAIMS: Kinds = MOVERS.and(Kinds::CLAIMS);
const ALL_CALLS: Kinds = Kinds::CALLS.and(Kinds::CALLS_ON_BOTH);
const READS_AND_WRITES: Kinds = Kinds::READS_AND_WRITES.and(Kinds::CALLS_ON_BOTH);

const EXPIRING: Kinds = MOVERS_AND_CLAIMS.and(ALL_CALLS).and(Kinds::EXPIRY);

/// The most redirects of a call on three nodes, however busy the movers are, when no verb was past
/// its look as the call went into the gate: it goes in with the fifth. Each verb that was beats it
/// once more.
const REDIRECTS_MAX: u8 = 7;

/// The largest model that runs every time has at least so many states.
const STATES_MIN: usize = 100_000;

#[test]
fn two_nodes_lose_no_key_and_answer_every_call_while_keys_expire() {
    check_sound(&Setup::new("two nodes, expiry", 2, EXPIRING));
}

#[test]
fn claims_that_are_held_reordered_and_lost_do_no_harm() {
    let kinds = MOVERS.and(Kinds::HELD_CLAIMS).and(ALL_CALLS);
    check_sound(&Setup { messages: 1, ..Setup::new("two nodes, a held claim", 2, kinds) });
}

#[test]
fn two_slow_clients_get_what_was_acknowledged_last() {
    let kinds = MOVERS_AND_CLAIMS.and(READS_AND_WRITES);
    let setup = Setup { clients: 2, ..Setup::new("two nodes, two clients", 2, kinds) };
    let states = check_sound(&setup);
    assert!(states >= STATES_MIN, "{states} states");
}

#[test]
fn three_nodes_lose_no_key_and_answer_every_call() {
    let kinds = MOVERS_AND_CLAIMS.and(Kinds::READS_AND_WRITES);
    check_sound(&Setup::new("three nodes", 3, kinds));
}

#[test]
fn slots_that_get_and_lose_owners_have_one_at_most() {
    let kinds = MOVERS_AND_CLAIMS.and(ALL_CALLS).and(Kinds::SLOTS);
    check_sound(&Setup::new("owners come and go", 2, kinds));
}

#[test]
fn clients_as_of_redis_read_and_write_no_second_home() {
    let setup = Setup::new("two nodes, plain ASKING, expiry", 2, EXPIRING);
    check_sound(&Setup { semantics: Semantics::Redis, ..setup });
}

#[test]
fn movers_that_never_stop_send_a_call_on_seven_times_at_most() {
    let kinds = Kinds::VERBS.and(Kinds::CLAIMS).and(Kinds::of(&[Kind::HandOver]));
    let kinds = kinds.and(Kinds::of(&[Kind::Get, Kind::GoOn]));
    for late_verbs in [0, 2] {
        let gate = Gate { late_verbs, redirects_max: REDIRECTS_MAX + late_verbs };
        let gate = Some(gate);
        check_sound(&Setup { gate, ..Setup::new("movers that never stop", 3, kinds) });
    }
}

/// The first of these runs every time, all of them in the long form: minutes in release, and up to
/// a gigabyte.
#[test]
fn larger_models_hold_too() {
    let held = MOVERS.and(Kinds::HELD_CLAIMS);
    let expiring = READS_AND_WRITES.and(Kinds::EXPIRY);
    let one_key = Kinds::READS_AND_WRITES;
    let aborted = Some(Gate { late_verbs: 2, redirects_max: REDIRECTS_MAX + 3 });
    let gated = MOVERS_AND_CLAIMS.and(one_key);
    let two_clients = MOVERS_AND_CLAIMS.and(expiring);
    let two_held = held.and(one_key).and(Kinds::EXPIRY);
    let three = Setup::new("three nodes, all calls", 3, MOVERS_AND_CLAIMS.and(ALL_CALLS));
    let setups = [
        three,
        Setup { clients: 2, ..Setup::new("two nodes, two clients, expiry", 2, two_clients) },
        Setup { messages: 2, ..Setup::new("two nodes, two held claims, expiry", 2, two_held) },
        Setup { messages: 1, ..Setup::new("three nodes, a held claim", 3, held.and(one_key)) },
        Setup { semantics: Semantics::Redis, name: "three nodes, plain ASKING", ..three },
        Setup::new("three nodes, owners come and go", 3, gated.and(Kinds::SLOTS)),
        // With aborts a call may have to ask the same node again, which counts as a redirect.
        Setup { gate: aborted, ..Setup::new("movers that never stop, aborts", 3, gated) },
    ];
    let count = if is_deep() { setups.len() } else { 1 };
    for setup in &setups[..count] {
        check_sound(setup);
    }
}
