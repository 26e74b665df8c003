//! Check and fix through the public API, while calls run and drivers die.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use slotkeep::reshard::{Finding, FixOptions, Move, MoveStep, PlannedMove, Resume};
use slotkeep::{AdminError, Asking, Cluster, Error, NodeId, SetSlot, SetSlotError, SlotSet};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{key, keys, slot, watched};

fn two_nodes() -> Cluster {
    Cluster::builder().nodes(2).workers_per_node(1).build().expect("two nodes")
}

fn only() -> SlotSet {
    [slot()].into_iter().collect()
}

fn sides(cluster: &Cluster) -> (NodeId, NodeId) {
    let source = cluster.slot_owner(slot()).owner.expect("an owner");
    let target = cluster.node_ids().into_iter().find(|&id| id != source).expect("two nodes");
    (source, target)
}

#[test]
fn a_healthy_cluster_has_no_findings_and_a_fix_does_nothing() {
    let cluster = two_nodes();
    let client = cluster.client();
    client.set_many(keys(100).iter().map(|name| (name, &b"v"[..]))).unwrap();
    let found = cluster.check().unwrap();
    assert!(found.is_healthy() && found.to_string().is_empty(), "{found}");
    let fixed = cluster.fix().unwrap();
    assert!(fixed.is_empty() && fixed.to_string().is_empty(), "{fixed}");
}

#[test]
fn an_open_move_is_named_with_its_nodes_and_finished() {
    let cluster = two_nodes();
    let client = cluster.client();
    client.set(key(1), b"v").unwrap();
    let (source, target) = sides(&cluster);
    let mut driver = Move::new(&cluster, PlannedMove { slot: slot(), source, target }, 1).unwrap();
    driver.step().unwrap();
    driver.step().unwrap();
    let id = driver.id().unwrap();
    let found = cluster.check().unwrap();
    let named =
        format!("slot {}: move {id} from {source} to {target} is open: Migrating\n", slot());
    assert_eq!(found.to_string(), named);
    assert!(matches!(found.findings[..], [Finding::OpenMove { .. }]));
    let fixed = cluster.fix().unwrap();
    assert_eq!(fixed.to_string(), named.replace(": Migrating", ": Migrating: Finished"));
    assert_eq!(cluster.slot_owner(slot()).owner, Some(target));
    assert_eq!(client.get(key(1)).unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn an_abort_drops_no_key_of_a_lone_importer_and_says_so_instead_of_going_on() {
    let cluster = two_nodes();
    let client = cluster.client();
    let (source, target) = sides(&cluster);
    let importing = SetSlot::Importing { source };
    let id = cluster.node(target).unwrap().set_slot(slot(), importing).unwrap().unwrap();
    // The source never takes the move over, and somebody writes at the importer by its id.
    client.at(target, Asking::Move(id)).unwrap().set(key(1), b"stray").unwrap();
    let split = AdminError::SetSlot { slot: slot(), error: SetSlotError::KeysSplit };
    assert_eq!(cluster.abort_step(id, 8), Err(split));
    assert_eq!(cluster.move_record(id).unwrap().last_error, Some(split));
    cluster.fix().unwrap();
    assert!(cluster.check().unwrap().is_healthy());
    assert_eq!(client.get(key(1)).unwrap().as_deref(), Some(&b"stray"[..]));
}

#[test]
fn verbs_of_repair_refuse_what_the_verbs_of_a_move_can_do() {
    let cluster = two_nodes();
    let (source, target) = sides(&cluster);
    let [owner, other] = [source, target].map(|id| cluster.node(id).unwrap());
    let refused = |error| Err(AdminError::SetSlot { slot: slot(), error });
    let not_owner = SetSlotError::NotOwner { node: target };
    assert_eq!(other.reclaim(slot(), source), refused(not_owner));
    let old = cluster.slot_owner(slot());
    owner.claim_slot(slot(), old).unwrap();
    assert!(cluster.slot_owner(slot()).epoch > old.epoch);
    assert_eq!(other.claim_slot(slot(), old), Err(AdminError::SlotBusy { slot: slot() }));
    let mut driver = Move::new(&cluster, PlannedMove { slot: slot(), source, target }, 1).unwrap();
    driver.step().unwrap();
    driver.step().unwrap();
    let open = SetSlotError::SlotIsOpen { node: source, id: driver.id().unwrap() };
    assert_eq!(owner.reclaim(slot(), target), refused(open));
    while !matches!(driver.step().unwrap(), MoveStep::Done { .. }) {}
    cluster.shutdown();
    assert_eq!(cluster.check(), Err(Error::Closed));
    assert_eq!(cluster.fix(), Err(Error::Closed));
}

/// Writers add up while drivers die at any step and fixes close what they leave.
#[test]
fn fixes_under_load_lose_no_write() {
    const DEATHS: usize = 200;
    watched("fixes under load", || {
        let cluster = two_nodes();
        let names = keys(12);
        let done = AtomicBool::new(false);
        let added = thread::scope(|scope| {
            let write = || {
                let client = cluster.client();
                let mut added = vec![0_i64; names.len()];
                for number in (0..names.len()).cycle() {
                    if done.load(Ordering::Acquire) {
                        return added;
                    }
                    client.incr(&names[number], 1).expect("a slot that is served");
                    added[number] += 1;
                }
                added
            };
            let writers: Vec<_> = (0..2).map(|_| scope.spawn(write)).collect();
            let mut repairs = 0;
            for round in 0..DEATHS {
                let (source, target) = sides(&cluster);
                let planned = PlannedMove { slot: slot(), source, target };
                let mut driver = Move::new(&cluster, planned, 3).unwrap();
                for _ in 0..round % 9 {
                    driver.step().unwrap();
                }
                if round % 4 == 3 {
                    driver.abort();
                    driver.step().unwrap();
                }
                let how = if round % 2 == 0 { Resume::Finish } else { Resume::Abort };
                let options = FixOptions::new().open_moves(how);
                let fixed = cluster.fix_slots(&only(), options).unwrap();
                assert!(fixed.left.is_healthy(), "round {round}: {fixed}");
                repairs += fixed.repaired.len();
                assert!(cluster.check_slots(&only()).unwrap().is_healthy(), "round {round}");
            }
            assert!(repairs > DEATHS / 3, "{repairs} repairs");
            done.store(true, Ordering::Release);
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        let client = cluster.client();
        for (number, name) in names.iter().enumerate() {
            let sum: i64 = added.iter().map(|by_one| by_one[number]).sum();
            assert_eq!(client.incr(name, 0), Ok(sum), "{name}");
        }
    });
}
