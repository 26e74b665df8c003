//! `Finding`: what is not as it should be, read off what all nodes hold of a slot, pure.

use std::fmt;

use crate::migration::MoveId;
use crate::migration::SlotState;
use crate::node::Conflict;
use crate::node::HandoverId;
use crate::node::HandoverPhase;
use crate::node::Holding;
use crate::node::MovePhase;
use crate::slot::Slot;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

/// One thing that is open, or not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A move is open. Its driver may be at work or dead; nobody can tell.
    OpenMove {
        /// The slot.
        slot: Slot,
        /// The move.
        id: MoveId,
        /// Where the slot comes from.
        source: NodeId,
        /// Where the slot goes.
        target: NodeId,
        /// How far its marks say that it has come.
        phase: MovePhase,
    },
    /// The handover of a set of slots is open. Its driver may be at work or dead.
    OpenHandover {
        /// The first slot of the set.
        slot: Slot,
        /// The handover.
        id: HandoverId,
        /// How far it has come.
        phase: HandoverPhase,
    },
    /// A slot is reserved, but for no handover on record: ADDSLOTS or DELSLOTS is at work.
    Reserved {
        /// The slot.
        slot: Slot,
        /// The node that is marked.
        node: NodeId,
        /// The id of the reservation.
        id: MoveId,
    },
    /// A mark that belongs to no move which its own verbs could end.
    StrayMark {
        /// The slot.
        slot: Slot,
        /// The node that is marked.
        node: NodeId,
        /// Its mark.
        state: SlotState,
    },
    /// No node's header owns the slot: nobody serves it.
    Uncovered {
        /// The slot.
        slot: Slot,
    },
    /// Several headers own the slot, and serve it.
    DoubleClaim {
        /// The slot.
        slot: Slot,
        /// The nodes, by id.
        nodes: Vec<NodeId>,
    },
    /// Live keys lie on a node that neither owns the slot nor imports it: nobody finds them.
    OrphanedKeys {
        /// The slot.
        slot: Slot,
        /// Where they lie.
        node: NodeId,
        /// How many they are.
        keys: usize,
    },
    /// The cluster's word for a slot is not what its owner's header says.
    Unrecorded {
        /// The slot.
        slot: Slot,
        /// What the owner's view says.
        owner: SlotOwner,
        /// What the cluster's word says.
        recorded: SlotOwner,
    },
    /// Two nodes name different owners under one epoch.
    EpochClash {
        /// The slot.
        slot: Slot,
        /// The node that contradicts the owner.
        node: NodeId,
        /// What its view says.
        view: SlotOwner,
        /// What the owner's view says.
        owner: SlotOwner,
    },
    /// A node's view of a slot is not its owner's.
    StaleView {
        /// The slot.
        slot: Slot,
        /// The node.
        node: NodeId,
        /// What its view says.
        view: SlotOwner,
        /// What the owner's view says.
        owner: SlotOwner,
    },
    /// A claim that contradicted an owner, and was kept.
    KeptConflict {
        /// The node that kept it.
        node: NodeId,
        /// The claim, and what the node knew.
        conflict: Conflict,
    },
}

impl Finding {
    /// The slot that it is about.
    pub fn slot(&self) -> Slot {
        match *self {
            Self::OpenMove { slot, .. }
            | Self::OpenHandover { slot, .. }
            | Self::Reserved { slot, .. }
            | Self::StrayMark { slot, .. }
            | Self::Uncovered { slot }
            | Self::DoubleClaim { slot, .. }
            | Self::OrphanedKeys { slot, .. }
            | Self::Unrecorded { slot, .. }
            | Self::EpochClash { slot, .. }
            | Self::StaleView { slot, .. } => slot,
            Self::KeptConflict { conflict, .. } => conflict.claim.slot,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}: ", self.slot())?;
        match self {
            Self::OpenMove { id, source, target, phase, .. } => {
                write!(f, "move {id} from {source} to {target} is open: {phase:?}")
            }
            Self::OpenHandover { id, phase, .. } => {
                write!(f, "handover {id} of this and others is open: {phase:?}")
            }
            Self::Reserved { node, id, .. } => write!(f, "reserved on {node} under {id}"),
            Self::StrayMark { node, state, .. } => {
                write!(f, "{node} has a mark that belongs to no move: {state:?}")
            }
            Self::Uncovered { .. } => write!(f, "nobody owns it"),
            Self::DoubleClaim { nodes, .. } => {
                write!(f, "owned by")?;
                nodes.iter().enumerate().try_for_each(|(index, node)| {
                    write!(f, "{} {node}", if index == 0 { "" } else { " and by" })
                })
            }
            Self::OrphanedKeys { node, keys, .. } => {
                write!(f, "{keys} keys lie on {node}, where nobody finds them")
            }
            Self::Unrecorded { owner, recorded, .. } => {
                write!(f, "{}, but the cluster's word says {}", said(*owner), said(*recorded))
            }
            Self::EpochClash { node, view, owner, .. } => {
                write!(f, "{}, but {node} says {}", said(*owner), said(*view))
            }
            Self::StaleView { node, view, owner, .. } => {
                write!(f, "{}, but {node} knows {}", said(*owner), said(*view))
            }
            Self::KeptConflict { node, conflict } => {
                let (claim, kept) = (said(conflict.claim.ownership), said(conflict.kept));
                write!(f, "{node} heard that {claim}, and kept that {kept}")
            }
        }
    }
}

fn said(known: SlotOwner) -> String {
    match known.owner {
        Some(owner) => format!("{owner} owns it since epoch {}", known.epoch),
        None => format!("nobody owns it since epoch {}", known.epoch),
    }
}

/// What is known of one slot all over the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Look {
    pub(super) slot: Slot,
    /// The cluster's word.
    pub(super) recorded: SlotOwner,
    /// What those nodes hold that have to do with the slot, by id.
    pub(super) holdings: Vec<Holding>,
    /// The views that differ from the cluster's word.
    pub(super) views: Vec<(NodeId, SlotOwner)>,
    /// The moves that are open by their records and of which a mark is left.
    pub(super) records: Vec<Recorded>,
}

/// What the record of an open move says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Recorded {
    pub(super) id: MoveId,
    pub(super) source: NodeId,
    pub(super) target: NodeId,
    /// Its source was never marked, and all that lies at its target are copies of keys.
    pub(super) is_prepared: bool,
}

/// A move that its own verbs can end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpenMove {
    pub(super) id: MoveId,
    pub(super) source: NodeId,
    pub(super) target: NodeId,
    pub(super) phase: MovePhase,
}

impl Look {
    fn at(&self, node: NodeId) -> Option<&Holding> {
        let place = self.holdings.binary_search_by_key(&node, |holding| holding.node);
        place.ok().map(|place| &self.holdings[place])
    }

    /// The move to which a node's mark belongs, if its own verbs can end it: it is on record, and
    /// the other side is marked to match, or not at all where that is a step of a move.
    pub(super) fn open_move(&self, of: &Holding) -> Option<OpenMove> {
        let open = self.open_by_marks(of)?;
        self.recorded_as(open).map(|_| open)
    }

    fn is_recorded(&self, id: MoveId) -> bool {
        self.records.iter().any(|known| known.id == id)
    }

    fn recorded_as(&self, open: OpenMove) -> Option<&Recorded> {
        let sides = (open.id, open.source, open.target);
        self.records.iter().find(|known| (known.id, known.source, known.target) == sides)
    }

    /// Whether only the target of a move is marked because its source comes next: no key has left
    /// the source, so that what lies at the target, if anything, are copies.
    fn is_prepared(&self, open: OpenMove, source: &Holding) -> bool {
        let known = self.recorded_as(open);
        source.state.move_id() != Some(open.id) && known.is_some_and(|known| known.is_prepared)
    }

    fn open_by_marks(&self, of: &Holding) -> Option<OpenMove> {
        let peer = self.at(of.state.peer()?).filter(|peer| peer.node != of.node)?;
        let id = of.state.move_id()?;
        let as_source = |phase| OpenMove { id, source: of.node, target: peer.node, phase };
        let as_target = |phase| OpenMove { id, source: peer.node, target: of.node, phase };
        let me = of.node;
        match of.state {
            SlotState::Migrating { .. } if of.owns => {
                let has_flipped = peer.owns && peer.view.epoch > of.view.epoch;
                if peer.state == (SlotState::Importing { source: me, id }) && !peer.owns {
                    Some(as_source(MovePhase::Migrating))
                } else if has_flipped && peer.state.move_id() != Some(id) && of.live_keys == 0 {
                    Some(as_source(MovePhase::Flipped))
                } else {
                    None
                }
            }
            SlotState::Aborting { .. } if of.owns => {
                let is_pair = peer.state == (SlotState::Retired { source: me, id });
                (is_pair && !peer.owns).then(|| as_source(MovePhase::Aborting))
            }
            SlotState::Importing { .. } if peer.owns && !of.owns => {
                let prepared = as_target(MovePhase::Importing);
                if peer.state == (SlotState::Migrating { target: me, id }) {
                    Some(as_target(MovePhase::Migrating))
                } else {
                    self.is_prepared(prepared, peer).then_some(prepared)
                }
            }
            SlotState::Retired { .. } if peer.owns && !of.owns => {
                let is_pair = peer.state == (SlotState::Aborting { target: me, id });
                is_pair.then(|| as_target(MovePhase::Aborting))
            }
            SlotState::Stable
            | SlotState::Migrating { .. }
            | SlotState::Importing { .. }
            | SlotState::Aborting { .. }
            | SlotState::Retired { .. }
            | SlotState::Reserved { .. } => None,
        }
    }

    /// The nodes whose headers own the slot, by id, without the source of a move that has flipped.
    fn claimants(&self) -> impl Iterator<Item = &Holding> {
        self.holdings.iter().filter(|holding| holding.owns && !self.has_given_away(holding))
    }

    fn has_given_away(&self, holding: &Holding) -> bool {
        self.open_move(holding).is_some_and(|open| open.phase == MovePhase::Flipped)
    }

    /// The node that is to own the slot: of those that do, the one with the greatest epoch.
    pub(super) fn owner(&self) -> Option<&Holding> {
        let is_recorded = |holding: &Holding| self.recorded.owner == Some(holding.node);
        self.claimants().max_by_key(|holding| {
            (holding.view.epoch, is_recorded(holding), std::cmp::Reverse(holding.node))
        })
    }

    /// The node that the cluster's word names, when it claims the slot and is not to own it.
    /// Clients go there, so that what it has must be found from the moment it owns it no more.
    pub(super) fn recorded_rival(&self) -> Option<NodeId> {
        let owner = self.owner()?.node;
        let named = self.recorded.owner.filter(|&named| named != owner)?;
        self.claimants().find(|claimant| claimant.node == named).map(|claimant| claimant.node)
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.holdings.iter().any(|holding| matches!(holding.state, SlotState::Reserved { .. }))
    }

    /// Whether live keys lie where nobody finds them.
    fn is_orphanage(&self, holding: &Holding) -> bool {
        holding.live_keys > 0 && !holding.owns && self.open_move(holding).is_none()
    }

    /// Whether a node has something of the slot to which it has no right.
    pub(super) fn is_stray(&self, holding: &Holding) -> bool {
        let has_mark = holding.state.is_open() && self.open_move(holding).is_none();
        has_mark || self.is_orphanage(holding)
    }

    /// Everything that is to be said of the slot.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let slot = self.slot;
        let mut found = Vec::new();
        for holding in &self.holdings {
            let node = holding.node;
            match (holding.state, self.open_move(holding)) {
                (SlotState::Stable, _) => {}
                // The handover speaks for all its slots.
                (SlotState::Reserved { id }, _) if self.is_recorded(id) => {}
                (SlotState::Reserved { id }, _) => {
                    found.push(Finding::Reserved { slot, node, id });
                }
                (_, Some(OpenMove { id, source, target, phase })) => {
                    // Of two marks the source's speaks.
                    if source == node || phase == MovePhase::Importing {
                        found.push(Finding::OpenMove { slot, id, source, target, phase });
                    }
                }
                (state, None) => found.push(Finding::StrayMark { slot, node, state }),
            }
            if self.is_orphanage(holding) {
                found.push(Finding::OrphanedKeys { slot, node, keys: holding.live_keys });
            }
        }
        let claimants: Vec<_> = self.claimants().collect();
        match claimants[..] {
            [] if !self.is_reserved() => found.push(Finding::Uncovered { slot }),
            [] => {}
            [owner] => self.compare_views(owner, &mut found),
            [..] => {
                let nodes = claimants.iter().map(|claimant| claimant.node).collect();
                found.push(Finding::DoubleClaim { slot, nodes });
            }
        }
        found
    }

    fn compare_views(&self, of_owner: &Holding, found: &mut Vec<Finding>) {
        let (slot, owner) = (self.slot, of_owner.view);
        if owner != self.recorded {
            found.push(Finding::Unrecorded { slot, owner, recorded: self.recorded });
        }
        let has_to_hear = |node| self.at(node).is_none_or(|holding| !self.has_given_away(holding));
        for &(node, view) in &self.views {
            if view == owner || node == of_owner.node || !has_to_hear(node) {
                continue;
            }
            found.push(if view.epoch == owner.epoch {
                Finding::EpochClash { slot, node, view, owner }
            } else {
                Finding::StaleView { slot, node, view, owner }
            });
        }
    }
}
