//! The heap that is counted: what the allocator really takes, its rounding and its heads included.
//!
//! Counting is off but for `cargo peers memory`; off, it costs one look at a flag that nobody
//! writes.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::GlobalAlloc;
use std::alloc::Layout;
use std::alloc::System;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

#[global_allocator]
static HEAP: Counted = Counted;

static ON: Apart<AtomicBool> = Apart(AtomicBool::new(false));
static BYTES: Apart<AtomicUsize> = Apart(AtomicUsize::new(0));

/// A value on cache lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

/// What the C library's allocator puts before each piece.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAD_BYTES: usize = 8;

struct Counted;

/// Begins to count, from nothing.
pub fn count() {
    BYTES.0.store(0, Ordering::Relaxed);
    ON.0.store(true, Ordering::Relaxed);
}

/// What was taken since and not given back.
pub fn bytes() -> usize {
    BYTES.0.load(Ordering::Relaxed)
}

fn add(bytes: usize) {
    if ON.0.load(Ordering::Relaxed) {
        BYTES.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Pieces from before the count may go; the sum wraps below nothing and back.
fn subtract(bytes: usize) {
    if ON.0.load(Ordering::Relaxed) {
        BYTES.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How much a piece takes of the heap.
///
/// # Safety
/// - `piece` is null, or came from [`System`] with this layout and was not given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe fn taken(piece: *mut u8, _: Layout) -> usize {
    if !ON.0.load(Ordering::Relaxed) || piece.is_null() {
        return 0;
    }
    // SAFETY: by the caller, a piece of the C library's allocator, on which `System` stands.
    unsafe { libc::malloc_usable_size(piece.cast()) + HEAD_BYTES }
}

/// How much a piece takes of the heap, where the allocator does not tell.
///
/// # Safety
/// None here; elsewhere the piece is looked at.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
unsafe fn taken(piece: *mut u8, layout: Layout) -> usize {
    if piece.is_null() { 0 } else { layout.size() }
}

// SAFETY: every call goes to `System` unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let piece = unsafe { System.alloc(layout) };
        // SAFETY: it just came from there.
        add(unsafe { taken(piece, layout) });
        piece
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let piece = unsafe { System.alloc_zeroed(layout) };
        // SAFETY: it just came from there.
        add(unsafe { taken(piece, layout) });
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: it is given back below, and not before.
        subtract(unsafe { taken(piece, layout) });
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(piece, layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: it is given back below, and not before.
        let before = unsafe { taken(piece, layout) };
        // SAFETY: guaranteed by the caller.
        let moved = unsafe { System.realloc(piece, layout, size) };
        if !moved.is_null() {
            subtract(before);
            let layout = Layout::from_size_align(size, layout.align());
            // SAFETY: it just came from there, with this size.
            add(layout.map_or(0, |layout| unsafe { taken(moved, layout) }));
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_takes_its_size_and_what_the_allocator_adds() {
        count();
        for size in [1_usize, 20, 52, 100, 100_000] {
            let mut piece = vec![0_u8; size];
            let layout = Layout::array::<u8>(size).expect("a layout");
            // SAFETY: the vector's piece, of this layout.
            let taken = unsafe { taken(piece.as_mut_ptr(), layout) };
            assert!((size..size + 40).contains(&taken), "{size}: {taken}");
        }
    }
}
