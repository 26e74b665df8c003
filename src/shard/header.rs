//! `Header`: the cache line of one slot in one node, with its token, mark and table.
#![expect(unsafe_code, reason = "what the token guards is reached through an UnsafeCell")]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::mem::align_of;
use std::mem::size_of;
use std::ops::Deref;
use std::ops::DerefMut;
use std::ptr::NonNull;

use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::shard::hint::Hints;
use crate::shard::prefetch_read;
use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::AtomicU64;
use crate::sync::AtomicUsize;
use crate::sync::Ordering;
use crate::sync::Token;

const SLOTS: usize = SLOT_COUNT as usize;

/// One slot in one node. All zero bytes are a valid header: not owned, not open, empty.
#[repr(C, align(64))]
pub(crate) struct Header<V: Value + ?Sized> {
    token: Token,
    /// How many operations ran here on a lent token. Written by the holder of `token` only.
    lent: AtomicU64,
    /// Touched only by the thread that holds `token`.
    shard: UnsafeCell<Shard<V>>,
}

// SAFETY: the shard is reached only by the holder of the token, one thread at a time, and what it
// holds may be sent (`V: Send + Sync`).
unsafe impl<V: Value + ?Sized> Sync for Header<V> {}

impl<V: Value + ?Sized> Header<V> {
    /// Waits for the token.
    #[inline]
    pub(crate) fn lock(&self) -> Hold<'_, V> {
        self.token.lock();
        Hold { header: self, not_send: PhantomData }
    }

    /// How many operations ran here on a lent token.
    pub(crate) fn lent_count(&self) -> u64 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Takes the token if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Hold<'_, V>> {
        // A `Hold` that is made gives the token back when it is dropped, so that none may be made
        // when the token was not taken.
        self.token.try_lock().then(|| Hold { header: self, not_send: PhantomData })
    }
}

/// The token of one header, held by this thread until it is dropped.
pub(crate) struct Hold<'a, V: Value + ?Sized> {
    header: &'a Header<V>,
    /// A token is given back by the thread that took it.
    not_send: PhantomData<*const ()>,
}

impl<V: Value + ?Sized> Hold<'_, V> {
    /// Counts an operation that ran here on a lent token.
    #[inline]
    pub(crate) fn count_lent(&mut self) {
        // Only the holder of the token writes, so that no count is lost between load and store.
        let lent = self.header.lent.load(Ordering::Relaxed);
        self.header.lent.store(lent + 1, Ordering::Relaxed);
    }
}

impl<V: Value + ?Sized> Deref for Hold<'_, V> {
    type Target = Shard<V>;

    #[inline]
    fn deref(&self) -> &Shard<V> {
        // SAFETY: this `Hold` is the only one of its header, so nobody writes meanwhile.
        unsafe { &*self.header.shard.get() }
    }
}

impl<V: Value + ?Sized> DerefMut for Hold<'_, V> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard<V> {
        // SAFETY: this `Hold` is the only one of its header and is borrowed mutably.
        unsafe { &mut *self.header.shard.get() }
    }
}

impl<V: Value + ?Sized> Drop for Hold<'_, V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a `Hold` exists only while its thread holds the token, and it is not `Send`.
        unsafe { self.header.token.unlock() }
    }
}

/// Whether the compiler lays shards out such that zero bytes are the default one. It does not
/// compile where they are none at all.
const fn zeroes_are_vacant<V: Value + ?Sized>() -> bool {
    let zeroes = MaybeUninit::<Shard<V>>::zeroed();
    // SAFETY: called in a constant only, where the compiler refuses bytes that are no shard.
    unsafe { zeroes.assume_init_ref() }.is_vacant()
}

/// Words that are 0, in pages that become resident when they are touched.
pub(super) fn zeroed_words(count: usize) -> Box<[AtomicUsize]> {
    const { assert!(align_of::<AtomicUsize>() == align_of::<usize>()) };
    let words = Box::into_raw(vec![0_usize; count].into_boxed_slice());
    // SAFETY: the box was just taken apart, and an `AtomicUsize` is laid out as the `usize` that it
    // replaces: size and validity by its documentation, alignment by the check above.
    unsafe { Box::from_raw(words as *mut [AtomicUsize]) }
}

/// Bytes that are 0, in pages that become resident when they are touched. `vec![0; n]` is the one
/// form that leaves them untouched; an over-aligned allocation would be cleared by hand.
// Invariant: the raw form of a box that nobody else frees. Raw, because a box that moves claims its
// bytes for itself, against who points into them.
struct ZeroedBytes(NonNull<[u8]>);

impl ZeroedBytes {
    fn new(count: usize) -> Self {
        let bytes = Box::into_raw(vec![0_u8; count].into_boxed_slice());
        Self(NonNull::new(bytes).expect("a box is somewhere"))
    }

    /// The first of `count` aligned `T`, if there is room for all of them.
    fn aligned_for<T>(&self, count: usize) -> Option<NonNull<T>> {
        let start = self.0.cast::<u8>();
        let padding = start.align_offset(align_of::<T>());
        let inside = NonNull::new(start.as_ptr().wrapping_add(padding))?;
        let room = self.0.len().checked_sub(padding)?;
        (count * size_of::<T>() <= room).then(|| inside.cast())
    }
}

impl Drop for ZeroedBytes {
    fn drop(&mut self) {
        // SAFETY: the invariant says that this came out of a box and is freed once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The headers of one node: 1 MiB of zeroed pages that become resident when they are touched.
pub(crate) struct Headers<V: Value + ?Sized> {
    // Invariant: the first of `SLOTS` aligned headers in `bytes`.
    first: NonNull<Header<V>>,
    /// Room for the headers, and to align the first one. Freed after them.
    #[expect(dead_code, reason = "it owns what `first` points into")]
    bytes: ZeroedBytes,
    /// For who has not got the token yet. Apart from the headers, so that all of them stay in a
    /// near cache, and the header is asked for together with the table.
    hints: Hints,
    values: PhantomData<Header<V>>,
}

// SAFETY: the bytes are reached only as headers, which are `Sync`.
unsafe impl<V: Value + ?Sized> Sync for Headers<V> {}
// SAFETY: headers hold nothing that is bound to a thread.
unsafe impl<V: Value + ?Sized> Send for Headers<V> {}

impl<V: Value + ?Sized> Headers<V> {
    pub(crate) fn new() -> Self {
        const { assert!(zeroes_are_vacant::<V>(), "an untouched header is empty") };
        let bytes = ZeroedBytes::new(SLOTS * size_of::<Header<V>>() + align_of::<Header<V>>());
        let first = bytes.aligned_for(SLOTS).expect("there is room to align a header");
        Self { first, bytes, hints: Hints::default(), values: PhantomData }
    }

    /// The header of a slot.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Header<V> {
        let header = self.first.as_ptr().wrapping_add(slot.index());
        // SAFETY: `slot.index()` is below `SLOTS`, `bytes` has room for `SLOTS` aligned headers,
        // all zero bytes are a valid header, and a header is only ever reached by reference.
        unsafe { &*header }
    }
}

impl<V: Value + ?Sized> Headers<V> {
    /// Asks for what an operation on this key will read first, before the token is taken.
    #[inline]
    pub(crate) fn prefetch(&self, key: &Key<'_>) {
        prefetch_read(self.first.as_ptr().wrapping_add(key.slot.index()));
        self.hints.prefetch(key);
    }

    /// Notes where the table of a slot lies by now, for who prefetches.
    pub(crate) fn renew_hint(&self, slot: Slot, hold: &Hold<'_, V>) {
        self.hints.learn(slot, hold.table_ref());
    }
}

impl<V: Value + ?Sized> Drop for Headers<V> {
    fn drop(&mut self) {
        for slot in Slot::all() {
            let header = self.first.as_ptr().wrapping_add(slot.index());
            // SAFETY: as in `get`; `&mut self` proves that no other reference exists.
            let header = unsafe { &mut *header };
            // Taking the table out leaves the all zero shard, which owns nothing.
            drop(std::mem::take(header.shard.get_mut()));
        }
    }
}

impl<V: Value + ?Sized> fmt::Debug for Headers<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers").finish_non_exhaustive()
    }
}

const _: () = assert!(size_of::<Header<[u8]>>() == 64, "a header is one cache line");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;

    #[test]
    fn a_free_token_is_a_zero_byte() {
        let token = Token::new();
        // SAFETY: a token is one byte, `repr(transparent)` over a raw mutex of one atomic byte.
        let byte = unsafe { std::mem::transmute::<Token, u8>(token) };
        assert_eq!(byte, 0);
    }

    #[test]
    fn headers_start_empty_and_aligned() {
        let headers = Headers::<[u8]>::new();
        for slot in Slot::all() {
            let header = headers.get(slot);
            assert_eq!(std::ptr::from_ref(header).addr() % 64, 0);
            let hold = header.lock();
            assert!(!hold.owned && hold.mark == 0 && hold.len() == 0);
            assert!(header.try_lock().is_none());
            assert!(header.try_lock().is_none(), "a token that was not got is not given back");
            drop(hold);
            assert!(header.try_lock().is_some());
        }
    }

    #[test]
    fn one_thread_at_a_time_holds_a_token() {
        let headers = Arc::new(Headers::<u64>::new());
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let headers = Arc::clone(&headers);
                crate::sync::spawn(format!("adder {number}"), move || {
                    for _ in 0..10_000 {
                        headers.get(Slot::MIN).lock().count_lent();
                    }
                })
                .unwrap()
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(headers.get(Slot::MIN).lent_count(), 40_000);
    }
}
