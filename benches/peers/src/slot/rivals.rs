//! The published crates, and the loops that Redis and its clients run.
//!
//! No function here is inlined: a rival costs one call a key, as a kernel of ours does.

use crc::CRC_16_XMODEM;
use crc::Crc;
use crc::Table;
use crc16::State;
use crc16::XMODEM;

/// A checksum or a slot of bytes.
pub type Function = fn(&[u8]) -> u16;

/// A rival and its name in the report.
#[derive(Clone, Copy, Debug)]
pub struct Rival {
    /// The crate's name, or whose loop it is.
    pub name: &'static str,
    /// The function.
    pub of: Function,
}

/// Every published checksum.
pub const PUBLISHED: [Rival; 6] =
    [CRC_TABLE_1, CRC_TABLE_16, CRC16, CRC_ANY, CRC_FAST, XMODEM_FAST];

/// One table of 256 entries, a byte a step.
pub const CRC_TABLE_1: Rival = Rival { name: "crc Table<1>", of: crc_table_1 };
/// Sixteen tables, 16 bytes a step, and the rest byte by byte.
pub const CRC_TABLE_16: Rival = Rival { name: "crc Table<16>", of: crc_table_16 };
/// What redis-rs and fred use.
pub const CRC16: Rival = Rival { name: "crc16", of: crc16 };
/// One table.
pub const CRC_ANY: Rival = Rival { name: "crc-any", of: crc_any };
/// Folding, in several tiers.
pub const CRC_FAST: Rival = Rival { name: "crc-fast", of: crc_fast };
/// Folding from 128 bytes up, one table below.
pub const XMODEM_FAST: Rival = Rival { name: "crc16-xmodem-fast", of: xmodem_fast };

/// The byte loop of Redis and Valkey.
pub const BYTE_TABLE: Rival = Rival { name: "byte table (Redis)", of: byte_table };

/// Two searches for braces and the `crc16` crate, as redis-rs goes from key to slot.
pub const REDIS_RS: Rival = Rival { name: "redis-rs shape", of: redis_rs_slot };
/// What fred calls.
pub const FRED: Rival = Rival { name: "fred redis_keyslot", of: fred_slot };
/// Redis's own way from key to slot.
pub const REDIS: Rival = Rival { name: "Redis shape", of: redis_slot };

/// The packages whose versions the report names.
pub const PACKAGES: [&str; 6] =
    ["crc", "crc16", "crc-any", "crc16-xmodem-fast", "crc-fast", "redis-protocol"];

const SLOT_MASK: u16 = slotkeep::SLOT_COUNT - 1;

static ONE: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);
static SIXTEEN: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

#[inline(never)]
fn crc_table_1(bytes: &[u8]) -> u16 {
    ONE.checksum(bytes)
}

#[inline(never)]
fn crc_table_16(bytes: &[u8]) -> u16 {
    SIXTEEN.checksum(bytes)
}

#[inline(never)]
fn crc16(bytes: &[u8]) -> u16 {
    State::<XMODEM>::calculate(bytes)
}

#[inline(never)]
fn crc_any(bytes: &[u8]) -> u16 {
    let mut crc = ::crc_any::CRCu16::crc16xmodem();
    crc.digest(bytes);
    crc.get_crc()
}

#[inline(never)]
#[expect(clippy::cast_possible_truncation, reason = "a checksum of 16 bits in a u64")]
fn crc_fast(bytes: &[u8]) -> u16 {
    ::crc_fast::checksum(::crc_fast::CrcAlgorithm::Crc16Xmodem, bytes) as u16
}

#[inline(never)]
#[expect(clippy::cast_possible_truncation, reason = "a checksum of 16 bits in a u32")]
fn xmodem_fast(bytes: &[u8]) -> u16 {
    crc16_xmodem_fast::hash(bytes) as u16
}

#[inline(never)]
fn byte_table(bytes: &[u8]) -> u16 {
    let table = &ONE.table()[0];
    bytes.iter().fold(0, |crc: u16, &byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ table[usize::from(high ^ byte)]
    })
}

#[inline(never)]
fn redis_rs_slot(key: &[u8]) -> u16 {
    State::<XMODEM>::calculate(searched_tag(key).unwrap_or(key)) % slotkeep::SLOT_COUNT
}

/// The tag by two searches, if there is one and it is not empty.
fn searched_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let close = key[open..].iter().position(|&byte| byte == b'}')?;
    let tag = &key[open + 1..open + close];
    if tag.is_empty() { None } else { Some(tag) }
}

#[inline(never)]
fn fred_slot(key: &[u8]) -> u16 {
    redis_protocol::redis_keyslot(key)
}

#[inline(never)]
fn redis_slot(key: &[u8]) -> u16 {
    let mut open = 0;
    while open < key.len() && key[open] != b'{' {
        open += 1;
    }
    if open == key.len() {
        return byte_table(key) & SLOT_MASK;
    }
    let mut close = open + 1;
    while close < key.len() && key[close] != b'}' {
        close += 1;
    }
    if close == key.len() || close == open + 1 {
        return byte_table(key) & SLOT_MASK;
    }
    byte_table(&key[open + 1..close]) & SLOT_MASK
}

#[cfg(test)]
mod tests {
    use slotkeep::Slot;

    use super::*;
    use crate::slot::keys::KeySet;
    use crate::slot::keys::Kind;
    use crate::slot::keys::noise;

    #[test]
    fn every_rival_computes_what_we_compute() {
        let bytes = noise(2048);
        for len in 0..=bytes.len() {
            let expected = slotkeep::crc16::crc16(&bytes[..len]);
            for rival in PUBLISHED.iter().chain([&BYTE_TABLE]) {
                assert_eq!((rival.of)(&bytes[..len]), expected, "{}, {len} bytes", rival.name);
            }
        }
    }

    #[test]
    fn every_rival_finds_our_slots() {
        let mut keys: Vec<Vec<u8>> =
            KeySet::of(Kind::Mixed).views().into_iter().map(<[u8]>::to_vec).collect();
        keys.extend(["", "{", "{}", "a{}b", "a{b", "{a}", "}{a}{b}", "{{a}}"].map(Vec::from));
        for key in keys {
            for rival in [REDIS_RS, FRED, REDIS] {
                let slot = Slot::of(&key).number();
                assert_eq!((rival.of)(&key), slot, "{}, {:?}", rival.name, key.escape_ascii());
            }
        }
    }
}
