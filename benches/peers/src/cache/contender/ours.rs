//! Ours: the cache as it ships.

use slotkeep::Cache as OurCache;
use slotkeep::Error;
use slotkeep::Refused;

use crate::cache::contender::Cache;
use crate::cache::trace::Access;
use crate::cache::trace::Room;
use crate::cache::trace::Trace;

/// A cache of slotkeep.
#[derive(Debug)]
pub struct Ours(OurCache<u64>);

impl Ours {
    /// An empty one. Values are weights, of which it is told only where there are some.
    pub fn new(trace: &Trace, room: Room) -> Self {
        if !trace.is_weighted() {
            return Self(OurCache::new(room.weight));
        }
        let builder = OurCache::builder().max_weight(room.weight).weigher(|_, &weight| weight);
        Self(builder.build().expect("a thread for a worker"))
    }
}

impl Cache for Ours {
    fn access(&mut self, access: Access<'_>) -> bool {
        let is_hit = self.0.get(access.key).expect("an open cache").is_some();
        if !is_hit {
            match self.0.insert(access.key, access.weight) {
                // What no cache of this size can hold comes back.
                Ok(()) | Err(Refused { error: Error::TooHeavy { .. }, .. }) => {}
                Err(refused) => panic!("an open cache: {refused}"),
            }
        }
        is_hit
    }
}
