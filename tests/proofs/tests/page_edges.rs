//! No tier touches a byte outside of a key: keys lie between pages that cannot be read.
#![cfg(unix)]
#![expect(unsafe_code, reason = "pages without access come from the system")]

use slotkeep::crc16::Tier;
use slotkeep::crc16::crc16_const;
use slotkeep::hash_tag;

/// Readable bytes with a page before and a page behind them that cannot be read.
struct Guarded {
    base: *mut u8,
    page_len: usize,
}

impl Guarded {
    /// So many readable pages, filled with bytes that have no pattern.
    fn new(pages: usize) -> Self {
        // SAFETY: the call only reads a setting.
        let page_len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_len = usize::try_from(page_len).expect("the length of a page");
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let len = (pages + 2) * page_len;
        // SAFETY: a new mapping, which overlaps nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "no memory for {len} bytes");
        let guarded = Self { base: base.cast(), page_len };
        let inner = guarded.base.wrapping_add(page_len);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages between the first and the last of the mapping.
        let status = unsafe { libc::mprotect(inner.cast(), pages * page_len, access) };
        assert_eq!(status, 0, "the inner pages stay closed");
        let mut value = 1_u8;
        for index in 0..pages * page_len {
            value = value.wrapping_mul(181).wrapping_add(7);
            // SAFETY: the inner pages are ours, and can be written.
            unsafe { inner.wrapping_add(index).write(value ^ (value >> 3)) };
        }
        guarded
    }

    /// The first of the readable pages.
    fn bytes(&self, pages: usize) -> &[u8] {
        let inner = self.base.wrapping_add(self.page_len);
        // SAFETY: `new` has opened and filled these pages, and they live as long as the process.
        unsafe { std::slice::from_raw_parts(inner, pages * self.page_len) }
    }

    /// Writes a key over the first readable page.
    fn write(&mut self, start: usize, key: &[u8]) {
        assert!(start + key.len() <= self.page_len, "within the first readable page");
        let place = self.base.wrapping_add(self.page_len + start);
        // SAFETY: the first inner page is ours, no slice of it is borrowed, and the key fits.
        unsafe { place.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
    }
}

/// Keys, alone and in batches, as far as the longest paths of the kernels go.
const LENS: [usize; 21] =
    [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 49, 63, 64, 65, 200];

#[track_caller]
fn check(key: &[u8], place: &str) {
    let (whole, tag) = (crc16_const(key), crc16_const(hash_tag(key)));
    for tier in Tier::available() {
        assert_eq!(tier.crc16(key), whole, "{tier}: {} bytes {place}", key.len());
        assert_eq!(tier.crc16_of_tag(key), tag, "{tier}: {} bytes {place}", key.len());
        let mut checksums = [!tag; 9];
        tier.crc16_of_tags(&[key; 9], &mut checksums);
        assert_eq!(checksums, [tag; 9], "{tier}: {} bytes {place}", key.len());
    }
}

#[test]
fn keys_at_both_edges_of_readable_memory_are_hashed_without_a_fault() {
    for pages in [1, 3] {
        let guarded = Guarded::new(pages);
        let bytes = guarded.bytes(pages);
        for len in LENS.into_iter().chain([1000, 3072, bytes.len()]) {
            let len = len.min(bytes.len());
            // Some bytes from the edge, too: a kernel may round to its register's length.
            for gap in (0..70).take_while(|gap| gap + len <= bytes.len()) {
                check(&bytes[gap..gap + len], "after the start");
                let end = bytes.len() - gap;
                check(&bytes[end - len..end], "before the end");
            }
        }
    }
}

#[test]
fn hash_tags_at_both_edges_are_found_without_a_fault() {
    for key in ["{a}", "user:{1000}:profile", "{}{a}", "{", "}", "a{bc"] {
        let key = key.as_bytes();
        let mut guarded = Guarded::new(1);
        for start in [0, guarded.page_len - key.len()] {
            guarded.write(start, key);
            check(&guarded.bytes(1)[start..start + key.len()], "at an edge");
        }
    }
}
