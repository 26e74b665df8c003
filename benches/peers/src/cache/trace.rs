//! Traces: which keys were asked for, in which order, and how heavy each is.

use ahash::AHashMap;

/// The sizes of the caches, as percent of the distinct keys, or of their weight.
pub const SHARES: [u64; 4] = [1, 5, 10, 25];

/// What one access asks for.
#[derive(Clone, Copy, Debug)]
pub struct Access<'t> {
    /// The key's number within its trace: keys are counted as they first come.
    pub number: u32,
    /// The key itself.
    pub key: &'t str,
    /// What the entry weighs: 1 in a trace without weights.
    pub weight: u64,
}

/// A sequence of accesses.
#[derive(Debug, Default)]
pub struct Trace {
    name: String,
    accesses: Vec<u32>,
    keys: Vec<(Box<str>, u64)>,
    is_weighted: bool,
}

/// The bounds of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What the entries may weigh together.
    pub weight: u64,
    /// How many entries of the mean weight that is.
    pub entries: usize,
}

impl Trace {
    /// What the trace is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the entries have weights of their own.
    pub fn is_weighted(&self) -> bool {
        self.is_weighted
    }

    /// How many accesses there are.
    pub fn len(&self) -> usize {
        self.accesses.len()
    }

    /// How many keys are asked for.
    pub fn distinct(&self) -> usize {
        self.keys.len()
    }

    /// The numbers of the keys, in the order of the accesses.
    pub fn numbers(&self) -> &[u32] {
        &self.accesses
    }

    /// The accesses, in their order.
    pub fn accesses(&self) -> impl Iterator<Item = Access<'_>> {
        self.accesses.iter().map(|&number| {
            let (key, weight) = &self.keys[number as usize];
            Access { number, key, weight: *weight }
        })
    }

    /// The bounds of a cache for so many percent of the distinct keys, one entry at least.
    pub fn room(&self, percent: u64) -> Room {
        let weight: u64 = self.keys.iter().map(|(_, weight)| weight).sum();
        let share = |whole: u64| (whole * percent / 100).max(1);
        let entries = usize::try_from(share(self.keys.len() as u64)).expect("at most the keys");
        Room { weight: share(weight), entries }
    }
}

/// Takes the accesses of a trace down.
#[derive(Debug, Default)]
pub struct Recorder {
    trace: Trace,
    numbers: AHashMap<Box<str>, u32>,
}

impl Recorder {
    /// Nothing taken down yet.
    pub fn new(name: impl Into<String>) -> Self {
        let trace = Trace { name: name.into(), ..Trace::default() };
        Self { trace, ..Self::default() }
    }

    /// An access of a key without a weight of its own.
    pub fn access(&mut self, key: &str) {
        self.record(key, 1);
    }

    /// An access of a key with a weight. What counts is the weight that the key first came with: a
    /// cache keeps the object that it has.
    pub fn weighted_access(&mut self, key: &str, weight: u64) {
        self.trace.is_weighted = true;
        self.record(key, weight);
    }

    /// How many accesses were taken down.
    pub fn len(&self) -> usize {
        self.trace.len()
    }

    /// The trace.
    pub fn finish(self) -> Trace {
        self.trace
    }

    fn record(&mut self, key: &str, weight: u64) {
        let number = if let Some(&number) = self.numbers.get(key) {
            number
        } else {
            let number = u32::try_from(self.trace.keys.len()).expect("fewer keys than accesses");
            self.trace.keys.push((key.into(), weight));
            self.numbers.insert(key.into(), number);
            number
        };
        self.trace.accesses.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_as_they_first_come_and_keep_their_first_weight() {
        let mut recorder = Recorder::new("a test");
        for (key, weight) in [("b", 7), ("a", 2), ("b", 9)] {
            recorder.weighted_access(key, weight);
        }
        let trace = recorder.finish();
        let told = |access: Access<'_>| (access.number, access.key.to_owned(), access.weight);
        let accesses: Vec<_> = trace.accesses().map(told).collect();
        assert_eq!(accesses, [(0, "b".into(), 7), (1, "a".into(), 2), (0, "b".into(), 7)]);
        assert!(trace.is_weighted());
    }

    #[test]
    fn room_is_a_share_of_the_keys_or_of_their_weight() {
        let mut recorder = Recorder::new("a test");
        (0..250).for_each(|key| recorder.access(&key.to_string()));
        let trace = recorder.finish();
        assert_eq!(trace.room(1), Room { weight: 2, entries: 2 });
        assert_eq!(trace.room(25), Room { weight: 62, entries: 62 });

        let mut recorder = Recorder::new("a test");
        recorder.weighted_access("a", 4_000);
        recorder.weighted_access("b", 1_000);
        let trace = recorder.finish();
        assert_eq!(trace.room(10), Room { weight: 500, entries: 1 });
    }
}
