//! The rules that every reachable state is held to.

use crate::migration::MoveId;
use crate::migration::SlotState;
use crate::topology::NodeId;

use super::calls::Step;
use super::setup::Setup;
use super::violation::Violation;
use super::wording::Wording;
use super::world::Entry;
use super::world::KEYS;
use super::world::Message;
use super::world::Op;
use super::world::World;

/// How many holds a call gets before it counts as never answered.
const HOLDS_MAX: usize = 12;

impl World {
    /// Holds the state to every rule; returns the most hops that a call would need from here.
    pub(crate) fn check(&self, setup: &Setup) -> Result<u8, Violation> {
        self.check_homes()?;
        self.check_owners()?;
        let hops = self.check_answers(setup)?;
        self.check_ears(setup.wording)?;
        if setup.wording == Wording::Sound {
            // An earlier wording is caught by what it breaks, not by what it looks like.
            self.check_marks()?;
            self.check_repairs()?;
        }
        Ok(hops)
    }

    /// A live key has one home, and what has expired or was removed has none.
    pub(crate) fn check_homes(&self) -> Result<(), Violation> {
        for key in 0..KEYS {
            let entries = || self.nodes[..self.count].iter().map(|node| node.entries[key]);
            let live = entries().filter(|entry| entry.is_live()).count();
            if self.acknowledged[key] && !entries().any(Entry::is_current) {
                return Err(Violation::Lost(key));
            }
            if live > usize::from(self.acknowledged[key]) {
                return Err(Violation::SecondHome(key));
            }
        }
        Ok(())
    }

    /// At most one node owns the slot, and it is the one of the cluster's word.
    pub(crate) fn check_owners(&self) -> Result<(), Violation> {
        for node in self.ids().filter(|&node| self.node(node).owned && !self.has_flipped(node)) {
            let owner = self.word.owner;
            if owner != Some(node) {
                return Err(Violation::TwoOwners(node, owner.unwrap_or(node)));
            }
        }
        let Some(owner) = self.word.owner else { return Ok(()) };
        let knows = self.node(owner).owned && !self.has_flipped(owner);
        let between = matches!(self.node(owner).state, SlotState::Reserved { .. });
        if knows || between { Ok(()) } else { Err(Violation::NoOwner) }
    }

    /// Whether the node has given the slot away and has not heard of it: it has no key, and sends
    /// every call to its target.
    fn has_flipped(&self, node: NodeId) -> bool {
        let SlotState::Migrating { target, id } = self.node(node).state else { return false };
        let target = self.node(target);
        target.state.move_id() != Some(id) && target.view.epoch > self.node(node).view.epoch
    }

    /// Whether a reservation is that of a node alone, or of an owner and its target.
    fn is_well_reserved(&self, node: NodeId, id: MoveId) -> bool {
        let mark = SlotState::Reserved { id };
        let mut others = self.ids().filter(|&other| other != node);
        match others.find(|&other| self.node(other).state == mark) {
            Some(other) => self.node(other).owned != self.node(node).owned,
            None => !self.node(node).owned,
        }
    }

    /// Marks come in pairs with one id, but for an importer whose source has not taken the move
    /// over, a source that has flipped, and a node between two holds of ADDSLOTS or DELSLOTS.
    fn check_marks(&self) -> Result<(), Violation> {
        for node in self.ids() {
            let at = |peer: NodeId| self.node(peer).state;
            let fits = match self.node(node).state {
                SlotState::Stable => true,
                SlotState::Reserved { id } => self.is_well_reserved(node, id),
                SlotState::Migrating { target, id } => {
                    at(target) == SlotState::Importing { source: node, id }
                        || self.has_flipped(node)
                }
                SlotState::Importing { source, id } => {
                    let open = SlotState::Migrating { target: node, id };
                    at(source) == open || at(source).move_id() != Some(id)
                }
                SlotState::Aborting { target, id } => {
                    at(target) == SlotState::Retired { source: node, id }
                }
                SlotState::Retired { source, id } => {
                    at(source) == SlotState::Aborting { target: node, id }
                }
            };
            let id = self.node(node).state.move_id();
            let sharing = self.ids().filter(|&other| self.node(other).state.move_id() == id);
            if !fits || id.is_some() && sharing.count() > 2 {
                return Err(Violation::Marks(node));
            }
        }
        Ok(())
    }

    /// Whoever hears the owner's claim believes it, so that a lost message heals.
    fn check_ears(&self, wording: Wording) -> Result<(), Violation> {
        let Some(owner) = self.word.owner.filter(|&owner| self.node(owner).owned) else {
            return Ok(());
        };
        for node in self.ids().filter(|&node| node != owner) {
            let mut after = *self;
            let claim = self.node(owner).view;
            after.deliver(Message { to: node, claim }, wording);
            if after.node(node).view != claim {
                return Err(Violation::DeafTo(node));
            }
        }
        Ok(())
    }

    /// With movers stopped, every call that is made or goes on is answered soon.
    fn check_answers(&self, setup: &Setup) -> Result<u8, Violation> {
        let mut hops = 0;
        for client in 0..setup.clients {
            if let Some(call) = self.clients[client].call {
                hops = hops.max(self.hops_of(client, call.op, setup)?);
                continue;
            }
            for op in [Op::Get(0), Op::Get(1), Op::GetBoth] {
                let mut asked = *self;
                asked.begin(client, op);
                hops = hops.max(asked.hops_of(client, op, setup)?);
            }
        }
        Ok(hops)
    }

    /// How often a call is sent on before it is served.
    fn hops_of(mut self, client: usize, op: Op, setup: &Setup) -> Result<u8, Violation> {
        let has_asked = self.clients[client].call.is_some_and(|call| call.asked_around);
        let mut hops = 0;
        for _ in 0..HOLDS_MAX {
            match self.step(client, setup)? {
                Step::Served | Step::Split => {
                    return if hops <= setup.hops_max {
                        Ok(hops)
                    } else {
                        Err(Violation::TooManyHops(op, hops))
                    };
                }
                // Nobody owned the slot when everybody was asked.
                Step::Down if self.is_unowned() || has_asked => return Ok(hops),
                Step::Down => return Err(Violation::Unanswered(op)),
                Step::SentOn => hops += 1,
                Step::AsksAgain | Step::GoesOn => {}
            }
        }
        Err(Violation::Unanswered(op))
    }

    /// Nobody owns the slot, or its owner is between two holds of ADDSLOTS or DELSLOTS.
    fn is_unowned(&self) -> bool {
        self.word.owner.is_none_or(|owner| !self.node(owner).owned)
    }
}
