//! The laboratory: how much is measured, and the stores, filled when they are first needed.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use crate::clients::Contestant;
use crate::clients::Pace;
use crate::clients::Way;
use crate::clients::singles;
use crate::load::Mix;
use crate::load::Picks;
use crate::load::Recipe;
use crate::load::Script;
use crate::load::Step;
use crate::load::Zipf;
use crate::load::zipf_table;
use crate::stores::Dash;
use crate::stores::Moka;
use crate::stores::Ours;
use crate::stores::Papaya;
use crate::stores::QuickCache;
use crate::stores::Scc;
use crate::stores::Sort;
use crate::stores::Stored;
use crate::stores::fill;

/// What the contestants are called.
pub mod names {
    pub const OURS: &str = "ours";
    /// Ours as a cache, with a bound that it does not reach.
    pub const BOUNDED: &str = "ours, bounded";
    pub const DASH: &str = "DashMap";
    pub const SHARDED: &str = "DashMap 1024";
    pub const PAPAYA: &str = "papaya";
    pub const SCC: &str = "scc";
    pub const MOKA: &str = "moka";
    pub const QUICK: &str = "quick_cache";
    /// The maps that ours is held against.
    pub const MAPS: [&str; 4] = [DASH, SHARDED, PAPAYA, SCC];
}

/// How much is measured, and on what.
pub struct Lab {
    /// How long and how often.
    pub pace: Pace,
    /// How many keys there are.
    pub keys: u32,
    steps: usize,
    zipf: Zipf,
    maps: OnceCell<Stage<[u8], Arc<[u8]>>>,
    bounded: OnceCell<Ours<[u8]>>,
    caches: OnceCell<Caches>,
}

/// Ours and the maps, with the same entries.
pub struct Stage<V: Sort + ?Sized, W: Stored> {
    /// Ours.
    pub ours: Ours<V>,
    dash: Dash<W>,
    sharded: Dash<W>,
    papaya: Papaya<W>,
    scc: Scc<W>,
}

/// The caches, with the same entries.
pub struct Caches {
    moka: Moka<Arc<[u8]>>,
    quick: QuickCache<Arc<[u8]>>,
}

impl Lab {
    /// A full one, or one that measures enough to warn.
    pub fn new(quick: bool) -> Self {
        let (rounds, turn, keys, steps) = if quick {
            (5, Duration::from_millis(15), 1 << 18, 1 << 16)
        } else {
            (9, Duration::from_millis(120), 1_000_000, 1 << 19)
        };
        let (maps, bounded, caches) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        let pace = Pace { rounds, turn };
        Self { pace, keys, steps, zipf: zipf_table(keys), maps, bounded, caches }
    }

    /// Ours and the maps, with values of bytes.
    pub fn maps(&self) -> &Stage<[u8], Arc<[u8]>> {
        self.maps.get_or_init(|| Stage::filled(self.keys))
    }

    /// Ours as a cache, with as much room as the caches have.
    pub fn bounded(&self) -> &Ours<[u8]> {
        self.bounded.get_or_init(|| {
            let ours = Ours::bounded(2 * self.keys as usize);
            fill(&ours, (0..self.keys).map(Step::fill));
            ours
        })
    }

    /// The caches.
    pub fn caches(&self) -> &Caches {
        self.caches.get_or_init(|| Caches::filled(self.keys))
    }

    /// A script for each client.
    pub fn scripts(&self, clients: usize, picks: Picks, mix: Mix) -> Vec<Script> {
        self.recipe(picks, mix).scripts(clients)
    }

    /// The same; steps that lie in one batch do the same.
    pub fn grouped(&self, clients: usize, picks: Picks, mix: Mix) -> Vec<Script> {
        Recipe { grouped: true, ..self.recipe(picks, mix) }.scripts(clients)
    }

    /// The same as [`grouped`](Self::grouped) over the first `keys` keys only.
    pub fn grouped_over(&self, keys: u32, clients: usize, picks: Picks, mix: Mix) -> Vec<Script> {
        let recipe = Recipe { grouped: true, ..self.recipe(picks, mix) };
        Recipe { keys, zipf: zipf_table(keys), ..recipe }.scripts(clients)
    }

    fn recipe(&self, picks: Picks, mix: Mix) -> Recipe {
        let Self { keys, zipf, steps, .. } = *self;
        Recipe { keys, zipf, picks, mix, steps, grouped: false }
    }
}

impl<V: Sort + ?Sized, W: Stored> Stage<V, W> {
    /// Every store with so many entries.
    pub fn filled(keys: u32) -> Self {
        let stage = Self {
            ours: Ours::new(),
            dash: Dash::new(),
            sharded: Dash::sharded(),
            papaya: Papaya::new(),
            scc: Scc::new(),
        };
        let steps = || (0..keys).map(Step::fill);
        fill(&stage.ours, steps());
        fill(&stage.dash, steps());
        fill(&stage.sharded, steps());
        fill(&stage.papaya, steps());
        fill(&stage.scc, steps());
        stage
    }

    /// Everybody, ours first.
    pub fn contestants<'a>(&'a self, scripts: &'a [Script], way: Way) -> Vec<Contestant<'a>> {
        vec![
            singles(names::OURS, &self.ours, scripts, way),
            singles(names::DASH, &self.dash, scripts, way),
            singles(names::SHARDED, &self.sharded, scripts, way),
            singles(names::PAPAYA, &self.papaya, scripts, way),
            singles(names::SCC, &self.scc, scripts, way),
        ]
    }
}

impl Caches {
    fn filled(keys: u32) -> Self {
        let room = keys as usize;
        let caches = Self { moka: Moka::new(room), quick: QuickCache::new(room) };
        fill(&caches.moka, (0..keys).map(Step::fill));
        fill(&caches.quick, (0..keys).map(Step::fill));
        caches
    }

    /// Both.
    pub fn contestants<'a>(&'a self, scripts: &'a [Script], way: Way) -> [Contestant<'a>; 2] {
        [
            singles(names::MOKA, &self.moka, scripts, way),
            singles(names::QUICK, &self.quick, scripts, way),
        ]
    }
}
