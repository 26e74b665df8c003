//! Pages that can be read between pages that cannot: a load beyond either end is a fault.
#![expect(unsafe_code, reason = "only the system can take the right to read a page away")]

use std::io;
use std::ptr;
use std::slice;

/// A whole number of pages wherever this runs: the largest common page is 64 KiB.
const BYTES: usize = 65_536;

/// Readable memory with unreadable pages on each side.
#[derive(Debug)]
pub struct Island {
    start: *mut libc::c_void,
}

impl Island {
    /// Maps the pages and fills the readable ones with bytes that hold no brace.
    ///
    /// # Errors
    ///
    /// What the system says if it refuses.
    pub fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place that the system chooses touches nothing of ours.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), 3 * BYTES, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let island = Self { start };
        // SAFETY: the middle third of the mapping above, which nobody else knows of.
        let answer = unsafe {
            libc::mprotect(island.middle().cast(), BYTES, libc::PROT_READ | libc::PROT_WRITE)
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: BYTES bytes that were just made writable, with no reference to them yet.
        unsafe { island.middle().write_bytes(b'k', BYTES) };
        Ok(island)
    }

    /// Everything that can be read.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: BYTES readable bytes, written in `new`, that live as long as `self`.
        unsafe { slice::from_raw_parts(self.middle(), BYTES) }
    }

    fn middle(&self) -> *mut u8 {
        self.start.cast::<u8>().wrapping_add(BYTES)
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, whole; the borrow of `bytes` has ended.
        let answer = unsafe { libc::munmap(self.start, 3 * BYTES) };
        debug_assert_eq!(answer, 0, "the mapping was ours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_can_be_read_and_keys_there_have_the_right_slot() {
        let island = Island::new().expect("a mapping");
        let bytes = island.bytes();
        assert_eq!(bytes.as_ptr().align_offset(4096), 0);
        for len in 1..=128 {
            let expected = slotkeep::Slot::of(vec![b'k'; len]);
            for key in [&bytes[..len], &bytes[BYTES - len..]] {
                assert_eq!(slotkeep::Slot::of(key), expected, "{len}");
            }
        }
    }
}
