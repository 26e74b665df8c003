//! The caches that are timed, at their bounds.

use std::sync::Arc;

use crate::clients::Contestant;
use crate::clients::Way;
use crate::clients::newcomers;
use crate::clients::singles;
use crate::engine::names;
use crate::load::Script;
use crate::load::Step;
use crate::measure::float;
use crate::stores::Bounded;
use crate::stores::Client;
use crate::stores::Moka;
use crate::stores::Ours;
use crate::stores::QuickCache;
use crate::stores::Store;

/// Ours and the rivals, with room for as many entries.
pub struct Stage {
    room: usize,
    ours: Ours<[u8]>,
    moka: Moka<Arc<[u8]>>,
    quick: QuickCache<Arc<[u8]>>,
}

impl Stage {
    /// Each cache as it is when these scripts were walked over once: full, and its order of
    /// eviction settled.
    pub fn filled(room: usize, scripts: &[Script]) -> Self {
        let stage = Self {
            room,
            ours: Ours::bounded(room),
            moka: Moka::bounded(room),
            quick: QuickCache::bounded(room),
        };
        fetch(&stage.ours, scripts);
        fetch(&stage.moka, scripts);
        fetch(&stage.quick, scripts);
        stage
    }

    /// Everybody, ours first, walking over the scripts.
    pub fn contestants<'a>(&'a self, scripts: &'a [Script]) -> Vec<Contestant<'a>> {
        vec![
            singles(names::OURS, &self.ours, scripts, Way::Ready),
            singles(names::MOKA, &self.moka, scripts, Way::Ready),
            singles(names::QUICK, &self.quick, scripts, Way::Ready),
        ]
    }

    /// Everybody, ours first, writing new keys only; see [`newcomers`].
    pub fn newcomers<'a>(&'a self, scripts: &'a [Script], label: u16) -> Vec<Contestant<'a>> {
        vec![
            newcomers(names::OURS, &self.ours, scripts, label),
            newcomers(names::MOKA, &self.moka, scripts, label),
            newcomers(names::QUICK, &self.quick, scripts, label),
        ]
    }

    /// How full everybody is, in percent.
    ///
    /// # Panics
    /// A cache holds more than it has room for.
    pub fn filling(&self) -> Vec<(String, Vec<f64>)> {
        let entries = [
            (names::OURS, self.ours.entries()),
            (names::MOKA, self.moka.entries()),
            (names::QUICK, self.quick.entries()),
        ];
        let percentage = |(name, entries): (&str, usize)| {
            assert!(entries <= self.room + self.room / 1000, "{name} holds {entries}");
            (name.to_owned(), vec![100.0 * float(entries) / float(self.room)])
        };
        entries.into_iter().map(percentage).collect()
    }
}

/// Asks for every key and writes what is missing, as a client that does nothing else.
fn fetch<S: Store>(store: &S, scripts: &[Script]) {
    let client = store.client();
    let fetch = |step: &Step| drop(client.fetch(step.key(), step.value()));
    scripts.iter().flat_map(Script::steps).for_each(fetch);
}
