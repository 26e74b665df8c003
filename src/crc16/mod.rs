//! CRC-16/XMODEM, the checksum that turns a key into a slot.
//!
//! | parameter | value |
//! |---|---|
//! | width, polynomial | 16, 0x1021 (x^16 + x^12 + x^5 + 1) |
//! | initial value, final xor | 0, 0 |
//! | reflected | neither input nor output |
//! | check value of `123456789` | 0x31C3 |
//!
//! With a zero start, leading zero bytes do not change the checksum, and neither does a run of
//! 65534 equal bytes from its start: 32767 is the order of the polynomial.

mod table;

/// The CRC-16/XMODEM checksum of `bytes`.
///
/// It never allocates, and it runs in const contexts.
/// Its cost is one table lookup a byte: sixteen independent ones a step, then eight, four and one
/// for what remains.
///
/// # Examples
///
/// ```
/// use slotkeep::crc16::crc16;
///
/// const CHECK: u16 = crc16(b"123456789");
/// assert_eq!(CHECK, 0x31C3);
/// ```
#[inline]
pub const fn crc16(bytes: &[u8]) -> u16 {
    table::checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::crc16;

    /// One byte more, bit by bit, as the definition has it.
    fn bitwise(crc: u16, byte: u8) -> u16 {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let carry = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            (crc << 1) ^ carry
        })
    }

    /// `len` bytes without a pattern, the same in every run.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_u32;
        (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state.to_le_bytes()[3]
            })
            .collect()
    }

    #[test]
    fn every_length_at_every_alignment_equals_the_bitwise_form() {
        let data = noise(64 + 1100);
        for offset in 0..64 {
            let mut expected = 0;
            for len in 0..=1100 {
                let bytes = &data[offset..offset + len];
                assert_eq!(crc16(bytes), expected, "offset {offset}, length {len}");
                if let Some(&next) = data.get(offset + len) {
                    expected = bitwise(expected, next);
                }
            }
        }
    }

    #[test]
    fn a_page_at_every_alignment_equals_the_bitwise_form() {
        let data = noise(64 + 4096);
        for offset in 0..64 {
            let bytes = &data[offset..offset + 4096];
            let expected = bytes.iter().fold(0, |crc, &byte| bitwise(crc, byte));
            assert_eq!(crc16(bytes), expected, "offset {offset}");
        }
    }

    #[test]
    fn every_pair_of_bytes_equals_the_bitwise_form() {
        for pair in 0..=u16::MAX {
            let bytes = pair.to_be_bytes();
            let expected = bytes.iter().fold(0, |crc, &byte| bitwise(crc, byte));
            assert_eq!(crc16(&bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn the_check_value_is_31c3() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(const { crc16(b"123456789") }, 0x31C3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn twice_the_order_of_equal_bytes_is_zero() {
        for byte in [0x00, 0x01, b'y', 0x80, 0xFF] {
            assert_eq!(crc16(&vec![byte; 65_534]), 0, "byte {byte:#04x}");
        }
        assert_ne!(crc16(&vec![b'y'; 65_535]), 0);
    }

    #[test]
    fn leading_zero_bytes_change_nothing() {
        let mut bytes = vec![0; 100];
        bytes.extend_from_slice(b"123456789");
        for start in 0..=100 {
            assert_eq!(crc16(&bytes[start..]), 0x31C3, "{} zero bytes", 100 - start);
        }
    }
}
