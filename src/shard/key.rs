//! `Key`: a key with its hash and its slot, computed once a call; the engine's hasher.

use std::hash::BuildHasher;
use std::hash::Hasher;

use smallvec::SmallVec;
use smallvec::smallvec;

use crate::limits::KEY_BYTES_MAX;
use crate::slot::Slot;
use crate::slot::slots_of;

/// A key with what every step of a call needs of it.
#[derive(Clone, Copy)]
pub(crate) struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
    pub(crate) slot: Slot,
}

/// How many keys of a call lie on its stack.
pub(crate) const KEYS_INLINE: usize = 8;

/// The keys of a call.
pub(crate) type Keys<'k> = SmallVec<[Key<'k>; KEYS_INLINE]>;

impl<'k> Key<'k> {
    /// Hashes the key, or returns its length when that is beyond the bound.
    #[inline]
    pub(crate) fn new(bytes: &'k [u8], hasher: &KeyHasher) -> Result<Self, usize> {
        if bytes.len() > KEY_BYTES_MAX {
            return Err(bytes.len());
        }
        Ok(Self { bytes, hash: hasher.hash(bytes), slot: Slot::of(bytes) })
    }

    /// Hashes keys, each asked for its bytes once, or returns the length of the first one that is
    /// beyond the bound. Their slots are computed together.
    pub(crate) fn all(keys: &'k [impl AsRef<[u8]>], hasher: &KeyHasher) -> Result<Keys<'k>, usize> {
        let unplaced = |key: &'k [u8]| match key.len() {
            0..=KEY_BYTES_MAX => Ok(Self { bytes: key, hash: hasher.hash(key), slot: Slot::MIN }),
            beyond => Err(beyond),
        };
        let mut keys =
            keys.iter().map(|key| unplaced(key.as_ref())).collect::<Result<Keys<'k>, _>>()?;
        let mut slots: SmallVec<[Slot; KEYS_INLINE]> = smallvec![Slot::MIN; keys.len()];
        slots_of(&keys, &mut slots).expect("as many slots as keys");
        keys.iter_mut().zip(slots).for_each(|(key, slot)| key.slot = slot);
        Ok(keys)
    }
}

/// Whether two keys are the same. Those of usual lengths are compared in registers: a call would
/// cost as much as the comparison, and have its caller save what it keeps there.
#[inline]
pub(super) fn is_same_key(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let word = |bytes: &[u8; 16]| u128::from_ne_bytes(*bytes);
    match (one.first_chunk(), one.last_chunk(), other.first_chunk(), other.last_chunk()) {
        // Both ends are all of it, and overlap.
        (Some(first), Some(last), Some(other_first), Some(other_last)) if one.len() <= 32 => {
            (word(first) ^ word(other_first)) | (word(last) ^ word(other_last)) == 0
        }
        _ => one == other,
    }
}

impl AsRef<[u8]> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.bytes
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
        // Without the length before it, which `Hash` writes and the hasher mixes in as well.
        let mut hasher = self.0.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Key;
    use super::KeyHasher;
    use super::is_same_key;
    use crate::limits::KEY_BYTES_MAX;

    #[test]
    fn keys_hashed_together_are_as_hashed_one_by_one() {
        let hasher = KeyHasher::seeded(1);
        let names: Vec<String> = (0..70).map(|n| format!("user:{n}:{{{n}}}")).collect();
        for count in 0..names.len() {
            let keys = Key::all(&names[..count], &hasher).expect("short keys");
            assert_eq!(keys.len(), count);
            for (key, name) in keys.iter().zip(&names) {
                let alone = Key::new(name.as_bytes(), &hasher).expect("a short key");
                assert_eq!((key.bytes, key.hash, key.slot), (alone.bytes, alone.hash, alone.slot));
            }
        }
    }

    #[test]
    fn keys_are_the_same_only_byte_for_byte() {
        let bytes: Vec<u8> = (0..100).collect();
        for len in 0..bytes.len() {
            let (key, mut other) = (&bytes[..len], bytes[..len].to_vec());
            assert!(is_same_key(key, &other), "{len} bytes");
            assert!(!is_same_key(key, &bytes[..=len]), "{len} bytes and one more");
            for at in 0..len {
                other[at] ^= 0x80;
                assert!(!is_same_key(key, &other), "byte {at} of {len} differs");
                other[at] ^= 0x80;
            }
        }
    }

    #[test]
    fn the_first_key_beyond_the_bound_is_reported() {
        let long = vec![0; KEY_BYTES_MAX + 2];
        let keys = [&long[..3], &long[..=KEY_BYTES_MAX], &long];
        assert_eq!(Key::all(&keys, &KeyHasher::seeded(1)).err(), Some(KEY_BYTES_MAX + 1));
    }
}
