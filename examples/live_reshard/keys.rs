//! Keys: made up, or read from a file or from stdin, distinct and bounded.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use slotkeep::limits::KEY_BYTES_MAX;
use slotkeep::{SLOT_COUNT, Slot};

/// The most lines that are read; what follows is left out.
const LINES_MAX: usize = 4_000_000;

/// The most bytes that are read; what follows is left out.
const BYTES_MAX: u64 = 256 << 20;

/// Distinct keys, sorted, and how often each is asked for.
pub struct Keys {
    names: Vec<Box<[u8]>>,
    /// Indices of keys in the order in which they were named: a key that is named often is asked
    /// for often.
    stream: Vec<u32>,
    /// Indices of keys, slot by slot, and where each slot's begin.
    by_slot: Vec<u32>,
    starts: Vec<u32>,
}

impl Keys {
    /// The keys of so many people, four each, which share a slot by their tag.
    pub fn made_up(count: u32) -> Self {
        const KINDS: [&str; 4] = ["name", "cart", "visits", "log"];
        let name = |number: u32| {
            let kind = KINDS[number as usize % KINDS.len()];
            format!("{{user:{}}}:{kind}", number / 4).into_bytes().into_boxed_slice()
        };
        Self::from_lines(&(0..count).map(name).collect::<Vec<_>>())
    }

    /// One key a line; a second column is ignored, and so are empty lines. `-` is stdin.
    ///
    /// # Errors
    /// What cannot be read, a key that is too long, and a file without a key.
    pub fn read(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::parse(io::stdin().lock());
        }
        Self::parse(BufReader::new(File::open(path)?))
    }

    fn parse(input: impl BufRead) -> io::Result<Self> {
        let mut names = Vec::new();
        for line in input.take(BYTES_MAX).split(b'\n').take(LINES_MAX) {
            let line = line?;
            let mut columns = line.split(u8::is_ascii_whitespace);
            let Some(name) = columns.find(|column| !column.is_empty()) else { continue };
            if name.len() > KEY_BYTES_MAX {
                let words = format!("a key of {} bytes is too long", name.len());
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
            names.push(Box::from(name));
        }
        if names.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no key in it"));
        }
        Ok(Self::from_lines(&names))
    }

    fn from_lines(lines: &[Box<[u8]>]) -> Self {
        let mut names = lines.to_vec();
        names.sort_unstable();
        names.dedup();
        let place = |name| names.binary_search(name).unwrap_or_else(|_| unreachable!("a line"));
        let stream = lines.iter().map(|name| narrow(place(name))).collect();
        let mut by_slot: Vec<u32> = (0..narrow(names.len())).collect();
        by_slot.sort_by_cached_key(|&index| Slot::of(&names[index as usize]));
        let slots: Vec<Slot> =
            by_slot.iter().map(|&index| Slot::of(&names[index as usize])).collect();
        let start = |slot: u16| narrow(slots.partition_point(|of| of.number() < slot));
        let starts = (0..=SLOT_COUNT).map(start).collect();
        Self { names, stream, by_slot, starts }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn name(&self, index: u32) -> &[u8] {
        &self.names[index as usize]
    }

    pub fn names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..).zip(self.names.iter().map(AsRef::as_ref))
    }

    /// The index of a key, if it is one of these.
    pub fn index_of(&self, name: &[u8]) -> Option<u32> {
        self.names.binary_search_by(|known| (**known).cmp(name)).ok().map(narrow)
    }

    /// The order in which keys were named.
    pub fn stream(&self) -> &[u32] {
        &self.stream
    }

    pub fn slot(&self, index: u32) -> Slot {
        Slot::of(self.name(index))
    }

    /// The keys of a slot.
    pub fn of_slot(&self, slot: u16) -> &[u32] {
        let slot = usize::from(slot);
        &self.by_slot[self.starts[slot] as usize..self.starts[slot + 1] as usize]
    }

    /// The keys that share the slot of this one, itself among them.
    pub fn neighbours(&self, index: u32) -> &[u32] {
        self.of_slot(self.slot(index).number())
    }
}

/// Lines are bounded, so that their indices fit into 32 bits.
fn narrow(index: usize) -> u32 {
    u32::try_from(index).unwrap_or_else(|_| unreachable!("at most {LINES_MAX} keys"))
}
