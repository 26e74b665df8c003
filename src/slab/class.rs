//! Size classes: which block serves a layout, or that none does.

use std::alloc::Layout;

use crate::limits::SLAB_BYTES_MAX;

/// Up to this size, classes are a word apart.
const FINE_BYTES_MAX: usize = 256;

/// Blocks are made of whole words, so that a free one has room for a pointer.
const WORD_BYTES: usize = 8;

const FINE_CLASSES: usize = FINE_BYTES_MAX / WORD_BYTES;

/// Above, so many classes to a doubling: a block is at most a sixteenth larger than asked.
const CLASSES_A_DOUBLING: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 4;

/// How many classes there are.
pub(super) const CLASSES: usize =
    FINE_CLASSES + CLASSES_A_DOUBLING * (SLAB_BYTES_MAX / FINE_BYTES_MAX).ilog2() as usize;

/// The greatest alignment that blocks have when their size has it. Steps between classes are powers
/// of two, so that what is rounded up to its alignment is rounded to a class that keeps it.
const ALIGNMENT_MAX: usize = 64;

const _: () = assert!(SLAB_BYTES_MAX.is_power_of_two() && FINE_BYTES_MAX <= SLAB_BYTES_MAX);

/// The blocks of one size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Class {
    pub(super) index: usize,
    /// The size of a block, in bytes: a multiple of the alignment of every layout that it serves.
    pub(super) bytes: usize,
}

impl Class {
    /// The class that serves this layout; none if it goes to the global allocator. It depends on
    /// nothing but the layout, so that a block is given back to where it came from.
    #[inline]
    pub(super) const fn of(layout: Layout) -> Option<Self> {
        let size = layout.size().next_multiple_of(layout.align());
        let is_served = size != 0 && size <= SLAB_BYTES_MAX && layout.align() <= ALIGNMENT_MAX;
        if cfg!(slotkeep_plain_alloc) || !is_served {
            return None;
        }
        if size <= FINE_BYTES_MAX {
            let words = size.div_ceil(WORD_BYTES);
            return Some(Self { index: words - 1, bytes: words * WORD_BYTES });
        }
        let last = size - 1;
        let step_bits = last.ilog2() - STEP_BITS;
        // How many steps fit below: from one doubling to the next always as many.
        let steps = last >> step_bits;
        let doublings = (last.ilog2() - FINE_BYTES_MAX.ilog2()) as usize;
        let index = FINE_CLASSES + doublings * CLASSES_A_DOUBLING + (steps - CLASSES_A_DOUBLING);
        Some(Self { index, bytes: (steps + 1) << step_bits })
    }
}

#[cfg(all(test, not(slotkeep_plain_alloc)))]
mod tests {
    use super::*;

    fn class(size: usize, align: usize) -> Option<Class> {
        Class::of(Layout::from_size_align(size, align).expect("a small layout"))
    }

    #[test]
    fn a_block_is_no_smaller_than_asked_and_wastes_little() {
        let mut before = Class { index: 0, bytes: 8 };
        for size in 1..=SLAB_BYTES_MAX {
            let class = class(size, 1).expect("it is served");
            let waste = class.bytes.checked_sub(size).expect("it fits");
            assert!(waste < 8 || waste * 16 <= size, "{size} in {}", class.bytes);
            let next = class.index == before.index + 1 && before.bytes < class.bytes;
            assert!(class == before || next && before.bytes == size - 1, "{size}: {class:?}");
            before = class;
        }
        assert_eq!(before, Class { index: CLASSES - 1, bytes: SLAB_BYTES_MAX });
    }

    #[test]
    fn a_block_keeps_the_alignment() {
        for align in [1, 2, 4, 8, 16, 32, 64] {
            for size in 1..=SLAB_BYTES_MAX {
                let class = class(size, align).expect("it is served");
                assert!(size <= class.bytes, "{size}, {align}");
                assert!(class.bytes.is_multiple_of(align), "{size}, {align}");
                let rounded = size.next_multiple_of(align);
                assert_eq!(Some(class), self::class(rounded, 1), "{size}, {align}");
            }
        }
    }

    #[test]
    fn what_is_empty_large_or_widely_aligned_is_served_elsewhere() {
        let cases = [(0, 1), (0, 64), (SLAB_BYTES_MAX + 1, 1), (8, 128), (128, 128), (4_033, 128)];
        for (size, align) in cases {
            assert_eq!(class(size, align), None, "{size}, {align}");
        }
        assert_eq!(class(isize::MAX.unsigned_abs(), 1), None, "the longest");
    }
}
