//! MOVED and ASK, watched: a ledger's slot moves key by key from node 2 to node 3 of three.
//!
//! Nodes are counted from 1 here; their ids count from 0. A fresh client asks the owner. A client
//! that remembers node 3 from an earlier time asks there first: without ASKING.
#![expect(clippy::panic_in_result_fn, reason = "an example asserts what it prints")]

use std::error::Error;

use slotkeep::{
    Answer, Client, Cluster, Hop, MigrateOptions, MoveId, Node, NodeId, Semantics, SetSlot, Slot,
    SlotState,
};

const BALANCE: &str = "{acct:58}:balance";
const ENTRIES: &str = "{acct:58}:entries";

type Shown = Result<(), Box<dyn Error>>;

/// The name of a node, counted from 1.
fn name(id: NodeId) -> String {
    format!("node {}", id.index() + 1)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these are the answers that this story has")]
fn describe(hop: &Hop) -> String {
    let asking = if hop.asking.is_some() { " after ASKING" } else { "" };
    let answer = match hop.answer {
        Answer::Served => "served".to_owned(),
        Answer::Moved { owner } => format!("MOVED, to {}", name(owner)),
        Answer::Ask { target, .. } => format!("ASK {}", name(target)),
        Answer::TryAgain => "TRYAGAIN".to_owned(),
        Answer::Pull { source, target } => {
            format!("pulled from {} to {}", name(source), name(target))
        }
        other => format!("{other:?}"),
    };
    format!("{}{asking}: {answer}", name(hop.node))
}

/// Reads keys, prints what each node answered, and expects these answers.
#[track_caller]
fn check_read(client: &Client, keys: &[&str], expected: &[&str]) {
    let (answer, hops) = client.traced(|client| client.mget(keys));
    let mut answers: Vec<_> = hops.iter().map(describe).collect();
    // A call repeats after TRYAGAIN, and is answered the same.
    answers.dedup();
    let names: Vec<_> = keys.iter().map(|key| key.trim_start_matches("{acct:58}:")).collect();
    println!("   {:<19} {}", names.join(" and "), answers.join("; "));
    assert_eq!(answers, expected);
    match answer {
        Ok(values) => assert!(values.iter().all(Option::is_some)),
        Err(error) => println!("   {:<19} the call ends with {}", "", error.redis_text()),
    }
}

/// The stage: the cluster, the two nodes, and clients that remember node 3 as the owner.
struct Stage {
    cluster: Cluster,
    slot: Slot,
    source: Node,
    target: Node,
    remembering: Vec<Client>,
}

impl Stage {
    fn new() -> Result<Self, Box<dyn Error>> {
        let cluster = Cluster::builder().nodes(3).build()?;
        let slot = Slot::of(BALANCE);
        assert_eq!((slot.number(), Slot::of(ENTRIES)), (10_838, slot));
        let [_, source, target] = cluster.nodes().try_into().map_err(|_| "three nodes")?;
        let mut stage = Self { cluster, slot, source, target, remembering: Vec::new() };
        assert_eq!(stage.cluster.slot_map().owner(slot), Some(stage.source.id()));
        // Each of these clients is used once: one MOVED, and it knows better.
        stage.move_empty(&stage.source, &stage.target)?;
        stage.remembering = (0..8).map(|_| stage.cluster.client()).collect();
        stage.move_empty(&stage.target, &stage.source)?;
        Ok(stage)
    }

    /// Opens the move of the slot: IMPORTING on the target, then MIGRATING on the source.
    fn open(&self, source: &Node, target: &Node) -> Result<MoveId, Box<dyn Error>> {
        let importing = SetSlot::Importing { source: source.id() };
        let id = target.set_slot(self.slot, importing)?.ok_or("IMPORTING draws an id")?;
        source.set_slot_step(self.slot, SetSlot::Migrating { target: target.id() }, id)?;
        Ok(id)
    }

    /// Closes the move of the slot: NODE on the target, which is the flip, then on the source.
    fn flip(&self, source: &Node, target: &Node, id: MoveId) -> Shown {
        let verb = SetSlot::Node { owner: target.id() };
        target.set_slot_step(self.slot, verb, id)?;
        source.set_slot(self.slot, verb)?;
        Ok(())
    }

    fn move_empty(&self, source: &Node, target: &Node) -> Shown {
        let id = self.open(source, target)?;
        self.flip(source, target, id)
    }

    /// Reads with a client that knows the owner.
    #[track_caller]
    fn read_fresh(&self, key: &str, expected: &[&str]) {
        check_read(&self.cluster.client(), &[key], expected);
    }

    /// Reads with a client that asks node 3 first.
    #[track_caller]
    fn read_remembering(&mut self, key: &str, expected: &[&str]) {
        let client = self.remembering.pop().expect("as many clients as reads");
        println!("   by a client that takes node 3 for the owner:");
        check_read(&client, &[key], expected);
    }

    /// Prints the marks of both nodes and where the keys lie.
    #[expect(clippy::wildcard_enum_match_arm, reason = "these are the marks that this story has")]
    fn show(&self, step: &str) -> Shown {
        println!("\n{step}");
        for node in [&self.source, &self.target] {
            let state = match node.slot_state(self.slot)? {
                SlotState::Stable => "no mark".to_owned(),
                SlotState::Migrating { target, .. } => format!("MIGRATING to {}", name(target)),
                SlotState::Importing { source, .. } => format!("IMPORTING from {}", name(source)),
                other => format!("{other:?}"),
            };
            let mut keys = Vec::new();
            for key in [BALANCE, ENTRIES] {
                let explained = self.cluster.client().explain(key)?;
                let here = explained.nodes.iter().any(|at| at.node == node.id() && at.present);
                keys.extend(here.then_some(key));
            }
            let keys = if keys.is_empty() { "no key".to_owned() } else { keys.join(" and ") };
            println!("   {}: {state}, has {keys}", name(node.id()));
        }
        Ok(())
    }
}

fn main() -> Shown {
    let mut stage = Stage::new()?;
    let client = stage.cluster.client();
    client.mset([(BALANCE, &b"100"[..]), (ENTRIES, b"+100")])?;
    println!("slot {} holds a ledger; it moves from node 2 to node 3", stage.slot);

    stage.show("1. no move: node 2 serves, node 3 answers MOVED")?;
    stage.read_fresh(BALANCE, &["node 2: served"]);
    stage.read_remembering(BALANCE, &["node 3: MOVED, to node 2", "node 2: served"]);

    let (source, target) = (stage.source.clone(), stage.target.clone());
    let id = stage.open(&source, &target)?;
    stage.show("2. the move is open, no key has travelled: nothing changes for the keys")?;
    stage.read_fresh(BALANCE, &["node 2: served"]);
    stage.read_remembering(BALANCE, &["node 3: MOVED, to node 2", "node 2: served"]);

    source.migrate_keys(&[BALANCE], target.id(), MigrateOptions::default())?;
    stage
        .show("3. balance has travelled: node 2 answers ASK, node 3 serves it after ASKING only")?;
    let asked = ["node 2: ASK node 3", "node 3 after ASKING: served"];
    stage.read_fresh(BALANCE, &asked);
    stage.read_fresh(ENTRIES, &["node 2: served"]);
    stage.read_remembering(BALANCE, &["node 3: MOVED, to node 2", asked[0], asked[1]]);

    println!("   by a client that is answered as by Redis, then by ours:");
    let as_redis = client.with_semantics(Semantics::Redis);
    check_read(&as_redis, &[BALANCE, ENTRIES], &["node 2: TRYAGAIN"]);
    let pulled = ["node 2: pulled from node 2 to node 3", "node 3: served"];
    check_read(&client, &[BALANCE, ENTRIES], &pulled);

    stage.show("4. the pull has taken entries along: node 3 has the keys, node 2 is the owner")?;
    stage.read_fresh(BALANCE, &asked);
    check_read(&as_redis, &[BALANCE, ENTRIES], &asked);
    assert_eq!(client.slot_map().owner(stage.slot), Some(source.id()), "ASK changes no map");

    stage.flip(&source, &target, id)?;
    stage.show("5. the flip: node 3 is the owner, node 2 answers MOVED, once")?;
    check_read(&client, &[BALANCE], &["node 2: MOVED, to node 3", "node 3: served"]);
    check_read(&client, &[ENTRIES], &["node 3: served"]);
    stage.read_fresh(BALANCE, &["node 3: served"]);
    Ok(())
}
