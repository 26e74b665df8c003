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

use crate::shard::Budget;
use crate::shard::Room;
use crate::shard::Shard;
use crate::shard::Stats;
use crate::shard::Value;
use crate::shard::hint::Hints;
use crate::shard::prefetch_read;
use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::AtomicU16;
use crate::sync::AtomicU32;
use crate::sync::AtomicUsize;
use crate::sync::Ordering;
use crate::sync::Token;

const SLOTS: usize = SLOT_COUNT as usize;

/// One slot in one node. All zero bytes are a valid header: not owned, not open, empty.
#[repr(C, align(64))]
struct Header<V: Value + ?Sized> {
    token: Token,
    /// How many units ran here: the low bits, and what they carried over. Written by the holder of
    /// `token` only.
    units_carried: AtomicU16,
    units: AtomicU32,
    /// Touched only by the thread that holds `token`.
    shard: UnsafeCell<Shard<V>>,
}

// SAFETY: the shard is reached only by the holder of the token, one thread at a time, and what it
// holds may be sent (`V: Send + Sync`).
unsafe impl<V: Value + ?Sized> Sync for Header<V> {}

impl<V: Value + ?Sized> Header<V> {
    /// How many units ran here.
    fn unit_count(&self) -> u64 {
        let carried = self.units_carried.load(Ordering::Relaxed);
        u64::from(carried) << 32 | u64::from(self.units.load(Ordering::Relaxed))
    }
}

/// One slot in one node, for who wants its token.
pub(crate) struct Place<'a, V: Value + ?Sized> {
    header: &'a Header<V>,
    budget: Option<&'a Budget>,
}

impl<'a, V: Value + ?Sized> Place<'a, V> {
    /// Waits for the token.
    #[inline]
    pub(crate) fn lock(&self) -> Hold<'a, V> {
        self.held(self.lock_bare())
    }

    /// [`lock`](Self::lock) where nothing is bounded.
    #[inline]
    pub(crate) fn lock_bare(&self) -> Bare<'a, V> {
        self.header.token.lock();
        Bare { header: self.header, not_send: PhantomData }
    }

    /// [`try_lock`](Self::try_lock) where nothing is bounded.
    #[inline]
    pub(crate) fn try_lock_bare(&self) -> Option<Bare<'a, V>> {
        // What is made gives the token back when it is dropped, so that none may be made when the
        // token was not taken.
        let bare = || Bare { header: self.header, not_send: PhantomData };
        self.header.token.try_lock().then(bare)
    }

    /// Takes the token if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Hold<'a, V>> {
        self.try_lock_bare().map(|bare| self.held(bare))
    }

    /// The token, which this thread has just taken.
    #[inline]
    fn held(&self, bare: Bare<'a, V>) -> Hold<'a, V> {
        let spent = self.budget.map_or(0, |budget| budget.cost_of(&bare));
        Hold { bare, budget: self.budget, spent }
    }

    /// How many units ran here: operations, of which one in the window of a batch counts for each
    /// of its keys.
    pub(crate) fn unit_count(&self) -> u64 {
        self.header.unit_count()
    }
}

/// The token of one header, held by this thread until it is dropped.
pub(crate) struct Bare<'a, V: Value + ?Sized> {
    header: &'a Header<V>,
    /// A token is given back by the thread that took it.
    not_send: PhantomData<*const ()>,
}

impl<'a, V: Value + ?Sized> Bare<'a, V> {
    /// Counts units that run here.
    #[inline]
    pub(crate) fn count_units(&mut self, count: u32) {
        // Only the holder of the token writes, so that no count is lost between load and store.
        let (units, carries) = self.header.units.load(Ordering::Relaxed).overflowing_add(count);
        self.header.units.store(units, Ordering::Relaxed);
        if carries {
            let carried = self.header.units_carried.load(Ordering::Relaxed);
            self.header.units_carried.store(carried.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// The same where nothing is bounded.
    pub(crate) fn unbounded(self) -> Hold<'a, V> {
        Hold { bare: self, budget: None, spent: 0 }
    }
}

impl<V: Value + ?Sized> Deref for Bare<'_, V> {
    type Target = Shard<V>;

    #[inline]
    fn deref(&self) -> &Shard<V> {
        // SAFETY: this `Bare` is the only one of its header, so nobody writes meanwhile.
        unsafe { &*self.header.shard.get() }
    }
}

impl<V: Value + ?Sized> DerefMut for Bare<'_, V> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard<V> {
        // SAFETY: this `Bare` is the only one of its header and is borrowed mutably.
        unsafe { &mut *self.header.shard.get() }
    }
}

impl<V: Value + ?Sized> Drop for Bare<'_, V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a `Bare` exists only while its thread holds the token, and it is not `Send`.
        unsafe { self.header.token.unlock() }
    }
}

/// The token of one header, and the node's budget, if it has one: what the holder adds to the
/// shard, or takes from it, is settled with it before the token is back.
pub(crate) struct Hold<'a, V: Value + ?Sized> {
    bare: Bare<'a, V>,
    budget: Option<&'a Budget>,
    /// What the shard took of the budget when the token was taken.
    spent: u64,
}

impl<'a, V: Value + ?Sized> Hold<'a, V> {
    /// What the shard may take, for who writes in this hold; nothing where there is no bound.
    pub(crate) fn room(&self) -> Option<Room<'a>> {
        self.budget.map(|budget| Room::new(budget, self.spent))
    }

    /// Takes over what was reserved in this hold.
    pub(crate) fn settle_with(&mut self, room: &Room<'_>) {
        self.spent = room.hand_over();
    }
}

impl<V: Value + ?Sized> Hold<'_, V> {
    /// Counts units that run here.
    #[inline]
    pub(crate) fn count_units(&mut self, count: u32) {
        self.bare.count_units(count);
    }

    /// What was counted here, as of now.
    pub(crate) fn stats(&self) -> Stats {
        Shard::stats(self, self.bare.header.unit_count())
    }

    /// [`Shard::check_counts`] with the units of this header.
    ///
    /// # Panics
    /// When something does not hold.
    #[cfg(feature = "testing")]
    pub(crate) fn check_counts(&self) {
        Shard::check_counts(self, self.bare.header.unit_count());
    }

    /// A number that differs from operation to operation, until it has gone round.
    pub(crate) fn unit_serial(&self) -> u16 {
        let low = self.bare.header.units.load(Ordering::Relaxed) & u32::from(u16::MAX);
        u16::try_from(low).expect("masked")
    }

    /// Settles what was added and taken so far, as if the token had been given back in between.
    pub(crate) fn settle_now(&mut self) {
        if let Some(budget) = self.budget {
            let cost = budget.cost_of(&self.bare);
            budget.settle(self.spent, cost);
            self.spent = cost;
        }
    }

    /// What the shard takes more of the budget than when the token was taken.
    pub(crate) fn cost_added(&self) -> u64 {
        self.budget.map_or(0, |budget| budget.cost_of(self).saturating_sub(self.spent))
    }
}

impl<V: Value + ?Sized> Deref for Hold<'_, V> {
    type Target = Shard<V>;

    #[inline]
    fn deref(&self) -> &Shard<V> {
        &self.bare
    }
}

impl<V: Value + ?Sized> DerefMut for Hold<'_, V> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard<V> {
        &mut self.bare
    }
}

impl<V: Value + ?Sized> Drop for Hold<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(budget) = self.budget {
            budget.settle(self.spent, budget.cost_of(&self.bare));
        }
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
    /// What the shards may take together, if that is bounded.
    budget: Option<Box<Budget>>,
    values: PhantomData<Header<V>>,
}

// SAFETY: the bytes are reached only as headers, which are `Sync`.
unsafe impl<V: Value + ?Sized> Sync for Headers<V> {}
// SAFETY: headers hold nothing that is bound to a thread.
unsafe impl<V: Value + ?Sized> Send for Headers<V> {}

impl<V: Value + ?Sized> Headers<V> {
    /// Headers of empty shards, which together may take so much.
    pub(crate) fn new(budget: Option<Budget>) -> Self {
        const { assert!(zeroes_are_vacant::<V>(), "an untouched header is empty") };
        let bytes = ZeroedBytes::new(SLOTS * size_of::<Header<V>>() + align_of::<Header<V>>());
        let first = bytes.aligned_for(SLOTS).expect("there is room to align a header");
        let (hints, budget) = (Hints::default(), budget.map(Box::new));
        Self { first, bytes, hints, budget, values: PhantomData }
    }

    /// The header of a slot.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Place<'_, V> {
        let header = self.first.as_ptr().wrapping_add(slot.index());
        // SAFETY: `slot.index()` is below `SLOTS`, `bytes` has room for `SLOTS` aligned headers,
        // all zero bytes are a valid header, and a header is only ever reached by reference.
        let header = unsafe { &*header };
        Place { header, budget: self.budget.as_deref() }
    }

    /// What the shards may take together, if that is bounded.
    #[inline]
    pub(crate) fn budget(&self) -> Option<&Budget> {
        self.budget.as_deref()
    }
}

impl<V: Value + ?Sized> Headers<V> {
    /// Asks for what a look-up of this hash will read first, before the token is taken.
    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot, hash: u64) {
        prefetch_read(self.first.as_ptr().wrapping_add(slot.index()));
        self.hints.prefetch(slot, hash);
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
        let headers = Headers::<[u8]>::new(None);
        for slot in Slot::all() {
            let header = headers.get(slot);
            assert_eq!(std::ptr::from_ref(header.header).addr() % 64, 0);
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
        let headers = Arc::new(Headers::<u64>::new(None));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let headers = Arc::clone(&headers);
                crate::sync::spawn(format!("adder {number}"), move || {
                    for _ in 0..10_000 {
                        headers.get(Slot::MIN).lock().count_units(1);
                    }
                })
                .unwrap()
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(headers.get(Slot::MIN).unit_count(), 40_000);
    }
}
