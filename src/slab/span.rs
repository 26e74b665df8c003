//! Span: address space for many chunks, and what the system is told about their pages.
#![expect(unsafe_code, reason = "memory is mapped and advised about")]

use std::ptr::NonNull;

use crate::slab::chunk::CHUNK_BYTES;

/// How many chunks lie in a span. Neighbours share one mapping, of which Linux allows a process
/// 65530 unless told otherwise.
const CHUNKS: u32 = system::SPAN_CHUNKS;

const ALL_FREE: u32 = u32::MAX >> (u32::BITS - CHUNKS);

/// The spans of a pool, whose lock guards them.
pub(super) struct Spans(Vec<Span>);

struct Span {
    // Invariant: a mapping of `CHUNKS` chunks, aligned to a chunk.
    start: NonNull<u8>,
    /// A bit for every chunk that nobody has.
    free: u32,
}

// SAFETY: a span owns its mapping.
unsafe impl Send for Span {}

impl Spans {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Address space for a chunk, all of its bytes 0; none if there is none. Takes no memory until
    /// it is touched.
    pub(super) fn take(&mut self) -> Option<NonNull<u8>> {
        let at = if let Some(at) = self.0.iter().position(|span| span.free != 0) {
            at
        } else {
            self.0.push(Span { start: system::map()?, free: ALL_FREE });
            self.0.len() - 1
        };
        let span = &mut self.0[at];
        let index = span.free.trailing_zeros();
        span.free &= !(1 << index);
        // SAFETY: as there is a free chunk, the index is below `CHUNKS`.
        Some(unsafe { span.start.add(index as usize * CHUNK_BYTES) })
    }

    /// Takes the address space of a chunk back.
    ///
    /// # Safety
    ///
    /// - It came from [`Spans::take`], [`discard`] was told, and nobody uses it any more.
    pub(super) unsafe fn put(&mut self, chunk: NonNull<u8>) {
        let index_in = |span: &Span| {
            let offset = chunk.addr().get().checked_sub(span.start.addr().get())?;
            u32::try_from(offset / CHUNK_BYTES).ok().filter(|&index| index < CHUNKS)
        };
        let mut places = self.0.iter().enumerate();
        let found = places.find_map(|(at, span)| Some((at, index_in(span)?)));
        let (at, index) = found.expect("a chunk lies in a span");
        let span = &mut self.0[at];
        debug_assert_eq!(span.free & 1 << index, 0, "a chunk that is free already");
        span.free |= 1 << index;
        if span.free == ALL_FREE {
            let start = self.0.swap_remove(at).start;
            // SAFETY: the invariant of `start`; all of its chunks are free.
            unsafe { system::unmap(start) };
        }
    }
}

/// Tells whether a chunk shall be one huge page, before it is touched. That the system has none is
/// no error.
pub(super) fn advise(chunk: NonNull<u8>, huge: bool) {
    system::advise(chunk, huge);
}

/// Lets the system have the pages of a chunk back, whose bytes are 0 when they are touched again.
///
/// # Safety
///
/// - Nobody uses the chunk any more.
pub(super) unsafe fn discard(chunk: NonNull<u8>) {
    // SAFETY: guaranteed by caller.
    unsafe { system::discard(chunk) }
}

/// Mappings of our own: the allocator of the program neither pads them so as to align them, nor
/// learns from their size.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod system {
    use std::ptr;
    use std::ptr::NonNull;

    use crate::slab::chunk::CHUNK_BYTES;

    pub(super) const SPAN_CHUNKS: u32 = 32;

    const SPAN_BYTES: usize = SPAN_CHUNKS as usize * CHUNK_BYTES;

    pub(super) fn map() -> Option<NonNull<u8>> {
        let bytes = SPAN_BYTES + CHUNK_BYTES;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at no address that anybody has.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let before = mapped.cast::<u8>().align_offset(CHUNK_BYTES);
        let start = mapped.cast::<u8>().wrapping_add(before);
        let after = CHUNK_BYTES - before;
        if before != 0 {
            // SAFETY: the part of our mapping before its first whole chunk, which nobody uses.
            unsafe { libc::munmap(mapped, before) };
        }
        if after != 0 {
            let end = start.wrapping_add(SPAN_BYTES);
            // SAFETY: the part of our mapping behind the span, which nobody uses.
            unsafe { libc::munmap(end.cast(), after) };
        }
        NonNull::new(start)
    }

    /// # Safety
    ///
    /// - `start` came from [`map`], and nobody uses the span any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>) {
        // SAFETY: guaranteed by caller: this is the whole mapping.
        unsafe { libc::munmap(start.as_ptr().cast(), SPAN_BYTES) };
    }

    pub(super) fn advise(chunk: NonNull<u8>, huge: bool) {
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: a chunk of a mapping of ours, and the advice changes nothing that is in it.
        unsafe { libc::madvise(chunk.as_ptr().cast(), CHUNK_BYTES, advice) };
    }

    /// # Safety
    ///
    /// - Nobody uses the chunk any more.
    pub(super) unsafe fn discard(chunk: NonNull<u8>) {
        // SAFETY: a chunk of a mapping of ours, and guaranteed by caller: nothing in it is needed.
        unsafe { libc::madvise(chunk.as_ptr().cast(), CHUNK_BYTES, libc::MADV_DONTNEED) };
    }
}

/// Elsewhere a chunk is a piece of the global allocator's.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
mod system {
    use std::alloc;
    use std::alloc::Layout;
    use std::ptr::NonNull;

    use crate::slab::chunk::CHUNK_BYTES;

    pub(super) const SPAN_CHUNKS: u32 = 1;

    const LAYOUT: Layout = match Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two"),
    };

    pub(super) fn map() -> Option<NonNull<u8>> {
        // SAFETY: the layout has a size.
        NonNull::new(unsafe { alloc::alloc_zeroed(LAYOUT) })
    }

    /// # Safety
    ///
    /// - `start` came from [`map`], and nobody uses the chunk any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>) {
        // SAFETY: guaranteed by caller: it was allocated with this layout.
        unsafe { alloc::dealloc(start.as_ptr(), LAYOUT) }
    }

    pub(super) fn advise(_: NonNull<u8>, _: bool) {}

    /// # Safety
    ///
    /// - Nobody uses the chunk any more.
    pub(super) unsafe fn discard(_: NonNull<u8>) {}
}
