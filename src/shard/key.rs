//! `Key`: a key with its hash and its slot, computed once a call; the engine's hasher.

use crate::limits::KEY_BYTES_MAX;
use crate::slot::Slot;

/// A key with what every step of a call needs of it.
#[derive(Clone, Copy)]
pub(crate) struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
    pub(crate) slot: Slot,
}

impl<'k> Key<'k> {
    /// Hashes the key, or returns its length when that is beyond the bound.
    #[inline]
    pub(crate) fn new(bytes: &'k [u8], hasher: &KeyHasher) -> Result<Self, usize> {
        if bytes.len() > KEY_BYTES_MAX {
            return Err(bytes.len());
        }
        Ok(Self { bytes, hash: hasher.hash(bytes), slot: Slot::of(bytes) })
    }
}

/// The hash of tables, seeded once per engine. CRC-16 would not do: inside a slot 14 of its bits
/// are constant.
#[derive(Clone, Debug)]
pub(crate) struct KeyHasher(ahash::RandomState);

impl KeyHasher {
    /// A hasher with seeds that cannot be guessed.
    pub(crate) fn random() -> Self {
        Self(ahash::RandomState::new())
    }

    /// A hasher that is the same in every run, so that a seed replays.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(ahash::RandomState::with_seeds(seed, 1, 2, 3))
    }

    #[inline]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        self.0.hash_one(bytes)
    }
}
