//! Hash tags: the part of a key that decides its slot.

/// The bytes of `key` that are hashed: its hash tag, or the whole key when it has none.
///
/// The tag is what lies between the first `{` and the first `}` after it, if that is at least one
/// byte. Only the first `{` counts: when it is never closed, or closed at once, the key has no tag,
/// whatever follows. A `}` before the first `{` means nothing. Bytes are opaque.
///
/// Keys with the same tag share a slot, so that one call may name all of them.
///
/// Cost: one pass over the key up to the end of the tag; no copy.
///
/// # Examples
///
/// ```
/// use slotkeep::hash_tag;
///
/// assert_eq!(hash_tag(b"user:{1000}:profile"), b"1000");
/// assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
/// assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
///
/// // No tag: the first pair is empty, or not closed.
/// assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
/// assert_eq!(hash_tag(b"foo{bar"), b"foo{bar");
/// ```
#[inline]
pub const fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = position(key, b'{') else {
        return key;
    };
    let (_, after) = key.split_at(open + 1);
    match position(after, b'}') {
        None | Some(0) => key,
        Some(close) => after.split_at(close).0,
    }
}

/// [`hash_tag`] with another search for a byte.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn hash_tag_by(key: &[u8], find: impl Fn(&[u8], u8) -> Option<usize>) -> &[u8] {
    let tag = || {
        let after = &key[find(key, b'{')? + 1..];
        find(after, b'}').filter(|&close| close > 0).map(|close| &after[..close])
    };
    tag().unwrap_or(key)
}

/// Where `byte` stands first: eight bytes at a time, then one by one.
/// Loops, because iterators do not run in const contexts.
#[inline]
const fn position(bytes: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    let mut rest = bytes;
    let mut index = 0;
    while let Some((block, tail)) = rest.split_first_chunk::<8>() {
        // A byte of `diff` is zero where `byte` stands. Subtracting one from each borrows out of
        // the zero bytes first, so the lowest top bit that is left marks the first of them.
        let diff = u64::from_le_bytes(*block) ^ (ONES * byte as u64);
        let hits = diff.wrapping_sub(ONES) & !diff & TOPS;
        if hits != 0 {
            return Some(index + (hits.trailing_zeros() / 8) as usize);
        }
        index += 8;
        rest = tail;
    }
    while let Some((&first, tail)) = rest.split_first() {
        if first == byte {
            return Some(index);
        }
        index += 1;
        rest = tail;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::hash_tag;
    use super::position;

    #[test]
    fn only_the_first_opening_brace_can_start_a_tag() {
        let cases: [(&[u8], &[u8]); 18] = [
            (b"", b""),
            (b"{", b"{"),
            (b"}", b"}"),
            (b"{}", b"{}"),
            (b"}{", b"}{"),
            (b"{a}", b"a"),
            (b"{{}", b"{"),
            (b"{}}", b"{}}"),
            (b"{}{a}", b"{}{a}"),
            (b"{a}{}", b"a"),
            (b"}{a}", b"a"),
            (b"a{b}c{d}e", b"b"),
            (b"foo{bar", b"foo{bar"),
            (b"foo}bar{", b"foo}bar{"),
            (b"foo{{bar}}zap", b"{bar"),
            (b"A}B{C", b"A}B{C"),
            (b"{\0}", b"\0"),
            (b"x{\xff\xfe}y", b"\xff\xfe"),
        ];
        for (key, tag) in cases {
            assert_eq!(hash_tag(key), tag, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_first_brace_is_found_wherever_it_stands() {
        // The neighbours of a brace in value are what a borrow could take for one.
        for filler in [0x00, 0x01, b'z', b'|', 0x7F, 0x80, 0xFB, 0xFF] {
            for len in 0..40 {
                let mut bytes = vec![filler; len];
                assert_eq!(position(&bytes, b'{'), None, "{filler:#04x} * {len}");
                for index in (0..len).rev() {
                    bytes[index] = b'{';
                    assert_eq!(position(&bytes, b'{'), Some(index), "{filler:#04x} * {len}");
                }
            }
        }
    }
}
