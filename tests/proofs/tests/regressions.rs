//! What once went wrong, in step mode: each test fails without the mend of its fault.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::time::Duration;

use slotkeep::limits::{MIGRATE_BUCKETS, MIGRATE_KEYS_MAX};
use slotkeep::{AbortStep, Cluster, Error, MoveId, Node, NodeId, SetOptions, SetSlot, Slot};

type Tested = Result<(), Error>;

const SEED: u64 = 0x5107;
const TTL: Duration = Duration::from_secs(10);

/// How many keys of the slot expire: their table has some times [`MIGRATE_BUCKETS`] buckets.
const DYING: usize = 40_000;

/// How many of the others there are, test by test.
const LIVING: [usize; 2] = [0, 5];

/// More holds than any of these moves takes.
const HOLDS_MAX: usize = 100;

/// Two nodes without threads, the slot of all keys, and the two sides of its move.
struct Rig {
    cluster: Cluster,
    living: usize,
    slot: Slot,
    source: Node,
    target: Node,
}

impl Rig {
    /// The slot, with all its keys at the source: those that expire, and so many that do not.
    fn filled(living: usize) -> Result<Self, Error> {
        println!("seed {SEED:#x}, {living} keys live");
        let cluster = Cluster::builder().nodes(2).workers_per_node(1).step_mode(SEED).build()?;
        let client = cluster.client();
        let dying = SetOptions::new().expire_in(TTL);
        for number in 0..DYING {
            client.set_with(format!("{{b}}:dying:{number}"), b"v", &dying)?;
        }
        for number in 0..living {
            client.set(format!("{{b}}:living:{number}"), b"v")?;
        }
        let slot = Slot::of("b");
        let owner = cluster.slot_map().owner(slot).expect("every slot has an owner");
        let other = NodeId::new(1 - owner.index()).expect("a small index");
        let node = |id| cluster.node(id).expect("a node of this cluster");
        let (source, target) = (node(owner), node(other));
        Ok(Self { cluster, living, slot, source, target })
    }

    /// IMPORTING and MIGRATING.
    fn open(&self) -> Result<MoveId, Error> {
        let (source, target) = (self.source.id(), self.target.id());
        let id = self.target.set_slot(self.slot, SetSlot::Importing { source })?;
        self.source.set_slot(self.slot, SetSlot::Migrating { target })?;
        Ok(id.expect("IMPORTING draws an id"))
    }

    /// How many entries lie on a node, expired ones included.
    fn stored(&self, node: &Node) -> usize {
        node.count_keys_in_slot(self.slot).expect("an open cluster")
    }

    /// The slot is settled at its owner, with the living keys and no other.
    #[track_caller]
    fn check_settled(&self, owner: &Node, other: &Node) {
        assert_eq!(self.cluster.slot_map().owner(self.slot), Some(owner.id()));
        assert_eq!((self.stored(owner), self.stored(other)), (self.living, 0));
        for number in 0..self.living {
            let key = format!("{{b}}:living:{number}");
            assert_eq!(self.cluster.client().contains_key(key), Ok(true));
        }
        self.cluster.check_invariants();
    }
}

/// No hold dropped or moved more entries than it may look at, and none are left.
#[track_caller]
fn check_holds(left: &[usize]) {
    for pair in left.windows(2) {
        let gone = pair[0].checked_sub(pair[1]).expect("nothing came back");
        assert!(gone <= MIGRATE_BUCKETS, "{gone} entries in one hold: {left:?}");
    }
    assert_eq!(left.last(), Some(&0), "{left:?}");
}

#[test]
fn a_batch_among_many_expired_keys_is_bounded_and_the_move_completes() -> Tested {
    for living in LIVING {
        let rig = Rig::filled(living)?;
        rig.cluster.advance(TTL);
        let id = rig.open()?;
        let (mut moved, mut left) = (0, vec![rig.stored(&rig.source)]);
        assert_eq!(left, [DYING + living]);
        while left.last() != Some(&0) {
            let sent = rig.source.migrate_batch(rig.slot, id, MIGRATE_KEYS_MAX)?;
            moved += sent.moved;
            left.push(rig.stored(&rig.source));
            assert_eq!(left.last(), Some(&sent.left));
            assert!(left.len() <= HOLDS_MAX, "a move that comes to no end: {left:?}");
        }
        check_holds(&left);
        assert_eq!(moved, living);
        let owner = SetSlot::Node { owner: rig.target.id() };
        rig.target.set_slot_step(rig.slot, owner, id)?;
        rig.source.set_slot(rig.slot, owner)?;
        rig.check_settled(&rig.target, &rig.source);
    }
    Ok(())
}

#[test]
fn an_abort_among_many_expired_keys_is_bounded_a_step_and_ends() -> Tested {
    for living in LIVING {
        let rig = Rig::filled(living)?;
        let id = rig.open()?;
        while rig.source.migrate_batch(rig.slot, id, MIGRATE_KEYS_MAX)?.left > 0 {}
        rig.cluster.advance(TTL);
        let mut left = vec![rig.stored(&rig.target)];
        assert_eq!(left, [DYING + living]);
        let mut step = AbortStep::More;
        while step == AbortStep::More {
            step = rig.cluster.abort_step(id, MIGRATE_KEYS_MAX)?;
            left.push(rig.stored(&rig.target));
            assert!(left.len() <= HOLDS_MAX, "an abort that comes to no end: {left:?}");
        }
        check_holds(&left);
        let record = rig.cluster.move_record(id).expect("a move that is remembered");
        assert_eq!(record.keys_returned, living as u64);
        rig.check_settled(&rig.source, &rig.target);
    }
    Ok(())
}
