//! Many keys at once: eight short ones a step, by Galois field instructions.
//!
//! The checksum is linear. What one byte with p bytes behind it adds to the upper and to the lower
//! half of the checksum is an 8x8 matrix of bits each, and one instruction multiplies the eight
//! bytes of each of eight words by the word's own matrix. So the bytes of eight keys are transposed
//! first: word p has the p-th byte, counted from the end, of each key.
#![expect(unsafe_code, reason = "loads are intrinsics, and need a processor that has them")]

use core::arch::x86_64::__m256i;
use core::arch::x86_64::__m512i;
use core::arch::x86_64::_kortestz_mask64_u8;
use core::arch::x86_64::_mm_setzero_si128;
use core::arch::x86_64::_mm_storeu_epi16;
use core::arch::x86_64::_mm_xor_si128;
use core::arch::x86_64::_mm256_castsi128_si256;
use core::arch::x86_64::_mm256_castsi256_si128;
use core::arch::x86_64::_mm256_extracti128_si256;
use core::arch::x86_64::_mm256_inserti128_si256;
use core::arch::x86_64::_mm256_maskz_loadu_epi8;
use core::arch::x86_64::_mm256_setzero_si256;
use core::arch::x86_64::_mm256_xor_si256;
use core::arch::x86_64::_mm512_castsi256_si512;
use core::arch::x86_64::_mm512_castsi512_si256;
use core::arch::x86_64::_mm512_cmpeq_epi8_mask;
use core::arch::x86_64::_mm512_extracti64x4_epi64;
use core::arch::x86_64::_mm512_gf2p8affine_epi64_epi8;
use core::arch::x86_64::_mm512_inserti64x4;
use core::arch::x86_64::_mm512_permutex2var_epi8;
use core::arch::x86_64::_mm512_set1_epi8;
use core::arch::x86_64::_mm512_shuffle_i64x2;
use core::arch::x86_64::_mm512_unpackhi_epi8;
use core::arch::x86_64::_mm512_unpacklo_epi8;
use core::arch::x86_64::_mm512_xor_si512;

use super::constants::power;
use super::wide;
use super::wide::Wide;

/// How many keys go together.
const KEYS: usize = 8;

/// The bytes of eight keys, at the ends of 16 bytes each.
type Eight = [__m512i; 2];

/// Upper and lower halves of eight checksums, or what they are the sum of: eight bytes a word.
type Halves = [__m512i; 2];

impl Wide {
    /// Puts what `made` makes of the checksums of the hash tags of `keys` into `out`, up to the end
    /// of the shorter slice.
    #[inline]
    pub(super) fn of_tags<K: AsRef<[u8]>, T>(
        self,
        keys: &[K],
        out: &mut [T],
        made: impl Fn(u16) -> T,
    ) {
        let Self { .. } = self;
        // SAFETY: a `Wide` exists only where `new` has found the features.
        unsafe { of_tags(keys, out, made) }
    }
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
fn of_tags<K: AsRef<[u8]>, T>(keys: &[K], out: &mut [T], made: impl Fn(u16) -> T) {
    let len = keys.len().min(out.len());
    let (mut groups, keys) = keys[..len].as_chunks();
    let (mut eights, out) = out[..len].as_chunks_mut();
    while let [group, ..] = groups {
        let mut done = sixteens(groups, eights, &made);
        done += thirty_twos(&groups[done..], &mut eights[done..], &made);
        if done == 0 {
            one_by_one(group, &mut eights[0], &made);
            done = 1;
        }
        groups = &groups[done..];
        eights = &mut eights[done..];
    }
    one_by_one(keys, out, &made);
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn one_by_one<K: AsRef<[u8]>, T>(keys: &[K], out: &mut [T], made: &impl Fn(u16) -> T) {
    for (key, out) in keys.iter().zip(out) {
        *out = made(wide::checksum_of_tag(key.as_ref()));
    }
}

/// Goes on as long as the keys of a group have up to 16 bytes each and no brace; how many groups
/// those were.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn sixteens<K: AsRef<[u8]>, T>(
    groups: &[[K; KEYS]],
    out: &mut [[T; KEYS]],
    made: &impl Fn(u16) -> T,
) -> usize {
    let mut done = 0;
    for (group, out) in groups.iter().zip(out) {
        let Some(bytes) = load_sixteen(group).filter(|&bytes| has_no_brace(bytes)) else { break };
        *out = join(add_up(bytes, &const { matrices(0) })).map(made);
        done += 1;
    }
    done
}

/// [`sixteens`] for keys of up to 32 bytes.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn thirty_twos<K: AsRef<[u8]>, T>(
    groups: &[[K; KEYS]],
    out: &mut [[T; KEYS]],
    made: &impl Fn(u16) -> T,
) -> usize {
    let mut done = 0;
    for (group, out) in groups.iter().zip(out) {
        let Some([first, last]) = load_thirty_two(group) else { break };
        if !has_no_brace(first) || !has_no_brace(last) {
            break;
        }
        let [upper, lower] = add_up(first, &const { matrices(16) });
        let [more_upper, more_lower] = add_up(last, &const { matrices(0) });
        let upper = _mm512_xor_si512(upper, more_upper);
        *out = join([upper, _mm512_xor_si512(lower, more_lower)]).map(made);
        done += 1;
    }
    done
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn has_no_brace([one, other]: Eight) -> bool {
    let brace = _mm512_set1_epi8(b'{'.cast_signed());
    let one = _mm512_cmpeq_epi8_mask(one, brace);
    let other = _mm512_cmpeq_epi8_mask(other, brace);
    _kortestz_mask64_u8(one, other) == 1
}

/// Keys of up to 16 bytes, whose loads are fast.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn load_sixteen(keys: &[impl AsRef<[u8]>; KEYS]) -> Option<Eight> {
    let mut loaded = [_mm_setzero_si128(); KEYS];
    for (bytes, key) in loaded.iter_mut().zip(keys) {
        let key = key.as_ref();
        // The length is looked at after the load: two tests in a row would become one of three
        // times as many instructions.
        if !wide::load_is_fast(key, 16) && key.len() < 16 {
            return None;
        }
        *bytes = wide::load_sixteen(key);
        if key.len() > 16 {
            return None;
        }
    }
    let two = |index: usize| {
        let (one, other) = (loaded[index], loaded[index + 1]);
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(one), other)
    };
    Some([four(two(0), two(2)), four(two(4), two(6))])
}

/// Keys of up to 32 bytes, whose loads are fast: those before the last 16 of them, and the last 16.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn load_thirty_two(keys: &[impl AsRef<[u8]>; KEYS]) -> Option<[Eight; 2]> {
    let mut loaded = [_mm256_setzero_si256(); KEYS];
    for (bytes, key) in loaded.iter_mut().zip(keys) {
        let key = key.as_ref();
        if !wide::load_is_fast(key, 32) && key.len() < 32 {
            return None;
        }
        *bytes = load_one(key);
        if key.len() > 32 {
            return None;
        }
    }
    let two = |index: usize| four(loaded[index], loaded[index + 1]);
    let (a, b, c, d) = (two(0), two(2), two(4), two(6));
    let first = |x, y| _mm512_shuffle_i64x2::<0b10_00_10_00>(x, y);
    let last = |x, y| _mm512_shuffle_i64x2::<0b11_01_11_01>(x, y);
    Some([[first(a, b), first(c, d)], [last(a, b), last(c, d)]])
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn four(one: __m256i, other: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(one), other)
}

/// Up to 32 bytes at the end of a register; of longer keys, some of the last 32.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the mask has 32 bits, the shift six")]
fn load_one(key: &[u8]) -> __m256i {
    let mask = 0xFFFF_FFFF_0000_0000_u64.wrapping_shr(key.len() as u32) as u32;
    let from = key.as_ptr().wrapping_add(key.len()).wrapping_sub(32);
    // SAFETY: the mask leaves those of the last 32 bytes that are in `key`; others are not read.
    unsafe { _mm256_maskz_loadu_epi8(mask, from.cast()) }
}

/// What each byte adds to its key's checksum, summed in eight words.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn add_up([one, other]: Eight, matrices: &Matrices) -> Halves {
    let last = wide::constant(const { transposition(0) });
    let before = wide::constant(const { transposition(8) });
    let last = _mm512_permutex2var_epi8(one, last, other);
    let before = _mm512_permutex2var_epi8(one, before, other);
    [0, 1].map(|half| {
        let last = _mm512_gf2p8affine_epi64_epi8::<0>(last, wide::words(matrices[half][0]));
        let before = _mm512_gf2p8affine_epi64_epi8::<0>(before, wide::words(matrices[half][1]));
        _mm512_xor_si512(last, before)
    })
}

/// The eight checksums, when the eight words of each half are added up.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn join([upper, lower]: Halves) -> [u16; KEYS] {
    let words =
        _mm512_xor_si512(_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper));
    let half =
        _mm256_xor_si256(_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64::<1>(words));
    let sum = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let mut checksums = [0; KEYS];
    // SAFETY: the store writes 16 bytes, those of `checksums`, and needs no alignment.
    unsafe { _mm_storeu_epi16(checksums.as_mut_ptr().cast(), sum) };
    checksums
}

/// For word p of the result, where the bytes lie that have `behind` + p bytes behind them in their
/// keys: four keys of 16 bytes in each of two registers.
const fn transposition(behind: usize) -> [u8; 64] {
    let mut places = [0; 64];
    let mut place = 0;
    while place < 64 {
        let (word, key) = (place / 8, place % 8);
        #[expect(clippy::cast_possible_truncation, reason = "places are below 128")]
        let from = (16 * key + 15 - behind - word) as u8;
        places[place] = from;
        place += 1;
    }
    places
}

/// For the upper and the lower half of the checksum: matrices of the last eight bytes, and of the
/// eight before them.
type Matrices = [[[u64; 8]; 2]; 2];

const fn matrices(behind: usize) -> Matrices {
    let mut matrices = [[[0; 8]; 2]; 2];
    let mut word = 0;
    while word < 16 {
        let mut bit = 0;
        while bit < 16 {
            matrices[1 - bit / 8][word / 8][word % 8] |=
                row(behind + word, bit) << (56 - 8 * (bit % 8));
            bit += 1;
        }
        word += 1;
    }
    matrices
}

/// Which bits of a byte with `behind` bytes behind it are added to this bit of the checksum.
/// The instruction wants the row of bit 0 highest.
const fn row(behind: usize, bit: usize) -> u64 {
    let mut row = 0;
    let mut column = 0;
    while column < 8 {
        row |= ((power(8 * behind + column + 16) >> bit) & 1) << column;
        column += 1;
    }
    row
}
