//! Every tier of the checksum equals the definition, bit by bit, whatever it is given.

use slotkeep::Slot;
use slotkeep::SlotError;
use slotkeep::crc16::Tier;
use slotkeep::crc16::TierError;
use slotkeep::crc16::crc16;
use slotkeep::crc16::crc16_const;
use slotkeep::hash_tag;
use slotkeep::slots_of;

/// Keys in hexadecimal with their slots, from an independent implementation.
const VECTORS: &str = include_str!("data/slot-vectors.tsv");

/// Where random keys begin.
const SEED: u64 = 0xC0DE_1021;

/// One byte more, bit by bit, as the definition has it.
fn extend(crc: u16, byte: u8) -> u16 {
    (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
        let carry = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
        (crc << 1) ^ carry
    })
}

fn bitwise(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| extend(crc, byte))
}

/// The hash tag by its definition, with iterators.
fn naive_tag(key: &[u8]) -> &[u8] {
    let tag = || {
        let (_, after) = key.split_at_checked(1 + key.iter().position(|&byte| byte == b'{')?)?;
        let tag = after.split(|&byte| byte == b'}').next()?;
        (!tag.is_empty() && tag.len() < after.len()).then_some(tag)
    };
    tag().unwrap_or(key)
}

fn shown(bytes: &[u8]) -> String {
    format!("{} ({} bytes)", bytes[..bytes.len().min(80)].escape_ascii(), bytes.len())
}

/// Wants this checksum from every tier, and from the two functions that choose for the caller.
#[track_caller]
fn check(bytes: &[u8], expected: u16) {
    for tier in Tier::available() {
        assert_eq!(tier.crc16(bytes), expected, "{tier}: {}", shown(bytes));
    }
    assert_eq!(crc16(bytes), expected, "active: {}", shown(bytes));
    assert_eq!(crc16_const(bytes), expected, "const: {}", shown(bytes));
}

/// Wants the checksum of the hash tag from every tier, and the slot that belongs to it.
#[track_caller]
fn check_tag(key: &[u8]) {
    let tag = naive_tag(key);
    assert!(hash_tag(key) == tag, "{}", shown(key));
    let expected = bitwise(tag);
    for tier in Tier::available() {
        assert_eq!(tier.crc16_of_tag(key), expected, "{tier}: {}", shown(key));
    }
    assert_eq!(Slot::of(key).number(), expected % 16_384, "{}", shown(key));
    assert_eq!(Slot::of_const(key), Slot::of(key), "{}", shown(key));
}

/// Wants of a batch what the keys have one by one.
#[track_caller]
fn check_batch(keys: &[&[u8]]) {
    let expected: Vec<u16> = keys.iter().map(|key| bitwise(naive_tag(key))).collect();
    for tier in Tier::available() {
        let mut checksums = vec![0xAAAA; keys.len()];
        tier.crc16_of_tags(keys, &mut checksums);
        for (index, key) in keys.iter().enumerate() {
            let of = format!("{tier}: {index} of {}: {}", keys.len(), shown(key));
            assert_eq!(checksums[index], expected[index], "{of}");
        }
    }
    let mut slots = vec![Slot::MAX; keys.len()];
    slots_of(keys, &mut slots).expect("equally many");
    assert!(slots.iter().zip(keys).all(|(slot, key)| *slot == Slot::of(key)));
}

/// How far apart the samples of an exhaustive test are: without optimization not all are tried.
fn stride(optimized: usize, otherwise: usize) -> usize {
    if cfg!(debug_assertions) { otherwise } else { optimized }
}

#[test]
fn every_key_of_one_or_two_bytes() {
    check(b"", 0);
    for first in 0..=u8::MAX {
        check(&[first], extend(0, first));
        for second in 0..=u8::MAX {
            check(&[first, second], extend(extend(0, first), second));
        }
    }
}

#[test]
fn every_key_of_three_bytes() {
    for number in (0..1_u32 << 24).step_by(stride(1, 61)) {
        let [_, bytes @ ..] = number.to_be_bytes();
        check(&bytes, bitwise(&bytes));
    }
}

#[test]
fn every_length_at_every_alignment() {
    println!("seed {SEED:#x}");
    let mut random = fastrand::Rng::with_seed(SEED);
    let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(64 + 1100).collect();
    for offset in (0..64).step_by(stride(1, 7)) {
        let mut expected = 0;
        for len in 0..=1100 {
            check(&data[offset..offset + len], expected);
            expected = data.get(offset + len).map_or(expected, |&next| extend(expected, next));
        }
    }
}

#[test]
fn every_single_bit_of_a_long_input_counts() {
    for len in [16, 48, 64, 65, 128, 1024, 4096, 5000] {
        let mut bytes = vec![0; len];
        let mut expected = extend(0, 1);
        for index in (0..len).rev() {
            bytes[index] = 1;
            check(&bytes, expected);
            bytes[index] = 0;
            expected = extend(expected, 0);
        }
    }
}

#[test]
fn long_inputs_of_every_remainder() {
    println!("seed {SEED:#x}");
    let mut random = fastrand::Rng::with_seed(SEED);
    let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(16_384).collect();
    let lens = (1100..8400).step_by(stride(1, 13)).chain([12_288, 16_383, 16_384]);
    let mut expected = 0;
    let mut done = 0;
    for len in lens {
        expected = data[done..len].iter().fold(expected, |crc, &byte| extend(crc, byte));
        done = len;
        check(&data[..len], expected);
    }
}

#[test]
fn runs_of_equal_bytes_around_twice_the_order() {
    for byte in [0x00, 0x01, b'y', b'{', 0x80, 0xFF] {
        let run = vec![byte; 65_600];
        let mut expected = bitwise(&run[..65_500]);
        for len in 65_500..65_600 {
            check(&run[..len], expected);
            assert!(len != 65_534 || expected == 0);
            expected = extend(expected, byte);
        }
    }
}

#[test]
fn leading_zero_bytes_change_nothing() {
    let mut bytes = vec![0; 5000];
    bytes.extend_from_slice(b"123456789");
    for start in 0..=5000 {
        check(&bytes[start..], 0x31C3);
    }
}

#[test]
fn recorded_keys_have_their_recorded_slots() {
    let mut count = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let (key, slot) = line.split_once('\t').expect("a key and a slot");
        let byte = |at| u8::from_str_radix(&key[at..at + 2], 16).expect("a byte");
        let key: Vec<u8> = (0..key.len()).step_by(2).map(byte).collect();
        check_tag(&key);
        assert_eq!(Slot::of(&key).to_string(), slot, "{}", shown(&key));
        count += 1;
    }
    assert!(count > 600, "only {count} vectors");
}

#[test]
fn tags_of_every_place_and_length() {
    for len in (0..=72).step_by(stride(1, 5)) {
        // Bytes that differ, so that a tag that is cut wrongly has another checksum.
        let mut key: Vec<u8> = (b'0'..b'0' + len).collect();
        key.iter_mut().filter(|byte| b"{}".contains(byte)).for_each(|byte| *byte = b'_');
        check_tag(&key);
        for open in 0..key.len() {
            let plain = std::mem::replace(&mut key[open], b'{');
            check_tag(&key);
            for close in 0..key.len() {
                let under = std::mem::replace(&mut key[close], b'}');
                check_tag(&key);
                key[close] = under;
            }
            key[open] = plain;
        }
    }
}

#[test]
fn keys_that_are_rich_in_braces() {
    println!("seed {SEED:#x}");
    let mut random = fastrand::Rng::with_seed(SEED);
    for round in 0..200_000 / stride(1, 10) {
        // From almost nothing but braces to almost none.
        let rarity = 3 + round % 60;
        let len = random.usize(..if round % 8 == 0 { 400 } else { 80 });
        let key: Vec<u8> = (0..len)
            .map(|_| match random.usize(..rarity) {
                0 => b'{',
                1 => b'}',
                _ => random.u8(..),
            })
            .collect();
        check_tag(&key);
    }
}

#[test]
fn batches_of_every_size_and_of_mixed_lengths() {
    println!("seed {SEED:#x}");
    let mut random = fastrand::Rng::with_seed(SEED);
    let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(2000).collect();
    let braces = b"user:{1000}:profile{}{a}{{b}}c{d";
    for size in 0..=40 {
        for len_max in [1, 8, 16, 17, 24, 32, 33, 48, 64, 100, 1000] {
            for few_braces in [true, false] {
                let mut key = || {
                    let len = random.usize(..=len_max);
                    let braced = !few_braces || random.u8(..8) == 0;
                    let from = if braced { braces.as_slice() } else { data.as_slice() };
                    let start = random.usize(..from.len());
                    &from[start..from.len().min(start + len)]
                };
                let keys: Vec<&[u8]> = std::iter::repeat_with(&mut key).take(size).collect();
                check_batch(&keys);
            }
        }
    }
}

#[test]
fn every_byte_at_every_place_of_a_batch() {
    for len in 0..=34 {
        for place in 0..len {
            for start in (0..=u8::MAX).step_by(8) {
                let keys: [Vec<u8>; 8] = std::array::from_fn(|index| {
                    let mut key = vec![0; len];
                    key[place] = start | u8::try_from(index).expect("below 8");
                    key
                });
                check_batch(&keys.each_ref().map(Vec::as_slice));
            }
        }
    }
}

#[test]
fn one_tag_in_a_batch_is_seen_wherever_it_stands() {
    for len in 3..=34 {
        for open in 0..len - 2 {
            let plain: Vec<u8> = (b'0'..b'0' + len).collect();
            let mut tagged = plain.clone();
            tagged[usize::from(open)] = b'{';
            tagged[usize::from(len) - 1] = b'}';
            let mut keys = [plain.as_slice(); 8];
            keys[usize::from(open) % 8] = &tagged;
            check_batch(&keys);
        }
    }
}

#[test]
fn slots_of_unequal_lengths_are_an_error_and_nothing_is_written() {
    for (keys, slots) in [(0, 1), (1, 0), (2, 3), (9, 8), (8, 16)] {
        let mut written = vec![Slot::MAX; slots];
        let error = SlotError::LengthMismatch { keys, slots };
        assert_eq!(slots_of(&vec!["foo"; keys], &mut written), Err(error));
        assert!(written.iter().all(|&slot| slot == Slot::MAX));
    }
    let error = SlotError::LengthMismatch { keys: 1, slots: 2 };
    assert_eq!(error.to_string(), "1 keys and 2 slots are not equally many");
}

#[test]
fn a_batch_asks_a_key_at_most_three_times_and_gives_every_key_a_slot_it_has_had() {
    /// A key that is another one each time.
    struct Fickle<'a>(std::cell::Cell<usize>, &'a [Vec<u8>]);
    impl AsRef<[u8]> for Fickle<'_> {
        fn as_ref(&self) -> &[u8] {
            self.0.set(self.0.get() + 1);
            &self.1[self.0.get() % self.1.len()]
        }
    }
    let lengths = [3, 16, 20, 32, 40, 64, 200, 0];
    let texts: Vec<_> = lengths.iter().map(|&len| vec![b'x'; len]).collect();
    let braced: Vec<_> =
        lengths.iter().map(|&len| [&vec![b'{'; len][..], b"a}"].concat()).collect();
    for texts in [&texts, &braced] {
        for start in 0..texts.len() {
            let keys: [_; 21] =
                std::array::from_fn(|index| Fickle(std::cell::Cell::new(start * index), texts));
            let before = keys.each_ref().map(|key| key.0.get());
            let mut slots = [Slot::MIN; 21];
            slots_of(&keys, &mut slots).expect("equally many");
            for ((key, slot), before) in keys.iter().zip(slots).zip(before) {
                assert!((1..=3).contains(&(key.0.get() - before)), "asked once to three times");
                assert!(texts.iter().any(|text| Slot::of(text) == slot), "{slot} from {start}");
            }
        }
    }
}

#[test]
fn tiers_read_as_they_print_and_the_first_is_portable() {
    let tiers: Vec<Tier> = Tier::available().collect();
    assert_eq!(tiers.first().map(|tier| tier.name()), Some("portable"));
    assert!(tiers.contains(&Tier::active()));
    for tier in tiers {
        assert_eq!(tier.to_string().parse(), Ok(tier));
        assert_eq!(format!("{tier:?}"), format!("Tier(\"{}\")", tier.name()));
    }
    for name in ["", "Portable", "wide ", "avx512"] {
        assert_eq!(name.parse::<Tier>(), Err(TierError::Unknown), "{name:?}");
    }
}
