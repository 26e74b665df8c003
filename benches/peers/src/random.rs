//! Random choices that are the same in every run.

/// Where every random choice starts.
pub const SEED: u64 = 0x510_7EED;

/// The `SplitMix64` sequence.
pub struct Random(u64);

impl Random {
    /// The sequence from its start.
    pub fn new() -> Self {
        Self(SEED)
    }

    /// A sequence of its own for each number: of each of several threads.
    pub fn of(number: u64) -> Self {
        let mut random = Self(SEED.wrapping_add(number << 32));
        Self(random.next())
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64).expect("below a usize")
    }
}
