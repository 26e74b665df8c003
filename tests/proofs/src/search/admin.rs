//! What operators do: verbs, batches and holds of an abort, ADDSLOTS and DELSLOTS.

use std::fmt;

use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::topology::NodeId;

use super::kind::Kind;
use super::travel::Keys;
use super::verbs::Verb;
use super::violation::Key;
use super::violation::Name;
use super::world::World;

/// One hold of an operator, any operator: nothing says who did what came before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AdminStep {
    Importing { target: NodeId, source: NodeId },
    Migrating { source: NodeId, target: NodeId },
    Take { target: NodeId },
    Yield { node: NodeId, owner: NodeId },
    Stable { node: NodeId },
    Batch { source: NodeId, id: MoveId, keys: Keys },
    AbortBegin { source: NodeId, target: NodeId, id: MoveId },
    AbortBack { source: NodeId, target: NodeId, id: MoveId, keys: Keys },
    HandOver { source: NodeId, target: NodeId },
    Reserve { source: NodeId, target: NodeId },
    HandOverReserved { source: NodeId, target: NodeId, id: MoveId },
    GiveUp { source: NodeId, target: NodeId, id: MoveId },
    Add { node: NodeId },
    Own { node: NodeId },
    Release { node: NodeId },
    Delete { node: NodeId },
    Disown { node: NodeId },
    Keep { node: NodeId },
    OtherSlotFlips { owner: NodeId, at: NodeId },
}

impl AdminStep {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Importing { .. } => Kind::Importing,
            Self::Migrating { .. } => Kind::Migrating,
            Self::Take { .. } => Kind::Take,
            Self::Yield { .. } => Kind::Yield,
            Self::Stable { .. } => Kind::Stable,
            Self::Batch { .. } => Kind::Batch,
            Self::AbortBegin { .. } => Kind::AbortBegin,
            Self::AbortBack { .. } => Kind::AbortBack,
            Self::HandOver { .. } => Kind::HandOver,
            Self::Reserve { .. } => Kind::Reserve,
            Self::HandOverReserved { .. } => Kind::HandOverReserved,
            Self::GiveUp { .. } => Kind::GiveUp,
            Self::Add { .. } => Kind::Add,
            Self::Own { .. } => Kind::Own,
            Self::Release { .. } => Kind::Release,
            Self::Delete { .. } => Kind::Delete,
            Self::Disown { .. } => Kind::Disown,
            Self::Keep { .. } => Kind::Keep,
            Self::OtherSlotFlips { .. } => Kind::OtherSlotFlips,
        }
    }

    /// Does it as the engine does. A refusal changes nothing.
    pub(crate) fn run(self, world: &mut World) -> Verb {
        match self {
            Self::Importing { target, source } => world.importing(target, source),
            Self::Migrating { source, target } => world.migrating(source, target),
            Self::Take { target } => world.take(target),
            Self::Yield { node, owner } => world.yield_to(node, owner),
            Self::Stable { node } => world.stable(node),
            Self::Batch { source, id, keys } => world.batch(source, id, keys),
            Self::AbortBegin { source, target, id } => world.abort_begin((source, target), id),
            Self::AbortBack { source, target, id, keys } => {
                world.abort_back((source, target), id, keys)
            }
            Self::HandOver { source, target } => world.hand_over((source, target), None),
            Self::Reserve { source, target } => world.reserve((source, target)),
            Self::HandOverReserved { source, target, id } => {
                world.hand_over((source, target), Some(id))
            }
            Self::GiveUp { source, target, id } => world.give_up((source, target), id),
            Self::Add { node } => world.reserve_unowned(node),
            Self::Own { node } => world.own_reserved(node),
            Self::Release { node } => world.release_reserved(node),
            Self::Delete { node } => world.reserve_owned(node),
            Self::Disown { node } => world.disown(node),
            Self::Keep { node } => world.keep_owned(node),
            // The engine has an epoch for each slot.
            Self::OtherSlotFlips { .. } => Err(SetSlotError::NoSuchMove),
        }
    }
}

impl fmt::Display for AdminStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Importing { target, source } => {
                write!(f, "IMPORTING at {} from {}", Name(target), Name(source))
            }
            Self::Migrating { source, target } => {
                write!(f, "MIGRATING at {} to {}", Name(source), Name(target))
            }
            Self::Take { target } => write!(f, "NODE at {}, the target", Name(target)),
            Self::Yield { node, owner } => {
                write!(f, "NODE at {}, naming {}", Name(node), Name(owner))
            }
            Self::Stable { node } => write!(f, "STABLE at {}", Name(node)),
            Self::Batch { source, keys, .. } => {
                write!(f, "a batch leaves {}:", Name(source))?;
                keys.iter().try_for_each(|key| write!(f, " {}", Key(key)))
            }
            Self::AbortBegin { source, target, .. } => {
                write!(f, "an abort turns {} and {} round", Name(source), Name(target))
            }
            Self::AbortBack { source, keys, .. } => {
                write!(f, "an abort takes back to {}:", Name(source))?;
                keys.iter().try_for_each(|key| write!(f, " {}", Key(key)))
            }
            Self::HandOver { source, target } => {
                write!(f, "handover from {} to {}", Name(source), Name(target))
            }
            Self::Reserve { source, target } => {
                write!(f, "a handover reserves {} and {}", Name(source), Name(target))
            }
            Self::HandOverReserved { source, target, .. } => {
                write!(f, "reserved handover from {} to {}", Name(source), Name(target))
            }
            Self::GiveUp { source, target, .. } => {
                write!(f, "a handover gives {} and {} up", Name(source), Name(target))
            }
            Self::Add { node } => write!(f, "ADDSLOTS reserves at {}", Name(node)),
            Self::Own { node } => write!(f, "ADDSLOTS at {} ends", Name(node)),
            Self::Release { node } => write!(f, "ADDSLOTS at {} gives up", Name(node)),
            Self::Delete { node } => write!(f, "DELSLOTS reserves at {}", Name(node)),
            Self::Disown { node } => write!(f, "DELSLOTS at {} ends", Name(node)),
            Self::Keep { node } => write!(f, "DELSLOTS at {} gives up", Name(node)),
            Self::OtherSlotFlips { owner, at } => {
                write!(f, "another slot flips to {}, and {} hears of it", Name(owner), Name(at))
            }
        }
    }
}
