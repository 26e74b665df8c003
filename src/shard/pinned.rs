//! How much memory only handles keep.

use crate::sync::AtomicUsize;
use crate::sync::CachePadded;
use crate::sync::Ordering;

/// Relaxed: the sum orders nothing. What is taken off was added before by whoever let go of the
/// entry, so that it never goes below 0.
static PINNED: CachePadded<AtomicUsize> = CachePadded::new(AtomicUsize::new(0));

/// The bytes of entries that were removed, replaced, evicted or expired, or whose cluster is gone,
/// and that a [`Handle`](crate::Handle) still keeps; those of all clusters and caches in this
/// process.
///
/// They count in no [bound](crate::Builder::bound) and no statistics: a cache that is full of small
/// entries takes as much more memory as its readers hold back. What a sized value keeps on the heap
/// by itself does not count. An entry that is still there counts with its cluster, however many
/// handles to it there are.
///
/// One load. Exact when nobody writes and drops handles meanwhile.
///
/// # Examples
/// ```
/// let cache = slotkeep::Cache::<str>::new(100);
/// cache.insert("page:1", "a text")?;
/// let handle = cache.get("page:1")?.expect("it was inserted");
/// assert_eq!(slotkeep::pinned_bytes(), 0);
/// cache.remove("page:1")?;
/// assert!(slotkeep::pinned_bytes() > 0);
/// drop(handle);
/// assert_eq!(slotkeep::pinned_bytes(), 0);
/// # Ok::<(), slotkeep::Error>(())
/// ```
#[must_use]
pub fn pinned_bytes() -> usize {
    PINNED.load(Ordering::Relaxed)
}

/// Notes that a table let go of an entry to which handles are out.
pub(super) fn pin(bytes: usize) {
    PINNED.fetch_add(bytes, Ordering::Relaxed);
}

/// Notes that the last of them is dropped.
pub(super) fn unpin(bytes: usize) {
    PINNED.fetch_sub(bytes, Ordering::Relaxed);
}
