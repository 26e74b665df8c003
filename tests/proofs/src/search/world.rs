//! The state of the model: what the nodes, the clients and the bus hold of one slot.

use crate::migration::MoveId;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

/// The most nodes of a model.
pub(crate) const NODES_MAX: usize = 4;

/// How many keys there are; both hash to the slot.
pub(crate) const KEYS: usize = 2;

/// The most clients of a model.
pub(crate) const CLIENTS_MAX: usize = 2;

/// The most messages that the bus holds.
pub(crate) const MESSAGES_MAX: usize = 2;

/// The id that stands for every move that has ended: no mark carries it, and none ever will.
pub(crate) const ENDED: MoveId = MoveId::new(0);

/// One of the two keys.
pub(crate) type KeyIndex = usize;

/// What a node holds of one key.
///
/// A value needs no number: a write makes every other copy stale, and all that is ever asked of a
/// value is whether it is the one that was acknowledged last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Entry {
    #[default]
    Absent,
    /// It has expired, and lies there until somebody meets it.
    Dead,
    /// It is live.
    Live {
        /// It is what was acknowledged last.
        current: bool,
        /// It has a deadline.
        expires: bool,
    },
}

impl Entry {
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Live { .. })
    }

    pub(crate) fn is_current(self) -> bool {
        matches!(self, Self::Live { current: true, .. })
    }

    pub(crate) fn expires(self) -> bool {
        matches!(self, Self::Live { expires: true, .. })
    }

    /// The same entry after another write of its key was acknowledged.
    fn outdated(self) -> Self {
        match self {
            Self::Live { expires, .. } => Self::Live { current: false, expires },
            Self::Absent | Self::Dead => self,
        }
    }
}

/// What one node holds of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) view: SlotOwner,
    pub(crate) state: SlotState,
    /// The header's word: the node serves the slot.
    pub(crate) owned: bool,
    pub(crate) entries: [Entry; KEYS],
}

impl Node {
    pub(crate) fn has_live(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_live())
    }

    pub(crate) fn clear(&mut self) {
        self.entries = [Entry::Absent; KEYS];
    }
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Op {
    Get(KeyIndex),
    Set(KeyIndex),
    /// With a deadline.
    SetExpiring(KeyIndex),
    Remove(KeyIndex),
    /// `mget` of both keys.
    GetBoth,
    /// `mset` of both keys.
    SetBoth,
}

impl Op {
    /// The keys that it names.
    pub(crate) fn keys(self) -> &'static [KeyIndex] {
        match self {
            Self::Get(0) | Self::Set(0) | Self::SetExpiring(0) | Self::Remove(0) => &[0],
            Self::Get(_) | Self::Set(_) | Self::SetExpiring(_) | Self::Remove(_) => &[1],
            Self::GetBoth | Self::SetBoth => &[0, 1],
        }
    }

    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Get(_) | Self::GetBoth)
    }

    /// The same call when the two keys change places.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Get(key) => Self::Get(1 - key),
            Self::Set(key) => Self::Set(1 - key),
            Self::SetExpiring(key) => Self::SetExpiring(1 - key),
            Self::Remove(key) => Self::Remove(1 - key),
            Self::GetBoth | Self::SetBoth => self,
        }
    }
}

/// Whether a call carries ASKING.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asking {
    No,
    /// For the move that an ASK named.
    Move(MoveId),
    /// As it comes over the wire, without a move.
    Any,
}

/// Under which right a call runs its next hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Errand {
    /// It asks a node, perhaps with ASKING.
    Ask(Asking),
    /// Both tokens are to be taken, and named keys travel first.
    Pull(Pull),
}

impl Errand {
    pub(crate) fn id(self) -> Option<MoveId> {
        match self {
            Self::Ask(Asking::No | Asking::Any) => None,
            Self::Ask(Asking::Move(id)) | Self::Pull(Pull { id, .. }) => Some(id),
        }
    }
}

/// The way that keys are pulled, and the side on which the call runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From the source of an open move to its target.
    Forth,
    /// From the target of a move that is being aborted to its source.
    Back,
    /// None travels: it is only seen whether ASKING without a move is honoured at the target.
    Neither,
}

/// What a call does under both tokens before it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pull {
    pub(crate) source: NodeId,
    pub(crate) target: NodeId,
    pub(crate) id: MoveId,
    pub(crate) way: Way,
}

/// A call between two holds: its client is slow, as long as it likes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) op: Op,
    /// Who is asked next.
    pub(crate) at: NodeId,
    pub(crate) errand: Errand,
    /// Everybody was asked for an owner once.
    pub(crate) asked_around: bool,
    /// How often it was sent on. Counted where there are gates, which look at it.
    pub(crate) redirects: u8,
    /// It is in the slot's gate.
    pub(crate) inside: bool,
    /// The keys that have expired since the call began. Noted only where calls read the clock too
    /// early.
    pub(crate) late_for: [bool; KEYS],
}

/// A client with its own map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub(crate) map: SlotOwner,
    /// The next MOVED makes it take a whole map. Noted only where maps are taken from anybody.
    pub(crate) refreshes_next: bool,
    pub(crate) call: Option<Call>,
}

/// A claim that the bus holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) to: NodeId,
    pub(crate) claim: SlotOwner,
}

/// Everything. What lies beyond a setup's counts stays as it was at the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct World {
    pub(crate) count: usize,
    pub(crate) nodes: [Node; NODES_MAX],
    pub(crate) clients: [Client; CLIENTS_MAX],
    pub(crate) messages: [Option<Message>; MESSAGES_MAX],
    /// The cluster's word for the slot: what flips raise, and ADDSLOTS compares and swaps.
    pub(crate) word: SlotOwner,
    /// Whether the last acknowledged write left the key there, by its deadline too.
    pub(crate) acknowledged: [bool; KEYS],
    /// How many verbs have looked at the gate before a call went in, and have not run yet.
    pub(crate) late_verbs: u8,
}

/// A node by its place.
pub(crate) fn node_id(index: usize) -> NodeId {
    NodeId::unpacked(index as u64 + 1).expect("a place in a model is the index of a node")
}

impl World {
    /// `count` nodes: the first owns the slot, and everybody knows.
    pub(crate) fn owned_by_first(count: usize) -> Self {
        Self::known_to_all(count, SlotOwner::new(Some(node_id(0)), Epoch::new(1)))
    }

    /// `count` nodes, and a slot that nobody has ever owned.
    pub(crate) fn unowned(count: usize) -> Self {
        Self::known_to_all(count, SlotOwner::default())
    }

    fn known_to_all(count: usize, view: SlotOwner) -> Self {
        let state = SlotState::Stable;
        let node = Node { view, state, owned: false, entries: [Entry::Absent; KEYS] };
        let mut world = Self {
            count,
            nodes: [node; NODES_MAX],
            clients: [Client { map: view, refreshes_next: false, call: None }; CLIENTS_MAX],
            messages: [None; MESSAGES_MAX],
            word: view,
            acknowledged: [false; KEYS],
            late_verbs: 0,
        };
        if let Some(owner) = view.owner {
            world.node_mut(owner).owned = true;
        }
        world
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Every node, by id.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.count).map(node_id)
    }

    /// `Member::marks`: a side for who does not ask for keys.
    pub(crate) fn marks(&self, id: NodeId) -> Side {
        let node = self.node(id);
        Side { node: id, view: node.view, state: node.state, has_keys: false }
    }

    /// `Member::side`.
    pub(crate) fn side(&self, id: NodeId) -> Side {
        Side { has_keys: self.node(id).has_live(), ..self.marks(id) }
    }

    /// `Member::put_side`, and the look before it: what did not change is not written.
    pub(crate) fn put(&mut self, side: &Side) {
        let node = self.node_mut(side.node);
        if (node.view, node.state) == (side.view, side.state) {
            return;
        }
        raise(&mut node.view, side.view);
        node.owned = side.owns();
        node.state = side.state;
    }

    /// What a flip to `owner` would draw: an epoch greater than every other.
    pub(crate) fn drawn(&self, owner: Option<NodeId>) -> SlotOwner {
        let views = self.nodes[..self.count].iter().map(|node| node.view);
        let greatest = views.map(|view| view.epoch).fold(self.word.epoch, Epoch::max);
        SlotOwner::new(owner, Epoch::new(greatest.get() + 1))
    }

    /// An id that no mark carries and no call names.
    pub(crate) fn drawn_id(&self) -> MoveId {
        let marks = self.nodes[..self.count].iter().filter_map(|node| node.state.move_id());
        let calls = self.clients.iter().filter_map(|client| client.call?.errand.id());
        let greatest = marks.chain(calls).map(MoveId::get).fold(0, u64::max);
        MoveId::new(greatest + 1)
    }

    /// A write of `key` was acknowledged: it left `entry` at the node, and other copies are stale.
    pub(crate) fn write(&mut self, at: NodeId, key: KeyIndex, entry: Entry) {
        for node in &mut self.nodes[..self.count] {
            node.entries[key] = node.entries[key].outdated();
        }
        self.node_mut(at).entries[key] = entry;
        self.acknowledged[key] = entry.is_live();
    }

    /// Whether a call holds the slot still.
    pub(crate) fn is_gate_closed(&self) -> bool {
        self.clients.iter().any(|client| client.call.is_some_and(|call| call.inside))
    }
}

/// `View::raise` of one word: the greater epoch wins.
pub(crate) fn raise(view: &mut SlotOwner, news: SlotOwner) {
    if news.epoch > view.epoch {
        *view = news;
    }
}
