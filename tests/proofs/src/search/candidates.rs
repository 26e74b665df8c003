//! Everything that may happen next, refusals included.

use crate::migration::SlotState;
use crate::topology::NodeId;

use super::action::Action;
use super::admin::AdminStep;
use super::setup::Setup;
use super::travel::Keys;
use super::world::ENDED;
use super::world::Entry;
use super::world::KEYS;
use super::world::Op;
use super::world::World;

impl Action {
    /// Everything that may happen next, refusals included.
    pub(crate) fn candidates(world: &World, setup: &Setup, found: &mut Vec<Self>) {
        found.clear();
        let list = &mut List { setup, found };
        list.add_verbs(world);
        list.add_travel(world);
        list.add_claims(world);
        list.add_time(world);
        list.add_calls(world);
    }
}

/// The candidates as they are found.
struct List<'l> {
    setup: &'l Setup,
    found: &'l mut Vec<Action>,
}

impl List<'_> {
    fn add(&mut self, action: Action) {
        if self.setup.kinds.has(action.kind()) {
            self.found.push(action);
        }
    }

    fn add_step(&mut self, step: AdminStep) {
        self.add(Action::Admin(step));
    }

    /// Any verb at any node, naming any other: drivers die, overtake each other, come late.
    fn add_verbs(&mut self, world: &World) {
        for node in world.ids() {
            self.add_step(AdminStep::Take { target: node });
            self.add_step(AdminStep::Stable { node });
            self.add_slots(node);
            for other in world.ids().filter(|&other| other != node) {
                self.add_step(AdminStep::Importing { target: node, source: other });
                self.add_step(AdminStep::Migrating { source: node, target: other });
                self.add_step(AdminStep::Yield { node, owner: other });
                self.add_handovers(world, node, other);
            }
        }
    }

    fn add_handovers(&mut self, world: &World, source: NodeId, target: NodeId) {
        self.add_step(AdminStep::HandOver { source, target });
        self.add_step(AdminStep::Reserve { source, target });
        let SlotState::Reserved { id } = world.node(source).state else { return };
        for id in [id, ENDED] {
            self.add_step(AdminStep::HandOverReserved { source, target, id });
            self.add_step(AdminStep::GiveUp { source, target, id });
        }
    }

    fn add_slots(&mut self, node: NodeId) {
        if self.setup.has_unowned_slots() {
            self.add_step(AdminStep::Add { node });
            self.add_step(AdminStep::Own { node });
            self.add_step(AdminStep::Release { node });
            self.add_step(AdminStep::Delete { node });
            self.add_step(AdminStep::Disown { node });
            self.add_step(AdminStep::Keep { node });
        }
    }

    /// Steps that name a move: the one that is marked there, or one that has ended.
    fn add_travel(&mut self, world: &World) {
        for node in world.ids() {
            let (id, peer) = (world.node(node).state.move_id(), world.node(node).state.peer());
            let (Some(id), Some(peer)) = (id, peer) else { continue };
            let is_target = matches!(
                world.node(node).state,
                SlotState::Importing { .. } | SlotState::Retired { .. }
            );
            let (source, target) = if is_target { (peer, node) } else { (node, peer) };
            self.add_step(AdminStep::Batch { source, id: ENDED, keys: Keys::SOME[0] });
            self.add_step(AdminStep::Batch { source, id, keys: Keys::SOME[0] });
            self.add_step(AdminStep::AbortBegin { source, target, id });
            self.add_step(AdminStep::AbortBack { source, target, id, keys: Keys::NONE });
            if is_target {
                continue;
            }
            for keys in Keys::SOME {
                self.add_step(AdminStep::Batch { source, id, keys });
                self.add_step(AdminStep::AbortBack { source, target, id, keys });
            }
        }
    }

    fn add_claims(&mut self, world: &World) {
        for to in world.ids() {
            for from in world.ids().filter(|&from| from != to) {
                self.add(Action::Send { from, to });
                self.add_step(AdminStep::OtherSlotFlips { owner: from, at: to });
            }
            self.add_step(AdminStep::OtherSlotFlips { owner: to, at: to });
        }
        for place in 0..self.setup.messages {
            if world.messages[place].is_some() {
                self.add(Action::Deliver { place });
                self.add(Action::Lose { place });
            }
        }
    }

    fn add_time(&mut self, world: &World) {
        for key in 0..KEYS {
            self.add(Action::Expire { key });
            for node in world.ids().filter(|&node| world.node(node).entries[key] == Entry::Dead) {
                self.add(Action::Sweep { node, key });
            }
        }
    }

    fn add_calls(&mut self, world: &World) {
        for client in 0..self.setup.clients {
            if world.clients[client].call.is_some() {
                self.add(Action::GoOn { client });
                continue;
            }
            for key in 0..if self.setup.either_key { KEYS } else { 1 } {
                for op in [Op::Get(key), Op::Set(key), Op::SetExpiring(key), Op::Remove(key)] {
                    self.add(Action::Call { client, op });
                }
            }
            for op in [Op::GetBoth, Op::SetBoth] {
                self.add(Action::Call { client, op });
            }
        }
    }
}
