//! Clients: maps that never go back, and calls that movers cannot starve.

use slotkeep::reshard::{Move, MoveStep, PlannedMove};
use slotkeep::{AdminError, Answer, MoveId, Semantics, SetSlot, Steps, WorkerError};

use crate::rig::{A, B, C, D, K, L, Rig, check_way, id, redirects};

/// Two keys whose slots, 12739 and 15495, the last of four nodes owns at the start.
const OF_D: [&[u8]; 2] = [b"123456789", b"{a}"];

/// Row 11: a client that took a whole map from a node which had not heard went in a circle.
#[test]
fn a_map_from_a_node_that_has_not_heard_changes_nothing_that_is_newer() {
    let rig = Rig::held(4);
    rig.write(K, "v");
    let client = rig.cluster.client();
    rig.complete(A, B);
    rig.complete(B, C);
    for key in OF_D {
        rig.about(key).complete(D, A);
    }
    assert_eq!(rig.seen_by(D), Some(A), "D has not heard of either move");
    check_way(&client, K, Some("v"), &[A, B, C]);
    // The second of these MOVED makes the client take D's whole map.
    check_way(&client, OF_D[0], None, &[D, A]);
    check_way(&client, OF_D[1], None, &[D, A]);
    check_way(&client, K, Some("v"), &[C]);
    rig.check_settled(C);
}

/// With messages held back a call meets each wrong node once: nodes - 1 MOVED and one ASK.
#[test]
fn with_held_messages_no_call_meets_a_node_twice() {
    let rig = Rig::held(4);
    rig.write(K, "v");
    let client = rig.cluster.client();
    rig.complete(A, B);
    rig.complete(B, C);
    assert_eq!(rig.tell(D, C), Ok(None));
    let id = rig.open(C, D);
    rig.send_all(C, id);
    check_way(&client, K, Some("v"), &[A, B, C, D]);
    assert_eq!(rig.take(D), Ok(Some(id)));
    rig.check_settled(D);
}

/// Takes so many steps of one move after another, from owner to owner, and never stops.
struct RestlessMover {
    current: Option<Move<[u8]>>,
}

impl RestlessMover {
    fn step(&mut self, rig: &Rig) {
        let slot = rig.slot();
        let driver = self.current.get_or_insert_with(|| {
            let source = rig.node(A).slot_owner(slot).owner.expect("an owner");
            let target = id((source.index() + 1) % rig.cluster.node_count());
            let planned = PlannedMove { slot, source, target };
            Move::new(&rig.cluster, planned, 1).expect("nodes of this cluster")
        });
        match driver.step().expect("a step that is legal") {
            MoveStep::More | MoveStep::Busy => {}
            MoveStep::Paused | MoveStep::Wait { .. } => unreachable!("nobody holds it back"),
            MoveStep::Done { .. } => self.current = None,
        }
    }
}

/// Row 18: without a gate a call can lose against a busy mover for ever.
#[test]
fn a_call_is_answered_within_seven_redirects_however_busy_the_movers_are() {
    let rig = Rig::new(3);
    rig.write(K, "v");
    let mut mover = RestlessMover { current: None };
    // One client: its map knows where the last call ended, and the slot has moved on since.
    let client = rig.cluster.client();
    let mut most = 0;
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (answer, hops) = client.traced(|client| {
            let mut call = client.step_get(K);
            loop {
                // Seven steps are a whole move; most calls meet one half done.
                for _ in 0..random.usize(5..9) {
                    mover.step(&rig);
                }
                if let Some(answer) = call.step() {
                    break answer;
                }
            }
        });
        assert_eq!(answer.unwrap().as_deref(), Some(&b"v"[..]), "seed {seed}");
        most = most.max(redirects(&hops));
        assert!(redirects(&hops) <= 7, "seed {seed}: {hops:?}");
    }
    assert!(most > 4, "the movers did not come near the gate: {most}");
}

/// Moves the slot away before each of five steps of a call: the last one leaves it at C, which
/// migrates to A, and the call in the gate.
#[track_caller]
fn enter_gate<T>(rig: &Rig, call: &mut Steps<'_, T>) -> MoveId {
    for (source, target) in [(A, B), (B, C), (C, A), (A, B)] {
        rig.complete(source, target);
        assert!(call.step().is_none());
    }
    rig.complete(B, C);
    let id = rig.open(C, A);
    assert!(call.step().is_none(), "the fifth redirect");
    id
}

/// Row 18: the gate holds verbs off while a call is inside, and no longer.
#[test]
fn verbs_answer_busy_while_a_call_is_in_the_gate_and_pass_when_its_keys_were_pulled() {
    let rig = Rig::new(3);
    rig.write(K, "1");
    rig.write(L, "2");
    let busy = AdminError::Worker(WorkerError::Busy);
    let stable = |at| rig.node(at).set_slot(rig.slot(), SetSlot::Stable);
    let client = rig.cluster.client();
    let mut call = client.step_mget(&[K, L]);
    let id = enter_gate(&rig, &mut call);
    assert_eq!(stable(C), Err(busy));
    assert_eq!(rig.cluster.abort_step(id, 1), Err(busy));
    assert_eq!(rig.batch(C, id, 1).unwrap().moved, 1, "batches pass the gate");
    assert!(call.step().is_none(), "the keys are split");
    assert_eq!(stable(C), Err(busy), "the call is inside until it is answered");
    assert_eq!(call.finish().unwrap().len(), 2);
    assert_eq!([rig.stored(C), rig.stored(A)], [0, 2], "pulled to the target");
    assert_eq!(rig.take(A), Ok(Some(id)));
    rig.check_settled(A);
}

/// Row 18, for a client that is answered as by Redis: it leaves the gate, so that the move goes on.
#[test]
fn as_in_redis_a_call_leaves_the_gate_when_it_is_told_to_try_again() {
    let rig = Rig::new(3);
    rig.write(K, "1");
    rig.write(L, "2");
    let busy = Err(AdminError::Worker(WorkerError::Busy));
    let stable = |at| rig.node(at).set_slot(rig.slot(), SetSlot::Stable);
    let client = rig.cluster.client().with_semantics(Semantics::Redis);
    let (answer, hops) = client.traced(|client| {
        let mut call = client.step_mget(&[K, L]);
        let id = enter_gate(&rig, &mut call);
        assert_eq!(stable(C), busy);
        assert_eq!(rig.batch(C, id, 1).unwrap().moved, 1, "batches pass the gate");
        assert!(call.step().is_none(), "the keys are split");
        assert_ne!(stable(C), busy, "the call has left the gate");
        rig.send_all(C, id);
        let answer = call.finish();
        assert_eq!(rig.take(A), Ok(Some(id)));
        answer
    });
    assert_eq!(answer.unwrap().len(), 2);
    assert!(hops.iter().any(|hop| hop.answer == Answer::TryAgain), "{hops:?}");
    rig.check_settled(A);
}
