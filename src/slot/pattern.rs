//! Patterns to slots: which single slot, if any, holds every key that a glob pattern can match.

use super::Slot;

/// The one slot that can hold keys matching the glob `pattern`, or `None` when any slot can.
///
/// A scan with a pattern that has such a slot needs to look at that slot only.
/// The pattern is read from left to right:
///
/// | meets | result |
/// |---|---|
/// | `*`, `?`, `[` or `\` before a complete, non-empty hash tag | `None` |
/// | the first `{` | a tag may begin here |
/// | `}` directly after it | no tag in this pattern; a wildcard still gives `None` |
/// | a later `}` after it | the slot of the bytes between; wildcards behind it are harmless |
/// | the end | the slot of the whole pattern, which is a plain key |
///
/// # Examples
///
/// ```
/// use slotkeep::{Slot, slot_of_pattern};
///
/// assert_eq!(slot_of_pattern(b"{user}:*"), Some(Slot::of("user")));
/// assert_eq!(slot_of_pattern(b"plain"), Some(Slot::of("plain")));
/// assert_eq!(slot_of_pattern(b"*:{user}"), None);
/// assert_eq!(slot_of_pattern(b"{}*"), None);
/// ```
pub const fn slot_of_pattern(pattern: &[u8]) -> Option<Slot> {
    let mut tag = Tag::Possible;
    let mut index = 0;
    while index < pattern.len() {
        match (pattern[index], tag) {
            (b'*' | b'?' | b'[' | b'\\', _) => return None,
            (b'{', Tag::Possible) => tag = Tag::From(index + 1),
            (b'}', Tag::From(start)) if start == index => tag = Tag::Disabled,
            // The tag is complete, so the pattern's own tag is the tag of all its matches.
            (b'}', Tag::From(_)) => return Some(Slot::of_const(pattern)),
            _ => {}
        }
        index += 1;
    }
    Some(Slot::of_const(pattern))
}

/// What is known about the hash tag of a pattern.
#[derive(Clone, Copy)]
enum Tag {
    /// No `{` so far.
    Possible,
    /// The first `{` was met; the tag's bytes begin at this index.
    From(usize),
    /// The first `{` was closed at once.
    Disabled,
}
