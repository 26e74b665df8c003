//! What the carry-less kernels multiply by, computed while compiling.
//!
//! They use two facts about a message M(x) and P(x), of degree 16:
//!
//! - A part of the message may move: M * x^n and M * (x^n mod P) have the same checksum. This is
//!   [`power`], and folds blocks onto each other.
//! - The checksum needs only the low 16 bits of the quotient of M * x^16 by P
//!   ([`swar::remainder`](super::swar::remainder)). With y = 1/x that quotient is M * C(y), where
//!   C = 1 / (1 + y^4 + y^11 + y^16) is a series of bits `c(0)`, `c(1)`, ... So bit i of the
//!   quotient is the sum of `m(j) * c(j - i)` over the bits j >= i of the message. This is
//!   [`window`]: for 48 bits of the message, the 63 bits of C that they can meet.

/// How many bits of a message one [`window`] takes: six bytes.
pub(super) const WINDOW_BITS: usize = 48;

/// x^`exponent` mod P.
pub(super) const fn power(exponent: usize) -> u64 {
    let mut power = 1_u64;
    let mut step = 0;
    while step < exponent {
        power <<= 1;
        if power >> 16 != 0 {
            power ^= 0x1_1021;
        }
        step += 1;
    }
    power
}

/// The factor for the 48 bits of a message that begin at bit `offset`, counted from its end.
///
/// In the carry-less product of those bits, as a number, and the factor, bits 48 to 63 are their
/// share of the low 16 bits of the quotient. The shares of all windows add up by xor.
///
/// Bit t of the number is bit `offset + t` of the message, and meets bit s of the factor in bit
/// t + s of the product. Bit 48 + i has to collect `c(offset + t - i)`: so bit s of the factor is
/// `c(offset + 48 - s)`. There are no c below zero, and s runs from 1 to 63, hence 48 bits.
pub(super) const fn window(offset: usize) -> u64 {
    let mut factor = 0;
    // Bit n is c_(index - 1 - n): the sixteen before the one at hand.
    let mut before = 0_u32;
    let mut index = 0;
    while index < offset + WINDOW_BITS {
        // C * (1 + y^4 + y^11 + y^16) = 1.
        let bit = if index == 0 { 1 } else { (before >> 3 ^ before >> 10 ^ before >> 15) & 1 };
        if index + 16 > offset {
            factor |= (bit as u64) << (offset + WINDOW_BITS - index);
        }
        before = before << 1 | bit;
        index += 1;
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::power;
    use super::window;
    use crate::crc16::swar::quotient;
    use crate::crc16::table;

    #[test]
    fn a_power_of_x_is_the_checksum_of_one_bit() {
        for exponent in 16..600 {
            let mut message = [0; 80];
            message[79 - (exponent - 16) / 8] = 1 << ((exponent - 16) % 8);
            assert_eq!(power(exponent), u64::from(table::checksum(&message)), "x^{exponent}");
        }
    }

    #[test]
    fn a_window_holds_the_quotient_of_each_of_its_bits() {
        for offset in 0..=16 {
            for bit in 0..48 {
                let share = (window(offset) << bit) >> 48;
                let expected = quotient(1 << (offset + bit)) & 0xFFFF;
                assert_eq!(share, expected, "offset {offset}, bit {bit}");
            }
        }
    }
}
