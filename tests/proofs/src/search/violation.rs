//! What must never be found.

use std::fmt;

use crate::topology::NodeId;

use super::world::KeyIndex;
use super::world::Op;

/// What is wrong with a state, or with the hold that led to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Violation {
    /// A call met something else than what was acknowledged last.
    Read { key: KeyIndex, at: NodeId },
    /// A live key has no home.
    Lost(KeyIndex),
    /// A live key has two homes, or a removed one still has one.
    SecondHome(KeyIndex),
    /// Two nodes own the slot, and neither has given it away.
    TwoOwners(NodeId, NodeId),
    /// The cluster's word names a node that does not own the slot.
    NoOwner,
    /// A mark contradicts the mark of its peer, or another mark with its id.
    Marks(NodeId),
    /// A node would not believe the owner's claim.
    DeafTo(NodeId),
    /// With movers stopped, a call is not answered.
    Unanswered(Op),
    /// With movers stopped, a call is sent on too often.
    TooManyHops(Op, u8),
    /// A call was sent on too often, movers or not.
    TooManyRedirects(u8),
    /// A move can be neither finished nor aborted by a driver that knows nothing but the marks.
    Irreparable(NodeId),
    /// Something happened that no rule allows for.
    Impossible(&'static str),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Read { key, at } => {
                write!(f, "{} is not as it was acknowledged, read at {}", Key(key), Name(at))
            }
            Self::Lost(key) => write!(f, "{} is lost", Key(key)),
            Self::SecondHome(key) => write!(f, "{} has a home too many", Key(key)),
            Self::TwoOwners(one, two) => write!(f, "{} and {} own the slot", Name(one), Name(two)),
            Self::NoOwner => f.write_str("the owner does not know that it is"),
            Self::Marks(node) => write!(f, "the mark of {} fits no other", Name(node)),
            Self::DeafTo(node) => write!(f, "{} never believes the owner", Name(node)),
            Self::Unanswered(op) => write!(f, "{op:?} is never answered"),
            Self::TooManyHops(op, hops) => write!(f, "{op:?} is answered after {hops} hops"),
            Self::TooManyRedirects(redirects) => write!(f, "a call was sent on {redirects} times"),
            Self::Irreparable(node) => write!(f, "nobody can end the move at {}", Name(node)),
            Self::Impossible(what) => write!(f, "{what} that cannot be"),
        }
    }
}

/// A node as the protocol's pages call them: A, B and so on.
pub(crate) struct Name(pub(crate) NodeId);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["A", "B", "C", "D"].get(self.0.index()).unwrap_or(&"?"))
    }
}

/// A key's name in a trace.
pub(crate) struct Key(pub(crate) KeyIndex);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["k", "l"].get(self.0).unwrap_or(&"?"))
    }
}
