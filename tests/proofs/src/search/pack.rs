//! A state in three words: small enough to keep millions, and without an allocation each.

use crate::migration::MoveId;
use crate::migration::SlotState;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

use super::world::Asking;
use super::world::CLIENTS_MAX;
use super::world::Call;
use super::world::Client;
use super::world::Entry;
use super::world::Errand;
use super::world::KEYS;
use super::world::MESSAGES_MAX;
use super::world::Message;
use super::world::NODES_MAX;
use super::world::Node;
use super::world::Op;
use super::world::Pull;
use super::world::Way;
use super::world::World;
use super::world::node_id;

/// A packed state: claims, nodes, and the rest. Epochs are ranks and ids small numbers.
pub(crate) type Packed = [u64; 3];

/// Puts a number into the low bits of a word.
fn put(word: &mut u64, value: u64, bits: u32) {
    debug_assert!(value < 1 << bits, "{value} needs more than {bits} bits");
    *word = *word << bits | value;
}

/// Takes the number out again that was put in last.
fn take(word: &mut u64, bits: u32) -> u64 {
    let value = *word & ((1 << bits) - 1);
    *word >>= bits;
    value
}

fn put_claim(word: &mut u64, claim: SlotOwner) {
    put(word, claim.epoch.get(), 4);
    put(word, claim.owner.map_or(0, |owner| owner.index() as u64 + 1), 3);
}

fn take_claim(word: &mut u64) -> SlotOwner {
    let owner = NodeId::unpacked(take(word, 3));
    SlotOwner::new(owner, Epoch::new(take(word, 4)))
}

fn put_node(word: &mut u64, node: &Node) {
    put(word, mark_code(node.state), 3);
    put(word, node.state.peer().map_or(0, |peer| peer.index() as u64), 2);
    put(word, node.state.move_id().map_or(0, MoveId::get), 3);
    put(word, u64::from(node.owned), 1);
    node.entries.iter().for_each(|&entry| put(word, entry_code(entry), 3));
}

fn take_node(word: &mut u64, view: SlotOwner) -> Node {
    let mut entries = [Entry::Absent; KEYS];
    entries.iter_mut().rev().for_each(|entry| *entry = entry_of(take(word, 3)));
    let owned = take(word, 1) == 1;
    let id = MoveId::new(take(word, 3));
    let peer = node_id(low(take(word, 2)));
    let state = match take(word, 3) {
        0 => SlotState::Stable,
        1 => SlotState::Migrating { target: peer, id },
        2 => SlotState::Importing { source: peer, id },
        3 => SlotState::Aborting { target: peer, id },
        4 => SlotState::Retired { source: peer, id },
        _ => SlotState::Reserved { id },
    };
    Node { view, state, owned, entries }
}

/// A number for each kind of mark.
pub(crate) fn mark_code(state: SlotState) -> u64 {
    match state {
        SlotState::Stable => 0,
        SlotState::Migrating { .. } => 1,
        SlotState::Importing { .. } => 2,
        SlotState::Aborting { .. } => 3,
        SlotState::Retired { .. } => 4,
        SlotState::Reserved { .. } => 5,
    }
}

/// A number for each entry.
pub(crate) fn entry_code(entry: Entry) -> u64 {
    match entry {
        Entry::Absent => 0,
        Entry::Dead => 1,
        Entry::Live { current, expires } => 2 + u64::from(current) * 2 + u64::from(expires),
    }
}

fn entry_of(code: u64) -> Entry {
    match code {
        0 => Entry::Absent,
        1 => Entry::Dead,
        live => Entry::Live { current: live >= 4, expires: live % 2 == 1 },
    }
}

/// A call, without its client's map. No call is 0.
pub(crate) fn call_code(call: Option<Call>) -> u64 {
    let Some(call) = call else { return 0 };
    let mut word = 1;
    put(&mut word, op_code(call.op), 4);
    put(&mut word, call.at.index() as u64, 2);
    let sides = |pull: Pull| [pull.source, pull.target].map(|node| node.index() as u64);
    let (kind, [source, target]) = match call.errand {
        Errand::Ask(Asking::No) => (0, [0, 0]),
        Errand::Ask(Asking::Move(_)) => (1, [0, 0]),
        Errand::Ask(Asking::Any) => (2, [0, 0]),
        Errand::Pull(pull @ Pull { way: Way::Forth, .. }) => (3, sides(pull)),
        Errand::Pull(pull @ Pull { way: Way::Back, .. }) => (4, sides(pull)),
        Errand::Pull(pull @ Pull { way: Way::Neither, .. }) => (5, sides(pull)),
    };
    put(&mut word, kind, 3);
    put(&mut word, source, 2);
    put(&mut word, target, 2);
    put(&mut word, call.errand.id().map_or(0, MoveId::get), 3);
    put(&mut word, u64::from(call.asked_around), 1);
    put(&mut word, u64::from(call.redirects), 4);
    put(&mut word, u64::from(call.inside), 1);
    call.late_for.iter().for_each(|&late| put(&mut word, u64::from(late), 1));
    word
}

/// The bits of [`call_code`].
const CALL_BITS: u32 = 25;

fn call_of(mut word: u64) -> Option<Call> {
    if word == 0 {
        return None;
    }
    let word = &mut word;
    let mut late_for = [false; KEYS];
    late_for.iter_mut().rev().for_each(|late| *late = take(word, 1) == 1);
    let inside = take(word, 1) == 1;
    let redirects = count(take(word, 4));
    let asked_around = take(word, 1) == 1;
    let id = MoveId::new(take(word, 3));
    let (target, source) = (node_id(low(take(word, 2))), node_id(low(take(word, 2))));
    let errand = match take(word, 3) {
        0 => Errand::Ask(Asking::No),
        1 => Errand::Ask(Asking::Move(id)),
        2 => Errand::Ask(Asking::Any),
        3 => Errand::Pull(Pull { source, target, id, way: Way::Forth }),
        4 => Errand::Pull(Pull { source, target, id, way: Way::Back }),
        _ => Errand::Pull(Pull { source, target, id, way: Way::Neither }),
    };
    let at = node_id(low(take(word, 2)));
    let op = op_of(take(word, 4));
    Some(Call { op, at, errand, asked_around, redirects, inside, late_for })
}

fn op_code(op: Op) -> u64 {
    match op {
        Op::Get(key) => key as u64,
        Op::Set(key) => 2 + key as u64,
        Op::SetExpiring(key) => 4 + key as u64,
        Op::Remove(key) => 6 + key as u64,
        Op::GetBoth => 8,
        Op::SetBoth => 9,
    }
}

fn op_of(code: u64) -> Op {
    let key = low(code % 2);
    match code / 2 {
        0 => Op::Get(key),
        1 => Op::Set(key),
        2 => Op::SetExpiring(key),
        3 => Op::Remove(key),
        _ if code == 8 => Op::GetBoth,
        _ => Op::SetBoth,
    }
}

/// A number of a few bits as an index.
fn low(value: u64) -> usize {
    usize::try_from(value).expect("it has a few bits")
}

/// A number of a few bits as a count.
fn count(value: u64) -> u8 {
    u8::try_from(value).expect("it has a few bits")
}

impl World {
    /// The state in three words. Its epochs have to be ranks.
    pub(crate) fn packed(&self) -> Packed {
        let (mut claims, mut nodes, mut rest) = (0, 0, 0);
        for node in &self.nodes {
            put_claim(&mut claims, node.view);
            put_node(&mut nodes, node);
        }
        for client in &self.clients {
            put_claim(&mut claims, client.map);
            put(&mut rest, u64::from(client.refreshes_next), 1);
            put(&mut rest, call_code(client.call), CALL_BITS);
        }
        for message in &self.messages {
            let (to, claim) = match message {
                None => (0, SlotOwner::default()),
                Some(message) => (message.to.index() as u64 + 1, message.claim),
            };
            put_claim(&mut claims, claim);
            put(&mut rest, to, 3);
        }
        put_claim(&mut claims, self.word);
        self.acknowledged.iter().for_each(|&live| put(&mut rest, u64::from(live), 1));
        put(&mut rest, u64::from(self.late_verbs), 2);
        [claims, nodes, rest]
    }

    /// The state behind three words, of so many nodes.
    pub(crate) fn unpacked([mut claims, mut nodes, mut rest]: Packed, size: usize) -> Self {
        let mut world = Self::unowned(size);
        world.late_verbs = count(take(&mut rest, 2));
        world.acknowledged.iter_mut().rev().for_each(|live| *live = take(&mut rest, 1) == 1);
        world.word = take_claim(&mut claims);
        for place in (0..MESSAGES_MAX).rev() {
            let claim = take_claim(&mut claims);
            let to = NodeId::unpacked(take(&mut rest, 3));
            world.messages[place] = to.map(|to| Message { to, claim });
        }
        for client in (0..CLIENTS_MAX).rev() {
            let map = take_claim(&mut claims);
            let call = call_of(take(&mut rest, CALL_BITS));
            let refreshes_next = take(&mut rest, 1) == 1;
            world.clients[client] = Client { map, refreshes_next, call };
        }
        for node in (0..NODES_MAX).rev() {
            let view = take_claim(&mut claims);
            world.nodes[node] = take_node(&mut nodes, view);
        }
        world
    }
}
