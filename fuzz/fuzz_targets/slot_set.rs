//! Any text is a set of slots or a typed error, and what was read prints and reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slotkeep::Slot;
use slotkeep::SlotSet;

fuzz_target!(|text: &str| {
    let Ok(set) = text.parse::<SlotSet>() else {
        return;
    };
    let printed = set.to_string();
    assert_eq!(printed.parse::<SlotSet>().as_ref(), Ok(&set));

    // The ranges hold the same slots, in order, with a gap between each two.
    let ranges: Vec<_> = set.ranges().collect();
    assert!(ranges.iter().flat_map(|range| range.iter()).eq(&set));
    assert!(ranges.windows(2).all(|pair| pair[0].end().index() + 1 < pair[1].start().index()));
    assert_eq!(ranges.iter().map(|range| range.len()).sum::<usize>(), set.len());
    assert!(Slot::all().filter(|&slot| set.contains(slot)).eq(&set));

    // The text lists each slot once, so its parts add up to the whole.
    let parts = text.split(',').filter(|part| !part.is_empty());
    let listed = parts.map(|part| part.parse::<SlotSet>().expect("a part of a set").len());
    assert_eq!(listed.sum::<usize>(), set.len());
});
