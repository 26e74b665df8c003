//! What a run did: tallies of the client threads, a summary to read, and one for programs.

use std::time::Duration;

use slotkeep::reshard::MoveKind;

use crate::latency::Latencies;
use crate::ledger::Findings;
use crate::moves::{Moved, name_of};

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
    latencies: Latencies,
    /// How many keys were read and held against the ledger.
    pub checked: u64,
}

impl Tally {
    pub fn note(&mut self, call: Call, took: Duration) {
        self.calls[call as usize] += 1;
        self.latencies.note(took);
        if self.slowest.is_none_or(|(slowest, _)| slowest < took) {
            self.slowest = Some((took, call));
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.calls.iter_mut().zip(other.calls).for_each(|(sum, count)| *sum += count);
        self.checked += other.checked;
        self.latencies.add(&other.latencies);
        if let Some((took, call)) = other.slowest
            && self.slowest.is_none_or(|(slowest, _)| slowest < took)
        {
            self.slowest = Some((took, call));
        }
    }

    fn operations(&self) -> u64 {
        self.calls.iter().sum()
    }

    fn per_second(&self, elapsed: Duration) -> u64 {
        self.operations() * 1000 / millis(elapsed).max(1)
    }

    fn longest(&self) -> Duration {
        self.slowest.map_or(Duration::ZERO, |(took, _)| took)
    }
}

/// The part of a run in which slots moved in one way.
pub struct Part {
    pub kind: MoveKind,
    pub tally: Tally,
    pub moved: Moved,
}

/// A whole run.
pub struct Summary {
    pub keys: usize,
    pub nodes: usize,
    pub threads: usize,
    /// How long traffic ran.
    pub elapsed: Duration,
    /// In the order in which they ran; at least one.
    pub parts: Vec<Part>,
}

impl Summary {
    pub fn print(&self) {
        let Self { keys, nodes, threads, elapsed, parts } = self;
        let (keys, nodes) = (plural(*keys as u64, "key"), plural(*nodes as u64, "node"));
        let seconds = elapsed.as_secs_f64();
        println!("{keys}, {nodes} and one that joins, {threads} client threads, {seconds:.1} s");
        let tally = self.tally();
        println!("operations  {}, {} per second", tally.operations(), tally.per_second(*elapsed));
        let calls = Call::ALL.map(|call| format!("{} {}", call.name(), tally.calls[call as usize]));
        println!("            {}", calls.join(", "));
        println!("reads       {}, each checked", plural(tally.checked, "key"));
        for Part { kind, moved, .. } in parts {
            let slots = plural(moved.join.slots_moved as u64, "slot");
            let keys = plural(moved.join.keys_moved, "key");
            let seconds = moved.join.elapsed.as_secs_f64();
            println!("join        {slots} with {keys} in {seconds:.3} s, by {}", name_of(*kind));
        }
        println!();
        for (name, cell) in ROWS {
            let cells: Vec<_> = parts.iter().map(|part| format!("{:>21}", cell(part))).collect();
            println!("{name:<18}{}", cells.concat());
        }
    }

    /// One object on one line.
    pub fn print_json(&self, findings: &Findings) {
        let tally = self.tally();
        let sum = |of: fn(&Moved) -> u64| self.parts.iter().map(|part| of(&part.moved)).sum();
        let join = self.parts.first().map(|part| part.moved.join).unwrap_or_default();
        let [lost, stale, duplicated, unanswered] = findings.counts();
        let mut fields = vec![
            ("keys".to_owned(), self.keys as u64),
            ("nodes".to_owned(), self.nodes as u64),
            ("threads".to_owned(), self.threads as u64),
            ("elapsed_ms".to_owned(), millis(self.elapsed)),
            ("operations".to_owned(), tally.operations()),
            ("operations_per_second".to_owned(), tally.per_second(self.elapsed)),
        ];
        fields.extend(Call::ALL.map(|call| (call.name().to_owned(), tally.calls[call as usize])));
        fields.extend([
            ("reads_checked".to_owned(), tally.checked),
            ("join_slots".to_owned(), join.slots_moved as u64),
            ("join_keys".to_owned(), join.keys_moved),
            ("join_ms".to_owned(), millis(join.elapsed)),
            ("slots_moved".to_owned(), sum(|moved| moved.slots as u64)),
            ("keys_moved".to_owned(), sum(|moved| moved.keys)),
            ("mover_waits".to_owned(), sum(|moved| moved.waits)),
            ("redirects".to_owned(), sum(|moved| moved.answers.redirects)),
            ("try_agains".to_owned(), sum(|moved| moved.answers.try_agains)),
            ("slowest_call_us".to_owned(), micros(tally.longest())),
        ]);
        fields.extend(self.parts.iter().flat_map(Part::fields));
        fields.extend([
            ("lost".to_owned(), lost),
            ("stale".to_owned(), stale),
            ("duplicated".to_owned(), duplicated),
            ("unanswered".to_owned(), unanswered),
        ]);
        let fields: Vec<_> = fields.iter().map(|(name, n)| format!("\"{name}\":{n}")).collect();
        println!("{{{}}}", fields.join(","));
    }

    /// What the threads did in all parts.
    fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        self.parts.iter().for_each(|part| sum.add(&part.tally));
        sum
    }
}

/// What is said of a part: the name of a row, and what stands in its column.
type Row = (&'static str, fn(&Part) -> String);

/// The table of the parts, side by side.
const ROWS: [Row; 11] = [
    ("", |part| name_of(part.kind).to_owned()),
    ("slots moved", |part| part.moved.slots.to_string()),
    ("keys moved", |part| part.moved.keys.to_string()),
    ("a slot, mean", |part| time(part.slot_mean())),
    ("a slot, worst", |part| time(part.moved.worst)),
    ("MOVED", |part| part.moved.answers.moved.to_string()),
    ("ASK", |part| part.moved.answers.asks.to_string()),
    ("TRYAGAIN", |part| part.moved.answers.try_agains.to_string()),
    ("calls a second", |part| part.tally.per_second(part.moved.elapsed).to_string()),
    ("a call, p99.9", |part| time(part.p999())),
    ("a call, longest", |part| {
        part.tally
            .slowest
            .map_or("-".to_owned(), |(took, call)| format!("{}, {}", call.name(), time(took)))
    }),
];

impl Part {
    fn slot_mean(&self) -> Duration {
        let slots = u32::try_from(self.moved.slots).unwrap_or(u32::MAX).max(1);
        self.moved.busy / slots
    }

    fn p999(&self) -> Duration {
        self.tally.latencies.all_but_one_in(1000)
    }

    /// The table's column for programs, with the name of the way in front.
    fn fields(&self) -> [(String, u64); 11] {
        let Moved { slots, keys, elapsed, worst, answers, .. } = &self.moved;
        [
            ("ms", millis(*elapsed)),
            ("operations", self.tally.operations()),
            ("slots_moved", *slots as u64),
            ("keys_moved", *keys),
            ("slot_mean_ns", nanos(self.slot_mean())),
            ("slot_worst_ns", nanos(*worst)),
            ("moved", answers.moved),
            ("asks", answers.asks),
            ("try_agains", answers.try_agains),
            ("p999_ns", nanos(self.p999())),
            ("slowest_call_us", micros(self.tally.longest())),
        ]
        .map(|(name, value)| (format!("{}_{name}", name_of(self.kind)), value))
    }
}

/// So many of a thing, in words.
pub fn plural(count: u64, thing: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

/// A time in the unit that suits it.
fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.1} us") } else { format!("{:.1} ms", micros / 1000.0) }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
