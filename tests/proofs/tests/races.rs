//! The races of hand-written concurrency, each searched on the real sources and on a planted bug.

use slotkeep_proofs::shuttled::alarms;
use slotkeep_proofs::shuttled::caught;
use slotkeep_proofs::shuttled::chunks;
use slotkeep_proofs::shuttled::gates;
use slotkeep_proofs::shuttled::holds;
use slotkeep_proofs::shuttled::mail;
use slotkeep_proofs::shuttled::replies;
use slotkeep_proofs::shuttled::views;

/// What shuttle says when nobody can go on.
const STUCK: &str = "deadlock";

/// The search finds a planted bug, and for the right reason.
#[track_caller]
fn check_caught(planted: fn(), why: &str) {
    let found = caught(planted).expect("the search finds the planted bug");
    assert!(found.contains(why), "found {found:?} instead of {why:?}");
}

#[test]
fn a_reply_is_never_lost_and_a_dropped_sender_is_heard() {
    holds(replies::an_answer_races_the_wait);
    holds(replies::a_sound_copy);
    check_caught(replies::a_wait_that_does_not_look_again, STUCK);
    check_caught(replies::a_wake_up_before_the_news, STUCK);
}

#[test]
fn every_accepted_job_arrives_once_and_nobody_sleeps_for_ever() {
    holds(mail::a_push_races_the_end);
    check_caught(mail::a_writer_that_does_not_look_again, "jobs that were accepted");
    check_caught(mail::a_writer_that_waits_once, "more jobs than there is room for");
    check_caught(mail::an_end_that_forgets_the_writers, STUCK);
}

#[test]
fn a_wake_up_is_not_lost() {
    holds(mail::a_wake_up_races_the_parking);
    holds(mail::a_sound_copy);
    check_caught(mail::a_wake_up_without_a_mark, STUCK);
}

#[test]
fn a_verb_that_looks_after_a_call_entered_sees_it() {
    holds(gates::a_look_races_the_entry);
    holds(gates::a_sound_copy);
    check_caught(gates::a_pass_that_nobody_sees, "a call inside was not seen");
    check_caught(gates::a_count_in_two_steps, "everybody has left");
}

#[test]
fn a_call_in_the_gate_loses_once_to_each_mover_at_most() {
    holds(gates::a_call_races_busy_movers);
    check_caught(gates::a_pass_that_stops_nobody, "a call inside lost");
}

#[test]
fn a_deadline_is_swept_in_time_whenever_it_was_set() {
    holds(alarms::a_deadline_races_the_round);
    holds(alarms::a_sound_copy);
    check_caught(alarms::a_round_that_ends_with_a_store, STUCK);
    check_caught(alarms::a_round_that_clears_the_alarm_late, STUCK);
    check_caught(alarms::a_deadline_that_wakes_nobody, STUCK);
}

#[test]
fn the_greatest_epoch_stays_and_the_count_is_exact() {
    holds(views::claims_race_each_other);
    holds(views::a_sound_copy);
    check_caught(views::a_claim_in_two_steps, "the greatest epoch stays");
    check_caught(views::a_count_by_an_earlier_look, "the count is exact");
}

#[test]
fn a_chunk_gets_words_once_and_loses_no_change() {
    holds(chunks::first_changes_race_each_other);
    holds(chunks::a_sound_copy);
    check_caught(chunks::words_that_are_given_twice, "nobody else changes this word");
    check_caught(chunks::words_that_are_given_empty, "a word went back");
}
