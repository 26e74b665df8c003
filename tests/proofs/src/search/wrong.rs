//! What the earlier wordings do instead: each bypasses a transition of the engine, or forces what
//! it sees.

use crate::migration;
use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::topology::NodeId;

use super::admin::AdminStep;
use super::travel::Keys;
use super::verbs::Verb;
use super::wording::Wording;
use super::world::Entry;
use super::world::Message;
use super::world::World;
use super::world::raise;

impl World {
    /// Does the step as an earlier wording has it; nothing when that wording has no word on it.
    pub(crate) fn wrongly(&mut self, step: AdminStep, wording: Wording) -> Option<Verb> {
        Some(match (wording, step) {
            (Wording::ImportingOverwrites, AdminStep::Importing { target, source }) => {
                self.importing_over(target, source)
            }
            (Wording::MigratingOverwrites, AdminStep::Migrating { source, target }) => {
                self.migrating_over(source, target)
            }
            (Wording::MigratingToAnybody, AdminStep::Migrating { source, target }) => {
                self.migrating_to_anybody(source, target)
            }
            (Wording::ClaimClearsTheMark, AdminStep::Migrating { source, target }) => {
                self.migrating_silently(source, target)
            }
            (Wording::FlipOfALoneImporter, AdminStep::Take { target }) => self.take_alone(target),
            (Wording::StableAfterTheFlip, AdminStep::Stable { node }) => self.stable_late(node)?,
            (Wording::StableClearsThePeer, AdminStep::Stable { node }) => {
                self.stable_for_two(node)?
            }
            (Wording::NodeDeposes, AdminStep::Yield { node, owner }) => {
                self.depose(node, owner);
                Ok(())
            }
            (Wording::AbortAfterTheFlip, AdminStep::AbortBegin { source, target, id }) => {
                self.abort_late((source, target), id)?
            }
            (
                Wording::AbortOfTheSourceFirst | Wording::AbortOfTheTargetFirst,
                AdminStep::AbortBegin { source, target, id },
            ) => self.abort_half((self.marks(source), self.marks(target)), id, wording),
            (
                Wording::BatchSendsTheDead | Wording::BatchInTwoHolds,
                AdminStep::Batch { source, id, keys },
            ) => self.batch_wrongly(source, id, keys, wording),
            (Wording::HandoverFromAMark, AdminStep::HandOver { source, target }) => {
                self.hand_over_past_a_mark((source, target), source)
            }
            (Wording::HandoverOntoAMark, AdminStep::HandOver { source, target }) => {
                self.hand_over_past_a_mark((source, target), target)
            }
            (Wording::AddWithoutTheWord, AdminStep::Add { node }) => self.add_by_view(node),
            (
                Wording::OneEpochForANode | Wording::OneEpochForASource,
                AdminStep::OtherSlotFlips { owner, at },
            ) => self.other_slot_flips(owner, at, wording),
            _ => return None,
        })
    }

    fn importing_over(&mut self, target: NodeId, source: NodeId) -> Verb {
        let mut side = Side { state: SlotState::Stable, ..self.marks(target) };
        migration::importing(&mut side, source, self.drawn_id())?;
        self.put(&side);
        Ok(())
    }

    fn migrating_over(&mut self, source: NodeId, target: NodeId) -> Verb {
        self.on_pair((source, target), |source, target| {
            source.state = SlotState::Stable;
            migration::migrating(source, target).map(drop)
        })
    }

    fn migrating_to_anybody(&mut self, source: NodeId, target: NodeId) -> Verb {
        let state = SlotState::Importing { source, id: self.drawn_id() };
        self.on_pair((source, target), |source, target| {
            migration::migrating(source, &mut Side { state, ..*target }).map(drop)
        })
    }

    /// MIGRATING tells the target of the owner's claim, so that the claim cannot come later; here
    /// it does not.
    fn migrating_silently(&mut self, source: NodeId, target: NodeId) -> Verb {
        let believed = self.node(target).view;
        self.migrating(source, target)?;
        self.node_mut(target).view = believed;
        Ok(())
    }

    fn take_alone(&mut self, target: NodeId) -> Verb {
        let SlotState::Importing { source, id } = self.node(target).state else {
            return Err(SetSlotError::WrongOrder);
        };
        let own = self.drawn(Some(target));
        let state = SlotState::Migrating { target, id };
        self.on_pair((target, source), |target, source| {
            migration::flip(&Side { state, ..*source }, target, || own)
        })?;
        self.word = own;
        Ok(())
    }

    fn stable_late(&mut self, node: NodeId) -> Option<Verb> {
        let SlotState::Migrating { target, .. } = self.node(node).state else { return None };
        if self.node(target).view.epoch <= self.node(node).view.epoch {
            return None;
        }
        self.node_mut(node).state = SlotState::Stable;
        Some(Ok(()))
    }

    fn stable_for_two(&mut self, node: NodeId) -> Option<Verb> {
        let SlotState::Importing { source, .. } = self.node(node).state else { return None };
        self.node_mut(node).state = SlotState::Stable;
        self.node_mut(source).state = SlotState::Stable;
        Some(Ok(()))
    }

    fn depose(&mut self, node: NodeId, owner: NodeId) {
        let known = self.node(owner).view;
        let deposed = self.node_mut(node);
        (deposed.view, deposed.owned) = (known, false);
    }

    fn abort_late(&mut self, (source, target): (NodeId, NodeId), id: MoveId) -> Option<Verb> {
        if self.node(target).state.move_id() == Some(id) {
            return None;
        }
        Some(self.on_marks((source, target), |one, other| {
            other.state = SlotState::Importing { source, id };
            migration::abort_begin(one, other, id)
        }))
    }

    /// One of the two holds in which earlier wordings turned the marks round.
    fn abort_half(&mut self, (source, target): (Side, Side), id: MoveId, wording: Wording) -> Verb {
        let is_first = migration::check_batch(&source, &target, id).is_ok();
        let source_turns = is_first == (wording == Wording::AbortOfTheSourceFirst);
        let turned = if source_turns { source } else { target };
        let state = match turned.state {
            SlotState::Migrating { target, id } => SlotState::Aborting { target, id },
            SlotState::Importing { source, id } => SlotState::Retired { source, id },
            SlotState::Stable
            | SlotState::Aborting { .. }
            | SlotState::Retired { .. }
            | SlotState::Reserved { .. } => return Err(SetSlotError::NoSuchMove),
        };
        if turned.state.move_id() != Some(id) {
            return Err(SetSlotError::NoSuchMove);
        }
        self.put(&Side { state, ..turned });
        Ok(())
    }

    fn batch_wrongly(&mut self, source: NodeId, id: MoveId, keys: Keys, wording: Wording) -> Verb {
        let before = self.node(source).entries;
        self.batch(source, id, keys)?;
        let Some(target) = self.node(source).state.peer() else { return Ok(()) };
        for key in keys.iter() {
            if wording == Wording::BatchInTwoHolds {
                self.node_mut(source).entries[key] = before[key];
            } else if before[key] == Entry::Dead {
                self.node_mut(target).entries[key] = Entry::Dead;
            }
        }
        Ok(())
    }

    fn hand_over_past_a_mark(&mut self, sides: (NodeId, NodeId), marked: NodeId) -> Verb {
        let mark = self.node(marked).state;
        self.node_mut(marked).state = SlotState::Stable;
        let handed = self.hand_over(sides, None);
        self.node_mut(marked).state = mark;
        handed
    }

    fn add_by_view(&mut self, node: NodeId) -> Verb {
        if let Some(source_node) = self.node(node).view.owner {
            return Err(SetSlotError::AlreadyOwner { node: source_node });
        }
        self.word.owner = None;
        self.reserve_unowned(node)
    }

    /// What a claim does to a node's keys and mark besides.
    pub(crate) fn hear_wrongly(&mut self, Message { to, claim }: Message, wording: Wording) {
        let node = self.node_mut(to);
        let importing = matches!(node.state, SlotState::Importing { .. });
        if wording == Wording::StaleClaimDeletes && claim.epoch < node.view.epoch {
            node.clear();
        }
        if wording == Wording::ClaimClearsTheMark && importing && claim.epoch > node.view.epoch {
            node.state = SlotState::Stable;
        }
    }

    /// Another slot flips to `owner`, whose claims to all of its slots carry the new epoch from now
    /// on, and `at` hears of it, perhaps `owner` itself.
    fn other_slot_flips(&mut self, owner: NodeId, at: NodeId, wording: Wording) -> Verb {
        let news = self.drawn(Some(owner));
        let is_meant = (at == owner) == (wording == Wording::OneEpochForASource);
        if !is_meant || self.node(at).view.owner != Some(owner) {
            return Err(SetSlotError::NotOwner { node: owner });
        }
        raise(&mut self.node_mut(at).view, news);
        if self.word.owner == Some(owner) {
            raise(&mut self.node_mut(owner).view, news);
            raise(&mut self.word, news);
        }
        Ok(())
    }
}
