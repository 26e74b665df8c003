//! The table of the README: ours, `crc16` and the best published crate, by key length.

use slotkeep::crc16::crc16;

use crate::measure::Contestant;
use crate::measure::Plan;
use crate::measure::Rounds;
use crate::slot::keys::Run;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals;
use crate::slot::rivals::PUBLISHED;
use crate::slot::work::calls;
use crate::slot::work::chained_run;

const LENGTHS: [usize; 24] =
    [1, 2, 3, 4, 6, 8, 10, 12, 15, 16, 17, 20, 24, 31, 32, 33, 36, 40, 48, 63, 64, 128, 256, 1024];

/// Prints two tables in Markdown: calls that may overlap, and calls that wait for each other.
pub fn print(plan: Plan) {
    println!("Throughput, nanoseconds a call:\n");
    print_heading();
    for len in LENGTHS {
        print_row(plan, len, || {
            let keys = laid(laid(Run::of(len)).views());
            let rivals = rivals().map(|rival| calls(rival.name, keys, rival.of));
            [calls("ours", keys, crc16)].into_iter().chain(rivals).collect()
        });
    }
    println!("\nChained latency, nanoseconds a call:\n");
    print_heading();
    for len in LENGTHS {
        print_row(plan, len, || {
            let run = laid(Run::of(len));
            let rivals = rivals().map(|rival| chained_run(rival.name, run, rival.of));
            [chained_run("ours", run, crc16)].into_iter().chain(rivals).collect()
        });
    }
}

/// The byte loop, `crc16`, and then the rest of what is published.
fn rivals() -> impl Iterator<Item = rivals::Rival> {
    let rest = PUBLISHED.into_iter().filter(|rival| rival.name != rivals::CRC16.name);
    [rivals::BYTE_TABLE, rivals::CRC16].into_iter().chain(rest)
}

fn print_heading() {
    println!("| bytes | ours | byte table (Redis) | `crc16` | best published |");
    println!("|---:|---:|---:|---:|:---|");
}

fn print_row(plan: Plan, len: usize, lay: impl FnMut() -> Vec<Contestant<'static>>) {
    let rounds = contest(plan, lay);
    let ours = rounds.median(0);
    let best = rounds.best_after(2);
    println!(
        "| {len} | {ours:.2} | {} | {} | `{}` {} |",
        against(&rounds, 1),
        against(&rounds, 2),
        rounds.name(best),
        against(&rounds, best),
    );
}

/// A rival's time, and how many times ours that is.
fn against(rounds: &Rounds, rival: usize) -> String {
    let time = rounds.median(rival);
    format!("{time:.2} ({:.1}x)", time / rounds.median(0))
}
