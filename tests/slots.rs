//! Keys, slots, ranges and sets: the same slots as Redis Cluster, and texts that round-trip.

use slotkeep::SLOT_COUNT;
use slotkeep::Slot;
use slotkeep::SlotError;
use slotkeep::SlotRange;
use slotkeep::SlotSet;
use slotkeep::crc16::crc16;
use slotkeep::hash_tag;
use slotkeep::slot_of_pattern;

/// Keys in hexadecimal with their slots, from an independent implementation.
const VECTORS: &str = include_str!("data/slot-vectors.tsv");

#[track_caller]
fn check(key: impl AsRef<[u8]>, expected: u16) {
    let key = key.as_ref();
    let shown = key[..key.len().min(80)].escape_ascii();
    assert_eq!(u16::from(Slot::of(key)), expected, "key {shown}");
    assert_eq!(Slot::of_const(key), slot(expected), "key {shown}");
}

/// Checks a row of the specification: the key, what is hashed of it, the checksum and the slot.
#[track_caller]
fn check_row(key: impl AsRef<[u8]>, hashed: impl AsRef<[u8]>, checksum: u16, expected: u16) {
    let (key, hashed) = (key.as_ref(), hashed.as_ref());
    let shown = key[..key.len().min(80)].escape_ascii();
    assert!(hash_tag(key) == hashed, "key {shown}");
    assert_eq!(crc16(hashed), checksum, "key {shown}");
    check(key, expected);
}

/// As [`check_row`], for a key that is hashed whole.
#[track_caller]
fn check_whole(key: impl AsRef<[u8]>, checksum: u16, expected: u16) {
    check_row(&key, &key, checksum, expected);
}

#[track_caller]
fn slot(number: u16) -> Slot {
    Slot::new(number).expect("a slot's number")
}

#[track_caller]
fn range(start: u16, end: u16) -> SlotRange {
    SlotRange::new(slot(start), slot(end)).expect("a range in order")
}

/// The bytes that `text` spells in hexadecimal.
#[track_caller]
fn from_hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    text.as_bytes()
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => digit(high).zip(digit(low)).map(|(high, low)| (high << 4) | low),
            _ => None,
        })
        .collect::<Option<_>>()
        .expect("pairs of hexadecimal digits")
}

#[test]
fn every_recorded_key_has_its_recorded_slot() {
    let mut count = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let (key, expected) = line.split_once('\t').expect("a key and a slot");
        check(from_hex(key), expected.parse().expect("a number"));
        count += 1;
    }
    assert!(count > 600, "only {count} vectors");
}

#[test]
fn only_a_first_closed_pair_with_bytes_in_it_is_a_tag() {
    check_whole("", 0x0000, 0);
    check_whole("{}", 0x7B99, 15257);
    check_row("{user}", "user", 0xD562, 5474);
    check_whole("user", 0xD562, 5474);
    check_row("a{b}c{d}e", "b", 0x4CE4, 3300);
    check_whole("foo{}{bar}", 0xE0AB, 8363);
    check_row("{{bar}}", "{bar", 0xCFAF, 4015);
    check_row("foo{{bar}}zap", "{bar", 0xCFAF, 4015);
    check_whole("{bar", 0xCFAF, 4015);
    check_row("foo{bar}{zap}", "bar", 0x93C5, 5061);
    check_whole("bar", 0x93C5, 5061);
    check_whole("foo{bar", 0x3BAE, 15278);
    check_whole("foo}bar{", 0x2B41, 11073);
    check_row("}{a}", "a", 0x7C87, 15495);
    check_row("{a}{}", "a", 0x7C87, 15495);
    check_row("{a}\r\n", "a", 0x7C87, 15495);
    check_whole("a", 0x7C87, 15495);
    check_whole("{}{a}", 0x3552, 13650);
}

#[test]
fn keys_are_opaque_bytes() {
    check_whole(b"\x00", 0x0000, 0);
    check_row(b"{\x00}", b"\x00", 0x0000, 0);
    check_whole(b"\xff\xfe\xfd", 0xC11F, 287);
    check_row(b"x{\xff\xfe}y", b"\xff\xfe", 0x0D2E, 3374);
    check_whole(b"\xff\xfe", 0x0D2E, 3374);
    check_row("{ }", " ", 0x2462, 9314);
    check_whole(" ", 0x2462, 9314);
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    check_row(every_byte, "|", 0xBF1B, 16155);
    check_row("\u{65e5}\u{672c}{\u{8a9e}}", "\u{8a9e}", 0x9952, 6482);
    check_whole("\u{8a9e}", 0x9952, 6482);
}

#[test]
fn long_keys_are_hashed_to_their_end() {
    check_whole("x".repeat(65_536), 0x7E6F, 15983);
    let run = "y".repeat(65_534);
    check_row(format!("{{{run}}}"), &run, 0x0000, 0);
}

#[test]
fn keys_as_applications_name_them() {
    check_whole("123456789", 0x31C3, 12739);
    check_whole("user:1000:profile", 0xA2D6, 8918);
    check_row("user:{1000}:profile", "1000", 0xAC3E, 11326);
    check_row("orders:{1000}", "1000", 0xAC3E, 11326);
    check_whole("1000", 0xAC3E, 11326);
    check_row("{user:1000}.name", "user:1000", 0x4671, 1649);
    check_whole("user:1001", 0x5650, 5712);
    check_row("user:{42}:cart", "42", 0xDF40, 8000);
    check_whole("user:42:cart", 0x32B8, 12984);
    check_row("{exam:ECON-201}:paper", "exam:ECON-201", 0x0A07, 2567);
    check_row("{exam:ECON-201}:roster", "exam:ECON-201", 0x0A07, 2567);
    check_whole("exam:ECON-201:paper", 0x08BA, 2234);
    check_whole("exam:ECON-201:roster", 0x545E, 5214);
    check_row("{acct:58}:balance", "acct:58", 0xAA56, 10838);
    check_row("{acct:58}:entries", "acct:58", 0xAA56, 10838);
    check_whole("foo", 0xAF96, 12182);
    check_whole("hello", 0xC362, 866);
    check_row("AX{LAB-26}07", "LAB-26", 0xA8CB, 10443);
}

#[test]
fn five_keys_about_one_account_lie_in_four_slots() {
    check_row("{acct:7}:balance", "acct:7", 0x879A, 1946);
    check_row("{acct:7}:{limits}", "acct:7", 0x879A, 1946);
    check_whole("{}{acct:7}:entries", 0x7F73, 16243);
    check_whole("holds:{}:{acct:7}", 0x4524, 1316);
    check_row("{{acct:7}}:fees", "{acct:7", 0x48D4, 2260);
}

#[test]
fn nested_braces_end_at_the_first_closing_one() {
    for key in ["a{'1':{'i32':1}}", "{'1':{'i32':1}}", "'1':{'i32':1"] {
        check(key, 5540);
    }
}

#[test]
fn a_closing_brace_before_the_opening_one_is_no_empty_tag() {
    check("A}B{C", 7939);
}

#[test]
fn an_empty_first_pair_is_not_skipped_for_a_later_one() {
    check("wp:{}{same}", 1583);
    check("{}{a}", 13650);
    check("foo{}{bar}", 8363);
    check("same", 13447);
}

#[test]
fn an_unclosed_tag_hashes_the_whole_key() {
    check("snap:{r:e", 11726);
    assert_eq!(hash_tag(b"snap:{}:e"), b"snap:{}:e");
}

#[test]
fn the_checksum_is_a_crc_of_16_bits_and_not_of_32() {
    check_whole("123456789", 0x31C3, 12739);
}

#[test]
fn the_last_slot_is_a_slot() {
    assert_eq!(Slot::new(16_383), Some(Slot::MAX));
    assert_eq!(Slot::try_from(16_383), Ok(Slot::MAX));
    assert_eq!("16383".parse(), Ok(Slot::MAX));
    assert_eq!(Slot::new(16_384), None);
    assert_eq!(Slot::try_from(16_384), Err(SlotError::OutOfRange { number: 16_384 }));
    assert_eq!(Slot::try_from(u16::MAX), Err(SlotError::OutOfRange { number: 65_535 }));
}

#[test]
fn a_range_contains_its_last_slot() {
    let last_third = range(12_288, 16_383);
    assert!(last_third.contains(Slot::of("hia")));
    assert_eq!(Slot::of("hia"), Slot::MAX);
    assert!(SlotSet::from(last_third).contains(Slot::MAX));
    assert_eq!(last_third.iter().next_back(), Some(Slot::MAX));
    assert_eq!(last_third.len(), 4096);
    assert_eq!(last_third.iter().len(), 4096);
    assert!(!last_third.contains(slot(12_287)));
}

#[test]
fn slot_zero_is_a_slot() {
    check("la2", 0);
    assert_eq!(Slot::new(0), Some(Slot::MIN));
    assert_eq!("0".parse(), Ok(Slot::MIN));
    assert!(SlotSet::from(range(0, 0)).contains(Slot::MIN));
    assert_eq!(SlotSet::from(Slot::MIN).to_string(), "0");
}

#[test]
fn there_are_16384_slots_and_each_has_its_index() {
    assert_eq!(Slot::all().len(), usize::from(SLOT_COUNT));
    for (index, slot) in Slot::all().enumerate() {
        assert_eq!(slot.index(), index);
        assert_eq!(usize::from(slot.number()), index);
        assert_eq!(Slot::try_from(u16::from(slot)), Ok(slot));
    }
}

#[test]
fn a_slot_is_known_at_compile_time() {
    const FOO: Slot = Slot::of_const(b"foo");
    const TAGGED: Slot = Slot::of_const(b"any{foo}thing");
    assert_eq!(FOO, slot(12_182));
    assert_eq!(TAGGED, FOO);
}

#[test]
fn a_pattern_has_a_slot_when_its_tag_comes_before_every_wildcard() {
    for pattern in ["{a}*", "foo{a}?[x]", "}{a}*", r"{a}\*", "{a}", "a"] {
        assert_eq!(slot_of_pattern(pattern.as_bytes()), Some(slot(15_495)), "{pattern}");
    }
    for pattern in ["*{a}", "{a*}", "{}*", "{}{a}*", r"x\{a}", "*", "?", "[ab]", "{*", "}*", "{}{*"]
    {
        assert_eq!(slot_of_pattern(pattern.as_bytes()), None, "{pattern}");
    }
    for (pattern, number) in [("{}{a}", 13_650), ("{a", 10_276), ("", 0), ("{}", 15_257)] {
        assert_eq!(slot_of_pattern(pattern.as_bytes()), Some(slot(number)), "{pattern}");
    }
}

#[test]
fn a_pattern_without_wildcards_has_the_slot_of_the_key() {
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let key = from_hex(line.split_once('\t').expect("a key and a slot").0);
        if !key.iter().any(|byte| b"*?[\\".contains(byte)) {
            assert_eq!(slot_of_pattern(&key), Some(Slot::of(&key)), "{}", key.escape_ascii());
        }
    }
}

#[test]
fn ranges_read_as_they_print() {
    for (text, start, end) in
        [("0", 0, 0), ("0-1", 0, 1), ("5461-10922", 5461, 10_922), ("0-16383", 0, 16_383)]
    {
        assert_eq!(text.parse(), Ok(range(start, end)));
        assert_eq!(range(start, end).to_string(), text);
    }
    assert_eq!("7-7".parse(), Ok(range(7, 7)));
    assert_eq!(range(0, 16_383), SlotRange::FULL);
}

#[test]
fn texts_that_are_no_range_are_refused_with_the_reason() {
    let reversed = SlotError::Reversed { start: slot(2), end: slot(1) };
    assert_eq!("2-1".parse::<SlotRange>(), Err(reversed));
    assert_eq!(SlotRange::new(slot(2), slot(1)), Err(reversed));
    assert_eq!(reversed.to_string(), "range 2-1 is reversed");
    let out_of_range = SlotError::OutOfRange { number: 16_384 };
    assert_eq!("0-16384".parse::<SlotRange>(), Err(out_of_range));
    assert_eq!(out_of_range.to_string(), "slot 16384 is out of range, the last slot is 16383");
    for text in ["", "-", "1-", "-1", "1--2", "1-2-3", "1 - 2", "a-b", "01-2", "1..2", "1,2"] {
        assert_eq!(text.parse::<SlotRange>(), Err(SlotError::NotANumber), "{text:?}");
    }
}

#[test]
fn sets_print_as_the_fewest_ranges_and_read_back() {
    let cases = [
        ("", ""),
        ("0", "0"),
        ("0-5460,5500", "0-5460,5500"),
        ("5500,0-5460", "0-5460,5500"),
        ("0-1,2,3-4", "0-4"),
        ("16383,0", "0,16383"),
        ("0-16383", "0-16383"),
        ("63,64,127-128", "63-64,127-128"),
    ];
    for (text, printed) in cases {
        let set: SlotSet = text.parse().expect(text);
        assert_eq!(set.to_string(), printed, "{text:?}");
        assert_eq!(printed.parse(), Ok(set), "{text:?}");
    }
    let odd: SlotSet = Slot::all().filter(|slot| slot.number() % 2 == 1).collect();
    assert_eq!(odd.to_string().parse(), Ok(odd));
}

#[test]
fn texts_that_are_no_set_are_refused_with_the_reason() {
    let twice = |number| SlotError::ListedTwice { slot: slot(number) };
    let cases = [
        ("1,1", twice(1)),
        ("0-10,10", twice(10)),
        ("5,0-10", twice(5)),
        ("5-8,7-9", twice(7)),
        ("0-16383,0-16383", twice(0)),
        ("1,9-8", SlotError::Reversed { start: slot(9), end: slot(8) }),
        ("1,16384", SlotError::OutOfRange { number: 16_384 }),
        (",", SlotError::NotANumber),
        ("1,", SlotError::NotANumber),
        (",1", SlotError::NotANumber),
        ("1, 2", SlotError::NotANumber),
        ("1;2", SlotError::NotANumber),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<SlotSet>(), Err(error), "{text:?}");
    }
    assert_eq!(twice(1).to_string(), "slot 1 is listed twice");
    assert_eq!(SlotError::NotANumber.to_string(), "not a slot number");
}

#[test]
fn a_set_counts_each_slot_once() {
    let mut set = SlotSet::new();
    assert!(set.is_empty());
    assert!(set.insert(slot(5)));
    assert!(!set.insert(slot(5)));
    assert_eq!(set.len(), 1);
    assert!(set.remove(slot(5)));
    assert!(!set.remove(slot(5)));
    assert_eq!(set, SlotSet::default());
    set.extend([range(0, 9), range(5, 14)]);
    assert_eq!(set.len(), 15);
    set.clear();
    assert!(set.is_empty());
    assert_eq!(SlotSet::full().len(), usize::from(SLOT_COUNT));
    assert!(SlotSet::full().iter().eq(Slot::all()));
}

#[test]
fn set_operations_agree_with_their_definitions() {
    let threes: SlotSet = Slot::all().filter(|slot| slot.number() % 3 == 0).collect();
    let range = SlotSet::from(range(1000, 9000));
    let (both, either) = (threes.intersection(&range), threes.union(&range));
    let only = threes.difference(&range);
    for slot in Slot::all() {
        let (a, b) = (threes.contains(slot), range.contains(slot));
        assert_eq!(both.contains(slot), a && b, "{slot}");
        assert_eq!(either.contains(slot), a || b, "{slot}");
        assert_eq!(only.contains(slot), a && !b, "{slot}");
    }
    assert!(both.is_subset(&threes) && both.is_subset(&range));
    assert!(!threes.is_subset(&range));
    assert!(only.is_disjoint(&range));
    assert!(!threes.is_disjoint(&range));
}

#[test]
fn a_set_shows_its_ranges_in_debug_output() {
    let set: SlotSet = "0-5460,5500".parse().expect("a set");
    assert_eq!(format!("{set:?}"), "SlotSet(0-5460,5500)");
    assert_eq!(format!("{:?}", range(0, 5460)), "SlotRange(0-5460)");
}
