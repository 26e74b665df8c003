//! What can happen: every action is one hold, of one token or of two.

use std::fmt;

use crate::topology::NodeId;

use super::admin::AdminStep;
use super::kind::Kind;
use super::setup::Setup;
use super::violation::Key;
use super::violation::Name;
use super::violation::Violation;
use super::wording::Wording;
use super::world::KeyIndex;
use super::world::Op;
use super::world::World;

/// One hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Admin(AdminStep),
    Send { from: NodeId, to: NodeId },
    Deliver { place: usize },
    Lose { place: usize },
    Expire { key: KeyIndex },
    Sweep { node: NodeId, key: KeyIndex },
    Call { client: usize, op: Op },
    GoOn { client: usize },
}

impl Action {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Admin(step) => step.kind(),
            Self::Send { .. } => Kind::Send,
            Self::Deliver { .. } => Kind::Deliver,
            Self::Lose { .. } => Kind::Lose,
            Self::Expire { .. } => Kind::Expire,
            Self::Sweep { .. } => Kind::Sweep,
            Self::Call { op, .. } => match op {
                Op::Get(_) => Kind::Get,
                Op::Set(_) => Kind::Set,
                Op::SetExpiring(_) => Kind::SetExpiring,
                Op::Remove(_) => Kind::Remove,
                Op::GetBoth => Kind::GetBoth,
                Op::SetBoth => Kind::SetBoth,
            },
            Self::GoOn { .. } => Kind::GoOn,
        }
    }

    pub(crate) fn is_call(self) -> bool {
        matches!(self, Self::Call { .. } | Self::GoOn { .. })
    }

    /// Does it. False when it was refused, which changes nothing.
    pub(crate) fn apply(self, world: &mut World, setup: &Setup) -> Result<bool, Violation> {
        let closed = self.kind().looks_at_the_gate() && world.is_gate_closed();
        let holds = closed && setup.wording != Wording::NoGate;
        if holds && world.late_verbs == 0 {
            return Ok(false);
        }
        let done = self.run(world, setup)?;
        if holds && done {
            world.late_verbs -= 1;
        }
        Ok(done)
    }

    fn run(self, world: &mut World, setup: &Setup) -> Result<bool, Violation> {
        match self {
            Self::Send { from, to } => Ok(world.send(from, to, setup)),
            Self::Deliver { place } => Ok(world.arrive(place, setup.wording)),
            Self::Lose { place } => Ok(world.messages[place].take().is_some()),
            Self::Expire { key } => Ok(world.expire(key, setup.wording)),
            Self::Sweep { node, key } => Ok(world.sweep(node, key)),
            Self::Call { client, op } => {
                world.begin(client, op);
                // A call is begun with its first hold, unless it reads the clock before.
                if setup.wording != Wording::ClockBeforeTheToken {
                    world.step(client, setup)?;
                }
                Ok(true)
            }
            Self::GoOn { client } => world.step(client, setup).map(|_| true),
            Self::Admin(step) => {
                let wrongly = world.wrongly(step, setup.wording);
                Ok(wrongly.unwrap_or_else(|| step.run(world)).is_ok())
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Admin(step) => step.fmt(f),
            Self::Send { from, to } => write!(f, "{} tells {}", Name(from), Name(to)),
            Self::Deliver { place } => write!(f, "message {place} arrives"),
            Self::Lose { place } => write!(f, "message {place} is lost"),
            Self::Expire { key } => write!(f, "{} expires", Key(key)),
            Self::Sweep { node, key } => write!(f, "{} is swept at {}", Key(key), Name(node)),
            Self::Call { client, op } => write!(f, "client {client}: {op:?}"),
            Self::GoOn { client } => write!(f, "client {client} goes on"),
        }
    }
}
