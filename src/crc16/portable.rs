//! The tier that runs everywhere.

use super::swar;
use super::table;
use super::tag::hash_tag;

/// From this length on, a pass of xors that leaves 128 bytes pays: about four times those.
const XOR_LEN_MIN: usize = 384;

/// The checksum of `bytes`.
///
/// Up to eight bytes are one number in a register, and touch no table: a key of this length is
/// often hashed with cold caches, where a line of a table costs more than all of its arithmetic.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    match bytes.len() {
        0..=8 => swar::checksum(bytes),
        9..XOR_LEN_MIN => table::checksum(bytes),
        _ => table::checksum(&swar::xor_fold(bytes)),
    }
}

/// The checksum of the hash tag of `key`.
pub(super) fn checksum_of_tag(key: &[u8]) -> u16 {
    checksum(hash_tag(key))
}
