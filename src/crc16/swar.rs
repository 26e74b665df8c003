//! The checksum without tables: eight bytes in one register, and long input by xor alone.
//!
//! P = x^16 + x^12 + x^5 + 1 has four terms, and squaring over GF(2) keeps them four:
//! P^(2^k) = x^(16 * 2^k) + x^(12 * 2^k) + x^(5 * 2^k) + 1. Both halves of this file rest on that.

/// The checksum of up to eight bytes.
#[inline]
pub(super) const fn checksum(bytes: &[u8]) -> u16 {
    remainder(quotient(message(bytes)))
}

/// Up to eight bytes as a number: the last one lowest, and zeros, which are free, above the first.
#[inline]
const fn message(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8);
    match *bytes {
        [] => 0,
        [a] => a as u64,
        [a, b] => u16::from_be_bytes([a, b]) as u64,
        [a, b, c] => u32::from_be_bytes([0, a, b, c]) as u64,
        _ => {
            let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
                return 0;
            };
            // Where the two overlap they agree.
            let above = 8 * (bytes.len() - 4);
            ((u32::from_be_bytes(*first) as u64) << above) | u32::from_be_bytes(*last) as u64
        }
    }
}

/// The quotient of M(x) * x^16 by P(x), where M is `message`.
///
/// With y = 1/x the quotient is what 1 / (1 + y^4 + y^11 + y^16) makes of M, and times y is a
/// shift to the right, whose lost bits are those of the remainder. The inverse of a series S with
/// S^16 = 1, as every one here within 64 bits, is S^15 = S * S^2 * S^4 * S^8, and the powers have
/// the terms of S with exponents times 2, 4 and 8. Shifts by 64 and more give nothing.
#[inline]
pub(super) const fn quotient(message: u64) -> u64 {
    let mut sum = message;
    sum ^= (sum >> 4) ^ (sum >> 11) ^ (sum >> 16);
    sum ^= (sum >> 8) ^ (sum >> 22) ^ (sum >> 32);
    sum ^= (sum >> 16) ^ (sum >> 44);
    sum ^ (sum >> 32)
}

/// The remainder that belongs to a quotient of which only the low 16 bits count.
///
/// M * x^16 has no bits below x^16, so the remainder is the low part of quotient * P.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low 16 bits are the checksum")]
pub(super) const fn remainder(quotient: u64) -> u16 {
    (quotient ^ (quotient << 5) ^ (quotient << 12)) as u16
}

/// How many words [`xor_fold`] has in flight: the degree of P.
pub(super) const WORDS: usize = 16;

/// What [`xor_fold`] leaves of its input.
pub(super) const FOLDED_LEN: usize = WORDS * size_of::<u64>();

/// A shorter message with the checksum of `bytes`.
///
/// For words of w bits, a power of two, P^w = x^(16 w) + x^(12 w) + x^(5 w) + 1. Modulo P that is
/// zero, so a word may be struck out when it is added to the words 4, 11 and 16 places behind.
/// This goes on until 16 words are left. A ring of 16 words holds all that is still to be added;
/// their bytes are only xored, so their order in a word does not matter.
pub(super) fn xor_fold(bytes: &[u8]) -> [u8; FOLDED_LEN] {
    let (head, blocks) = bytes.as_rchunks::<FOLDED_LEN>();
    // Zeros before the message are free.
    let mut first = [0; FOLDED_LEN];
    first[FOLDED_LEN - head.len()..].copy_from_slice(head);
    let Some((last, body)) = blocks.split_last() else {
        return first;
    };
    let mut ring = [0; WORDS];
    strike_out(&mut ring, &first);
    for block in body {
        strike_out(&mut ring, block);
    }
    // Words of the last block stay, and are added to nothing.
    let mut left = [0; FOLDED_LEN];
    for (index, (word, slot)) in words(last).into_iter().zip(left.as_chunks_mut().0).enumerate() {
        let mut sum = word ^ ring[index];
        if index < 11 {
            sum ^= ring[index + 5];
        }
        if index < 4 {
            sum ^= ring[index + 12];
        }
        *slot = sum.to_ne_bytes();
    }
    left
}

/// Strikes out the words of one block: each is added to its place in the ring, with what words
/// 4, 11 and 16 places before have sent to it.
#[inline]
fn strike_out(ring: &mut [u64; WORDS], block: &[u8; FOLDED_LEN]) {
    let block = words(block);
    for index in 0..WORDS {
        let four = ring[(index + WORDS - 4) % WORDS];
        let eleven = ring[(index + WORDS - 11) % WORDS];
        ring[index] ^= block[index] ^ four ^ eleven;
    }
}

#[inline]
fn words(block: &[u8; FOLDED_LEN]) -> [u64; WORDS] {
    let (words, _) = block.as_chunks();
    std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
}

#[cfg(test)]
mod tests {
    use super::quotient;
    use super::xor_fold;
    use crate::crc16::table;

    #[test]
    fn the_quotient_times_p_is_the_message_but_for_the_remainder() {
        for bit in 0..64 {
            let q = u128::from(quotient(1 << bit));
            let product = (q << 16) ^ (q << 12) ^ (q << 5) ^ q;
            assert_eq!(product >> 16, 1 << bit, "bit {bit}");
        }
    }

    #[test]
    fn what_xor_fold_leaves_has_the_same_checksum() {
        let mut state = 1_u8;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(181).wrapping_add(7);
            state ^ (state >> 3)
        })
        .take(1500)
        .collect();
        for len in 0..=bytes.len() {
            let left = xor_fold(&bytes[..len]);
            assert_eq!(table::checksum(&left), table::checksum(&bytes[..len]), "length {len}");
        }
    }
}
