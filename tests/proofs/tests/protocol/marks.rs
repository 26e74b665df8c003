//! Marks: never overwritten, never revived, never left without their peer.

use slotkeep::{SetSlotError, SlotState};

use crate::rig::{A, B, C, K, Rig, check_way, id, is_open};

/// Row 2: a second IMPORTING gave the target another id than the one that ASK carries.
#[test]
fn a_second_importing_is_refused_and_ask_is_still_honoured() {
    let rig = Rig::new(3);
    let first = rig.open(A, B);
    assert_eq!(rig.importing(B, A), Err(is_open(B, first)));
    assert_eq!(rig.importing(B, C), Err(is_open(B, first)));
    check_way(&rig.cluster.client(), K, None, &[A, B]);
    assert_eq!(rig.take(B), Ok(Some(first)));
    rig.check_settled(B);
}

/// Row 2b: a source whose first target has flipped went on to a second one.
#[test]
fn a_source_whose_target_has_flipped_takes_no_second_target() {
    let rig = Rig::held(3);
    let first = rig.importing(B, A).unwrap();
    let second = rig.importing(C, A).unwrap();
    assert_eq!(rig.migrating(A, B), Ok(first));
    assert_eq!(rig.take(B), Ok(Some(first)));
    assert_eq!(rig.migrating(A, C), Err(is_open(A, first)));
    assert_eq!(rig.take(C), Err(SetSlotError::WrongOrder));
    check_way(&rig.cluster.client(), K, None, &[B]);
    assert_eq!(rig.stable(C), Ok(Some(second)));
    rig.check_settled(B);
}

/// Row 2c: the source moved elsewhere under an open mark, and the first target flipped after that.
#[test]
fn a_marked_source_moves_to_nobody_else() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let first = rig.open(A, B);
    let second = rig.importing(C, A).unwrap();
    assert_eq!(rig.migrating(A, C), Err(is_open(A, first)));
    assert_eq!(rig.batch(A, second, 8), Err(SetSlotError::NoSuchMove));
    assert_eq!(rig.take(C), Err(SetSlotError::WrongOrder));
    rig.send_all(A, first);
    assert_eq!(rig.take(B), Ok(Some(first)));
    assert_eq!(rig.stable(C), Ok(Some(second)));
    rig.check_read(K, Some("v"));
    rig.check_settled(B);
}

/// Row 2d: the mark of a move whose driver died after the flip stood while the slot went on and
/// came back.
#[test]
fn a_mark_that_outlived_its_driver_never_revives() {
    let rig = Rig::held(3);
    rig.write(K, "v");
    let old = rig.open(A, B);
    rig.send_all(A, old);
    assert_eq!(rig.take(B), Ok(Some(old)));
    rig.complete(B, C);
    // A still believes that it owns the slot, so the slot cannot come back over the old mark.
    let owner = SetSlotError::AlreadyOwner { node: id(A) };
    assert_eq!(rig.importing(A, C), Err(owner));
    assert_eq!(rig.migrating(A, B), Err(is_open(A, old)));
    assert_eq!(rig.tell(A, B), Ok(Some(old)));
    assert_eq!(rig.seen_by(A), Some(C), "the target's present view is adopted, not its flip");
    rig.complete(C, A);
    assert_eq!(rig.state(A), SlotState::Stable);
    check_way(&rig.cluster.client(), K, Some("v"), &[A]);
    rig.check_settled(A);
}

/// Row 3: an importer took a slot whose owner had not agreed, because the owner was empty.
#[test]
fn an_empty_source_that_does_not_migrate_gives_nothing_away() {
    let rig = Rig::new(3);
    assert_eq!(rig.take(B), Err(SetSlotError::WrongOrder));
    let id = rig.importing(B, A).unwrap();
    assert_eq!(rig.take(B), Err(SetSlotError::WrongOrder));
    check_way(&rig.cluster.client(), K, None, &[A]);
    assert_eq!(rig.stable(B), Ok(Some(id)));
    rig.check_settled(A);
}

/// Row 6: STABLE on a second importer cleared the mark of a source that migrates to the first.
#[test]
fn stable_on_a_second_importer_leaves_the_source_marked() {
    let rig = Rig::held(3);
    let first = rig.importing(B, A).unwrap();
    let second = rig.importing(C, A).unwrap();
    assert_eq!(rig.migrating(A, B), Ok(first));
    assert_eq!(rig.take(B), Ok(Some(first)));
    assert_eq!(rig.stable(C), Ok(Some(second)));
    assert_eq!(rig.state(A), SlotState::Migrating { target: id(B), id: first });
    assert_eq!(rig.tell(A, B), Ok(Some(first)));
    rig.check_settled(B);
}

/// Row 14: MIGRATING to a node that does not import: ASK there, MOVED back, for ever.
#[test]
fn migrating_wants_a_target_that_imports_from_here() {
    let rig = Rig::new(3);
    let refused = SetSlotError::TargetNotImporting { target: id(B) };
    assert_eq!(rig.migrating(A, B), Err(refused));
    let to_c = rig.importing(C, A).unwrap();
    assert_eq!(rig.migrating(A, B), Err(refused), "it is C that imports");
    check_way(&rig.cluster.client(), K, None, &[A]);
    assert_eq!(rig.stable(C), Ok(Some(to_c)));
    rig.check_settled(A);
}

/// Row 14, seen from a target that imports from a node which has lost the slot since.
#[test]
fn a_mark_from_the_former_owner_opens_nothing() {
    let rig = Rig::new(3);
    let old = rig.importing(C, A).unwrap();
    rig.complete(A, B);
    assert_eq!(rig.migrating(B, C), Err(SetSlotError::TargetNotImporting { target: id(C) }));
    assert_eq!(rig.migrating(A, C), Err(SetSlotError::NotOwner { node: id(A) }));
    assert_eq!(rig.stable(C), Ok(Some(old)));
    rig.complete(B, C);
    rig.check_settled(C);
}
