//! The slot of any key equals that of a bit-by-bit checksum over a naively found hash tag.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slotkeep::Slot;
use slotkeep::hash_tag;
use slotkeep::slot_of_pattern;

fuzz_target!(|key: &[u8]| {
    let hashed = naive_tag(key);
    assert_eq!(hash_tag(key), hashed);

    let slot = Slot::of(key);
    assert_eq!(u16::from(slot), bitwise(hashed) % 16_384);
    assert_eq!(Slot::of(hashed), Slot::of_const(hashed));

    // A key is also a pattern, and one that has a slot has that of its own tag.
    let wild = key.iter().any(|byte| b"*?[\\".contains(byte));
    match slot_of_pattern(key) {
        Some(confined) => assert_eq!(confined, slot),
        None => assert!(wild),
    }
});

/// The tag by its definition, with iterators.
fn naive_tag(key: &[u8]) -> &[u8] {
    let tag = || {
        let (_, after) = key.split_at_checked(1 + key.iter().position(|&byte| byte == b'{')?)?;
        let tag = after.split(|&byte| byte == b'}').next()?;
        (!tag.is_empty() && tag.len() < after.len()).then_some(tag)
    };
    tag().unwrap_or(key)
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
