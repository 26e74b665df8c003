//! Where Redis loses keys or sends clients in circles, and what happens here: each side by side.
//!
//! The original is shown by the verbs of `as_redis` and by a client of `Semantics::Redis`. A late
//! ASK that is honoured needs a planted fault: tests/proofs has it, with the answer that the id
//! gives (`protocol::keys`); here is the same with ASKING as it comes over the wire. Two rows of
//! the table have no original inside one process: writes that pause during an atomic handover,
//! whose other side is here, and a replica that does not know that a slot is open: there are no
//! replicas.

use slotkeep::{
    AdminError, Asking, Client, Cluster, Compute, Error, MoveId, MovePhase, Node, NodeId, Redirect,
    Semantics, SetSlot, SetSlotError, Slot, SlotState,
};

const K: &str = "{b}:k";
const L: &str = "{b}:l";

fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

/// Three nodes, a client of ours and one as of Redis; slot 3300 belongs to the first node.
struct Stage {
    cluster: Cluster,
    ours: Client,
    as_redis: Client,
    source: Node,
    target: Node,
    slot: Slot,
}

impl Stage {
    fn new(keys: &[&str]) -> Self {
        let cluster = Cluster::builder().nodes(3).workers_per_node(1).build().expect("three nodes");
        let ours = cluster.client();
        for key in keys {
            ours.set(key, key.as_bytes()).expect("a slot that is served");
        }
        let as_redis = ours.with_own_map().with_semantics(Semantics::Redis);
        let (source, target) = (cluster.nodes()[0].clone(), cluster.nodes()[1].clone());
        Self { cluster, ours, as_redis, source, target, slot: Slot::of(K) }
    }

    /// IMPORTING and MIGRATING, and one key that travels, if there is any.
    #[track_caller]
    fn opened(keys: &[&str], moved: usize) -> (Self, MoveId) {
        let stage = Self::new(keys);
        let move_id = stage.open();
        if moved > 0 {
            let sent = stage.source.migrate_batch(stage.slot, move_id, moved);
            assert_eq!(sent.map(|sent| sent.moved), Ok(moved));
        }
        (stage, move_id)
    }

    #[track_caller]
    fn open(&self) -> MoveId {
        let importing = SetSlot::Importing { source: self.source.id() };
        let move_id = self.target.set_slot(self.slot, importing).expect("IMPORTING");
        let migrating = SetSlot::Migrating { target: self.target.id() };
        assert_eq!(self.source.set_slot(self.slot, migrating), Ok(move_id));
        move_id.expect("an id")
    }

    /// How many keys lie on the source and on the target.
    fn stored(&self) -> [usize; 2] {
        [&self.source, &self.target].map(|node| node.count_keys_in_slot(self.slot).unwrap())
    }

    fn states(&self) -> [SlotState; 2] {
        [&self.source, &self.target].map(|node| node.slot_state(self.slot).unwrap())
    }

    /// Checks that a verb is refused with this error and its text, and changes nothing.
    #[track_caller]
    fn check_refused(&self, node: &Node, verb: SetSlot, error: SetSlotError) {
        let before = (self.stored(), self.states(), self.cluster.slot_map());
        let refused = AdminError::SetSlot { slot: self.slot, error };
        assert_eq!(node.set_slot(self.slot, verb), Err(refused));
        assert_eq!((self.stored(), self.states(), self.cluster.slot_map()), before);
    }

    /// A verb as Redis does it.
    #[track_caller]
    fn redis(&self, node: &Node, verb: SetSlot) {
        assert_eq!(node.as_redis().set_slot(self.slot, verb), Ok(()));
    }
}

fn read(client: &Client, key: &str) -> Result<Option<Vec<u8>>, Error> {
    client.get(key).map(|value| value.map(|value| value.to_vec()))
}

/// What one node answers to a GET, in the words of Redis.
#[track_caller]
fn told(client: &Client, node: &Node, asking: Asking) -> String {
    let pinned = client.at(node.id(), asking).expect("a node of this cluster");
    match read(&pinned, K) {
        Ok(Some(value)) => String::from_utf8_lossy(&value).into_owned(),
        Ok(None) => "(nil)".to_owned(),
        Err(error) => error.redis_text(),
    }
}

#[test]
fn stable_with_split_keys_is_refused_where_redis_loses_sight_of_the_moved_ones() {
    let (stage, move_id) = Stage::opened(&[K], 1);
    for node in [&stage.source, &stage.target] {
        stage.check_refused(node, SetSlot::Stable, SetSlotError::KeysSplit);
    }
    assert_eq!(read(&stage.ours, K), Ok(Some(K.into())));
    // As in Redis: done, and the key is nowhere to be found, though it is there.
    stage.redis(&stage.source, SetSlot::Stable);
    stage.redis(&stage.target, SetSlot::Stable);
    assert_eq!(read(&stage.as_redis, K), Ok(None));
    assert_eq!(told(&stage.as_redis, &stage.target, Asking::Any), "MOVED 3300 :0");
    assert_eq!(stage.stored(), [0, 1]);
    let record = stage.cluster.move_record(move_id).expect("a move that is remembered");
    assert_eq!(record.phase, MovePhase::Aborted, "no mark is left of it");
}

#[test]
fn node_on_the_target_is_refused_where_redis_deletes_the_keys_of_the_source() {
    let (stage, move_id) = Stage::opened(&[K, L], 1);
    let node = SetSlot::Node { owner: stage.target.id() };
    let held = SetSlotError::SourceHoldsKeys { source_node: stage.source.id() };
    stage.check_refused(&stage.target, node, held);
    // As in Redis: done, and the source deletes what it has as soon as it hears of it.
    stage.redis(&stage.target, node);
    assert_eq!(stage.stored(), [0, 1], "one of two keys is gone for good");
    let found = [K, L].map(|key| read(&stage.as_redis, key).unwrap().is_some());
    assert_eq!(found.iter().filter(|found| **found).count(), 1);
    let migrating = SlotState::Migrating { target: stage.target.id(), id: move_id };
    assert_eq!(stage.states(), [migrating, SlotState::Stable], "the source's mark stays");
    stage.redis(&stage.source, node);
    assert_eq!(stage.states(), [SlotState::Stable; 2]);
    let record = stage.cluster.move_record(move_id).expect("a move that is remembered");
    assert_eq!(record.phase, MovePhase::Completed);
}

#[test]
fn the_source_cannot_flip_first_where_redis_sends_clients_to_and_fro() {
    let (stage, _) = Stage::opened(&[], 0);
    let node = SetSlot::Node { owner: stage.target.id() };
    stage.check_refused(&stage.source, node, SetSlotError::WrongOrder);
    assert_eq!(read(&stage.ours, K), Ok(None));
    // As in Redis: each says that it is the other's, until NODE on the target.
    stage.redis(&stage.source, node);
    let (lost, hops) = stage.as_redis.traced(|client| read(client, K));
    assert!(matches!(lost, Err(Error::TooManyRedirects { .. })), "{lost:?}");
    assert!(hops.iter().all(|hop| hop.asking.is_none()), "MOVED, and nothing else");
    assert_eq!(told(&stage.as_redis, &stage.source, Asking::No), "MOVED 3300 :1");
    assert_eq!(told(&stage.as_redis, &stage.target, Asking::No), "MOVED 3300 :0");
    // What others remember of the source makes it no owner again.
    let contact = SetSlot::Node { owner: id(2) };
    assert_eq!(stage.source.set_slot(stage.slot, contact), Ok(None));
    assert_eq!(told(&stage.as_redis, &stage.source, Asking::No), "MOVED 3300 :1");
    stage.redis(&stage.target, node);
    stage.as_redis.set(K, b"v").expect("a slot that is served");
    assert_eq!(read(&stage.ours, K), Ok(Some(b"v".to_vec())));
    let owners = stage.cluster.nodes().into_iter().map(|node| node.slot_owner(stage.slot).owner);
    assert!(owners.eq([Some(id(1)); 3]));
}

#[test]
fn delslots_of_a_slot_with_keys_is_refused_where_redis_strands_them() {
    let stage = Stage::new(&[K]);
    let refused = stage.source.del_slots(&[stage.slot]);
    assert_eq!(refused, Err(AdminError::SlotHoldsKeys { slot: stage.slot }));
    assert_eq!(read(&stage.ours, K), Ok(Some(K.into())));
    // As in Redis: the owner knows of none, the others hear nothing, the key stays.
    stage.cluster.nodes().iter().for_each(|node| node.set_full_coverage(false));
    stage.source.as_redis().del_slots(&[stage.slot]).unwrap();
    let not_served = "CLUSTERDOWN Hash slot not served";
    assert_eq!(told(&stage.as_redis, &stage.source, Asking::No), not_served);
    assert_eq!(told(&stage.as_redis, &stage.target, Asking::No), "MOVED 3300 :0");
    assert_eq!(stage.stored(), [1, 0]);
    let again = stage.source.as_redis().del_slots(&[stage.slot]).unwrap_err();
    assert_eq!(again.redis_text(), "ERR Slot 3300 is already unassigned");
    let twice = stage.target.as_redis().del_slots(&[stage.slot, stage.slot]).unwrap_err();
    assert_eq!(twice.redis_text(), "ERR Slot 3300 specified multiple times");
    // NODE by hand, of the owner whom the others know, brings it back.
    stage.redis(&stage.source, SetSlot::Node { owner: stage.source.id() });
    assert_eq!(read(&stage.ours, K), Ok(Some(K.into())));
    assert_eq!(stage.source.slot_owner(stage.slot), stage.target.slot_owner(stage.slot));
}

#[test]
fn two_new_keys_are_written_where_redis_says_ask_and_tryagain_until_the_move_ends() {
    let (stage, move_id) = Stage::opened(&[], 0);
    let entries = [(K, &b"v"[..]), (L, b"v")];
    let ask = Redirect::Ask { slot: stage.slot, target: id(1), id: move_id };
    for asking in [Asking::Any, Asking::Move(move_id)] {
        let at_source = stage.as_redis.at(id(0), Asking::No).unwrap();
        assert_eq!(at_source.mset(entries), Err(Error::Redirected(ask)));
        let at_target = stage.as_redis.at(id(1), asking).unwrap();
        let split = at_target.mset(entries).unwrap_err();
        let text = "TRYAGAIN Multiple keys request during rehashing of slot";
        assert_eq!(split.redis_text(), text, "{asking:?}");
    }
    assert_eq!(stage.as_redis.mset(entries), Err(Error::TryAgain { slot: stage.slot }));
    assert_eq!(stage.stored(), [0, 0]);
    assert_eq!(stage.ours.mset(entries), Ok(()));
    assert_eq!(stage.stored(), [0, 2]);
}

/// The original honours it: the GET reads nothing, and the SET makes a second home of the key.
#[test]
fn a_late_asking_without_an_id_opens_nothing_while_the_source_has_the_key() {
    let (stage, _) = Stage::opened(&[], 0);
    assert!(told(&stage.as_redis, &stage.source, Asking::No).starts_with("ASK 3300 :1"));
    stage.source.set_slot(stage.slot, SetSlot::Stable).unwrap();
    stage.ours.set(K, b"v").unwrap();
    let importing = SetSlot::Importing { source: stage.source.id() };
    let move_id = stage.target.set_slot(stage.slot, importing).unwrap();
    let late = stage.as_redis.at(stage.target.id(), Asking::Any).unwrap();
    let moved = Error::Redirected(Redirect::Moved { slot: stage.slot, owner: id(0) });
    let check = || {
        assert_eq!(read(&late, K), Err(moved));
        assert_eq!(late.set(K, b"late").map_err(Error::from), Err(moved));
        assert_eq!(stage.stored(), [1, 0]);
    };
    check();
    assert_eq!(read(&late, L), Err(moved), "nothing is served before the source migrates");
    let migrating = SetSlot::Migrating { target: stage.target.id() };
    assert_eq!(stage.source.set_slot(stage.slot, migrating), Ok(move_id));
    check();
    // What the source has not is the target's.
    assert_eq!(read(&late, L), Ok(None));
    late.set(L, b"v").unwrap();
    assert_eq!(stage.stored(), [1, 1]);
    // Clients of the engine's own answers have no such ASKING.
    let ours = stage.ours.at(stage.target.id(), Asking::Any).unwrap();
    assert_eq!(read(&ours, L), Err(moved));
}

#[test]
fn a_move_to_oneself_or_from_a_stranger_is_refused_where_redis_accepts_it() {
    let stage = Stage::new(&[]);
    let [me, stranger] = [0, 2].map(id);
    let to_me = SetSlot::Migrating { target: me };
    stage.check_refused(&stage.source, to_me, SetSlotError::MoveToSelf { node: me });
    let from_me = SetSlot::Importing { source: stage.target.id() };
    let to_itself = SetSlotError::MoveToSelf { node: stage.target.id() };
    stage.check_refused(&stage.target, from_me, to_itself);
    let from_stranger = SetSlot::Importing { source: stranger };
    let not_owner = SetSlotError::SourceNotOwner { source_node: stranger };
    stage.check_refused(&stage.target, from_stranger, not_owner);
    // As in Redis: all of it is accepted, and a missing key is asked for in a circle.
    stage.redis(&stage.source, to_me);
    assert!(told(&stage.as_redis, &stage.source, Asking::No).starts_with("ASK 3300 :0"));
    for client in [&stage.as_redis, &stage.ours] {
        let lost = read(client, K);
        assert!(matches!(lost, Err(Error::TooManyRedirects { .. })), "{lost:?}");
        let both = client.mget(&[K, L]).map(drop);
        assert!(matches!(both, Err(Error::TooManyRedirects { .. })), "{both:?}");
    }
    for verb in [from_me, from_stranger] {
        stage.redis(&stage.target, verb);
        assert_eq!(told(&stage.as_redis, &stage.target, Asking::Any), "MOVED 3300 :0");
    }
    // A mark that names its own node hurts nothing that looks at both sides of a move.
    assert_eq!(stage.ours.entries_of_slot(stage.slot).map(|entries| entries.len()), Ok(0));
    assert!(stage.source.set_slot(stage.slot, SetSlot::Stable).is_err());
    assert!(stage.source.migrate_batch(stage.slot, MoveId::new(1), 1).is_err());
    stage.redis(&stage.source, SetSlot::Stable);
    assert_eq!(read(&stage.ours, K), Ok(None));
}

/// The original, some 125 ms in which no slot of the source takes a write, has no place in one
/// process. Here the handover itself is made to wait, and the others do not wait with it.
#[test]
fn a_handover_pauses_no_write_where_redis_pauses_the_whole_node() {
    let stage = Stage::new(&[K]);
    let Stage { ours, source, target, slot, .. } = &stage;
    let others: Vec<_> = (0..200).map(|number| format!("other:{number}")).collect();
    let is_beside =
        |key: &&String| Slot::of(key) != *slot && source.slots().contains(Slot::of(key));
    let beside: Vec<_> = others.iter().filter(is_beside).collect();
    assert!(beside.len() > 10);
    std::thread::scope(|scope| {
        let mut handing = None;
        let kept = ours.compute(K, |_| {
            // This closure has the token that the handover wants.
            let handing = handing.insert(scope.spawn(|| source.hand_over(*slot, target.id())));
            let write = || beside.iter().try_for_each(|key| ours.trying().set(key, b"v"));
            assert_eq!(scope.spawn(write).join().expect("no panic").map_err(Error::from), Ok(()));
            assert!(!handing.is_finished());
            Compute::Keep
        });
        assert!(kept.is_ok());
        let handed = handing.expect("a thread").join().expect("no panic");
        assert_eq!(handed.map(|handed| handed.keys), Ok(1));
    });
    let (found, hops) = ours.traced(|client| read(client, K));
    assert_eq!(found, Ok(Some(K.into())));
    assert_eq!(hops.len(), 2, "MOVED, once: {hops:?}");
}

/// What a Redis server refuses is refused with its words, and changes nothing.
#[test]
fn what_redis_refuses_is_refused_in_its_words() {
    let stage = Stage::new(&[K]);
    let nobody = id(77);
    for (node, verb, text) in [
        (
            &stage.target,
            SetSlot::Migrating { target: id(2) },
            "ERR I'm not the owner of hash slot 3300",
        ),
        (
            &stage.source,
            SetSlot::Importing { source: id(2) },
            "ERR I'm already the owner of hash slot 3300",
        ),
        (&stage.source, SetSlot::Migrating { target: nobody }, "ERR I don't know about node 77"),
        (&stage.target, SetSlot::Importing { source: nobody }, "ERR I don't know about node 77"),
        (&stage.source, SetSlot::Node { owner: nobody }, "ERR Unknown node 77"),
        (
            &stage.source,
            SetSlot::Node { owner: id(1) },
            "ERR Can't assign hashslot 3300 to a different node \
             while I still hold keys for this hash slot.",
        ),
    ] {
        let refused = node.as_redis().set_slot(stage.slot, verb).unwrap_err();
        assert_eq!(refused.redis_text(), text);
        assert_eq!(stage.states(), [SlotState::Stable; 2]);
    }
    assert_eq!(read(&stage.ours, K), Ok(Some(K.into())));
}

/// A slot that is bound by hand has two owners, until the next flip: Redis mends it by heartbeats.
#[test]
fn node_without_importing_binds_a_slot_on_one_node_only() {
    let stage = Stage::new(&[K]);
    stage.redis(&stage.target, SetSlot::Node { owner: stage.target.id() });
    assert_eq!(told(&stage.as_redis, &stage.source, Asking::No), K);
    assert_eq!(told(&stage.as_redis, &stage.target, Asking::No), "(nil)");
    assert_eq!(read(&stage.ours, K), Ok(Some(K.into())), "others have heard nothing");
    stage.redis(&stage.target, SetSlot::Node { owner: stage.source.id() });
    assert_eq!(told(&stage.as_redis, &stage.target, Asking::No), "MOVED 3300 :0");
    // And a whole move goes through afterwards.
    let move_id = stage.open();
    stage.source.migrate_batch(stage.slot, move_id, 8).unwrap();
    let node = SetSlot::Node { owner: stage.target.id() };
    assert_eq!(stage.target.set_slot(stage.slot, node), Ok(Some(move_id)));
    assert_eq!(read(&stage.as_redis, K), Ok(Some(K.into())));
}

/// Marks are overwritten as in Redis, and the records of their moves do not pile up.
#[test]
fn a_move_whose_marks_were_overwritten_has_ended() {
    let stage = Stage::new(&[]);
    for _ in 0..10 {
        for source in [id(0), id(2)] {
            stage.redis(&stage.target, SetSlot::Importing { source });
        }
    }
    let open = |stage: &Stage| {
        stage.cluster.moves().iter().filter(|record| !record.phase.is_ended()).count()
    };
    assert_eq!(open(&stage), 1);
    stage.redis(&stage.target, SetSlot::Stable);
    assert_eq!(open(&stage), 0);
}
