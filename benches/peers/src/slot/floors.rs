//! What the memory alone costs: loops that load and store as the kernels do and compute nothing.
#![expect(unsafe_code, reason = "wide loads are the floor that wide kernels are held against")]

/// Loads pointer, length and the first 16 bytes of each key, and stores two bytes.
pub fn load_only(keys: &[&[u8]], out: &mut [u16]) {
    for (key, out) in keys.iter().zip(out) {
        let Some((low, rest)) = key.split_first_chunk::<8>() else { continue };
        let Some(high) = rest.first_chunk::<8>() else { continue };
        // The top of a sum depends on every bit below it: both loads are needed whole.
        let sum = u64::from_le_bytes(*low).wrapping_add(u64::from_le_bytes(*high));
        *out = (sum >> 48) as u16;
    }
}

/// The XOR of all words of a buffer of whole blocks, as fast as this processor loads.
/// `None` where it has no vectors of 512 bits.
#[cfg(target_arch = "x86_64")]
pub fn xor_sum() -> Option<fn(&[u8]) -> u16> {
    is_x86_feature_detected!("avx512f").then_some(|bytes| {
        // SAFETY: this function is handed out only where AVX-512 was detected.
        unsafe { wide::xor_sum(bytes) }
    })
}

/// Other architectures have no kernel to hold against it.
#[cfg(not(target_arch = "x86_64"))]
pub fn xor_sum() -> Option<fn(&[u8]) -> u16> {
    None
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::__m512i;
    use std::arch::x86_64::_mm512_loadu_si512;
    use std::arch::x86_64::_mm512_reduce_add_epi64;
    use std::arch::x86_64::_mm512_setzero_si512;
    use std::arch::x86_64::_mm512_xor_si512;

    const VECTOR: usize = 64;
    /// Eight chains hide the latency of a load.
    const CHAINS: usize = 8;

    #[target_feature(enable = "avx512f")]
    pub fn xor_sum(bytes: &[u8]) -> u16 {
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for block in bytes.as_chunks::<{ VECTOR * CHAINS }>().0 {
            for (sum, vector) in sums.iter_mut().zip(block.as_chunks::<VECTOR>().0) {
                *sum = _mm512_xor_si512(*sum, load(vector));
            }
        }
        let sum = sums.into_iter().fold(_mm512_setzero_si512(), |a, b| _mm512_xor_si512(a, b));
        let [low, high, ..] = _mm512_reduce_add_epi64(sum).to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    #[target_feature(enable = "avx512f")]
    fn load(vector: &[u8; VECTOR]) -> __m512i {
        // SAFETY: the reference proves 64 readable bytes, and the load needs no alignment.
        unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) }
    }
}
