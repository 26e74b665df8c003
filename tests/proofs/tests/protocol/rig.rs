//! A small cluster in step mode, with the verbs of a move as short calls.

use std::time::Duration;

use slotkeep::{
    AbortStep, AdminError, Answer, BatchResult, Builder, Client, Cluster, Fault, HandedOver, Hop,
    MoveId, MoveRecord, Node, NodeId, SetOptions, SetSlot, SetSlotError, Slot, SlotState,
};

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
pub(crate) const C: usize = 2;
pub(crate) const D: usize = 3;

/// Two keys of slot 3300, which node A owns at the start, of three nodes or of four.
pub(crate) const K: &[u8] = b"{b}:k";
pub(crate) const L: &[u8] = b"{b}:l";

/// A key of slot 8000, which node B owns at the start, of three nodes or of four.
pub(crate) const OF_B: &[u8] = b"{42}:k";

const SEED: u64 = 0x5107;

/// What a verb answers about its slot.
pub(crate) type Verb<T> = Result<T, SetSlotError>;

/// A cluster, and the key whose slot the verbs are about.
pub(crate) struct Rig {
    pub(crate) cluster: Cluster,
    pub(crate) key: &'static [u8],
}

impl Rig {
    /// Nodes that share out all slots; messages are delivered at once.
    pub(crate) fn new(nodes: usize) -> Self {
        Self::built(builder(nodes))
    }

    /// The same, but messages are held back from now on.
    pub(crate) fn held(nodes: usize) -> Self {
        Self::built(builder(nodes).held_bus())
    }

    /// The same as `new`, with a fault if one is named.
    pub(crate) fn faulty(nodes: usize, fault: Option<Fault>) -> Self {
        let builder = builder(nodes);
        Self::built(match fault {
            Some(fault) => builder.fault(fault),
            None => builder,
        })
    }

    /// Nodes without slots, which serve what they get, and messages that are held back.
    pub(crate) fn unassigned(nodes: usize) -> Self {
        Self::built(builder(nodes).unassigned().full_coverage(false).held_bus())
    }

    fn built(builder: Builder) -> Self {
        Self { cluster: builder.build().expect("a small cluster"), key: K }
    }

    /// The same cluster, and the slot of another key.
    pub(crate) fn about(&self, key: &'static [u8]) -> Self {
        Self { cluster: self.cluster.clone(), key }
    }

    pub(crate) fn slot(&self) -> Slot {
        Slot::of(self.key)
    }

    pub(crate) fn node(&self, index: usize) -> Node {
        self.cluster.node(id(index)).expect("a node of this cluster")
    }

    pub(crate) fn state(&self, at: usize) -> SlotState {
        self.node(at).slot_state(self.slot()).expect("an open cluster")
    }

    /// How many keys of the slot lie on a node, dead ones that nobody met yet included.
    pub(crate) fn stored(&self, at: usize) -> usize {
        self.node(at).count_keys_in_slot(self.slot()).expect("an open cluster")
    }

    /// How many live keys of the slot lie on a node.
    pub(crate) fn live(&self, at: usize) -> usize {
        self.node(at).count_live_keys_in_slot(self.slot()).expect("an open cluster")
    }

    /// Who owns the slot, as a node sees it.
    pub(crate) fn seen_by(&self, at: usize) -> Option<usize> {
        self.node(at).slot_owner(self.slot()).owner.map(NodeId::index)
    }

    pub(crate) fn record(&self, id: MoveId) -> MoveRecord {
        self.cluster.move_record(id).expect("a move that is remembered")
    }

    #[track_caller]
    fn verb(&self, at: usize, verb: SetSlot) -> Verb<Option<MoveId>> {
        told(self.node(at).set_slot(self.slot(), verb))
    }

    #[track_caller]
    pub(crate) fn importing(&self, target: usize, source: usize) -> Verb<MoveId> {
        let id = self.verb(target, SetSlot::Importing { source: id(source) })?;
        Ok(id.expect("IMPORTING draws an id"))
    }

    #[track_caller]
    pub(crate) fn migrating(&self, source: usize, target: usize) -> Verb<MoveId> {
        let id = self.verb(source, SetSlot::Migrating { target: id(target) })?;
        Ok(id.expect("MIGRATING takes an id over"))
    }

    /// NODE on the target.
    #[track_caller]
    pub(crate) fn take(&self, target: usize) -> Verb<Option<MoveId>> {
        self.verb(target, SetSlot::Node { owner: id(target) })
    }

    /// NODE on the source, or on any other node.
    #[track_caller]
    pub(crate) fn tell(&self, at: usize, owner: usize) -> Verb<Option<MoveId>> {
        self.verb(at, SetSlot::Node { owner: id(owner) })
    }

    #[track_caller]
    pub(crate) fn stable(&self, at: usize) -> Verb<Option<MoveId>> {
        self.verb(at, SetSlot::Stable)
    }

    #[track_caller]
    pub(crate) fn batch(&self, source: usize, id: MoveId, count: usize) -> Verb<BatchResult> {
        told(self.node(source).migrate_batch(self.slot(), id, count))
    }

    #[track_caller]
    pub(crate) fn abort(&self, id: MoveId, count: usize) -> Verb<AbortStep> {
        told(self.cluster.abort_step(id, count))
    }

    #[track_caller]
    pub(crate) fn hand_over(&self, source: usize, target: usize) -> Verb<HandedOver> {
        told(self.node(source).hand_over(self.slot(), id(target)))
    }

    /// IMPORTING and MIGRATING.
    #[track_caller]
    pub(crate) fn open(&self, source: usize, target: usize) -> MoveId {
        let id = self.importing(target, source).expect("a target without a mark");
        assert_eq!(self.migrating(source, target), Ok(id));
        id
    }

    #[track_caller]
    pub(crate) fn send_all(&self, source: usize, id: MoveId) {
        while self.batch(source, id, 1).expect("an open move").left > 0 {}
    }

    /// A whole move, verb by verb. The target hears of the source before, should it not know.
    #[track_caller]
    pub(crate) fn complete(&self, source: usize, target: usize) -> MoveId {
        if self.seen_by(target) != Some(source) {
            assert_eq!(self.tell(target, source), Ok(None));
        }
        let id = self.open(source, target);
        self.send_all(source, id);
        assert_eq!(self.take(target), Ok(Some(id)));
        self.tell(source, target).expect("the target has flipped");
        id
    }

    #[track_caller]
    pub(crate) fn write(&self, key: &[u8], value: &str) {
        self.cluster.client().set(key, value.as_bytes()).expect("a slot that is served");
    }

    #[track_caller]
    pub(crate) fn write_for(&self, key: &[u8], value: &str, ttl: Duration) {
        let options = SetOptions::new().expire_in(ttl);
        let written = self.cluster.client().set_with(key, value.as_bytes(), &options);
        assert!(written.expect("a slot that is served").is_set());
    }

    /// Reads with a new client, whose map is right.
    #[track_caller]
    pub(crate) fn check_read(&self, key: &[u8], expected: Option<&str>) {
        let (found, hops) = read(&self.cluster.client(), key);
        assert_eq!(found.as_deref(), expected, "by way of {hops:?}");
    }

    /// Delivers what is held, and checks that the slot has one owner, no mark, and that every node
    /// and every client agrees.
    #[track_caller]
    pub(crate) fn check_settled(&self, owner: usize) {
        self.cluster.bus().release();
        let slot = self.slot();
        assert_eq!(self.cluster.slot_map().owner(slot), Some(id(owner)));
        for node in self.cluster.nodes() {
            assert_eq!(node.slot_owner(slot).owner, Some(id(owner)), "as {} sees it", node.id());
            assert_eq!(self.state(node.id().index()), SlotState::Stable, "on {}", node.id());
            if node.id() != id(owner) {
                assert_eq!(self.live(node.id().index()), 0, "left on {}", node.id());
            }
        }
        let explained = self.cluster.client().explain(self.key).expect("an open cluster");
        let owners: Vec<_> = explained.nodes.iter().filter(|at| at.owns).collect();
        assert_eq!(owners.len(), 1, "{explained}");
        assert_eq!(owners[0].node, id(owner));
        self.cluster.check_invariants();
    }
}

fn builder(nodes: usize) -> Builder {
    println!("seed {SEED:#x}");
    Cluster::builder().nodes(nodes).workers_per_node(1).step_mode(SEED)
}

pub(crate) fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

/// The refusal of a verb that would overwrite a mark.
pub(crate) fn is_open(at: usize, id: MoveId) -> SetSlotError {
    SetSlotError::SlotIsOpen { node: self::id(at), id }
}

/// A verb is done, or refused for what the state machine says.
#[track_caller]
fn told<T>(done: Result<T, AdminError>) -> Verb<T> {
    done.map_err(|refused| {
        let AdminError::SetSlot { error, .. } = refused else { not_about_the_slot(refused) };
        error
    })
}

fn not_about_the_slot(refused: AdminError) -> ! {
    panic!("not about the slot: {refused}")
}

/// Reads a key; the value, and the nodes that were asked.
#[track_caller]
pub(crate) fn read(client: &Client, key: &[u8]) -> (Option<String>, Vec<Hop>) {
    let (found, hops) = client.traced(|client| client.get(key));
    let found = found.expect("an answer");
    (found.map(|value| String::from_utf8_lossy(&value).into_owned()), hops)
}

/// Reads a key and checks which nodes were asked, in their order.
#[track_caller]
pub(crate) fn check_way(client: &Client, key: &[u8], expected: Option<&str>, nodes: &[usize]) {
    let (found, hops) = read(client, key);
    assert_eq!(found.as_deref(), expected, "by way of {hops:?}");
    let asked: Vec<_> = hops.iter().map(|hop| hop.node.index()).collect();
    assert_eq!(asked, nodes, "{hops:?}");
}

/// How often a call was sent on.
pub(crate) fn redirects(hops: &[Hop]) -> usize {
    let sent_on = |hop: &&Hop| matches!(hop.answer, Answer::Ask { .. } | Answer::Moved { .. });
    hops.iter().filter(sent_on).count()
}
