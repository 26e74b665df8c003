//! Messages of more than 64 bytes in registers of 64: folded onto each other by products, and long
//! ones by xor alone first.

use core::arch::x86_64::__m512i;
use core::arch::x86_64::_bzhi_u64;
use core::arch::x86_64::_mm_setr_epi8;
use core::arch::x86_64::_mm512_add_epi8;
use core::arch::x86_64::_mm512_alignr_epi64;
use core::arch::x86_64::_mm512_broadcast_i32x4;
use core::arch::x86_64::_mm512_clmulepi64_epi128;
use core::arch::x86_64::_mm512_maskz_permutexvar_epi8;
use core::arch::x86_64::_mm512_set1_epi8;
use core::arch::x86_64::_mm512_setzero_si512;
use core::arch::x86_64::_mm512_shuffle_epi8;
use core::arch::x86_64::_mm512_ternarylogic_epi64;
use core::arch::x86_64::_mm512_xor_si512;

use super::constants::power;
use super::swar::WORDS;
use super::wide::IDENTITY;
use super::wide::all_windows_of_blocks;
use super::wide::constant;
use super::wide::load_anywhere;
use super::wide::load_raw;
use super::wide::pair;

/// From this length on, xors alone outrun the multiplier by more than their rest costs.
const XOR_LEN_MIN: usize = 3072;

/// The bytes of all words that [`xor_fold`] has in flight.
const WORDS_LEN: usize = WORDS * 64;

/// The checksum of more than 64 bytes.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    match bytes.len() {
        ..=128 => two_blocks(bytes),
        129..XOR_LEN_MIN => fold(bytes),
        _ => fold_words(&xor_fold(bytes)),
    }
}

/// The checksum of 65 to 128 bytes.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn two_blocks(bytes: &[u8]) -> u16 {
    let Some((head, last)) = bytes.split_last_chunk() else { return 0 };
    let head = reverse(load_anywhere(head));
    all_windows_of_blocks(_mm512_xor_si512(shift::<512>(head), load_block(last)))
}

/// The checksum of more than 128 bytes: four registers a step, each folded onto the one 256 bytes
/// later.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn fold(bytes: &[u8]) -> u16 {
    let (head, rest) = bytes.split_at((bytes.len() - 1) % 64 + 1);
    let head = load_head(bytes, head.len());
    let (start, groups) = rest.as_chunks().0.as_rchunks::<4>();
    let zero = _mm512_setzero_si512();
    let mut sums = match start {
        [] => [zero, zero, zero, head],
        [b] => [zero, zero, head, load_block(b)],
        [b, c] => [zero, head, load_block(b), load_block(c)],
        [b, c, d, ..] => [head, load_block(b), load_block(c), load_block(d)],
    };
    for group in groups {
        for (sum, block) in sums.iter_mut().zip(group) {
            *sum = shift_onto::<2048>(*sum, load_block(block));
        }
    }
    merge(sums)
}

/// The checksum of what [`xor_fold`] leaves: by narrower words, and then by products.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn fold_words(words: &[__m512i; WORDS]) -> u16 {
    let eight: [_; 8] = strike_out_half::<_, _, 4>(*words);
    let four: [_; 4] = strike_out_half::<_, _, 2>(eight);
    merge(four.map(|word| reverse(word)))
}

/// The second half of registers that hold 32 narrow words, the first 16 of which are struck out.
///
/// Words 4 and 16 places behind are whole registers behind. The one 11 places behind is `LANES`
/// times 64 bits nearer than that: so what is added to a register there comes from two.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn strike_out_half<const COUNT: usize, const HALF: usize, const LANES: i32>(
    mut sums: [__m512i; COUNT],
) -> [__m512i; HALF] {
    let (four, eleven) = (COUNT * 4 / 32, COUNT * 11 / 32);
    let mut before = _mm512_setzero_si512();
    for index in 0..HALF {
        let struck = sums[index];
        let both = _mm512_alignr_epi64::<LANES>(struck, before);
        for (behind, addend) in [(four, struck), (eleven, both), (HALF, struck)] {
            sums[index + behind] = _mm512_xor_si512(sums[index + behind], addend);
        }
        before = struck;
    }
    let rest = _mm512_alignr_epi64::<LANES>(_mm512_setzero_si512(), before);
    sums[HALF + eleven] = _mm512_xor_si512(sums[HALF + eleven], rest);
    std::array::from_fn(|index| sums[HALF + index])
}

/// The checksum of four registers in a row.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn merge([a, b, c, d]: [__m512i; 4]) -> u16 {
    let sum = shift_onto::<512>(c, d);
    let sum = shift_onto::<1024>(b, sum);
    all_windows_of_blocks(shift_onto::<1536>(a, sum))
}

/// The first 1 to 64 of more than 64 bytes, as blocks, at the end of a register.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the length is at most 64")]
fn load_head(bytes: &[u8], len: usize) -> __m512i {
    let whole = bytes.first_chunk().map_or_else(|| _mm512_setzero_si512(), |first| load_raw(first));
    let from = _mm512_add_epi8(constant(IDENTITY), _mm512_set1_epi8(len as i8));
    let mask = !_bzhi_u64(u64::MAX, 64 - len as u32);
    reverse(_mm512_maskz_permutexvar_epi8(mask, from, whole))
}

/// Each block times x^`BITS`, modulo P but not reduced: its halves times 16 bits each.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn shift<const BITS: usize>(blocks: __m512i) -> __m512i {
    shift_onto::<BITS>(blocks, _mm512_setzero_si512())
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn shift_onto<const BITS: usize>(blocks: __m512i, onto: __m512i) -> __m512i {
    let powers = const { [power(BITS), power(BITS + 64)] };
    let powers = _mm512_broadcast_i32x4(pair(powers));
    let low = _mm512_clmulepi64_epi128::<0x00>(blocks, powers);
    let high = _mm512_clmulepi64_epi128::<0x11>(blocks, powers);
    _mm512_ternarylogic_epi64::<0x96>(low, high, onto)
}

/// Four blocks, the first byte of each highest.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn load_block(block: &[u8; 64]) -> __m512i {
    reverse(load_raw(block))
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn reverse(bytes: __m512i) -> __m512i {
    let reversed = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(reversed))
}

/// [`xor_fold`](super::swar::xor_fold) with words of 64 bytes, which stay in registers.
#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn xor_fold(bytes: &[u8]) -> [__m512i; WORDS] {
    let (head, blocks) = bytes.as_rchunks::<WORDS_LEN>();
    let mut ring = [_mm512_setzero_si512(); WORDS];
    let Some((end, body)) = blocks.split_last() else { return ring };
    if !head.is_empty() {
        // Zeros before the message are free.
        let mut first = [0; WORDS_LEN];
        first[WORDS_LEN - head.len()..].copy_from_slice(head);
        strike_out(&mut ring, &first);
    }
    for block in body {
        strike_out(&mut ring, block);
    }
    // Words of the last block stay, and are added to nothing.
    let (words, _) = end.as_chunks();
    let mut left = ring;
    for (index, sum) in left.iter_mut().enumerate() {
        *sum = _mm512_xor_si512(*sum, load_raw(&words[index]));
        if index < 11 {
            *sum = _mm512_xor_si512(*sum, ring[index + 5]);
        }
        if index < 4 {
            *sum = _mm512_xor_si512(*sum, ring[index + 12]);
        }
    }
    left
}

#[target_feature(enable = "avx512vl,avx512vbmi,vpclmulqdq,gfni,bmi1,bmi2")]
#[inline]
fn strike_out(ring: &mut [__m512i; WORDS], block: &[u8; WORDS_LEN]) {
    let (words, _) = block.as_chunks();
    for index in 0..WORDS {
        let four = ring[(index + WORDS - 4) % WORDS];
        let eleven = ring[(index + WORDS - 11) % WORDS];
        let both = _mm512_ternarylogic_epi64::<0x96>(load_raw(&words[index]), four, eleven);
        ring[index] = _mm512_xor_si512(ring[index], both);
    }
}
