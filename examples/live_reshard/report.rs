//! What a run did: tallies of the client threads, a summary to read, and one for programs.

use std::time::Duration;

use crate::ledger::Findings;
use crate::moves::Moved;

/// The calls of the mix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Get,
    GetMany,
    Mget,
    Set,
    SetMany,
    Mset,
    Remove,
    Incr,
    Append,
}

impl Call {
    const ALL: [Self; 9] = [
        Self::Get,
        Self::GetMany,
        Self::Mget,
        Self::Set,
        Self::SetMany,
        Self::Mset,
        Self::Remove,
        Self::Incr,
        Self::Append,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetMany => "get_many",
            Self::Mget => "mget",
            Self::Set => "set",
            Self::SetMany => "set_many",
            Self::Mset => "mset",
            Self::Remove => "remove",
            Self::Incr => "incr",
            Self::Append => "append",
        }
    }
}

/// The calls of one thread, or of all.
#[derive(Clone, Default)]
pub struct Tally {
    calls: [u64; Call::ALL.len()],
    slowest: Option<(Duration, Call)>,
    /// How many keys were read and held against the ledger.
    pub checked: u64,
}

impl Tally {
    pub fn note(&mut self, call: Call, took: Duration) {
        self.calls[call as usize] += 1;
        if self.slowest.is_none_or(|(slowest, _)| slowest < took) {
            self.slowest = Some((took, call));
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.calls.iter_mut().zip(other.calls).for_each(|(sum, count)| *sum += count);
        self.checked += other.checked;
        if let Some((took, call)) = other.slowest
            && self.slowest.is_none_or(|(slowest, _)| slowest < took)
        {
            self.slowest = Some((took, call));
        }
    }

    fn operations(&self) -> u64 {
        self.calls.iter().sum()
    }
}

/// A whole run.
pub struct Summary {
    pub keys: usize,
    pub nodes: usize,
    pub threads: usize,
    /// How long traffic ran.
    pub elapsed: Duration,
    pub tally: Tally,
    pub moved: Moved,
    /// MOVED and ASK answers that clients followed, and TRYAGAIN answers that they got.
    pub redirects: u64,
    pub try_agains: u64,
}

impl Summary {
    pub fn print(&self) {
        let Self { keys, nodes, threads, elapsed, tally, moved, redirects, try_agains } = self;
        println!(
            "{keys} keys, {nodes} nodes and one that joins, {threads} client threads, {:.1} s",
            elapsed.as_secs_f64()
        );
        println!("operations  {}, {} per second", tally.operations(), self.per_second());
        let calls = Call::ALL.map(|call| format!("{} {}", call.name(), tally.calls[call as usize]));
        println!("            {}", calls.join(", "));
        println!("reads       {} keys, each checked", tally.checked);
        println!(
            "join        {} slots with {} keys in {:.3} s",
            moved.join.slots_moved,
            moved.join.keys_moved,
            moved.join.elapsed.as_secs_f64()
        );
        println!("moved       {} slots with {} keys in all", moved.slots, moved.keys);
        println!("redirects   {redirects} MOVED and ASK, {try_agains} TRYAGAIN");
        if let Some((took, call)) = tally.slowest {
            println!("slowest     {} of {:.3} ms", call.name(), took.as_secs_f64() * 1000.0);
        }
    }

    /// One object on one line.
    pub fn print_json(&self, findings: &Findings) {
        let Self { keys, nodes, threads, elapsed, tally, moved, redirects, try_agains } = self;
        let calls = Call::ALL.map(|call| (call.name(), tally.calls[call as usize]));
        let [lost, stale, duplicated, unanswered] = findings.counts();
        let slowest = tally.slowest.map_or(Duration::ZERO, |(took, _)| took);
        let head = [
            ("keys", *keys as u64),
            ("nodes", *nodes as u64),
            ("threads", *threads as u64),
            ("elapsed_ms", millis(*elapsed)),
            ("operations", tally.operations()),
            ("operations_per_second", self.per_second()),
        ];
        let tail = [
            ("reads_checked", tally.checked),
            ("join_slots", moved.join.slots_moved as u64),
            ("join_keys", moved.join.keys_moved),
            ("join_ms", millis(moved.join.elapsed)),
            ("slots_moved", moved.slots as u64),
            ("keys_moved", moved.keys),
            ("mover_waits", moved.waits),
            ("redirects", *redirects),
            ("try_agains", *try_agains),
            ("slowest_call_us", u64::try_from(slowest.as_micros()).unwrap_or(u64::MAX)),
            ("lost", lost),
            ("stale", stale),
            ("duplicated", duplicated),
            ("unanswered", unanswered),
        ];
        let fields = head.iter().chain(&calls).chain(&tail);
        let fields: Vec<_> = fields.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        println!("{{{}}}", fields.join(","));
    }

    fn per_second(&self) -> u64 {
        self.tally.operations() * 1000 / millis(self.elapsed).max(1)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
