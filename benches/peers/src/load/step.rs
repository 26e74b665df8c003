//! One step of a client: a key that lies ready, and what is done with it.

/// How long keys are.
pub const KEY_BYTES: usize = 20;

/// How much of a key a label takes.
const LABEL_BYTES: usize = 4;

/// Values take from 64 to 100 bytes.
const VALUE_BYTES_MIN: u8 = 64;
const VALUE_LENGTHS: u32 = 37;

/// The mean of the lengths.
pub const VALUE_BYTES_MEAN: f64 = 82.0;

/// Where values begin in the pool.
const STARTS: u32 = 4096;

/// Values are pieces of this pool, which stays in the first-level cache: to write or to check one
/// costs no miss but the store's own.
static POOL: [u8; POOL_BYTES] = pool();

const POOL_BYTES: usize = 4096 + 128;

/// What is done with the key of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read it.
    Get,
    /// Write it.
    Set,
    /// Remove it and write it again: two operations.
    Renew,
    /// Read it and write what is computed from it.
    Modify,
    /// Read it, and write it if it is not there.
    Fetch,
    /// Read it and those of the steps that follow: its neighbours.
    Scan,
}

/// A step. The key lies in it as its bytes: the walk over a script misses no cache.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    key: [u8; KEY_BYTES],
    number: u32,
    value_bytes: u8,
    /// What is done.
    pub action: Action,
}

impl Step {
    /// Writes the value that belongs to the key of this number.
    pub fn fill(number: u32) -> Self {
        Self::new(number, Action::Set)
    }

    /// A step with the value that belongs to the key.
    pub fn new(number: u32, action: Action) -> Self {
        let mut key = [0; KEY_BYTES];
        compose(number, &mut key);
        // Neighbours have unlike lengths.
        let length = number.wrapping_mul(0x9E37_79B9) >> 16;
        Self { key, number, value_bytes: 0, action }.of_length(length)
    }

    /// The same with another length of the value, out of all that there are.
    #[must_use]
    pub fn of_length(self, length: u32) -> Self {
        let more = u8::try_from(length % VALUE_LENGTHS).expect("below 37");
        Self { value_bytes: VALUE_BYTES_MIN + more, ..self }
    }

    /// Writes a label, of which the last four digits count, into the start of the key.
    pub fn relabel(&mut self, label: u16) {
        let mut rest = label;
        for byte in self.key[..LABEL_BYTES].iter_mut().rev() {
            *byte = b'0' + u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
        }
    }

    /// The key, as it lies there.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The key, composed byte by byte just now.
    #[inline]
    pub fn compose<'k>(&self, key: &'k mut [u8; KEY_BYTES]) -> &'k [u8] {
        compose(self.number, key);
        key
    }

    /// The value: its first eight bytes belong to the key.
    #[inline]
    pub fn value(&self) -> &'static [u8] {
        let start = (self.number % STARTS) as usize;
        &POOL[start..start + usize::from(self.value_bytes)]
    }
}

impl AsRef<[u8]> for Step {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.key
    }
}

/// `name:` and fifteen digits.
#[inline]
fn compose(number: u32, key: &mut [u8; KEY_BYTES]) {
    key[..5].copy_from_slice(b"name:");
    let mut rest = number;
    for byte in key[5..].iter_mut().rev() {
        *byte = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
}

/// Bytes without a pattern.
const fn pool() -> [u8; POOL_BYTES] {
    let mut bytes = [0; POOL_BYTES];
    let mut state = 0x510_7EED_u32;
    let mut at = 0;
    while at < POOL_BYTES {
        // Xorshift: the low byte of each state.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes[at] = state.to_le_bytes()[0];
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_twenty_bytes_and_one_for_each_number() {
        assert_eq!(Step::fill(1_048_575).key(), b"name:000000001048575");
        let mut key = [0; KEY_BYTES];
        assert_eq!(Step::fill(42).compose(&mut key), Step::fill(42).key());
    }

    #[test]
    fn values_have_every_length_and_the_mean_that_is_named() {
        let lengths: Vec<_> = (0..100_000).map(|number| Step::fill(number).value().len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&64), Some(&100)));
        let mean = crate::measure::float(lengths.iter().sum()) / 100_000.0;
        assert!((mean - VALUE_BYTES_MEAN).abs() < 0.1, "{mean}");
    }

    #[test]
    fn the_first_bytes_of_a_value_tell_its_key_from_its_neighbours() {
        let mut stamps: Vec<_> = (0..STARTS).map(|at| &Step::fill(at).value()[..8]).collect();
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), STARTS as usize);
    }
}
