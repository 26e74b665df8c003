//! The handover: a whole slot changes its owner in one hold, or is reserved for that, pure.
//!
//! As in `setslot`, each function checks everything first and changes nothing when it refuses.

use crate::migration::Closed;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::migration::setslot::open_pair;
use crate::topology::SlotOwner;

/// What is known of a slot that has changed hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handed {
    /// The move that was open under a mark, and ends here.
    pub(crate) id: Option<MoveId>,
    /// Whether the keys lay at the source: its table has to change hands in this same hold. Else
    /// they are at the target already, and what is left at the source is dead.
    pub(crate) from_source: bool,
}

/// Marks both sides of a slot for a handover that is to come: no verb touches them until then.
///
/// A reserved owner goes on serving everything, and its target nothing.
pub(crate) fn reserve(
    source: &mut Side,
    target: &mut Side,
    id: MoveId,
) -> Result<(), SetSlotError> {
    check_closed_pair(source, target)?;
    source.state = SlotState::Reserved { id };
    target.state = SlotState::Reserved { id };
    if source.is_ahead_of(target) {
        target.view = source.view;
    }
    Ok(())
}

/// Gives a reservation up: the slot stays where it is, and the id ends.
pub(crate) fn release(
    source: &mut Side,
    target: &mut Side,
    id: MoveId,
) -> Result<Closed, SetSlotError> {
    check_reserved_pair(source, target, id)?;
    source.state = SlotState::Stable;
    target.state = SlotState::Stable;
    Ok(Closed { id, flipped: false })
}

/// Makes the target the owner, with everything that the slot holds. `epoch` is drawn in this hold.
///
/// | marks | wants |
/// |---|---|
/// | none | the source owns the slot, the target holds no live key |
/// | both reserved under `reserved` | nothing more |
/// | an open pair | one of the two sides holds no live key |
///
/// Both views are the new one afterwards, no mark is left, and an id that was open has ended.
pub(crate) fn hand_over(
    source: &mut Side,
    target: &mut Side,
    reserved: Option<MoveId>,
    epoch: impl FnOnce() -> SlotOwner,
) -> Result<Handed, SetSlotError> {
    let handed = match (reserved, open_pair(source, target)) {
        (Some(id), _) => {
            check_reserved_pair(source, target, id)?;
            Handed { id: reserved, from_source: true }
        }
        (None, Some(_)) if source.has_keys && target.has_keys => {
            return Err(SetSlotError::KeysSplit);
        }
        (None, open @ Some(_)) => Handed { id: open, from_source: !target.has_keys },
        (None, None) => {
            check_closed_pair(source, target)?;
            Handed { id: None, from_source: true }
        }
    };
    source.view = epoch();
    target.view = source.view;
    source.state = SlotState::Stable;
    target.state = SlotState::Stable;
    Ok(handed)
}

/// An owner without a mark, and a node without mark and keys.
fn check_closed_pair(source: &Side, target: &Side) -> Result<(), SetSlotError> {
    if source.node == target.node {
        return Err(SetSlotError::MoveToSelf { node: source.node });
    }
    if !source.owns() {
        return Err(SetSlotError::NotOwner { node: source.node });
    }
    source.expect_stable()?;
    target.expect_stable()?;
    if target.has_keys {
        return Err(SetSlotError::TargetHoldsKeys { target: target.node });
    }
    Ok(())
}

/// Two nodes that are reserved for one handover. Ids are never reused, so the id says it all.
fn check_reserved_pair(source: &Side, target: &Side, id: MoveId) -> Result<(), SetSlotError> {
    let mark = SlotState::Reserved { id };
    if source.state == mark && target.state == mark && source.owns() {
        Ok(())
    } else {
        Err(SetSlotError::NoSuchMove)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::Heard;
    use crate::migration::abort_begin;
    use crate::migration::flip;
    use crate::migration::hear;
    use crate::migration::importing;
    use crate::migration::migrating;
    use crate::migration::stable;
    use crate::topology::Epoch;
    use crate::topology::NodeId;

    const ID: MoveId = MoveId::new(1);
    const OTHER: MoveId = MoveId::new(2);

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    fn by(owner: usize, epoch: u64) -> SlotOwner {
        SlotOwner::new(Some(node(owner)), Epoch::new(epoch))
    }

    fn is_open(index: usize, id: MoveId) -> SetSlotError {
        SetSlotError::SlotIsOpen { node: node(index), id }
    }

    /// Nodes 0, 1 and 2; node 0 owns the slot since epoch 1, and holds keys.
    fn three() -> [Side; 3] {
        let side = |index| Side {
            node: node(index),
            view: by(0, 1),
            state: SlotState::Stable,
            has_keys: index == 0,
        };
        [side(0), side(1), side(2)]
    }

    fn reserved() -> [Side; 3] {
        let [mut a, mut b, c] = three();
        reserve(&mut a, &mut b, ID).unwrap();
        [a, b, c]
    }

    fn opened() -> [Side; 3] {
        let [mut a, mut b, c] = three();
        importing(&mut b, a.node, ID).unwrap();
        migrating(&mut a, &mut b).unwrap();
        [a, b, c]
    }

    #[track_caller]
    fn check_flipped(a: &Side, b: &Side) {
        assert_eq!((a.view, b.view), (by(1, 2), by(1, 2)));
        assert_eq!((a.state, b.state), (SlotState::Stable, SlotState::Stable));
        assert!(!a.owns() && b.owns(), "one owner, at every instant");
    }

    /// Refused, and nothing was changed.
    #[track_caller]
    fn check_refused(
        sides: [Side; 2],
        error: SetSlotError,
        verb: impl FnOnce(&mut Side, &mut Side) -> Result<(), SetSlotError>,
    ) {
        let [mut one, mut other] = sides;
        assert_eq!(verb(&mut one, &mut other), Err(error));
        assert_eq!([one, other], sides);
    }

    /// A handover that must be refused draws no epoch.
    fn plain(source: &mut Side, target: &mut Side) -> Result<(), SetSlotError> {
        hand_over(source, target, None, || unreachable!("an epoch was drawn")).map(drop)
    }

    #[test]
    fn a_handover_flips_both_sides_in_one_hold() {
        let [mut a, mut b, _] = three();
        let handed = hand_over(&mut a, &mut b, None, || by(1, 2));
        assert_eq!(handed, Ok(Handed { id: None, from_source: true }));
        check_flipped(&a, &b);
    }

    #[test]
    fn a_reserved_pair_changes_nothing_but_marks_until_it_is_handed_over() {
        let [mut a, mut b, _] = reserved();
        assert!(a.owns() && !b.owns());
        assert_eq!((a.view, b.view), (by(0, 1), by(0, 1)));
        check_refused([a, b], is_open(0, ID), plain);
        check_refused([a, b], SetSlotError::NoSuchMove, |a, b| {
            hand_over(a, b, Some(OTHER), || by(1, 2)).map(drop)
        });
        let handed = hand_over(&mut a, &mut b, Some(ID), || by(1, 2));
        assert_eq!(handed, Ok(Handed { id: Some(ID), from_source: true }));
        check_flipped(&a, &b);
    }

    #[test]
    fn a_released_pair_is_as_before_and_its_id_has_ended() {
        let [mut a, mut b, c] = reserved();
        check_refused([a, b], SetSlotError::NoSuchMove, |a, b| release(a, b, OTHER).map(drop));
        check_refused([a, c], SetSlotError::NoSuchMove, |a, c| release(a, c, ID).map(drop));
        assert_eq!(release(&mut a, &mut b, ID), Ok(Closed { id: ID, flipped: false }));
        assert_eq!([a, b, c], three());
        assert_eq!(release(&mut a, &mut b, ID), Err(SetSlotError::NoSuchMove));
        let late = hand_over(&mut a, &mut b, Some(ID), || by(1, 2));
        assert_eq!(late, Err(SetSlotError::NoSuchMove));
    }

    #[test]
    fn a_reservation_tells_a_target_that_is_behind() {
        let [mut a, mut b, _] = three();
        a.view = by(0, 7);
        reserve(&mut a, &mut b, ID).unwrap();
        assert_eq!(b.view, by(0, 7));
    }

    #[test]
    fn no_verb_overwrites_a_reservation() {
        let [a, b, c] = reserved();
        let open = is_open(1, ID);
        check_refused([b, a], open, |b, _| importing(b, node(0), OTHER));
        let mut importer = c;
        importing(&mut importer, node(0), OTHER).unwrap();
        check_refused([a, importer], is_open(0, ID), |a, c| migrating(a, c).map(drop));
        let strange = SetSlotError::TargetNotImporting { target: node(1) };
        check_refused([Side { state: SlotState::Stable, ..a }, b], strange, |a, b| {
            migrating(a, b).map(drop)
        });
        check_refused([a, b], is_open(0, ID), |a, b| stable(a, b).map(drop));
        check_refused([b, a], open, |b, a| stable(b, a).map(drop));
        check_refused([a, b], SetSlotError::WrongOrder, |a, b| flip(a, b, || by(1, 2)).map(drop));
        check_refused([a, b], SetSlotError::NoSuchMove, |a, b| abort_begin(a, b, ID));
        check_refused([a, b], is_open(0, ID), |a, b| reserve(a, b, OTHER));
        check_refused([a, c], is_open(0, ID), |a, c| reserve(a, c, OTHER));
        let free = Side { state: SlotState::Stable, ..a };
        check_refused([free, b], open, |a, b| reserve(a, b, OTHER));
        check_refused([free, b], open, plain);
    }

    #[test]
    fn no_claim_moves_a_reserved_owner() {
        let [mut a, b, _] = reserved();
        let before = a;
        assert_eq!(hear(&mut a, by(1, 9), Some(b.view)), Heard::Conflict);
        assert_eq!(a, before);
    }

    #[test]
    fn only_an_owner_gives_to_an_empty_stranger() {
        let [a, b, c] = three();
        for verb in [plain, |a: &mut Side, b: &mut Side| reserve(a, b, ID)] {
            check_refused([a, a], SetSlotError::MoveToSelf { node: node(0) }, verb);
            check_refused([b, c], SetSlotError::NotOwner { node: node(1) }, verb);
            let held = SetSlotError::TargetHoldsKeys { target: node(1) };
            check_refused([a, Side { has_keys: true, ..b }], held, verb);
            let mut importer = b;
            importing(&mut importer, node(0), OTHER).unwrap();
            check_refused([a, importer], is_open(1, OTHER), verb);
        }
    }

    #[test]
    fn an_open_pair_is_handed_over_when_its_keys_are_on_one_side() {
        for (at_source, at_target) in [(false, false), (true, false), (false, true)] {
            let [mut a, mut b, _] = opened();
            (a.has_keys, b.has_keys) = (at_source, at_target);
            let handed = hand_over(&mut a, &mut b, None, || by(1, 2));
            assert_eq!(handed, Ok(Handed { id: Some(ID), from_source: !at_target }));
            check_flipped(&a, &b);
        }
        let [a, mut b, c] = opened();
        check_refused([a, c], is_open(0, ID), plain);
        check_refused([a, b], is_open(0, ID), |a, b| reserve(a, b, OTHER));
        b.has_keys = true;
        check_refused([a, b], SetSlotError::KeysSplit, plain);
    }

    #[test]
    fn a_move_that_turned_round_or_has_flipped_is_not_handed_over() {
        let [mut a, mut b, _] = opened();
        abort_begin(&mut a, &mut b, ID).unwrap();
        check_refused([a, b], is_open(0, ID), plain);
        let [mut a, mut b, c] = opened();
        a.has_keys = false;
        flip(&a, &mut b, || by(1, 2)).unwrap();
        check_refused([a, b], is_open(0, ID), plain);
        // The new owner gives it on; not back, over the mark that waits for NODE.
        check_refused([b, a], is_open(0, ID), plain);
        let (mut b, mut c) = (b, c);
        assert!(hand_over(&mut b, &mut c, None, || by(2, 3)).is_ok());
        assert_eq!(
            hear(&mut a, by(2, 3), Some(b.view)),
            Heard::Closed(Closed { id: ID, flipped: true })
        );
    }
}
