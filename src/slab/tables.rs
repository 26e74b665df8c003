//! The slab as an allocator of hash tables.
#![expect(unsafe_code, reason = "the trait of allocators is an unsafe one")]

use std::alloc::Layout;
use std::num::NonZero;
use std::ptr::NonNull;

use allocator_api2::alloc::AllocError;
use allocator_api2::alloc::Allocator;

use crate::slab;

/// The slab, for tables; small ones lie in blocks as entries do.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SlabAllocator;

// SAFETY: memory of the slab is valid until it is freed, wherever the allocator and its copies,
// which are nothing, have gone; what is empty is at no memory.
unsafe impl Allocator for SlabAllocator {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let memory = match layout.size() {
            0 => NonZero::new(layout.align()).map(NonNull::without_provenance),
            _ => slab::allocate(layout),
        };
        let memory = memory.ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(memory, layout.size()))
    }

    #[inline]
    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: guaranteed by caller: it came from `allocate`, which had it from the slab.
            unsafe { slab::free(memory, layout) }
        }
    }
}
