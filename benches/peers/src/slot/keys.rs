//! Keys as applications write them, and runs of bytes of one length; the same in every run.

use std::fmt::Write;

use crate::random::Random;

/// How many keys a set of realistic keys holds.
const KEYS: usize = 16_384;

/// What keys of one length take together: they stay in the first-level cache.
const RUN_BYTES: usize = 16_384;

/// A cache line.
const LINE_BYTES: usize = 64;

/// At most this many keys of one length.
const RUN_KEYS: usize = 1024;

/// What realistic keys look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `user:{N}:profile`: the number alone is hashed.
    Tag,
    /// `session:` and 32 hexadecimal digits, 40 bytes.
    Session,
    /// A UUID in text, 36 bytes.
    Uuid,
    /// A quarter each of `user:{N}:profile`, sessions, UUIDs and `user:N`, in random order.
    Mixed,
}

/// Keys that lie on the heap one by one, as those of an application do.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<Box<[u8]>>,
}

impl KeySet {
    /// A set of realistic keys.
    pub fn of(kind: Kind) -> Self {
        let mut random = Random::new();
        Self { keys: (0..KEYS).map(|_| key(kind, &mut random).into()).collect() }
    }

    /// The keys.
    pub fn views(&self) -> Vec<&[u8]> {
        self.keys.iter().map(|key| &**key).collect()
    }
}

/// Keys of one length, without braces, in one piece of memory.
#[derive(Debug)]
pub struct Run {
    bytes: Vec<u8>,
    /// Where the first key begins: the start of a cache line.
    start: usize,
    stride: usize,
    len: usize,
}

impl Run {
    /// As many keys of `len` bytes as the first-level cache holds beside tables; at least one.
    ///
    /// They begin an odd number of bytes apart, so that every alignment occurs at every length, as
    /// in the requests that keys come with. A buffer of 16 KiB or more begins a cache line.
    pub fn of(len: usize) -> Self {
        Self::with_stride(len, len | 1)
    }

    /// The same, but every key begins a cache line.
    pub fn aligned(len: usize) -> Self {
        Self::with_stride(len, len.next_multiple_of(LINE_BYTES))
    }

    fn with_stride(len: usize, stride: usize) -> Self {
        let count = (RUN_BYTES / stride).clamp(1, RUN_KEYS);
        let mut bytes = vec![0; LINE_BYTES + count * stride];
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        bytes[start..][..count * stride].copy_from_slice(&noise(count * stride));
        Self { bytes, start, stride, len }
    }

    /// The keys.
    pub fn views(&self) -> Vec<&[u8]> {
        (0..self.count()).map(|at| self.view(at * self.stride)).collect()
    }

    /// The key that begins `offset` bytes after the first one.
    pub fn view(&self, offset: usize) -> &[u8] {
        &self.bytes[self.start + offset..][..self.len]
    }

    /// What lies between the starts of two keys.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        (self.bytes.len() - LINE_BYTES) / self.stride
    }
}

/// Bytes without a pattern and without braces.
pub fn noise(len: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_";
    let mut random = Random::new();
    (0..len).map(|_| ALPHABET[random.below(ALPHABET.len())]).collect()
}

fn key(kind: Kind, random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    match kind {
        Kind::Tag => write!(text, "user:{{{}}}:profile", random.below(1_000_000)),
        Kind::Session => write!(text, "session:{:016x}{:016x}", random.next(), random.next()),
        Kind::Uuid => {
            let (high, low) = (random.next(), random.next());
            write!(
                text,
                "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                high >> 32,
                (high >> 16) & 0xFFFF,
                high & 0xFFFF,
                low >> 48,
                low & 0xFFFF_FFFF_FFFF
            )
        }
        Kind::Mixed => match random.below(4) {
            0 => return key(Kind::Tag, random),
            1 => return key(Kind::Session, random),
            2 => return key(Kind::Uuid, random),
            _ => write!(text, "user:{}", random.below(1_000_000)),
        },
    }
    .expect("a string takes any text");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SEED;

    #[test]
    fn realistic_keys_have_the_lengths_that_their_names_promise() {
        for (kind, len) in [(Kind::Session, 40), (Kind::Uuid, 36)] {
            assert!(KeySet::of(kind).views().iter().all(|key| key.len() == len), "{kind:?}");
        }
        let tags = KeySet::of(Kind::Tag);
        assert!(tags.views().iter().all(|key| key.starts_with(b"user:{")));
    }

    #[test]
    fn a_quarter_of_the_mixed_keys_has_a_tag() {
        let set = KeySet::of(Kind::Mixed);
        let tags = set.views().iter().filter(|key| key.contains(&b'{')).count();
        assert!((KEYS / 5..KEYS / 3).contains(&tags), "{tags} of {KEYS}, seed {SEED:#x}");
    }

    #[test]
    fn a_run_fits_the_first_level_cache_or_is_one_key() {
        for len in [1, 16, 17, 256, 16_384, 65_536] {
            for run in [Run::of(len), Run::aligned(len)] {
                let keys = run.views();
                assert_eq!(keys.len(), run.count());
                assert!(run.count() == 1 || run.count() * run.stride() <= RUN_BYTES, "{len}");
                assert!(keys.iter().all(|key| key.len() == len && !key.contains(&b'{')));
            }
        }
    }

    #[test]
    fn keys_of_a_run_have_every_alignment_unless_asked_otherwise() {
        let alignments = |run: &Run| {
            let starts = run.views().into_iter().map(|key| key.as_ptr().addr() % LINE_BYTES);
            let mut seen: Vec<_> = starts.collect();
            seen.sort_unstable();
            seen.dedup();
            seen.len()
        };
        for len in [1, 16, 63, 64, 128] {
            assert_eq!(alignments(&Run::of(len)), LINE_BYTES, "{len}");
            assert_eq!(alignments(&Run::aligned(len)), 1, "{len}");
        }
    }
}
