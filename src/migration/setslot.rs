//! The verbs of SETSLOT and abort as transitions of one or two sides, pure.
//!
//! Each function checks everything first and changes nothing when it refuses. Callers hold the
//! token of every side that they pass.

use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::SlotState;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

/// What one node knows and holds of one slot: the header's part of the state machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Side {
    /// The node.
    pub(crate) node: NodeId,
    /// The owner in this node's view, and since when.
    pub(crate) view: SlotOwner,
    /// The node's mark.
    pub(crate) state: SlotState,
    /// Whether the node holds a live key of the slot.
    pub(crate) has_keys: bool,
}

impl Side {
    /// Whether this node owns the slot in its own view: it serves the slot.
    pub(crate) fn owns(&self) -> bool {
        self.view.owner == Some(self.node)
    }

    /// Whether this side's view is newer than the other's.
    pub(super) fn is_ahead_of(&self, other: &Self) -> bool {
        self.view.epoch > other.view.epoch
    }

    pub(super) fn expect_stable(&self) -> Result<(), SetSlotError> {
        match self.state.move_id() {
            None => Ok(()),
            Some(id) => Err(SetSlotError::SlotIsOpen { node: self.node, id }),
        }
    }
}

/// IMPORTING: the target marks the slot under a new id. The target's view may be stale; MIGRATING
/// checks again. What the target holds afterwards, until the source is marked, are copies.
pub(crate) fn importing(target: &mut Side, source: NodeId, id: MoveId) -> Result<(), SetSlotError> {
    if source == target.node {
        return Err(SetSlotError::MoveToSelf { node: source });
    }
    if target.owns() {
        return Err(SetSlotError::AlreadyOwner { node: target.node });
    }
    target.expect_stable()?;
    if target.view.owner != Some(source) {
        return Err(SetSlotError::SourceNotOwner { source_node: source });
    }
    if target.has_keys {
        return Err(SetSlotError::TargetHoldsKeys { target: target.node });
    }
    target.state = SlotState::Importing { source, id };
    Ok(())
}

/// MIGRATING: the owner takes over the id under which the target imports from it.
///
/// The target hears the owner's claim in the same hold: a target whose view is stale might believe
/// that nobody owns the slot, and then it would serve no ASKING.
pub(crate) fn migrating(source: &mut Side, target: &mut Side) -> Result<MoveId, SetSlotError> {
    if source.node == target.node {
        return Err(SetSlotError::MoveToSelf { node: source.node });
    }
    if !source.owns() {
        return Err(SetSlotError::NotOwner { node: source.node });
    }
    source.expect_stable()?;
    let target_node = target.node;
    match target.state {
        SlotState::Importing { source: named, id } if named == source.node => {
            if target.has_keys {
                return Err(SetSlotError::TargetHoldsKeys { target: target_node });
            }
            source.state = SlotState::Migrating { target: target_node, id };
            if source.is_ahead_of(target) {
                target.view = source.view;
            }
            Ok(id)
        }
        SlotState::Stable
        | SlotState::Importing { .. }
        | SlotState::Migrating { .. }
        | SlotState::Aborting { .. }
        | SlotState::Retired { .. }
        | SlotState::Reserved { .. } => {
            Err(SetSlotError::TargetNotImporting { target: target_node })
        }
    }
}

/// Whether `source` is migrating to `target` and `target` importing from `source`, under one id.
pub(super) fn open_pair(source: &Side, target: &Side) -> Option<MoveId> {
    match (source.state, target.state) {
        (
            SlotState::Migrating { target: to, id },
            SlotState::Importing { source: of, id: same },
        ) if to == target.node && of == source.node && id == same => Some(id),
        _ => None,
    }
}

/// Whether `source` is aborting its move to `target`, retired under the same id.
fn aborting_pair(source: &Side, target: &Side) -> Option<MoveId> {
    match (source.state, target.state) {
        (SlotState::Aborting { target: to, id }, SlotState::Retired { source: of, id: same })
            if to == target.node && of == source.node && id == same =>
        {
            Some(id)
        }
        _ => None,
    }
}

/// Whether `source` carries the mark of a move to `target` that has flipped.
fn flipped_pair(source: &Side, target: &Side) -> Option<MoveId> {
    match source.state {
        SlotState::Migrating { target: to, id }
            if to == target.node
                && target.state.move_id() != Some(id)
                && target.is_ahead_of(source) =>
        {
            Some(id)
        }
        SlotState::Stable
        | SlotState::Migrating { .. }
        | SlotState::Importing { .. }
        | SlotState::Aborting { .. }
        | SlotState::Retired { .. }
        | SlotState::Reserved { .. } => None,
    }
}

/// The move from `source` to `target` that its own verbs can end without losing a key: the source
/// owns the slot and both are marked under one id; or only the source is marked, the target owns
/// the slot by a later claim, and the source has no live key any more.
pub(crate) fn ordinary_move(source: &Side, target: &Side) -> Option<MoveId> {
    let marked = open_pair(source, target).or_else(|| aborting_pair(source, target));
    let flipped = || flipped_pair(source, target).filter(|_| target.owns() && !source.has_keys);
    marked.filter(|_| !target.owns()).or_else(flipped).filter(|_| source.owns())
}

/// A batch of keys from source to target is legal: the move `id` is open on both.
pub(crate) fn check_batch(source: &Side, target: &Side, id: MoveId) -> Result<(), SetSlotError> {
    if open_pair(source, target) == Some(id) { Ok(()) } else { Err(SetSlotError::NoSuchMove) }
}

/// A batch of keys back from target to source is legal: the move `id` is aborting on both.
pub(crate) fn check_pull_back(
    source: &Side,
    target: &Side,
    id: MoveId,
) -> Result<(), SetSlotError> {
    if aborting_pair(source, target) == Some(id) { Ok(()) } else { Err(SetSlotError::NoSuchMove) }
}

/// NODE on the target: the slot changes its owner. `epoch` is drawn in this hold.
///
/// Afterwards only the source's mark is left; NODE on the source, or the claim, closes it.
pub(crate) fn flip(
    source: &Side,
    target: &mut Side,
    epoch: impl FnOnce() -> SlotOwner,
) -> Result<MoveId, SetSlotError> {
    if target.owns() {
        return Err(SetSlotError::AlreadyOwner { node: target.node });
    }
    let id = open_pair(source, target).ok_or(SetSlotError::WrongOrder)?;
    if source.has_keys {
        return Err(SetSlotError::SourceHoldsKeys { source_node: source.node });
    }
    target.view = epoch();
    target.state = SlotState::Stable;
    Ok(id)
}

/// A mark that was cleared: its move has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Closed {
    /// The move.
    pub(crate) id: MoveId,
    /// Whether the slot changed its owner.
    pub(crate) flipped: bool,
}

/// NODE on the source, naming its target: adopts the target's view and closes the move, unless the
/// source has live keys. A flip leaves it none; who flips as Redis does may leave some.
///
/// `Ok(None)`: nothing was open and the slot has left this node already.
pub(crate) fn node_on_source(
    source: &mut Side,
    target: &Side,
) -> Result<Option<Closed>, SetSlotError> {
    if let Some(id) = flipped_pair(source, target) {
        if source.has_keys {
            return Err(SetSlotError::SourceHoldsKeys { source_node: source.node });
        }
        source.view = target.view;
        source.state = SlotState::Stable;
        return Ok(Some(Closed { id, flipped: true }));
    }
    if source.owns() && source.node != target.node {
        return Err(SetSlotError::WrongOrder);
    }
    Ok(None)
}

/// STABLE on either side of a pair, or on a lone importer: closes the move if that loses nothing.
///
/// `one` is the side that was asked, `other` the side that its mark names. Copies at a lone
/// importer go with its mark; they do not count as keys here.
pub(crate) fn stable(one: &mut Side, other: &mut Side) -> Result<Option<Closed>, SetSlotError> {
    let (source, target, source_was_asked) = match one.state {
        SlotState::Stable => return Ok(None),
        SlotState::Reserved { id } => {
            return Err(SetSlotError::SlotIsOpen { node: one.node, id });
        }
        SlotState::Migrating { .. } | SlotState::Aborting { .. } => (one, other, true),
        SlotState::Importing { .. } | SlotState::Retired { .. } => (other, one, false),
    };
    if let Some(id) = open_pair(source, target).or_else(|| aborting_pair(source, target)) {
        if target.has_keys {
            return Err(SetSlotError::KeysSplit);
        }
        source.state = SlotState::Stable;
        target.state = SlotState::Stable;
        return Ok(Some(Closed { id, flipped: false }));
    }
    if source_was_asked {
        return node_on_source(source, target);
    }
    // The source has no part in the move: it has not taken it over, or has lost its mark by hand,
    // and then keys may have travelled.
    let id = target.state.move_id().ok_or(SetSlotError::NoSuchMove)?;
    if target.has_keys {
        return Err(SetSlotError::KeysSplit);
    }
    target.state = SlotState::Stable;
    Ok(Some(Closed { id, flipped: false }))
}

/// The first hold of an abort: both sides change at once, so that no late ASK is honoured.
pub(crate) fn abort_begin(
    source: &mut Side,
    target: &mut Side,
    id: MoveId,
) -> Result<(), SetSlotError> {
    if aborting_pair(source, target) == Some(id) {
        return Ok(());
    }
    if flipped_pair(source, target) == Some(id) {
        return Err(SetSlotError::Flipped);
    }
    if open_pair(source, target) != Some(id) {
        return Err(SetSlotError::NoSuchMove);
    }
    source.state = SlotState::Aborting { target: target.node, id };
    target.state = SlotState::Retired { source: source.node, id };
    Ok(())
}

/// The last hold of an abort: the target is empty, both marks go.
pub(crate) fn abort_end(
    source: &mut Side,
    target: &mut Side,
    id: MoveId,
) -> Result<Closed, SetSlotError> {
    check_pull_back(source, target, id)?;
    if target.has_keys {
        return Err(SetSlotError::KeysLeft { target: target.node });
    }
    source.state = SlotState::Stable;
    target.state = SlotState::Stable;
    Ok(Closed { id, flipped: false })
}

/// What a node did with a claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Heard {
    /// It was known already.
    Known,
    /// The node knows better, and answers with what it knows.
    Stale(SlotOwner),
    /// The view was taken over.
    Adopted,
    /// The view was taken over and the finished move closed.
    Closed(Closed),
    /// It contradicts an owner that did not give the slot away; kept for inspection.
    Conflict,
}

/// A claim arrives: the greater epoch wins, but no claim takes a slot from its owner by force.
///
/// `target_view` is the present view of the node to which this side is migrating, if it is.
pub(crate) fn hear(side: &mut Side, claim: SlotOwner, target_view: Option<SlotOwner>) -> Heard {
    if claim == side.view {
        return Heard::Known;
    }
    if claim.epoch < side.view.epoch {
        return Heard::Stale(side.view);
    }
    if claim.epoch == side.view.epoch {
        // Only bindings by hand share an epoch. No answer: two owners would answer for ever.
        return Heard::Conflict;
    }
    if !side.owns() {
        // On an importing node the view is taken over, and the mark stays.
        side.view = claim;
        return Heard::Adopted;
    }
    let target_flipped = target_view.is_some_and(|view| view.epoch > side.view.epoch);
    match side.state {
        SlotState::Migrating { id, .. } if target_flipped && !side.has_keys => {
            side.view = claim;
            side.state = SlotState::Stable;
            Heard::Closed(Closed { id, flipped: true })
        }
        SlotState::Stable
        | SlotState::Migrating { .. }
        | SlotState::Importing { .. }
        | SlotState::Aborting { .. }
        | SlotState::Retired { .. }
        | SlotState::Reserved { .. } => Heard::Conflict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Epoch;

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    fn by(owner: usize, epoch: u64) -> SlotOwner {
        SlotOwner::new(Some(node(owner)), Epoch::new(epoch))
    }

    /// Nodes 0, 1 and 2; node 0 owns the slot since epoch 1.
    fn three() -> [Side; 3] {
        [0, 1, 2].map(|index| Side {
            node: node(index),
            view: by(0, 1),
            state: SlotState::Stable,
            has_keys: false,
        })
    }

    fn opened() -> [Side; 3] {
        let [mut a, mut b, c] = three();
        importing(&mut b, a.node, MoveId::new(1)).unwrap();
        migrating(&mut a, &mut b).unwrap();
        [a, b, c]
    }

    #[test]
    fn a_whole_move_goes_through() {
        let [mut a, mut b, _] = opened();
        assert_eq!(check_batch(&a, &b, MoveId::new(1)), Ok(()));
        assert_eq!(flip(&a, &mut b, || by(1, 2)), Ok(MoveId::new(1)));
        assert!(a.owns() && b.owns(), "the source still answers ASK until it learns");
        let closed = Closed { id: MoveId::new(1), flipped: true };
        assert_eq!(node_on_source(&mut a, &b), Ok(Some(closed)));
        assert!(!a.owns());
        assert_eq!(a.state, SlotState::Stable);
        assert_eq!(node_on_source(&mut a, &b), Ok(None), "twice is harmless");
    }

    #[test]
    fn a_move_to_oneself_or_from_a_stranger_is_refused() {
        let [mut a, mut b, mut c] = three();
        let id = MoveId::new(1);
        assert_eq!(importing(&mut b, node(1), id), Err(SetSlotError::MoveToSelf { node: node(1) }));
        let stranger = SetSlotError::SourceNotOwner { source_node: node(2) };
        assert_eq!(importing(&mut b, node(2), id), Err(stranger));
        let owner = SetSlotError::AlreadyOwner { node: node(0) };
        assert_eq!(importing(&mut a, node(1), id), Err(owner));
        assert_eq!(migrating(&mut c, &mut b), Err(SetSlotError::NotOwner { node: node(2) }));
        let closed_target = SetSlotError::TargetNotImporting { target: node(1) };
        assert_eq!(migrating(&mut a, &mut b), Err(closed_target), "ASK would loop");
    }

    #[test]
    fn a_mark_is_never_overwritten() {
        let [mut a, mut b, mut c] = opened();
        let open = |index| SetSlotError::SlotIsOpen { node: node(index), id: MoveId::new(1) };
        assert_eq!(importing(&mut b, node(0), MoveId::new(2)), Err(open(1)));
        importing(&mut c, node(0), MoveId::new(3)).unwrap();
        assert_eq!(migrating(&mut a, &mut c), Err(open(0)));
    }

    #[test]
    fn the_target_flips_only_when_the_source_is_migrating_and_empty() {
        let [a, mut b, _] = three();
        assert_eq!(flip(&a, &mut b, || by(1, 2)), Err(SetSlotError::WrongOrder));
        importing(&mut b, a.node, MoveId::new(1)).unwrap();
        assert_eq!(flip(&a, &mut b, || by(1, 2)), Err(SetSlotError::WrongOrder));
        let [mut a, mut b, _] = opened();
        assert_eq!(node_on_source(&mut a, &b), Err(SetSlotError::WrongOrder));
        a.has_keys = true;
        let held = SetSlotError::SourceHoldsKeys { source_node: node(0) };
        assert_eq!(flip(&a, &mut b, || by(1, 2)), Err(held));
    }

    #[test]
    fn after_the_flip_a_move_can_only_be_completed() {
        let [mut a, mut b, _] = opened();
        flip(&a, &mut b, || by(1, 2)).unwrap();
        let id = MoveId::new(1);
        assert_eq!(abort_begin(&mut a, &mut b, id), Err(SetSlotError::Flipped));
        let closed = Closed { id, flipped: true };
        assert_eq!(stable(&mut a, &mut b), Ok(Some(closed)), "STABLE acts as NODE");
        assert!(!a.owns() && b.owns());
    }

    #[test]
    fn node_on_a_source_that_has_keys_closes_nothing() {
        let [mut a, mut b, _] = opened();
        // As after NODE on the target of a Redis server, which asks no source.
        (b.view, b.state) = (by(1, 2), SlotState::Stable);
        a.has_keys = true;
        let held = SetSlotError::SourceHoldsKeys { source_node: node(0) };
        assert_eq!(node_on_source(&mut a, &b), Err(held));
        assert_eq!(stable(&mut a, &mut b), Err(held));
        assert_eq!(ordinary_move(&a, &b), None, "a repair may");
        a.has_keys = false;
        assert_eq!(ordinary_move(&a, &b), Some(MoveId::new(1)));
        assert!(node_on_source(&mut a, &b).is_ok());
    }

    #[test]
    fn stable_on_a_bystander_leaves_the_pair_alone() {
        let [mut a, mut b, mut c] = opened();
        c.state = SlotState::Importing { source: node(0), id: MoveId::new(9) };
        let before = a;
        stable(&mut c, &mut a).unwrap();
        assert_eq!(c.state, SlotState::Stable);
        assert_eq!(a, before);
        b.has_keys = true;
        assert_eq!(stable(&mut a, &mut b), Err(SetSlotError::KeysSplit));
        assert_eq!(stable(&mut b, &mut a), Err(SetSlotError::KeysSplit));
        b.has_keys = false;
        stable(&mut b, &mut a).unwrap();
        assert_eq!((a.state, b.state), (SlotState::Stable, SlotState::Stable));
    }

    #[test]
    fn keys_at_a_target_whose_source_has_no_part_in_the_move_are_never_dropped() {
        let [mut a, mut b, _] = opened();
        a.state = SlotState::Stable;
        b.has_keys = true;
        assert_eq!(stable(&mut b, &mut a), Err(SetSlotError::KeysSplit));
        b.state = SlotState::Stable;
        let holds = SetSlotError::TargetHoldsKeys { target: b.node };
        assert_eq!(importing(&mut b, a.node, MoveId::new(2)), Err(holds));
        b.has_keys = false;
        importing(&mut b, a.node, MoveId::new(2)).unwrap();
        let closed = Closed { id: MoveId::new(2), flipped: false };
        assert_eq!(stable(&mut b, &mut a), Ok(Some(closed)));
    }

    #[test]
    fn an_abort_retires_both_sides_in_one_hold() {
        let [mut a, mut b, _] = opened();
        let id = MoveId::new(1);
        assert_eq!(abort_begin(&mut a, &mut b, MoveId::new(7)), Err(SetSlotError::NoSuchMove));
        b.has_keys = true;
        abort_begin(&mut a, &mut b, id).unwrap();
        abort_begin(&mut a, &mut b, id).unwrap();
        assert_eq!(check_batch(&a, &b, id), Err(SetSlotError::NoSuchMove));
        assert_eq!(check_pull_back(&a, &b, id), Ok(()));
        assert_eq!(flip(&a, &mut b, || by(1, 2)), Err(SetSlotError::WrongOrder));
        let left = SetSlotError::KeysLeft { target: node(1) };
        assert_eq!(abort_end(&mut a, &mut b, id), Err(left));
        b.has_keys = false;
        assert_eq!(abort_end(&mut a, &mut b, id), Ok(Closed { id, flipped: false }));
        assert!(a.owns());
    }

    #[test]
    fn a_claim_is_compared_by_epoch_and_never_by_force() {
        let [mut a, mut b, mut c] = opened();
        assert_eq!(hear(&mut c, by(0, 1), None), Heard::Known);
        assert_eq!(hear(&mut c, by(2, 1), None), Heard::Conflict, "two bindings by hand");
        assert_eq!(hear(&mut c, by(1, 2), None), Heard::Adopted);
        assert_eq!(hear(&mut c, by(0, 1), None), Heard::Stale(by(1, 2)));
        assert_eq!(hear(&mut a, by(2, 2), Some(b.view)), Heard::Conflict, "nobody flipped");
        let mark = b.state;
        assert_eq!(hear(&mut b, by(2, 5), None), Heard::Adopted);
        assert_eq!(b.state, mark, "an importing mark survives every claim");
        let [mut a, mut b, _] = opened();
        flip(&a, &mut b, || by(1, 2)).unwrap();
        let closed = Closed { id: MoveId::new(1), flipped: true };
        assert_eq!(hear(&mut a, by(1, 2), Some(b.view)), Heard::Closed(closed));
        assert!(!a.owns());
    }
}
