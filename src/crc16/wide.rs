//! The tier of 64-byte registers: AVX-512 with VBMI, VPCLMULQDQ and GFNI.
//!
//! A key of up to 64 bytes is one masked load, which ends where the key ends; the zeros before it
//! are free. The test for a hash tag looks at the same register. One permutation cuts it into
//! windows of six bytes, and one product each gives their shares of the quotient.
#![expect(unsafe_code, reason = "loads are intrinsics, and need a processor that has them")]

use core::arch::x86_64::__m128i;
use core::arch::x86_64::__m512i;
use core::arch::x86_64::_blsmsk_u64;
use core::arch::x86_64::_bzhi_u64;
use core::arch::x86_64::_mm_clmulepi64_si128;
use core::arch::x86_64::_mm_cmpeq_epi8;
use core::arch::x86_64::_mm_extract_epi16;
use core::arch::x86_64::_mm_loadu_si128;
use core::arch::x86_64::_mm_maskz_loadu_epi8;
use core::arch::x86_64::_mm_movemask_epi8;
use core::arch::x86_64::_mm_set_epi64x;
use core::arch::x86_64::_mm_set1_epi8;
use core::arch::x86_64::_mm_shuffle_epi8;
use core::arch::x86_64::_mm_slli_epi16;
use core::arch::x86_64::_mm_ternarylogic_epi64;
use core::arch::x86_64::_mm_xor_si128;
use core::arch::x86_64::_mm256_castsi256_si128;
use core::arch::x86_64::_mm256_extracti128_si256;
use core::arch::x86_64::_mm256_xor_si256;
use core::arch::x86_64::_mm512_add_epi8;
use core::arch::x86_64::_mm512_castsi512_si256;
use core::arch::x86_64::_mm512_clmulepi64_epi128;
use core::arch::x86_64::_mm512_cmpeq_epi8_mask;
use core::arch::x86_64::_mm512_extracti64x4_epi64;
use core::arch::x86_64::_mm512_loadu_epi64;
use core::arch::x86_64::_mm512_loadu_si512;
use core::arch::x86_64::_mm512_maskz_loadu_epi8;
use core::arch::x86_64::_mm512_maskz_permutexvar_epi8;
use core::arch::x86_64::_mm512_permutexvar_epi8;
use core::arch::x86_64::_mm512_set1_epi8;
use core::arch::x86_64::_mm512_xor_si512;

use super::constants::WINDOW_BITS;
use super::constants::window;
use super::long;
use super::tag::hash_tag_by;
use crate::sync::AtomicBool;
use crate::sync::Ordering;

/// The proof that the processor has the instructions of this tier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Wide(());

impl Wide {
    /// The tier, if the processor can run it.
    pub(super) fn new() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("gfni")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        found.then_some(Self(()))
    }

    /// Makes this the tier that [`chosen`](Self::chosen) returns.
    pub(super) fn choose(self) {
        let Self(()) = self;
        // Relaxed: the answer is all that there is to see.
        CHOSEN.store(true, Ordering::Relaxed);
    }

    /// The tier, if it was chosen: one look at one byte.
    #[inline]
    pub(super) fn chosen() -> Option<Self> {
        CHOSEN.load(Ordering::Relaxed).then_some(Self(()))
    }

    /// The checksum of `bytes`.
    #[inline]
    pub(super) fn checksum(self, bytes: &[u8]) -> u16 {
        let Self(()) = self;
        // SAFETY: a `Wide` exists only where `new` has found the features.
        unsafe { checksum_alone(bytes) }
    }

    /// The checksum of the hash tag of `key`.
    #[inline]
    pub(super) fn checksum_of_tag(self, key: &[u8]) -> u16 {
        let Self(()) = self;
        // SAFETY: a `Wide` exists only where `new` has found the features.
        unsafe { checksum_of_tag(key) }
    }
}

/// Whether the processor has the instructions, and this tier is the active one.
static CHOSEN: AtomicBool = AtomicBool::new(false);

/// The smallest page that there is; where pages are larger, some ends of pages are none.
const PAGE_LEN: usize = 4096;

/// How many bytes eight windows take.
const WINDOWS_LEN: usize = 48;

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
fn checksum_alone(bytes: &[u8]) -> u16 {
    if let Ok(sixteen) = bytes.try_into() {
        return checksum_of_sixteen(sixteen);
    }
    if bytes.len() > 16 {
        return beyond_short(bytes);
    }
    if !load_is_fast(bytes, 16) {
        return checksum_at_page_start(bytes);
    }
    short(load_sixteen(bytes), bytes.len())
}

/// A full register needs no mask.
///
/// A function apart: in one function, the compiler would make one end of this and of other lengths,
/// and a jump to it.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline(never)]
fn checksum_of_sixteen(bytes: &[u8; 16]) -> u16 {
    three_windows(load_raw_sixteen(bytes))
}

/// A function apart, so that short keys need not clean up the upper halves of registers.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline(never)]
fn beyond_short(bytes: &[u8]) -> u16 {
    if bytes.len() > 64 {
        return long::checksum(bytes);
    }
    whole(load_anywhere(bytes), bytes.len())
}

/// The rare path of short keys, which needs larger registers than they do.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[cold]
#[inline(never)]
fn checksum_at_page_start(bytes: &[u8]) -> u16 {
    whole(load_at_page_start(bytes), bytes.len())
}

/// The checksum of the hash tag of `key`.
///
/// What is rare is a function apart, and so are keys with a brace and keys of sixteen bytes: the
/// way of the others has no jump that is taken, and branches that are predicted by what came before
/// see further back.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
pub(super) fn checksum_of_tag(key: &[u8]) -> u16 {
    if let Ok(sixteen) = key.try_into() {
        return checksum_of_tag_of_sixteen(sixteen);
    }
    // A single test for none and for too many.
    if key.len().wrapping_sub(1) >= WINDOWS_LEN {
        return checksum_of_longer_tag(key);
    }
    if !load_is_fast(key, 64) {
        return checksum_of_tag_apart(key);
    }
    let bytes = load(key);
    let open = braces(bytes, b'{');
    if open != 0 {
        return checksum_behind_brace(key, open, braces(bytes, b'}'));
    }
    eight_windows(bytes, const { windows(RAW) })
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline(never)]
fn checksum_of_tag_of_sixteen(key: &[u8; 16]) -> u16 {
    // A full register needs no mask.
    let bytes = load_raw_sixteen(key);
    let hits = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'{'.cast_signed()));
    if _mm_movemask_epi8(hits) != 0 {
        return checksum_of_tag_apart(key);
    }
    three_windows(bytes)
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline(never)]
fn checksum_of_longer_tag(key: &[u8]) -> u16 {
    if key.len().wrapping_sub(1) >= 64 {
        return checksum_alone(hash_tag_by(key, |bytes, byte| position(bytes, byte)));
    }
    checksum_of_tag_apart(key)
}

/// The checksum of the hash tag of a key of up to 64 bytes, wherever it lies.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[cold]
#[inline(never)]
fn checksum_of_tag_apart(key: &[u8]) -> u16 {
    let bytes = load_anywhere(key);
    let open = braces(bytes, b'{');
    if open != 0 {
        return checksum_behind_brace(key, open, braces(bytes, b'}'));
    }
    whole(bytes, key.len())
}

/// Where a brace stands in a register.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn braces(bytes: __m512i, brace: u8) -> u64 {
    _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(brace.cast_signed()))
}

/// The checksum of the hash tag of a key of up to 64 bytes that has a brace, from the places of
/// its braces in a register that the key ends.
///
/// The tag is loaded again: that is faster than to move it in the register, where the shift would
/// have to come from a mask and go back into vectors. Its place is computed, not found by branches:
/// those would shorten the latency of a key that waits for the one before, as long as tags stand
/// where they stood, but a place that changes would cost every key more than twice as much.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[cold]
#[inline(never)]
fn checksum_behind_brace(key: &[u8], open: u64, close: u64) -> u16 {
    // Only the first brace opens a tag, and only what is closed behind it counts.
    let close = close & !_blsmsk_u64(open);
    let start = open.trailing_zeros() as usize + 1;
    let end = close.trailing_zeros() as usize;
    if close == 0 || start == end {
        return checksum_alone(key);
    }
    let before = 64 - key.len();
    key.get(start - before..end - before).map_or(0, |tag| checksum_alone(tag))
}

/// The checksum of up to 64 bytes, which end the register.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn whole(bytes: __m512i, len: usize) -> u16 {
    if len > WINDOWS_LEN {
        return all_windows(bytes, const { windows(RAW) });
    }
    eight_windows(bytes, const { windows(RAW) })
}

/// Where `byte` stands first.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn position(bytes: &[u8], byte: u8) -> Option<usize> {
    let byte = _mm512_set1_epi8(byte.cast_signed());
    let (blocks, rest) = bytes.as_chunks();
    for (index, block) in blocks.iter().enumerate() {
        let hits = _mm512_cmpeq_epi8_mask(load_raw(block), byte);
        if hits != 0 {
            return Some(64 * index + hits.trailing_zeros() as usize);
        }
    }
    if rest.is_empty() {
        return None;
    }
    // The zeros before the rest are no brace.
    let hits = _mm512_cmpeq_epi8_mask(load_anywhere(rest), byte);
    (hits != 0).then(|| bytes.len() + hits.trailing_zeros() as usize - 64)
}

/// Where the bytes of a message lie in a register: from its end, counted from 0, to places.
type Order = [u8; 64];

/// As they lie in memory.
const RAW: Order = {
    let mut order = [0; 64];
    let mut from_end = 0;
    while from_end < 64 {
        order[from_end as usize] = 63 - from_end;
        from_end += 1;
    }
    order
};

/// Four blocks in memory's order, each of them a number, its first byte highest.
const BLOCKS: Order = {
    let mut order = [0; 64];
    let mut from_end = 0;
    while from_end < 64 {
        order[from_end as usize] = 16 * (3 - from_end / 16) + from_end % 16;
        from_end += 1;
    }
    order
};

/// Permutations that cut a register into windows.
#[derive(Clone, Copy)]
struct Windows {
    /// Windows 0 to 7 from the end: 0 to 3 in the low halves of blocks, 4 to 7 in the high ones.
    /// Upper bytes are those of place 0.
    eight: [u8; 64],
    /// Windows 8 to 10, the last of them four bytes, in the low halves of blocks.
    rest: [u8; 64],
}

const fn windows(order: Order) -> Windows {
    let mut windows = Windows { eight: [0; 64], rest: [0; 64] };
    let mut index = 0;
    while index < 11 * 6 {
        let (number, byte) = (index / 6, index % 6);
        let place = 16 * (number % 4) + byte;
        if number >= 8 {
            if index < 64 {
                windows.rest[place] = order[index];
            }
        } else {
            windows.eight[place + 8 * (number / 4)] = order[index];
        }
        index += 1;
    }
    windows
}

/// Factors of windows 0 to 7, in the places of [`Windows::eight`].
const FACTORS: [u64; 8] = {
    let mut factors = [0; 8];
    let mut number = 0;
    while number < 8 {
        factors[2 * (number % 4) + number / 4] = window(number * WINDOW_BITS);
        number += 1;
    }
    factors
};

/// Factors of windows 8 to 10, in the places of [`Windows::rest`].
const FACTORS_REST: [u64; 8] =
    [window(8 * WINDOW_BITS), 0, window(9 * WINDOW_BITS), 0, window(10 * WINDOW_BITS), 0, 0, 0];

/// The bytes of windows in halves: the low six of eight.
const SIX_OF_EIGHT: u64 = 0x3F3F_3F3F_3F3F_3F3F;

/// The bytes that [`Windows::rest`] fills.
const REST: u64 = 0x0000_000F_003F_003F;

/// The checksum of up to 48 bytes; the place 0 of the register is zero.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn eight_windows(bytes: __m512i, windows: Windows) -> u16 {
    let cut = _mm512_permutexvar_epi8(constant(windows.eight), bytes);
    finish(products(cut))
}

/// The checksum of a whole register.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn all_windows(bytes: __m512i, windows: Windows) -> u16 {
    let cut = _mm512_maskz_permutexvar_epi8(SIX_OF_EIGHT, constant(windows.eight), bytes);
    let rest = _mm512_maskz_permutexvar_epi8(REST, constant(windows.rest), bytes);
    let last = _mm512_clmulepi64_epi128::<0x00>(rest, words(FACTORS_REST));
    finish(_mm512_xor_si512(products(cut), last))
}

/// The checksum of a register of four blocks.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
pub(super) fn all_windows_of_blocks(blocks: __m512i) -> u16 {
    all_windows(blocks, const { windows(BLOCKS) })
}

/// Shares of the quotient: of two windows in each block.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn products(cut: __m512i) -> __m512i {
    let factors = words(FACTORS);
    let low = _mm512_clmulepi64_epi128::<0x00>(cut, factors);
    let high = _mm512_clmulepi64_epi128::<0x11>(cut, factors);
    _mm512_xor_si512(low, high)
}

/// The checksum from shares of the quotient, one in each block.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn finish(shares: __m512i) -> u16 {
    let half =
        _mm256_xor_si256(_mm512_castsi512_si256(shares), _mm512_extracti64x4_epi64::<1>(shares));
    finish_short(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half)))
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "the intrinsic returns sixteen bits"
)]
fn finish_short(share: __m128i) -> u16 {
    // As `swar::remainder` does, in words of 16 bits.
    let (five, twelve) = (_mm_slli_epi16::<5>(share), _mm_slli_epi16::<12>(share));
    _mm_extract_epi16::<3>(_mm_ternarylogic_epi64::<0x96>(share, five, twelve)) as u16
}

/// What [`short`] needs, in one cache line.
#[repr(align(64))]
struct Short([Sixteen; 4]);

static SHORT: Short = Short([
    Sixteen([15, 14, 13, 12, 11, 10, GONE, GONE, 9, 8, 7, 6, 5, 4, GONE, GONE]),
    Sixteen([3, 2, 1, 0, GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE, GONE]),
    sixteen([window(0), window(WINDOW_BITS)]),
    sixteen([window(2 * WINDOW_BITS), 0]),
]);

/// A constant that is loaded from where it lies.
#[repr(C, align(16))]
struct Sixteen([u8; 16]);

/// A place that a shuffle leaves zero.
const GONE: u8 = 0x80;

/// The checksum of up to 16 bytes, which end the register: three windows, or one.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn short(bytes: __m128i, len: usize) -> u16 {
    // The shortest keys are where a byte table is quick: two products less.
    if len <= 6 {
        let [two, _, factors, _] = &SHORT.0;
        let two = _mm_shuffle_epi8(bytes, kept(two));
        return finish_short(_mm_clmulepi64_si128::<0x00>(two, kept(factors)));
    }
    three_windows(bytes)
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn three_windows(bytes: __m128i) -> u16 {
    let [two, third, factors, factor] = &SHORT.0;
    let (two, factors) = (_mm_shuffle_epi8(bytes, kept(two)), kept(factors));
    let a = _mm_clmulepi64_si128::<0x00>(two, factors);
    let b = _mm_clmulepi64_si128::<0x11>(two, factors);
    let c = _mm_clmulepi64_si128::<0x00>(_mm_shuffle_epi8(bytes, kept(third)), kept(factor));
    finish_short(_mm_ternarylogic_epi64::<0x96>(a, b, c))
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn kept(constant: &'static Sixteen) -> __m128i {
    // SAFETY: the load reads sixteen bytes, those of `constant`, which its type aligns to sixteen.
    // It is volatile because the compiler would put its own form of the constant elsewhere, and
    // with cold caches each line is one to wait for.
    unsafe { core::ptr::read_volatile(core::ptr::from_ref(constant).cast()) }
}

const fn sixteen([low, high]: [u64; 2]) -> Sixteen {
    Sixteen((low as u128 | (high as u128) << 64).to_le_bytes())
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn load_raw_sixteen(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the load reads sixteen bytes, those of `bytes`, and needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Up to 16 bytes at the end of a register; of longer keys, some of the last 16.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the mask has 16 bits, the shift five")]
pub(super) fn load_sixteen(bytes: &[u8]) -> __m128i {
    let mask = 0xFFFF_0000_u32.wrapping_shr(bytes.len() as u32) as u16;
    let from = bytes.as_ptr().wrapping_add(bytes.len()).wrapping_sub(16);
    // SAFETY: the mask leaves those of the last 16 bytes that are in `bytes`; others are not read.
    unsafe { _mm_maskz_loadu_epi8(mask, from.cast()) }
}

/// One to 64 bytes at the end of a register, fast where [`load_is_fast`].
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn load(bytes: &[u8]) -> __m512i {
    // Free: every caller has tested the length.
    assert!((1..=64).contains(&bytes.len()), "a load of {} bytes", bytes.len());
    let mask = u64::MAX << (64 - bytes.len());
    let from = bytes.as_ptr().wrapping_add(bytes.len()).wrapping_sub(64);
    // SAFETY: by the length, which was tested, the mask leaves those of the last 64 bytes that are
    // in `bytes`; others are not read.
    unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) }
}

/// Whether a masked load of `width` bytes that ends with `bytes` stays in their pages, by the one
/// test that is enough.
///
/// What a mask leaves out is not read. But a processor takes hundreds of cycles to find that out
/// where it lies in a page that is not there. So a key that begins less than `width` bytes into a
/// page is loaded from its own start, and then the load ends in the same page.
#[inline]
pub(super) fn load_is_fast(bytes: &[u8], width: usize) -> bool {
    bytes.as_ptr().addr() % PAGE_LEN >= width
}

/// One to 64 bytes at the end of a register.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
pub(super) fn load_anywhere(bytes: &[u8]) -> __m512i {
    if load_is_fast(bytes, 64) { load(bytes) } else { load_at_page_start(bytes) }
}

/// [`load`] from the start of the bytes, then moved to the end of the register.
///
/// Rare, but inlined: a register that is returned costs its caller a stack frame.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the length is at most 64")]
fn load_at_page_start(bytes: &[u8]) -> __m512i {
    let mask = _bzhi_u64(u64::MAX, bytes.len() as u32);
    // SAFETY: the mask leaves the bytes of `bytes`; others are not read.
    let left = unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) };
    // Byte n of the result is byte n + len, modulo 64: zeros, and then the bytes.
    let from = _mm512_add_epi8(constant(IDENTITY), _mm512_set1_epi8(bytes.len() as i8));
    _mm512_permutexvar_epi8(from, left)
}

/// Each byte in its place.
pub(super) const IDENTITY: [u8; 64] = {
    let mut order = [0; 64];
    let mut index = 0;
    while index < 64 {
        order[index as usize] = index;
        index += 1;
    }
    order
};

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
pub(super) fn load_raw(block: &[u8; 64]) -> __m512i {
    // SAFETY: the load reads 64 bytes, those of `block`, and needs no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
pub(super) fn constant(bytes: [u8; 64]) -> __m512i {
    load_raw(&bytes)
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
pub(super) fn words(words: [u64; 8]) -> __m512i {
    // SAFETY: the load reads 64 bytes, those of `words`, and needs no alignment.
    unsafe { _mm512_loadu_epi64(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
pub(super) fn pair([low, high]: [u64; 2]) -> __m128i {
    _mm_set_epi64x(high.cast_signed(), low.cast_signed())
}
