//! Moves that are watched and held back: records, pauses, paces, and aborts at any step.

use std::time::{Duration, SystemTime};

use slotkeep::reshard::{Move, MoveStep, Pace, PlannedMove};
use slotkeep::{
    AdminError, Client, Cluster, MoveId, MovePhase, MoveRecord, NodeId, SetOptions, SetSlot, Slot,
    SlotState,
};

const SEED: u64 = 0x5107;
const TTL: Duration = Duration::from_secs(60);

/// A slot of the first of three nodes, and what its keys were set to.
struct Slots {
    cluster: Cluster,
    client: Client,
    expected: Vec<(String, String, Option<SystemTime>)>,
}

fn id(index: usize) -> NodeId {
    NodeId::new(index).expect("a small index")
}

fn slot() -> Slot {
    Slot::of("{b}")
}

fn planned() -> PlannedMove {
    PlannedMove { slot: slot(), source: id(0), target: id(1) }
}

impl Slots {
    /// So many keys; every third one has a deadline.
    fn of_keys(count: usize) -> Self {
        println!("seed {SEED:#x}");
        let builder = Cluster::builder().nodes(3).workers_per_node(1);
        let builder = builder.unassigned().full_coverage(false);
        let cluster = builder.step_mode(SEED).build().expect("three nodes");
        cluster.nodes()[0].add_slots(&[slot()]).expect("nobody has it");
        let client = cluster.client();
        let mut slots = Self { cluster, client, expected: Vec::new() };
        for number in 0..count {
            slots.write(&format!("{{b}}:{number}"), (number % 3 == 0).then_some(TTL));
        }
        slots
    }

    fn write(&mut self, name: &str, ttl: Option<Duration>) {
        let value = format!("value of {name}, {}", self.expected.len());
        let options = ttl.map_or(SetOptions::new(), |ttl| SetOptions::new().expire_in(ttl));
        self.client.set_with(name, value.as_bytes(), &options).expect("a slot that is served");
        let expiry = self.client.expiry(name).expect("an answer").expect("just written");
        self.expected.retain(|(other, ..)| other != name);
        self.expected.push((name.to_owned(), value, expiry));
    }

    fn driver(&self, batch_keys: usize) -> Move<[u8]> {
        Move::new(&self.cluster, planned(), batch_keys).expect("nodes of this cluster")
    }

    fn record(&self, id: MoveId) -> MoveRecord {
        self.cluster.move_record(id).expect("a move that is remembered")
    }

    fn states(&self) -> Vec<SlotState> {
        let nodes = self.cluster.nodes();
        nodes.iter().map(|node| node.slot_state(slot()).expect("an open cluster")).collect()
    }

    fn stored(&self) -> Vec<usize> {
        let nodes = self.cluster.nodes();
        nodes.iter().map(|node| node.count_live_keys_in_slot(slot()).expect("open")).collect()
    }

    /// Every key has its value and its deadline, for a client that knows nothing.
    #[track_caller]
    fn check_keys(&self) {
        let client = self.cluster.client();
        for (name, value, expiry) in &self.expected {
            let found = client.get(name).expect("an answer");
            assert_eq!(found.as_deref(), Some(value.as_bytes()), "{name}");
            assert_eq!(client.expiry(name), Ok(Some(*expiry)), "{name}");
        }
        self.cluster.check_invariants();
    }

    /// No mark is left, and every key lies on one node.
    #[track_caller]
    fn check_settled(&self, owner: usize) {
        assert_eq!(self.states(), [SlotState::Stable; 3]);
        let mut stored = [0; 3];
        stored[owner] = self.expected.len();
        assert_eq!(self.stored(), stored);
        assert_eq!(self.cluster.slot_map().owner(slot()), Some(id(owner)));
        self.check_keys();
    }
}

fn finish(driver: &mut Move<[u8]>) -> bool {
    loop {
        if let MoveStep::Done { flipped } = driver.step().expect("a step that is legal") {
            return flipped;
        }
    }
}

#[test]
fn the_record_counts_what_has_travelled_and_what_is_left() {
    let slots = Slots::of_keys(10);
    let source = slots.cluster.nodes()[0].clone();
    let table = source.memory_bytes_in_slot(slot()).unwrap() as u64;
    let mut driver = slots.driver(4);
    assert_eq!(driver.step(), Ok(MoveStep::More));
    let id = driver.id().expect("the target is marked");
    assert_eq!((slots.record(id).phase, slots.record(id).keys_left), (MovePhase::Importing, 0));
    assert_eq!(driver.step(), Ok(MoveStep::More));
    for (moved, left) in [(0, 10), (4, 6), (8, 2), (10, 0)] {
        let record = slots.record(id);
        assert_eq!((record.keys_moved, record.keys_left), (moved, left));
        assert_eq!(record.phase, MovePhase::Migrating);
        assert_eq!(driver.step(), Ok(MoveStep::More));
    }
    let bytes = slots.record(id).bytes_moved;
    assert!(bytes > 10 * 32 && bytes < table, "{bytes} of {table}");
    assert!(finish(&mut driver));
    let record = slots.record(id);
    assert_eq!((record.phase, record.keys_left, record.retries), (MovePhase::Completed, 0, 0));
    assert_eq!(slots.cluster.moves(), [record]);
}

#[test]
fn the_record_counts_what_is_left_to_travel_back_and_every_refusal() {
    let slots = Slots::of_keys(10);
    let mut driver = slots.driver(4);
    for _ in 0..4 {
        assert_eq!(driver.step(), Ok(MoveStep::More));
    }
    let id = driver.id().expect("an open move");
    let flip = SetSlot::Node { owner: planned().target };
    let target = slots.cluster.node(planned().target).expect("a node");
    for tries in 1..=3 {
        let refused = target.set_slot_step(slot(), flip, id).expect_err("keys are left");
        assert_eq!(slots.record(id).retries, tries);
        assert_eq!(slots.record(id).last_error, Some(refused));
    }
    driver.abort();
    for (returned, left) in [(0, 8), (4, 4)] {
        assert_eq!(driver.step(), Ok(MoveStep::More));
        let record = slots.record(id);
        assert_eq!((record.keys_returned, record.keys_left), (returned, left));
    }
    assert!(!finish(&mut driver));
    assert_eq!(slots.record(id).phase, MovePhase::Aborted);
    slots.check_settled(0);
}

#[test]
fn a_paused_move_keeps_its_marks_at_every_step_and_calls_are_served() {
    let steps = 9;
    for pause_after in 0..=steps {
        for by_id in [false, true] {
            let mut slots = Slots::of_keys(10);
            let mut driver = slots.driver(3);
            let control = driver.control();
            let mut done = false;
            for _ in 0..pause_after {
                done = matches!(driver.step().unwrap(), MoveStep::Done { .. });
            }
            let open = driver.id();
            let flipped =
                pause_after > 0 && open.is_none_or(|id| slots.record(id).phase.is_ended());
            match open {
                Some(id) if by_id && !flipped => slots.cluster.pause_move(id).unwrap(),
                _ => control.pause(),
            }
            if flipped {
                // Too late: the slot has its new owner, and the others are told.
                assert!(done || finish(&mut driver));
                slots.check_settled(1);
                continue;
            }
            let before = (slots.states(), slots.stored());
            for _ in 0..3 {
                assert_eq!(driver.step(), Ok(MoveStep::Paused), "after {pause_after} steps");
            }
            assert_eq!((slots.states(), slots.stored()), before);
            assert!(control.is_paused());
            if let Some(id) = open {
                assert!(slots.record(id).paused);
                let second = Move::take_over(&slots.cluster, id, 3).unwrap().step();
                assert_eq!(second, Ok(MoveStep::Paused), "another driver obeys the record");
            }
            slots.check_keys();
            slots.write("{b}:0", None);
            slots.write("{b}:new", Some(TTL));
            slots.check_keys();
            match open {
                Some(id) if by_id => slots.cluster.resume_move(id).unwrap(),
                _ => control.resume(),
            }
            assert!(!control.is_paused());
            assert!(finish(&mut driver));
            slots.check_settled(1);
        }
    }
}

#[test]
fn a_move_that_is_not_open_cannot_be_paused() {
    let slots = Slots::of_keys(1);
    let mut driver = slots.driver(1);
    driver.step().unwrap();
    let id = driver.id().expect("an open move");
    slots.cluster.pause_move(id).unwrap();
    slots.cluster.resume_move(id).unwrap();
    assert!(finish(&mut driver));
    for id in [id, MoveId::new(id.get() + 1)] {
        let refused = Err(AdminError::NoSuchMove { id });
        assert_eq!(slots.cluster.pause_move(id), refused);
        assert_eq!(slots.cluster.resume_move(id), refused);
    }
}

#[test]
fn a_pace_holds_batches_back_until_the_clock_has_moved() {
    let slots = Slots::of_keys(100);
    let pace = Pace::new().keys_per_second(200).unwrap();
    let mut driver = slots.driver(64).pace(&pace);
    let began = slots.cluster.now();
    let (mut waited, mut batches) = (0, 0);
    loop {
        let before = slots.stored();
        match driver.step().unwrap() {
            MoveStep::Wait { time } => {
                assert_eq!(slots.stored(), before, "nothing travels meanwhile");
                assert!(!time.is_zero());
                waited += 1;
                slots.cluster.advance(time);
            }
            MoveStep::Done { flipped } => {
                assert!(flipped);
                break;
            }
            MoveStep::More => {
                let sent = slots.stored()[1] - before[1];
                assert!(sent <= 10, "a twentieth of a second's keys, not {sent}");
                batches += usize::from(sent > 0);
            }
            MoveStep::Busy | MoveStep::Paused => unreachable!("nobody holds it back"),
        }
    }
    assert_eq!((waited, batches), (9, 10));
    let took = slots.cluster.now().saturating_sub(began);
    assert_eq!(took, Duration::from_millis(450), "what was sent last is paid for afterwards");
    slots.check_settled(1);
}

#[test]
fn a_pace_by_bytes_sends_one_key_at_least() {
    let slots = Slots::of_keys(5);
    let pace = Pace::new().bytes_per_second(20).unwrap();
    let mut driver = slots.driver(64).pace(&pace);
    let mut waits = 0;
    loop {
        match driver.step().unwrap() {
            MoveStep::Wait { time } => {
                waits += 1;
                slots.cluster.advance(time);
            }
            MoveStep::Done { .. } => break,
            MoveStep::More | MoveStep::Busy | MoveStep::Paused => {}
        }
    }
    assert_eq!(waits, 4, "one key a batch");
}

/// Who aborts a move after some of its steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Aborter {
    ItsDriver,
    ItsControl,
    /// The driver died; another one takes over.
    Successor,
    /// So it was, and that one died too, after so many steps of the abort.
    SecondSuccessor(usize),
}

fn abort(slots: &mut Slots, mut driver: Move<[u8]>, how: Aborter) -> bool {
    let id = driver.id();
    let turned = |id| {
        let mut next = Move::take_over(&slots.cluster, id, 2).expect("a move that is remembered");
        next.abort();
        next
    };
    match (how, id) {
        (Aborter::ItsDriver, _) | (_, None) => driver.abort(),
        (Aborter::ItsControl, Some(_)) => {
            driver.control().pause();
            driver.control().abort();
        }
        (Aborter::Successor, Some(id)) => driver = turned(id),
        (Aborter::SecondSuccessor(steps), Some(id)) => {
            let mut first = turned(id);
            for _ in 0..steps {
                first.step().expect("a step that is legal");
            }
            driver = turned(id);
        }
    }
    // Between any two steps every call is served, and what it wrote comes back too.
    for round in 0.. {
        slots.check_keys();
        slots.write(&format!("{{b}}:{}", round % 7), Some(TTL + Duration::from_secs(round)));
        slots.write(&format!("{{b}}:late {round}"), None);
        if let MoveStep::Done { flipped } = driver.step().expect("a step that is legal") {
            return flipped;
        }
    }
    unreachable!("an abort ends")
}

#[test]
fn an_abort_at_any_step_by_any_driver_brings_every_key_back_as_it_was() {
    let mut aborters = vec![Aborter::ItsDriver, Aborter::ItsControl, Aborter::Successor];
    aborters.extend((1..5).map(Aborter::SecondSuccessor));
    for keys in [0, 1, 9] {
        for &how in &aborters {
            // Both marks, the batches, the flip, the close; after the flip it is too late.
            for steps in 0..=(5 + keys / 2) {
                println!("{keys} keys, {how:?} after {steps} steps");
                let mut slots = Slots::of_keys(keys);
                slots.client.set("{b}:gone", b"soon").unwrap();
                slots.client.expire("{b}:gone", Duration::from_secs(1)).unwrap();
                let mut driver = slots.driver(2);
                let mut last = MoveStep::More;
                let mut id = None;
                for _ in 0..steps {
                    last = driver.step().expect("a step that is legal");
                    id = driver.id().or(id);
                }
                slots.cluster.advance(Duration::from_secs(1));
                let flipped = if let MoveStep::Done { flipped } = last {
                    flipped
                } else {
                    abort(&mut slots, driver, how)
                };
                assert_eq!(slots.client.get("{b}:gone").unwrap(), None, "it has expired");
                slots.check_settled(usize::from(flipped));
                if let Some(id) = id {
                    let ended = if flipped { MovePhase::Completed } else { MovePhase::Aborted };
                    assert_eq!(slots.record(id).phase, ended);
                }
            }
        }
    }
}
