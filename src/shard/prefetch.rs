//! Prefetch: ask for a cache line before it is needed.
#![cfg_attr(
    all(target_arch = "x86_64", target_feature = "sse", not(miri)),
    expect(unsafe_code, reason = "the prefetch instruction is an intrinsic")
)]

/// Asks for the cache line of `pointer`, to be read soon.
///
/// Any address will do, null, dangling or stale alike: a prefetch never faults and changes nothing
/// that a program can see.
/// Off x86-64 this does nothing, because stable Rust has no intrinsic there.
#[inline]
pub(crate) fn prefetch_read<T>(pointer: *const T) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        // SAFETY: the cfg above checks for SSE, and the instruction never dereferences: it does
        // not fault on any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(pointer.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse", not(miri))))]
    let _ = pointer;
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn any_address_is_fine() {
        let local = 7_u64;
        prefetch_read(&raw const local);
        prefetch_read(ptr::null::<u64>());
        prefetch_read(ptr::without_provenance::<u64>(usize::MAX));
        prefetch_read(ptr::without_provenance::<u64>(0xdead_beef_0000));
        assert_eq!(local, 7);
    }
}
