//! One store in a process of its own, which is weighed and prints what came out.

use std::env;
use std::error::Error;
use std::fs;
use std::process::Command;
use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::engine::names;
use crate::heap;
use crate::load::Step;
use crate::measure::float;
use crate::measure::now;
use crate::stores::Dash;
use crate::stores::Moka;
use crate::stores::Ours;
use crate::stores::Papaya;
use crate::stores::QuickCache;
use crate::stores::Scc;
use crate::stores::Store;
use crate::stores::fill;

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// From 64 to 100 bytes.
    Bytes,
    /// Eight bytes, of a fixed size.
    Numbers,
}

/// Which store is weighed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    store: String,
    values: Values,
}

/// What a store takes, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Weight {
    /// Of heap, full.
    pub heap: f64,
    /// Of the resident set, full.
    pub resident: f64,
    /// Of heap, empty.
    pub empty_heap: f64,
    /// Of the resident set, empty.
    pub empty_resident: f64,
    /// How long it takes to go.
    pub drop_seconds: f64,
}

impl Child {
    /// A store by its name in the reports.
    pub fn new(store: &str, values: Values) -> Self {
        Self { store: store.to_owned(), values }
    }

    /// Weighs it in a process of its own.
    ///
    /// # Errors
    /// The process does not start, fails, or prints something else.
    pub fn run(&self, entries: u32) -> Result<Weight, Box<dyn Error>> {
        let values = match self.values {
            Values::Bytes => "bytes",
            Values::Numbers => "numbers",
        };
        let output = Command::new(env::current_exe()?)
            .args(["memory", "--entries", &entries.to_string()])
            .args(["--child", &format!("{values}:{}", self.store)])
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("{} could not be weighed: {}", self.store, output.status).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Weighs it in this process.
    ///
    /// # Panics
    /// There is no such store.
    pub fn weigh(&self, entries: u32) -> Weight {
        let room = entries as usize;
        match (self.values, self.store.as_str()) {
            (Values::Bytes, names::OURS) => weigh(entries, Ours::<[u8]>::new),
            (Values::Bytes, names::DASH) => weigh(entries, Dash::<Arc<[u8]>>::new),
            (Values::Bytes, names::SHARDED) => weigh(entries, Dash::<Arc<[u8]>>::sharded),
            (Values::Bytes, names::PAPAYA) => weigh(entries, Papaya::<Arc<[u8]>>::new),
            (Values::Bytes, names::SCC) => weigh(entries, Scc::<Arc<[u8]>>::new),
            (Values::Bytes, names::MOKA) => weigh(entries, || Moka::<Arc<[u8]>>::new(room)),
            (Values::Bytes, names::QUICK) => weigh(entries, || QuickCache::<Arc<[u8]>>::new(room)),
            (Values::Numbers, names::OURS) => weigh(entries, Ours::<u64>::new),
            (Values::Numbers, names::DASH) => weigh(entries, Dash::<u64>::new),
            (Values::Numbers, names::SHARDED) => weigh(entries, Dash::<u64>::sharded),
            (Values::Numbers, names::PAPAYA) => weigh(entries, Papaya::<u64>::new),
            (Values::Numbers, names::SCC) => weigh(entries, Scc::<u64>::new),
            (_, other) => unreachable!("nobody asks for {other}"),
        }
    }
}

impl FromStr for Child {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("bytes", store)) => Ok(Self::new(store, Values::Bytes)),
            Some(("numbers", store)) => Ok(Self::new(store, Values::Numbers)),
            _ => Err("not a sort of values and a store".to_owned()),
        }
    }
}

fn weigh<S: Store>(entries: u32, make: impl FnOnce() -> S) -> Weight {
    heap::count();
    let resident_before = resident();
    let store = make();
    let (empty_heap, empty_resident) = (float(taken()), resident() - resident_before);
    fill(&store, (0..entries).map(Step::fill));
    let (heap, resident) = (float(taken()), resident() - resident_before);
    let start = now();
    drop(store);
    let drop_seconds = (now() - start).as_secs_f64();
    Weight { heap, resident, empty_heap, empty_resident, drop_seconds }
}

/// What is taken of the heap, and of the slab beside it in which our entries lie.
fn taken() -> usize {
    heap::bytes() + slotkeep::slab_bytes()
}

/// What the system counts as this process's memory.
fn resident() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kibibytes.unwrap_or(0.0) * 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_with_the_sort_of_its_values() {
        assert_eq!("numbers:scc".parse(), Ok(Child::new(names::SCC, Values::Numbers)));
        assert!("scc".parse::<Child>().is_err());
    }
}
