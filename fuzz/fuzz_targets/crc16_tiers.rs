//! Every tier gives the checksum of a bit-by-bit loop, for a key, for its hash tag and in batches.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slotkeep::crc16::Tier;
use slotkeep::crc16::crc16_const;
use slotkeep::hash_tag;

fuzz_target!(|input: &[u8]| {
    let whole = bitwise(input);
    let tag = bitwise(hash_tag(input));
    assert_eq!(crc16_const(input), whole);
    let keys = keys_of(input);
    let expected: Vec<u16> = keys.iter().map(|key| bitwise(hash_tag(key))).collect();
    let mut checksums = vec![0; keys.len()];
    for tier in Tier::available() {
        assert_eq!(tier.crc16(input), whole, "{tier}");
        assert_eq!(tier.crc16_of_tag(input), tag, "{tier}");
        tier.crc16_of_tags(&keys, &mut checksums);
        assert_eq!(checksums, expected, "{tier}");
    }
});

/// Cuts the input into keys, each behind a byte that says how long it is: short ones above all.
fn keys_of(mut input: &[u8]) -> Vec<&[u8]> {
    let mut keys = Vec::new();
    while let Some((&len, rest)) = input.split_first() {
        let len = if len < 240 { len % 40 } else { len };
        let (key, rest) = rest.split_at(rest.len().min(len.into()));
        keys.push(key);
        input = rest;
    }
    keys
}

/// CRC-16/XMODEM by its definition.
fn bitwise(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for &byte in bytes {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc = (crc << 1) ^ if carry { 0x1021 } else { 0 };
        }
    }
    crc
}
