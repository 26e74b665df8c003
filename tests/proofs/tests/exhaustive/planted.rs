//! Each earlier wording of a rule, and the shortest way in which it breaks.

use slotkeep_proofs::search::Gate;
use slotkeep_proofs::search::Kind;
use slotkeep_proofs::search::Kinds;
use slotkeep_proofs::search::Semantics;
use slotkeep_proofs::search::Setup;
use slotkeep_proofs::search::Wording;

use crate::report::check_caught;

/// Moves, claims and calls on one key, and aborts.
const MOVES: Kinds = Kinds::MOVES.and(Kinds::CLAIMS).and(Kinds::CALLS);
const MOVES_AND_ABORTS: Kinds = MOVES.and(Kinds::ABORTS);
const MOVES_AND_HANDOVERS: Kinds = MOVES.and(Kinds::HANDOVERS);

const TWO: Setup = Setup::new("two nodes", 2, MOVES_AND_ABORTS);
const THREE: Setup = Setup::new("three nodes", 3, MOVES_AND_ABORTS);

/// Verbs and claims alone, of which every state is asked whether it answers calls.
const MARKS: Kinds =
    Kinds::of(&[Kind::Importing, Kind::Migrating, Kind::Take, Kind::Stable, Kind::Send]);

/// Row 1.
#[test]
fn one_epoch_for_all_slots_of_a_node_leaves_views_apart_for_ever() {
    let setup = Setup { kinds: MOVES.and(Kinds::of(&[Kind::OtherSlotFlips])), ..THREE };
    check_caught(&setup, Wording::OneEpochForANode, "C never believes the owner");
}

/// Row 1b.
#[test]
fn one_epoch_for_all_slots_of_a_node_brings_a_source_back_that_has_flipped() {
    let setup = Setup { kinds: MOVES.and(Kinds::of(&[Kind::OtherSlotFlips])), ..THREE };
    check_caught(&setup, Wording::OneEpochForASource, "own the slot");
}

/// Row 2.
#[test]
fn an_importing_mark_that_is_overwritten_sends_calls_in_circles() {
    check_caught(&THREE, Wording::ImportingOverwrites, "never answered");
}

/// Row 2b.
#[test]
fn a_migrating_mark_that_is_overwritten_makes_two_owners() {
    check_caught(&THREE, Wording::MigratingOverwrites, "own the slot");
}

/// Row 3.
#[test]
fn a_flip_without_a_pair_makes_two_owners() {
    check_caught(&TWO, Wording::FlipOfALoneImporter, "own the slot");
}

/// Row 4.
#[test]
fn what_undoes_a_flip_makes_two_owners() {
    check_caught(&TWO, Wording::StableAfterTheFlip, "own the slot");
    check_caught(&TWO, Wording::AbortAfterTheFlip, "own the slot");
}

/// Row 6.
#[test]
fn stable_on_a_bystander_that_clears_its_peer_makes_two_owners() {
    check_caught(&THREE, Wording::StableClearsThePeer, "A and B own the slot");
}

/// Row 7.
#[test]
fn node_that_changes_the_owner_leaves_none() {
    check_caught(&THREE, Wording::NodeDeposes, "the owner does not know that it is");
}

/// Row 8.
#[test]
fn an_abort_that_turns_one_side_first_reads_stale_values_or_sends_calls_in_circles() {
    let opened = Kinds::of(&[Kind::Importing, Kind::Migrating, Kind::Batch]);
    let kinds = opened.and(Kinds::ABORTS).and(Kinds::CALLS);
    let setup = Setup { clients: 2, kinds, ..TWO };
    check_caught(&setup, Wording::AbortOfTheSourceFirst, "read at B");
    check_caught(&TWO, Wording::AbortOfTheTargetFirst, "never answered");
}

/// Row 9.
#[test]
fn a_batch_that_sends_the_dead_loses_a_write() {
    let setup = Setup { kinds: MOVES.and(Kinds::EXPIRY), ..TWO };
    check_caught(&setup, Wording::BatchSendsTheDead, "is lost");
}

/// Row 10.
#[test]
fn asking_without_an_id_misses_a_write() {
    check_caught(&TWO, Wording::AskingWithoutId, "is not as it was acknowledged");
    let wire = Setup { semantics: Semantics::Redis, ..TWO };
    check_caught(&wire, Wording::AskingWithoutId, "is not as it was acknowledged");
}

/// Row 12.
#[test]
fn addslots_that_looks_at_its_own_node_makes_two_owners() {
    let setup = Setup { kinds: Kinds::SLOTS.and(Kinds::CLAIMS).and(Kinds::CALLS), ..TWO };
    check_caught(&setup, Wording::AddWithoutTheWord, "own the slot");
}

/// Row 13.
#[test]
fn a_claim_that_clears_an_importing_mark_sends_calls_in_circles() {
    let setup = Setup { kinds: MARKS, ..THREE };
    check_caught(&setup, Wording::ClaimClearsTheMark, "never answered");
}

/// Row 14.
#[test]
fn migrating_to_a_node_that_does_not_import_sends_calls_in_circles() {
    check_caught(&TWO, Wording::MigratingToAnybody, "never answered");
}

/// Row 15.
#[test]
fn a_clock_that_is_read_before_the_token_writes_to_a_dead_entry() {
    let kinds = MOVES.and(Kinds::CALLS_ON_BOTH).and(Kinds::EXPIRY);
    let setup = Setup { kinds, clients: 2, ..TWO };
    check_caught(&setup, Wording::ClockBeforeTheToken, "is not as it was acknowledged");
}

/// Row 16.
#[test]
fn a_stale_claim_that_deletes_keys_loses_a_write() {
    let setup = Setup { kinds: MOVES.and(Kinds::HELD_CLAIMS), messages: 1, ..TWO };
    check_caught(&setup, Wording::StaleClaimDeletes, "is lost");
}

/// Row 17.
#[test]
fn a_batch_in_two_holds_leaves_a_copy() {
    check_caught(&TWO, Wording::BatchInTwoHolds, "a home too many");
}

/// Row 18.
#[test]
fn without_a_gate_movers_beat_a_call_for_ever() {
    let gate = Some(Gate { late_verbs: 0, redirects_max: 14 });
    let kinds = Kinds::VERBS.and(Kinds::of(&[Kind::Get, Kind::GoOn]));
    check_caught(&Setup { gate, kinds, ..THREE }, Wording::NoGate, "sent on 15 times");
}

/// Row 2c.
#[test]
fn a_handover_from_under_a_mark_makes_two_owners() {
    let setup = Setup { kinds: MOVES_AND_HANDOVERS, ..THREE };
    check_caught(&setup, Wording::HandoverFromAMark, "own the slot");
}

/// Row 2d.
#[test]
fn a_handover_onto_a_mark_revives_it() {
    let setup = Setup { kinds: MOVES_AND_HANDOVERS, ..THREE };
    check_caught(&setup, Wording::HandoverOntoAMark, "never answered");
}

/// Row 5.
#[test]
fn a_pull_without_a_look_at_the_marks_leaves_keys_outside_the_owner() {
    let setup = Setup { kinds: MOVES_AND_HANDOVERS.and(Kinds::CALLS_ON_BOTH), ..THREE };
    check_caught(&setup, Wording::PullWithoutCheck, "is not as it was acknowledged");
}

/// Row 11.
#[test]
fn a_client_that_takes_any_map_goes_in_circles() {
    let kinds = Kinds::of(&[Kind::HandOver, Kind::Get, Kind::GoOn]);
    check_caught(&Setup::new("four nodes", 4, kinds), Wording::MapOfAnyNode, "never answered");
}
