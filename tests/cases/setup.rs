//! Three nodes, a slot on its way between two of them, traces, a watchdog.

use std::sync::mpsc;
use std::time::Duration;

use slotkeep::{Answer, Client, Cluster, Hop, MoveId, Node, NodeId, SetSlot, Slot};

/// How long a test with threads may take before it counts as hanging.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

pub(crate) fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

pub(crate) fn slot(number: u16) -> Slot {
    Slot::new(number).expect("a slot")
}

pub(crate) fn three_nodes() -> Cluster {
    Cluster::builder().nodes(3).workers_per_node(1).build().expect("three nodes")
}

/// Slot 3300 on its way from the first to the second of three nodes.
pub(crate) struct Moving {
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) source: Node,
    pub(crate) target: Node,
    pub(crate) slot: Slot,
    pub(crate) id: MoveId,
    /// The keys of the slot; the value of each is its own name.
    pub(crate) names: Vec<String>,
}

impl Moving {
    /// A slot of so many keys, so many of which have moved.
    #[track_caller]
    pub(crate) fn new(keys: usize, moved: usize) -> Self {
        let cluster = three_nodes();
        let client = cluster.client();
        let names: Vec<_> = (0..keys).map(|number| format!("{{b}}:{number}")).collect();
        for name in &names {
            client.set(name, name.as_bytes()).expect("a slot that is served");
        }
        let (source, target) = (cluster.nodes()[0].clone(), cluster.nodes()[1].clone());
        let slot = Slot::of("{b}");
        let id = open(&source, &target, slot);
        if moved > 0 {
            let sent = source.migrate_batch(slot, id, moved).expect("an open move");
            assert_eq!(sent.moved, moved);
        }
        Self { cluster, client, source, target, slot, id, names }
    }

    /// The keys that lie on one node.
    pub(crate) fn names_on(&self, node: &Node) -> Vec<String> {
        let keys = node.keys_in_slot(self.slot, usize::MAX).expect("an open cluster");
        keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    /// The rest of the move.
    #[track_caller]
    pub(crate) fn finish(&self) {
        while self.source.migrate_batch(self.slot, self.id, 64).expect("an open move").left > 0 {}
        let owner = SetSlot::Node { owner: self.target.id() };
        assert_eq!(self.target.set_slot(self.slot, owner), Ok(Some(self.id)));
        self.source.set_slot(self.slot, owner).expect("the target has flipped");
    }

    /// Checks that every key is read with its own name, and that nothing else is there.
    #[track_caller]
    pub(crate) fn check_all_visible(&self) {
        for name in &self.names {
            let value = self.client.get(name).expect("a slot that is served");
            assert_eq!(value.as_deref(), Some(name.as_bytes()), "{name}");
        }
        assert_eq!(self.client.len(), Ok(self.names.len()));
        let stored = [&self.source, &self.target].map(|node| self.names_on(node).len());
        assert_eq!(stored[0] + stored[1], self.names.len(), "on the two sides: {stored:?}");
    }
}

/// IMPORTING and MIGRATING.
#[track_caller]
pub(crate) fn open(source: &Node, target: &Node, slot: Slot) -> MoveId {
    let importing = SetSlot::Importing { source: source.id() };
    let id = target.set_slot(slot, importing).expect("IMPORTING").expect("an id");
    let migrating = SetSlot::Migrating { target: target.id() };
    assert_eq!(source.set_slot(slot, migrating), Ok(Some(id)));
    id
}

/// What calls answer, and which nodes were asked, in their order.
pub(crate) fn traced<R>(
    client: &Client,
    calls: impl FnOnce(&Client) -> R,
) -> (R, Vec<usize>, Vec<Hop>) {
    let (answer, hops) = client.traced(calls);
    (answer, hops.iter().map(|hop| hop.node.index()).collect(), hops)
}

/// How often calls were sent on.
pub(crate) fn redirect_count(hops: &[Hop]) -> usize {
    let sent_on = |hop: &&Hop| matches!(hop.answer, Answer::Ask { .. } | Answer::Moved { .. });
    hops.iter().filter(sent_on).count()
}

/// Runs a test with threads of its own, and fails when it hangs.
#[track_caller]
pub(crate) fn watched(test: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    let thread = std::thread::Builder::new().name("watched".to_owned()).spawn(move || {
        test();
        ended.send(()).expect("the watchdog waits");
    });
    match end.recv_timeout(WATCHDOG) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panicked) = thread.expect("a thread").join() {
                std::panic::resume_unwind(panicked);
            }
        }
    }
}
