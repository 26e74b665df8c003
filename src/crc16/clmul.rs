//! The tier of carry-less multiplication, for almost every x86-64: PCLMULQDQ and SSSE3.
//!
//! Blocks of sixteen bytes are numbers with the first byte highest. Zeros before a message are
//! free, so a message is always aligned to its end, and only its first block can be partial.
#![expect(unsafe_code, reason = "loads are intrinsics, and need a processor that has them")]

use core::arch::x86_64::__m128i;
use core::arch::x86_64::_mm_clmulepi64_si128;
use core::arch::x86_64::_mm_cmpeq_epi8;
use core::arch::x86_64::_mm_cvtsi64_si128;
use core::arch::x86_64::_mm_extract_epi16;
use core::arch::x86_64::_mm_loadu_si128;
use core::arch::x86_64::_mm_movemask_epi8;
use core::arch::x86_64::_mm_set_epi64x;
use core::arch::x86_64::_mm_set1_epi8;
use core::arch::x86_64::_mm_setr_epi8;
use core::arch::x86_64::_mm_setzero_si128;
use core::arch::x86_64::_mm_shuffle_epi8;
use core::arch::x86_64::_mm_srli_si128;
use core::arch::x86_64::_mm_xor_si128;

use super::constants::WINDOW_BITS;
use super::constants::power;
use super::constants::window;
use super::swar;
use super::tag::hash_tag;

/// From this length on, xors alone outrun the multiplier by more than their rest costs.
const XOR_LEN_MIN: usize = 2048;

/// The proof that the processor has the instructions of this tier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Clmul(());

impl Clmul {
    /// The tier, if the processor can run it.
    pub(super) fn new() -> Option<Self> {
        let found = is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("ssse3");
        found.then_some(Self(()))
    }

    /// The checksum of `bytes`.
    #[inline]
    pub(super) fn checksum(self, bytes: &[u8]) -> u16 {
        let Self(()) = self;
        // SAFETY: a `Clmul` exists only where `new` has found the features.
        unsafe { checksum(bytes) }
    }

    /// The checksum of the hash tag of `key`.
    #[inline]
    pub(super) fn checksum_of_tag(self, key: &[u8]) -> u16 {
        let Self(()) = self;
        // SAFETY: a `Clmul` exists only where `new` has found the features.
        unsafe { checksum_of_tag(key) }
    }
}

#[target_feature(enable = "pclmulqdq,ssse3")]
fn checksum(bytes: &[u8]) -> u16 {
    match bytes.len() {
        0..=8 => swar::checksum(bytes),
        9..=16 => reduce(short_block(bytes)),
        17..=64 => up_to_four_blocks(bytes),
        65..XOR_LEN_MIN => blocks(bytes),
        _ => blocks(&swar::xor_fold(bytes)),
    }
}

#[target_feature(enable = "pclmulqdq,ssse3")]
fn checksum_of_tag(key: &[u8]) -> u16 {
    // Shorter keys are searched faster in words.
    if key.len() < 16 {
        return checksum(hash_tag(key));
    }
    match position(key, b'{') {
        None => checksum(key),
        Some(_) => checksum_behind_brace(key),
    }
}

/// The checksum of the hash tag of a key that has an opening brace.
///
/// Byte by byte, so that the tag's place is a matter of branches: most keys have theirs where the
/// keys before had it, and then the tag is read before the key was searched.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline(never)]
fn checksum_behind_brace(key: &[u8]) -> u16 {
    let Some(open) = place(key, b'{') else { return checksum(key) };
    let after = &key[open + 1..];
    match place(after, b'}') {
        None | Some(0) => checksum(key),
        Some(len) => checksum_of_start(after, len),
    }
}

/// Where `byte` stands first, by a count: a pointer that goes from byte to byte would have to wait
/// for the key.
#[inline]
fn place(bytes: &[u8], byte: u8) -> Option<usize> {
    (0..bytes.len()).find(|&index| bytes[index] == byte)
}

/// The checksum of the first `len` bytes.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
#[expect(clippy::cast_sign_loss, reason = "the intrinsic's words are unsigned")]
fn checksum_of_start(bytes: &[u8], len: usize) -> u16 {
    match bytes.first_chunk() {
        // One window, cut out of what stands there.
        Some(eight) if len <= 6 => {
            let eight = _mm_cvtsi64_si128(i64::from_le_bytes(*eight));
            let cut = _mm_shuffle_epi8(eight, reversal(len));
            let factor = pair(const { [window(0), 0] });
            let share = _mm_clmulepi64_si128::<0x00>(cut, factor);
            swar::remainder(_mm_extract_epi16::<3>(share) as u64)
        }
        _ => checksum(bytes.get(..len).unwrap_or(bytes)),
    }
}

/// The shuffle that brings the first 1 to 16 bytes, reversed, into the low ones; zeros elsewhere.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn reversal(len: usize) -> __m128i {
    const REVERSE: [u8; 32] = {
        let mut order = [0x80; 32];
        let mut index = 0;
        while index < 16 {
            order[index as usize] = 15 - index;
            index += 1;
        }
        order
    };
    let order = REVERSE.get(16 - len..).and_then(|order| order.first_chunk());
    order.map_or_else(|| _mm_setzero_si128(), |order| load_raw(order))
}

/// Where `byte` stands first.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn position(bytes: &[u8], byte: u8) -> Option<usize> {
    let hits = |block: &[u8; 16]| {
        let same = _mm_cmpeq_epi8(load_raw(block), _mm_set1_epi8(byte.cast_signed()));
        _mm_movemask_epi8(same)
    };
    let (blocks, rest) = bytes.as_chunks();
    for (index, block) in blocks.iter().enumerate() {
        let hits = hits(block);
        if hits != 0 {
            return Some(16 * index + hits.trailing_zeros() as usize);
        }
    }
    let Some(last) = bytes.last_chunk() else {
        return bytes.iter().position(|&other| other == byte);
    };
    if rest.is_empty() {
        return None;
    }
    // Bytes before the rest are looked at again, and there is none among them.
    let hits = hits(last);
    (hits != 0).then(|| bytes.len() - 16 + hits.trailing_zeros() as usize)
}

/// The block of 8 to 16 bytes.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "the intrinsic's words are signed")]
fn short_block(bytes: &[u8]) -> __m128i {
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        return _mm_setzero_si128();
    };
    // What the last eight bytes hold already is shifted out of the first eight. Two shifts,
    // because for eight bytes that is all of them.
    let again = 4 * (16 - bytes.len());
    let high = u64::from_be_bytes(*first) >> again >> again;
    _mm_set_epi64x(high as i64, i64::from_be_bytes(*last))
}

/// The checksum of 17 to 64 bytes: every block is shifted to its place at once.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn up_to_four_blocks(bytes: &[u8]) -> u16 {
    let (first, rest) = first_block(bytes);
    let sum = match rest {
        [] => first,
        [b] => xor(shift::<128>(first), load(b)),
        [b, c] => xor(xor(shift::<256>(first), shift::<128>(load(b))), load(c)),
        [b, c, d, ..] => merge([first, load(b), load(c), load(d)]),
    };
    reduce(sum)
}

/// The checksum of more than 16 bytes: four blocks a step, each folded onto the one 64 bytes later.
#[target_feature(enable = "pclmulqdq,ssse3")]
fn blocks(bytes: &[u8]) -> u16 {
    let (first, rest) = first_block(bytes);
    let (start, groups) = rest.as_rchunks::<4>();
    let zero = _mm_setzero_si128();
    let mut sums = match start {
        [] => [zero, zero, zero, first],
        [b] => [zero, zero, first, load(b)],
        [b, c] => [zero, first, load(b), load(c)],
        [b, c, d, ..] => [first, load(b), load(c), load(d)],
    };
    for group in groups {
        for (sum, block) in sums.iter_mut().zip(group) {
            *sum = xor(shift::<512>(*sum), load(block));
        }
    }
    reduce(merge(sums))
}

/// The first 1 to 16 of more than 16 bytes as a block, so many that full blocks are left.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn first_block(bytes: &[u8]) -> (__m128i, &[[u8; 16]]) {
    let (rest, blocks) = bytes.split_at((bytes.len() - 1) % 16 + 1);
    let whole = bytes.first_chunk().map_or_else(|| _mm_setzero_si128(), |first| load_raw(first));
    (_mm_shuffle_epi8(whole, reversal(rest.len())), blocks.as_chunks().0)
}

/// Four blocks as one, with the same checksum.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn merge([a, b, c, d]: [__m128i; 4]) -> __m128i {
    xor(xor(shift::<384>(a), shift::<256>(b)), xor(shift::<128>(c), d))
}

/// The block times x^`BITS`, modulo P but not reduced: its halves times 16 bits each.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn shift<const BITS: usize>(block: __m128i) -> __m128i {
    let powers = const { [power(BITS), power(BITS + 64)] };
    let powers = pair(powers);
    let low = _mm_clmulepi64_si128::<0x00>(block, powers);
    let high = _mm_clmulepi64_si128::<0x11>(block, powers);
    xor(low, high)
}

/// The checksum of one block: the quotient of its bits in three windows.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
#[expect(clippy::cast_sign_loss, reason = "the intrinsic's words are unsigned")]
fn reduce(block: __m128i) -> u16 {
    let factors = pair(const { [window(0), window(WINDOW_BITS)] });
    let last = pair(const { [window(2 * WINDOW_BITS), 0] });
    let six_each = _mm_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1);
    let windows = _mm_shuffle_epi8(block, six_each);
    let first = _mm_clmulepi64_si128::<0x00>(windows, factors);
    let second = _mm_clmulepi64_si128::<0x11>(windows, factors);
    let third = _mm_clmulepi64_si128::<0x00>(_mm_srli_si128::<12>(block), last);
    let shares = xor(xor(first, second), third);
    swar::remainder(_mm_extract_epi16::<3>(shares) as u64)
}

/// A block, its first byte highest.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn load(block: &[u8; 16]) -> __m128i {
    let reversed = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm_shuffle_epi8(load_raw(block), reversed)
}

/// A block, its first byte lowest.
#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn load_raw(block: &[u8; 16]) -> __m128i {
    // SAFETY: the load reads sixteen bytes, those of `block`, and needs no alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "the intrinsic's words are signed")]
fn pair([low, high]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(high as i64, low as i64)
}

#[target_feature(enable = "pclmulqdq,ssse3")]
#[inline]
fn xor(a: __m128i, b: __m128i) -> __m128i {
    _mm_xor_si128(a, b)
}
