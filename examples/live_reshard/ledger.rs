//! The ledger: for each key the versions that a read may see. Written by everybody, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::keys::Keys;
use crate::script::Script;

/// The versions of one key that may be seen: from `floor` to `issued`.
#[derive(Default)]
struct Window {
    /// The newest version that was acknowledged, or that a finished read has seen: no read that
    /// begins later may see an older one.
    floor: AtomicU64,
    /// The newest version that its writer has begun to write.
    issued: AtomicU64,
}

/// Every key's script and window, and the findings.
pub struct Ledger {
    pub keys: Keys,
    pub findings: Findings,
    windows: Vec<Window>,
    writers: usize,
}

impl Ledger {
    pub fn new(keys: Keys, writers: usize) -> Self {
        let windows = (0..keys.len()).map(|_| Window::default()).collect();
        Self { keys, findings: Findings::default(), windows, writers }
    }

    /// Which thread writes the key. All keys of a slot have one writer, so that it can write them
    /// in one call.
    pub fn writer_of(&self, index: u32) -> usize {
        self.keys.slot(index).index() % self.writers
    }

    pub fn script(&self, index: u32) -> Script<'_> {
        Script::new(index, self.keys.name(index), self.writer_of(index))
    }

    /// A read begins: it must not see anything older than this.
    ///
    /// Acquire, with the Release of `raise`: what was acknowledged has happened.
    pub fn floor(&self, index: u32) -> u64 {
        self.windows[index as usize].floor.load(Ordering::Acquire)
    }

    /// The writer begins to write a version. Release, with the Acquire in `version`; what carries
    /// it to a reader is the value itself.
    pub fn issue(&self, index: u32, version: u64) {
        self.windows[index as usize].issued.store(version, Ordering::Release);
    }

    /// A version was acknowledged, or seen by a read that has ended.
    pub fn raise(&self, index: u32, version: u64) {
        self.windows[index as usize].floor.fetch_max(version, Ordering::AcqRel);
    }

    /// The version that was read, if it is whole and lies between `floor` and what is issued. Of an
    /// absent key it is the oldest one that fits.
    pub fn version(&self, index: u32, floor: u64, value: Option<&[u8]>) -> Option<u64> {
        let script = self.script(index);
        let version = match value {
            Some(value) => script.version_of(value)?,
            None => script.absent_from(floor)?,
        };
        let issued = self.windows[index as usize].issued.load(Ordering::Acquire);
        (floor..=issued).contains(&version).then_some(version)
    }

    /// Whether the key has to be there: no version that may be seen is its absence.
    pub fn is_due(&self, index: u32) -> bool {
        let floor = self.floor(index);
        self.version(index, floor, None).is_none()
    }
}

/// What went wrong, counted; the first ones are printed as well.
#[derive(Default)]
pub struct Findings {
    pub lost: AtomicU64,
    pub stale: AtomicU64,
    pub duplicated: AtomicU64,
    pub unanswered: AtomicU64,
}

/// How many findings of a sort are printed.
const PRINTED_MAX: u64 = 5;

impl Findings {
    pub fn lost(&self, what: impl FnOnce() -> String) {
        Self::note(&self.lost, "lost", what);
    }

    pub fn stale(&self, what: impl FnOnce() -> String) {
        Self::note(&self.stale, "stale", what);
    }

    pub fn duplicated(&self, what: impl FnOnce() -> String) {
        Self::note(&self.duplicated, "duplicated", what);
    }

    pub fn unanswered(&self, what: impl FnOnce() -> String) {
        Self::note(&self.unanswered, "unanswered", what);
    }

    fn note(count: &AtomicU64, sort: &str, what: impl FnOnce() -> String) {
        if count.fetch_add(1, Ordering::Relaxed) < PRINTED_MAX {
            eprintln!("{sort}: {}", what());
        }
    }

    pub fn counts(&self) -> [u64; 4] {
        [&self.lost, &self.stale, &self.duplicated, &self.unanswered]
            .map(|count| count.load(Ordering::Relaxed))
    }

    /// The line that says it all.
    pub fn line(&self) -> String {
        let [lost, stale, duplicated, unanswered] = self.counts();
        format!("lost {lost} stale {stale} duplicated {duplicated} unanswered {unanswered}")
    }
}
