//! What happens to everybody: the clock goes on, and messages between nodes are late or lost.

use fastrand::Rng;

use super::{Arena, CLOCK_STEP, Report};

/// How many steps of the clock the bus holds messages back, and how many it then delivers at once,
/// at most.
const HELD_STEPS: u32 = 8;

/// Runs until the round is over; the bus delivers at once then, and holds nothing back.
pub(super) fn run(arena: &Arena) -> Report {
    let (cluster, mut report) = (&arena.cluster, Report::default());
    let mut rng = Rng::with_seed(!arena.plan.seed);
    let (mut held, mut steps_left) = (false, 0);
    while !arena.is_over() {
        arena.pause(rng.u64(20..80));
        cluster.advance(CLOCK_STEP);
        if held {
            disturb(arena, &mut rng, &mut report);
        }
        if steps_left > 0 {
            steps_left -= 1;
            continue;
        }
        held = !held;
        steps_left = rng.u32(..HELD_STEPS);
        if held {
            cluster.bus().hold();
        } else {
            cluster.bus().release();
        }
    }
    cluster.bus().release();
    report
}

/// One of the held messages overtakes the others, another one is lost.
fn disturb(arena: &Arena, rng: &mut Rng, report: &mut Report) {
    let bus = arena.cluster.bus();
    if let held @ 1.. = bus.held_count() {
        report.messages_late += u64::from(bus.deliver(rng.usize(..held)));
    }
    if let held @ 1.. = bus.held_count() {
        report.messages_dropped += u64::from(bus.discard(rng.usize(..held)));
    }
}
