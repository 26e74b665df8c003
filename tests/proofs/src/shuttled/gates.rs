//! Races: calls enter the gate of a slot while verbs look at it.

use shuttle::thread;

use crate::slot::Slot;
use crate::sync::Arc;
use crate::sync::AtomicU32;
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::topology::Gate;

const SLOT: Slot = Slot::MIN;
const MOVERS: usize = 2;

/// What calls and verbs do with a gate.
trait Door: Send + Sync + 'static {
    fn pass(&self, inside: &mut dyn FnMut());
    fn is_open(&self) -> bool;
}

impl Door for Gate {
    fn pass(&self, inside: &mut dyn FnMut()) {
        let _pass = self.enter(SLOT);
        inside();
    }

    fn is_open(&self) -> bool {
        self.is_open(SLOT)
    }
}

/// A verb that looks after a call entered, and before it leaves, sees it.
pub fn a_look_races_the_entry() {
    looks_see_calls(Gate::new());
}

/// A call inside loses at most once to each verb that was past its look.
pub fn a_call_races_busy_movers() {
    calls_get_through(Gate::new());
}

/// The copy without a bug.
pub fn a_sound_copy() {
    looks_see_calls(Planted(AtomicU32::new(0), Bug::None));
    calls_get_through(Planted(AtomicU32::new(0), Bug::None));
}

/// Planted: calls are counted by a load and a store.
pub fn a_count_in_two_steps() {
    looks_see_calls(Planted(AtomicU32::new(0), Bug::TwoSteps));
}

/// Planted: the call leaves before it has asked, and verbs look.
pub fn a_pass_that_nobody_sees() {
    looks_see_calls(Planted(AtomicU32::new(0), Bug::LeavesAtOnce));
}

/// Planted: the call leaves before it has asked, and movers are busy.
pub fn a_pass_that_stops_nobody() {
    calls_get_through(Planted(AtomicU32::new(0), Bug::LeavesAtOnce));
}

fn looks_see_calls(door: impl Door) {
    let door = Arc::new(door);
    let entered = Arc::new(AtomicU32::new(0));
    let leaving = Arc::new(AtomicU32::new(0));
    let calls = [(), ()].map(|()| {
        let (door, entered, leaving) =
            (Arc::clone(&door), Arc::clone(&entered), Arc::clone(&leaving));
        thread::spawn(move || {
            door.pass(&mut || {
                entered.fetch_add(1, Ordering::SeqCst);
                leaving.fetch_add(1, Ordering::SeqCst);
            });
        })
    });
    for _ in 0..3 {
        let had_entered = entered.load(Ordering::SeqCst);
        let open = door.is_open();
        let were_leaving = leaving.load(Ordering::SeqCst);
        assert!(!open || had_entered <= were_leaving, "a call inside was not seen");
    }
    for call in calls {
        call.join().expect("calls end");
    }
    assert!(door.is_open(), "everybody has left");
}

fn calls_get_through(door: impl Door) {
    let door = Arc::new(door);
    let owner = Arc::new(Mutex::new(0_u32));
    let movers = [(); MOVERS].map(|()| {
        let (door, owner) = (Arc::clone(&door), Arc::clone(&owner));
        thread::spawn(move || {
            for _ in 0..3 {
                if door.is_open() {
                    *owner.lock() += 1;
                }
            }
        })
    });
    door.pass(&mut || {
        let (mut at, mut lost) = (*owner.lock(), 0);
        loop {
            // What a node answers under its token.
            let answer = *owner.lock();
            if answer == at {
                break;
            }
            (at, lost) = (answer, lost + 1);
            assert!(lost <= MOVERS, "a call inside lost {lost} times");
        }
    });
    for mover in movers {
        mover.join().expect("movers end");
    }
}

enum Bug {
    None,
    TwoSteps,
    LeavesAtOnce,
}

struct Planted(AtomicU32, Bug);

impl Door for Planted {
    fn pass(&self, inside: &mut dyn FnMut()) {
        let count = &self.0;
        match self.1 {
            Bug::None => {
                count.fetch_add(1, Ordering::SeqCst);
                inside();
                count.fetch_sub(1, Ordering::SeqCst);
            }
            Bug::TwoSteps => {
                let entered = count.load(Ordering::SeqCst) + 1;
                count.store(entered, Ordering::SeqCst);
                inside();
                let left = count.load(Ordering::SeqCst).saturating_sub(1);
                count.store(left, Ordering::SeqCst);
            }
            Bug::LeavesAtOnce => {
                count.fetch_add(1, Ordering::SeqCst);
                count.fetch_sub(1, Ordering::SeqCst);
                inside();
            }
        }
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}
