//! Lists whose links lie in what is listed.
#![expect(unsafe_code, reason = "what is listed is reached through pointers")]

use std::cell::Cell;
use std::ptr::NonNull;

/// The neighbours of what is in a list. Touched by whoever holds the lock of that list.
pub(super) struct Links<T> {
    next: Cell<Option<NonNull<T>>>,
    previous: Cell<Option<NonNull<T>>>,
}

impl<T> Links<T> {
    pub(super) const fn new() -> Self {
        Self { next: Cell::new(None), previous: Cell::new(None) }
    }
}

/// What can be in a list, in one at a time.
pub(super) trait Linked: Sized {
    fn links(&self) -> &Links<Self>;
}

/// A list; what came last is first.
pub(super) struct List<T> {
    // Invariant: what is listed is alive, and its links belong to this list.
    first: Option<NonNull<T>>,
}

// SAFETY: a list owns the links of what is listed, and they are reached through it alone; runs and
// chunks may be reached from any thread.
unsafe impl<T: Linked> Send for List<T> {}

impl<T: Linked> List<T> {
    pub(super) const fn new() -> Self {
        Self { first: None }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<NonNull<T>> {
        self.first
    }

    /// What came before the last.
    pub(super) fn second(&self) -> Option<NonNull<T>> {
        // SAFETY: the invariant of `first`.
        unsafe { self.first?.as_ref() }.links().next.get()
    }

    /// Puts something in.
    ///
    /// # Safety
    ///
    /// - `item` is in no list.
    /// - It lives until it has been removed.
    #[inline]
    pub(super) unsafe fn push(&mut self, item: NonNull<T>) {
        // SAFETY: guaranteed by caller: it is alive.
        let links = unsafe { item.as_ref() }.links();
        links.previous.set(None);
        links.next.set(self.first);
        if let Some(first) = self.first {
            // SAFETY: the invariant of `first`.
            unsafe { first.as_ref() }.links().previous.set(Some(item));
        }
        self.first = Some(item);
    }

    /// Takes something out.
    ///
    /// # Safety
    ///
    /// - `item` is in this list.
    #[inline]
    pub(super) unsafe fn remove(&mut self, item: NonNull<T>) {
        // SAFETY: guaranteed by caller: it is in this list, hence alive.
        let links = unsafe { item.as_ref() }.links();
        let (next, previous) = (links.next.get(), links.previous.get());
        match previous {
            // SAFETY: neighbours are in this list, hence alive.
            Some(previous) => unsafe { previous.as_ref() }.links().next.set(next),
            None => self.first = next,
        }
        if let Some(next) = next {
            // SAFETY: as above.
            unsafe { next.as_ref() }.links().previous.set(previous);
        }
    }
}
