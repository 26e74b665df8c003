//! One state for all that differ by names only: of epochs, ids, nodes, keys, clients, messages.

use crate::migration::MoveId;
use crate::migration::SlotState;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

use super::pack::Packed;
use super::pack::call_code;
use super::pack::entry_code;
use super::pack::mark_code;
use super::setup::Setup;
use super::world::Asking;
use super::world::ENDED;
use super::world::Errand;
use super::world::KEYS;
use super::world::NODES_MAX;
use super::world::Pull;
use super::world::World;
use super::world::node_id;

/// Which place each node gets.
type Order = [usize; NODES_MAX];

const AS_IT_IS: Order = [0, 1, 2, 3];

/// The most epochs that one state can name: views, maps, messages and the cluster's word.
const EPOCHS_MAX: usize = 9;

/// What is alike in a setup.
pub(crate) struct Symmetry {
    /// Every order of the nodes; one of them when nodes are not alike.
    orders: Vec<Order>,
    keys_are_alike: bool,
    clients_are_alike: bool,
}

impl Symmetry {
    pub(crate) fn of(setup: &Setup) -> Self {
        let mut orders = vec![AS_IT_IS];
        if !setup.has_unowned_slots() {
            orders = orders_of(usize::from(setup.nodes));
        }
        Self { orders, keys_are_alike: setup.either_key, clients_are_alike: setup.clients == 2 }
    }

    /// The least of all states that differ from this one by names only.
    pub(crate) fn canonical(&self, mut world: World) -> Packed {
        world.rank_epochs();
        world.forget_ended_ids();
        let signatures = world.signatures();
        let mut least: Option<Packed> = None;
        for order in &self.orders {
            if self.orders.len() > 1 && !is_sorted(&signatures, order, world.count) {
                continue;
            }
            let ordered = if *order == AS_IT_IS { world } else { world.in_order(order) };
            for mirrored in [false, true] {
                if let Some(packed) = self.with_keys(&ordered, mirrored) {
                    least = Some(least.map_or(packed, |least| least.min(packed)));
                }
            }
        }
        least.unwrap_or_else(|| world.packed())
    }

    /// The state with its keys in one of the two orders, unless the other one is the less.
    fn with_keys(&self, world: &World, mirrored: bool) -> Option<Packed> {
        let mut world = *world;
        if mirrored && !self.keys_are_alike {
            return None;
        }
        let columns = [0, 1].map(|key| world.column(key));
        if self.keys_are_alike && columns[usize::from(mirrored)] > columns[usize::from(!mirrored)] {
            return None;
        }
        if mirrored {
            world.mirror();
        }
        world.number_ids();
        world.messages.sort_by_key(|message| {
            message.map_or((usize::MAX, Epoch::ZERO), |m| (m.to.index(), m.claim.epoch))
        });
        if self.clients_are_alike {
            world.clients.sort_by_key(|client| (call_code(client.call), client.map.epoch));
        }
        Some(world.packed())
    }
}

/// Every order of the first `count` nodes.
fn orders_of(count: usize) -> Vec<Order> {
    let mut orders = vec![AS_IT_IS];
    // Each pass lets one more node change places with those before it.
    for last in 1..count {
        for index in 0..orders.len() {
            for other in 0..last {
                let mut order = orders[index];
                order.swap(last, other);
                orders.push(order);
            }
        }
    }
    orders
}

/// Whether the nodes' signatures ascend in this order.
fn is_sorted(signatures: &[u64; NODES_MAX], order: &Order, count: usize) -> bool {
    let mut placed = [0; NODES_MAX];
    for (node, &place) in order.iter().enumerate() {
        placed[place] = signatures[node];
    }
    (1..count).all(|place| placed[place - 1] <= placed[place])
}

impl World {
    /// Epochs matter by their order alone.
    fn rank_epochs(&mut self) {
        let mut known = [Epoch::ZERO; EPOCHS_MAX + 1];
        let mut count = 1;
        self.each_claim(|claim| {
            let mut place = count;
            while known[place - 1] > claim.epoch {
                place -= 1;
            }
            if known[place - 1] != claim.epoch {
                known.copy_within(place..count, place + 1);
                known[place] = claim.epoch;
                count += 1;
            }
        });
        self.each_claim(|claim| {
            let rank = known[..count].iter().position(|&epoch| epoch == claim.epoch);
            claim.epoch = Epoch::new(rank.unwrap_or_default() as u64);
        });
    }

    fn each_claim(&mut self, mut visit: impl FnMut(&mut SlotOwner)) {
        self.nodes[..self.count].iter_mut().for_each(|node| visit(&mut node.view));
        self.clients.iter_mut().for_each(|client| visit(&mut client.map));
        self.messages.iter_mut().flatten().for_each(|message| visit(&mut message.claim));
        visit(&mut self.word);
    }

    fn is_marked(&self, id: MoveId) -> bool {
        self.nodes[..self.count].iter().any(|node| node.state.move_id() == Some(id))
    }

    /// An id that no mark carries has ended for good.
    fn forget_ended_ids(&mut self) {
        for client in 0..self.clients.len() {
            let Some(call) = self.clients[client].call else { continue };
            if call.errand.id().is_some_and(|id| !self.is_marked(id)) {
                self.set_errand_id(client, ENDED);
            }
        }
    }

    fn set_errand_id(&mut self, client: usize, id: MoveId) {
        let Some(call) = &mut self.clients[client].call else { return };
        call.errand = match call.errand {
            Errand::Ask(Asking::Move(_)) => Errand::Ask(Asking::Move(id)),
            Errand::Ask(asking) => Errand::Ask(asking),
            Errand::Pull(pull) => Errand::Pull(Pull { id, ..pull }),
        };
    }

    /// What of each node does not depend on names.
    fn signatures(&self) -> [u64; NODES_MAX] {
        let mut signatures = [0; NODES_MAX];
        for (node, signature) in self.nodes[..self.count].iter().zip(&mut signatures) {
            let mut entries = node.entries.map(entry_code);
            entries.sort_unstable();
            *signature = node.view.epoch.get() << 16
                | mark_code(node.state) << 12
                | u64::from(node.owned) << 8
                | entries[0] << 4
                | entries[1];
        }
        signatures
    }

    /// The same state with its nodes at other places.
    fn in_order(&self, order: &Order) -> Self {
        let renamed = |node: NodeId| node_id(order[node.index()]);
        let mut world = *self;
        for (node, &place) in self.nodes.iter().zip(order) {
            world.nodes[place] = *node;
        }
        world.each_claim(|claim| claim.owner = claim.owner.map(renamed));
        for node in &mut world.nodes[..self.count] {
            node.state = with_peer(node.state, renamed);
        }
        for call in world.clients.iter_mut().filter_map(|client| client.call.as_mut()) {
            call.at = renamed(call.at);
            if let Errand::Pull(pull) = &mut call.errand {
                (pull.source, pull.target) = (renamed(pull.source), renamed(pull.target));
            }
        }
        world.messages.iter_mut().flatten().for_each(|message| message.to = renamed(message.to));
        world
    }

    /// What of a key does not depend on its name, but on the order of the nodes.
    fn column(&self, key: usize) -> u64 {
        let entries = self.nodes[..self.count].iter().map(|node| entry_code(node.entries[key]));
        entries.fold(u64::from(self.acknowledged[key]), |column, code| column << 3 | code)
    }

    /// The same state with its keys at each other's places.
    fn mirror(&mut self) {
        for node in &mut self.nodes[..self.count] {
            node.entries.swap(0, KEYS - 1);
        }
        self.acknowledged.swap(0, KEYS - 1);
        for call in self.clients.iter_mut().filter_map(|client| client.call.as_mut()) {
            call.op = call.op.mirrored();
            call.late_for.swap(0, KEYS - 1);
        }
    }

    /// Numbers ids from 1 in the order in which nodes carry them.
    fn number_ids(&mut self) {
        let mut known = [ENDED; NODES_MAX];
        let mut count = 0;
        for index in 0..self.count {
            let Some(id) = self.nodes[index].state.move_id() else { continue };
            let place = known[..count].iter().position(|&other| other == id);
            if place.is_none() {
                known[count] = id;
                count += 1;
            }
            let number = MoveId::new(place.unwrap_or(count - 1) as u64 + 1);
            self.nodes[index].state = with_id(self.nodes[index].state, number);
        }
        for client in 0..self.clients.len() {
            let id = self.clients[client].call.and_then(|call| call.errand.id());
            if let Some(place) = known[..count].iter().position(|&other| Some(other) == id) {
                self.set_errand_id(client, MoveId::new(place as u64 + 1));
            }
        }
    }
}

fn with_peer(state: SlotState, renamed: impl Fn(NodeId) -> NodeId) -> SlotState {
    match state {
        SlotState::Stable | SlotState::Reserved { .. } => state,
        SlotState::Migrating { target, id } => SlotState::Migrating { target: renamed(target), id },
        SlotState::Importing { source, id } => SlotState::Importing { source: renamed(source), id },
        SlotState::Aborting { target, id } => SlotState::Aborting { target: renamed(target), id },
        SlotState::Retired { source, id } => SlotState::Retired { source: renamed(source), id },
    }
}

fn with_id(state: SlotState, id: MoveId) -> SlotState {
    match state {
        SlotState::Stable => SlotState::Stable,
        SlotState::Migrating { target, .. } => SlotState::Migrating { target, id },
        SlotState::Importing { source, .. } => SlotState::Importing { source, id },
        SlotState::Aborting { target, .. } => SlotState::Aborting { target, id },
        SlotState::Retired { source, .. } => SlotState::Retired { source, id },
        SlotState::Reserved { .. } => SlotState::Reserved { id },
    }
}
