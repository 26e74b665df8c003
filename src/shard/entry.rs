//! Entry: key, value and deadline in one counted allocation; the table's reference to it.
#![expect(unsafe_code, reason = "an entry is one hand-laid allocation behind a thin pointer")]

use std::alloc::{self, Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::process;
use std::ptr::{self, NonNull};
use std::slice;

use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::shard::handle::Handle;
use crate::shard::prefetch_read;
use crate::shard::value::Value;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Above this many references the process ends, as it does for `Arc`: the other half of the range
/// is room for the threads that are past the check at the same time.
const REFERENCES_MAX: u32 = u32::MAX / 2;

/// An overwrite in place may leave room unused: any amount up to this capacity, half above it.
const SLACK_FREE_BYTES: usize = 64;

/// How much of an entry is asked for ahead: a head, a value of about 100 bytes and its key.
const PREFETCHED_LINES: usize = 3;

/// A cache line.
const LINE_BYTES: usize = 64;

/// Marks saturate here: more would only make a once popular entry harder to evict.
const MARK_MAX: u16 = 3;

/// What lies at the start of the allocation; the value follows at its alignment, then the key.
#[repr(C)]
struct Head {
    // Invariant: the number of `Counted` that point here. 0 only while the last one frees it.
    references: AtomicU32,
    // Invariant: the bytes of the value, at most `value_capacity`. Written only by a holder of
    // `&mut Counted` that is unique, so that nobody reads meanwhile.
    value_len: u32,
    // Invariant: room for the value; fixed, because it tells where the key lies.
    value_capacity: u32,
    // Invariant: the bytes of the key; fixed.
    key_len: u16,
    // The low two bits are the mark, the others are eviction's. Relaxed throughout: a guess for
    // eviction that orders nothing.
    access: AtomicU16,
    hash: u64,
    // Relaxed throughout: only the holder of the shard's token reads or writes it, and the token
    // orders its holders.
    deadline: AtomicU64,
}

const _: () = assert!(size_of::<Head>() == 32 && align_of::<Head>() == 8);
const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(size_of::<Option<Entry<[u8]>>>() == size_of::<usize>());

/// One counted reference to the allocation of an entry; the common core of [`Entry`] and
/// [`Handle`].
///
/// As an `Arc` without weak references: a clone comes only from another reference, and whoever
/// drops the last one drops the value and frees the memory.
pub(super) struct Counted<V: Value + ?Sized> {
    // Invariant: points to a live allocation of `Self::layout`, with provenance over all of it,
    // whose head, value and key are initialised.
    head: NonNull<Head>,
    // Owns a `V` as a box does: same drop check, same auto traits except for the two below.
    owns: PhantomData<Box<V>>,
}

// SAFETY: whoever has a reference can share the value and can be the one that drops it, and
// `Value` demands `Send + Sync`; the head is changed by atomics or by a unique owner.
unsafe impl<V: Value + ?Sized> Send for Counted<V> {}

// SAFETY: as above; `&Counted` gives `&V` and, by cloning, another `Counted`.
unsafe impl<V: Value + ?Sized> Sync for Counted<V> {}

impl<V: Value + ?Sized> Counted<V> {
    const VALUE_OFFSET: usize = size_of::<Head>().next_multiple_of(V::ALIGNMENT);
    const ALIGNMENT: usize =
        if V::ALIGNMENT < align_of::<Head>() { align_of::<Head>() } else { V::ALIGNMENT };

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        let head = self.head();
        let address = Self::key_address(self.head, head.value_capacity as usize);
        // SAFETY: `allocate` wrote `key_len` bytes there, which never change, and the allocation
        // lives as long as `self`.
        unsafe { slice::from_raw_parts(address, usize::from(head.key_len)) }
    }

    #[inline]
    pub(super) fn value(&self) -> &V {
        let value = V::fat(Self::value_address(self.head), self.head().value_len as usize);
        // SAFETY: the invariant of `head` says that a value of `value_len` bytes lies there; it
        // changes only through `&mut self` of a unique reference, and then nobody has `&self`.
        unsafe { &*value }
    }

    /// Whether both refer to the same allocation.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        self.head == other.head
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the invariant of `head` says that it points to an initialised head; the plain
        // fields change only through `&mut self` of a unique reference.
        unsafe { self.head.as_ref() }
    }

    // Invariant: with `&mut self`, true means that this is the only reference and stays so.
    // References come from references: from `self`, which is borrowed, or from another one, which
    // the count would show. See `Entry` for what that means for a shard.
    #[inline]
    fn is_unique(&self) -> bool {
        // Acquire: pairs with the Release decrement in `drop`, so that all reads through a
        // dropped handle happened before whatever the caller writes now.
        self.head().references.load(Ordering::Acquire) == 1
    }

    fn layout(value_capacity: usize, key_len: usize) -> Layout {
        let bytes = Self::VALUE_OFFSET + value_capacity + key_len;
        Layout::from_size_align(bytes, Self::ALIGNMENT)
            .expect("key and value are within their limits")
    }

    // Both addresses lie inside the allocation, so wrapping arithmetic loses no provenance.
    #[inline]
    fn value_address(head: NonNull<Head>) -> *mut u8 {
        head.as_ptr().cast::<u8>().wrapping_add(Self::VALUE_OFFSET)
    }

    #[inline]
    fn key_address(head: NonNull<Head>, value_capacity: usize) -> *mut u8 {
        Self::value_address(head).wrapping_add(value_capacity)
    }

    /// Memory with head and key written, and room for a value of `value_bytes` that is yet to be
    /// written.
    fn allocate(key: &[u8], hash: u64, value_bytes: usize, deadline: u64) -> NonNull<Head> {
        assert!(key.len() <= KEY_BYTES_MAX, "a key of {} bytes", key.len());
        assert!(value_bytes <= VALUE_BYTES_MAX, "a value of {value_bytes} bytes");
        let key_len = u16::try_from(key.len()).expect("checked against KEY_BYTES_MAX");
        let value_len = u32::try_from(value_bytes).expect("checked against VALUE_BYTES_MAX");

        let layout = Self::layout(value_bytes, key.len());
        // SAFETY: the layout holds at least a head, so its size is not zero.
        let memory = unsafe { alloc::alloc(layout) };
        let Some(head) = NonNull::new(memory).map(NonNull::cast::<Head>) else {
            handle_alloc_error(layout)
        };
        let content = Head {
            references: AtomicU32::new(1),
            value_len,
            value_capacity: value_len,
            key_len,
            access: AtomicU16::new(0),
            hash,
            deadline: AtomicU64::new(deadline),
        };
        // SAFETY: `layout` puts a head first and is aligned for it.
        unsafe { head.write(content) };
        let target = Self::key_address(head, value_bytes);
        // SAFETY: `layout` has room for the key behind the value, and nobody else knows of it.
        unsafe { target.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
        head
    }

    /// Drops the value and frees the memory, the latter also if the value's drop unwinds.
    ///
    /// # Safety
    ///
    /// - The count has gone from 1 to 0 by the caller's hand.
    /// - The caller has synchronised with all earlier decrements.
    /// - Nobody uses `self` afterwards.
    #[inline(never)]
    unsafe fn free(&mut self) {
        let head = self.head();
        let layout = Self::layout(head.value_capacity as usize, usize::from(head.key_len));
        let value = V::fat(Self::value_address(self.head), head.value_len as usize);
        let _memory = Memory { address: self.head.cast(), layout };
        // SAFETY: the invariant of `head` says that a value lies there; the caller guarantees
        // that nobody else can reach it and that it is dropped once.
        unsafe { ptr::drop_in_place(value) };
    }
}

impl<V: Value + ?Sized> Clone for Counted<V> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the new reference comes from one that is alive, so nothing can be freed
        // meanwhile, and what it may read was already visible to its maker.
        let before = self.head().references.fetch_add(1, Ordering::Relaxed);
        if REFERENCES_MAX < before {
            process::abort();
        }
        Self { head: self.head, owns: PhantomData }
    }
}

impl<V: Value + ?Sized> Drop for Counted<V> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire fence below in whoever drops the last reference, and
        // with the Acquire load in `is_unique`.
        if self.head().references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Acquire: pairs with the Release decrements of all other references, whose uses of the
        // value thus happened before it is dropped.
        fence(Ordering::Acquire);
        // SAFETY: the decrement above was the last one, the fence has synchronised with the
        // others, and `self` is being dropped.
        unsafe { self.free() }
    }
}

/// Frees memory at the end of its scope, unwinding included.
struct Memory {
    address: NonNull<u8>,
    layout: Layout,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `Counted::free` makes one for each allocation, with the layout that `allocate`
        // used, since neither the value's capacity nor the key's length ever changes.
        unsafe { alloc::dealloc(self.address.as_ptr(), self.layout) }
    }
}

/// The table's reference to one allocation with head, value and key.
///
/// Layout: 32 bytes of head, the value at its alignment, the key right behind it.
// Invariant: why a unique entry may be changed in place. An `Entry` lies in a shard's table, and
// `&mut Entry` is to be had only under the shard's token. `handle` copies the table's reference and
// needs `&Entry`, so only the holder of the token calls it; `Handle::clone` needs a handle, and
// while there is one the count is at least 2. So when the holder of the token sees 1, no handle
// exists, and none can appear before it makes one itself.
pub(crate) struct Entry<V: Value + ?Sized> {
    counted: Counted<V>,
}

impl<V: Value + ?Sized> Entry<V> {
    /// An entry whose value is made of `source`; one allocation.
    ///
    /// # Panics
    ///
    /// If key or value exceed their limits, which the caller has checked.
    pub(crate) fn new(key: &[u8], hash: u64, source: V::Source<'_>, deadline: u64) -> Self {
        let head = Counted::<V>::allocate(key, hash, V::source_bytes(&source), deadline);
        // SAFETY: `allocate` made room for `source_bytes` bytes, aligned, that nobody knows of.
        unsafe { V::write_source(source, Counted::<V>::value_address(head)) };
        Self { counted: Counted { head, owns: PhantomData } }
    }

    /// As [`Entry::new`], of a value that stands alone; the buffer of bytes or text is freed here.
    pub(crate) fn from_owned(key: &[u8], hash: u64, owned: V::Owned, deadline: u64) -> Self {
        let head = Counted::<V>::allocate(key, hash, V::owned_bytes(&owned), deadline);
        // SAFETY: `allocate` made room for `owned_bytes` bytes, aligned, that nobody knows of.
        unsafe { V::write_owned(owned, Counted::<V>::value_address(head)) };
        Self { counted: Counted { head, owns: PhantomData } }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.counted.key()
    }

    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.counted.head().hash
    }

    #[inline]
    pub(crate) fn value(&self) -> &V {
        self.counted.value()
    }

    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.counted.head().deadline.load(Ordering::Relaxed)
    }

    /// Asks for the first lines of the allocation, in which a small value and its key lie.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let start = self.counted.head.as_ptr().cast::<u8>();
        for line in 0..PREFETCHED_LINES {
            prefetch_read(start.wrapping_add(line * LINE_BYTES));
        }
    }

    /// Sets the deadline; only the holder of the shard's token calls this.
    #[inline]
    pub(crate) fn set_deadline(&self, deadline: u64) {
        self.counted.head().deadline.store(deadline, Ordering::Relaxed);
    }

    /// The access word: the mark in the low two bits, the rest as [`Entry::set_access`] left it.
    #[inline]
    pub(crate) fn access(&self) -> u16 {
        self.counted.head().access.load(Ordering::Relaxed)
    }

    /// Replaces the whole access word.
    #[inline]
    pub(crate) fn set_access(&self, access: u16) {
        self.counted.head().access.store(access, Ordering::Relaxed);
    }

    /// Notes a hit: the mark goes up by one, at most to 3.
    #[inline]
    pub(crate) fn touch(&self) {
        let access = self.access();
        if access & MARK_MAX < MARK_MAX {
            self.set_access(access + 1);
        }
    }

    /// A handle for a caller; adds one to the count. The process ends at 2^31 handles.
    #[inline]
    pub(crate) fn handle(&self) -> Handle<V> {
        Handle::new(self.counted.clone())
    }

    /// A second table's reference to the same entry, for a fault that a test plants.
    #[cfg(feature = "testing")]
    pub(crate) fn share(&self) -> Self {
        Self { counted: self.counted.clone() }
    }

    /// Whether no handle is out. Only the holder of the shard's token can rely on a `true`.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.counted.is_unique()
    }

    /// Whether `handle` is to this very entry.
    #[inline]
    pub(crate) fn is(&self, handle: &Handle<V>) -> bool {
        self.counted.is(Handle::counted(handle))
    }

    /// The value, to be changed in place, if no handle is out.
    #[inline]
    pub(crate) fn value_mut(&mut self) -> Option<&mut V> {
        if !self.is_unique() {
            return None;
        }
        let bytes = self.counted.head().value_len as usize;
        let value = V::fat(Counted::<V>::value_address(self.counted.head), bytes);
        // SAFETY: a valid value lies there, and `is_unique` under `&mut self` says that nobody
        // else can reach it while the borrow lasts.
        Some(unsafe { &mut *value })
    }

    /// Overwrites the value in place, if no handle is out and the new value fits.
    ///
    /// It fits if it is a sized value, or if its bytes have room and do not waste more than half
    /// of it (of at most 64 bytes, all). Key, hash, deadline and access word stay.
    ///
    /// # Errors
    ///
    /// Gives `source` back if nothing was changed: the caller makes a new entry instead.
    #[inline]
    pub(crate) fn try_overwrite<'a>(
        &mut self,
        source: V::Source<'a>,
    ) -> Result<V::Returned, V::Source<'a>> {
        let Some(bytes) = self.room_for(V::source_bytes(&source)) else { return Err(source) };
        // SAFETY: `room_for` checked that there is room and that nobody else refers to the value;
        // `source` cannot borrow from it, since such a borrow would hold `self` or a handle.
        let old = unsafe { V::overwrite_source(source, self.value_address()) };
        self.set_value_len(bytes);
        Ok(old)
    }

    /// As [`Entry::try_overwrite`], of a value that stands alone.
    ///
    /// # Errors
    ///
    /// Gives `owned` back if nothing was changed.
    #[inline]
    pub(crate) fn try_overwrite_owned(&mut self, owned: V::Owned) -> Result<V::Returned, V::Owned> {
        let Some(bytes) = self.room_for(V::owned_bytes(&owned)) else { return Err(owned) };
        // SAFETY: `room_for` checked that there is room and that nobody else refers to the value.
        let old = unsafe { V::overwrite_owned(owned, self.value_address()) };
        self.set_value_len(bytes);
        Ok(old)
    }

    /// The bytes that were asked of the allocator for this entry.
    pub(crate) fn allocation_bytes(&self) -> usize {
        let head = self.counted.head();
        Counted::<V>::layout(head.value_capacity as usize, usize::from(head.key_len)).size()
    }

    /// `bytes` as a new length of the value, if no handle is out and an overwrite may take place.
    #[inline]
    fn room_for(&mut self, bytes: usize) -> Option<u32> {
        let capacity = self.counted.head().value_capacity as usize;
        let fits = V::IS_SIZED
            || (bytes <= capacity && (capacity <= SLACK_FREE_BYTES || capacity <= bytes * 2));
        if fits && self.is_unique() { u32::try_from(bytes).ok() } else { None }
    }

    #[inline]
    fn value_address(&mut self) -> *mut u8 {
        Counted::<V>::value_address(self.counted.head)
    }

    /// Notes the length of the value after an overwrite, for which `room_for` allowed it.
    #[inline]
    fn set_value_len(&mut self, bytes: u32) {
        if !V::IS_SIZED {
            // SAFETY: `room_for` checked that no handle is out, and `&mut self` keeps it so: this
            // is the only reference to the head.
            let head = unsafe { self.counted.head.as_mut() };
            head.value_len = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const HASH: u64 = 0x0123_4567_89ab_cdef;
    const DEADLINE: u64 = 77;

    #[track_caller]
    fn check_head<V: Value + ?Sized>(entry: &Entry<V>, key: &[u8]) {
        assert_eq!(entry.key(), key);
        assert_eq!(entry.hash(), HASH);
        assert_eq!(entry.deadline(), DEADLINE);
        assert_eq!(entry.access(), 0);
        assert!(entry.is_unique());
        assert_eq!((&raw const *entry.value()).cast::<u8>().addr() % V::ALIGNMENT, 0);
    }

    fn bytes(value: &[u8]) -> Entry<[u8]> {
        Entry::new(b"key", HASH, value, DEADLINE)
    }

    #[test]
    fn sized_values_come_back() {
        let number = Entry::<u64>::new(b"key", HASH, 42, DEADLINE);
        check_head(&number, b"key");
        assert_eq!(*number.value(), 42);
        assert_eq!(number.allocation_bytes(), 32 + 8 + 3);

        let text = Entry::<String>::from_owned(b"key", HASH, "text".repeat(20), DEADLINE);
        check_head(&text, b"key");
        assert_eq!(*text.value(), "text".repeat(20));

        let nothing = Entry::<()>::new(b"key", HASH, (), DEADLINE);
        check_head(&nothing, b"key");
        assert_eq!(nothing.allocation_bytes(), 32 + 3);

        let odd = Entry::<[u8; 3]>::new(b"key", HASH, [1, 2, 3], DEADLINE);
        check_head(&odd, b"key");
        assert_eq!(*odd.value(), [1, 2, 3]);

        let boxed: Box<dyn Fn(u32) -> u32 + Send + Sync> = Box::new(move |x| x + 1);
        let call = Entry::<Box<dyn Fn(u32) -> u32 + Send + Sync>>::new(b"k", HASH, boxed, DEADLINE);
        check_head(&call, b"k");
        assert_eq!((call.value())(41), 42);
    }

    #[test]
    fn bytes_and_text_come_back() {
        let long = vec![7_u8; 100_000];
        for value in [b"".as_slice(), b"v", b"value", &long] {
            for entry in [bytes(value), Entry::from_owned(b"key", HASH, value.to_vec(), DEADLINE)] {
                check_head(&entry, b"key");
                assert_eq!(entry.value(), value);
                assert_eq!(*entry.handle(), *value);
                assert_eq!(entry.allocation_bytes(), 32 + value.len() + 3);
            }
        }
        for value in ["", "text", "\u{e4}\u{20ac}\u{1f600}"] {
            let entry = Entry::<str>::new(b"key", HASH, value, DEADLINE);
            check_head(&entry, b"key");
            assert_eq!(entry.value(), value);
            let entry = Entry::<str>::from_owned(b"key", HASH, value.to_owned(), DEADLINE);
            check_head(&entry, b"key");
            assert_eq!(entry.value(), value);
        }
    }

    #[test]
    fn keys_of_any_legal_length_come_back() {
        for len in [0, 1, 7, 8, 9, KEY_BYTES_MAX] {
            let key: Vec<u8> = (0..len).map(|index| u8::try_from(index % 251).unwrap()).collect();
            check_head(&Entry::<u64>::new(&key, HASH, 1, DEADLINE), &key);
            check_head(&Entry::<()>::new(&key, HASH, (), DEADLINE), &key);
            let entry = Entry::<[u8]>::new(&key, HASH, b"value", DEADLINE);
            check_head(&entry, &key);
            assert_eq!(Handle::key(&entry.handle()), key);
        }
    }

    #[test]
    fn a_key_above_the_limit_panics() {
        let key = vec![0; KEY_BYTES_MAX + 1];
        let made = catch_unwind(|| Entry::<String>::new(&key, HASH, "x".repeat(99), DEADLINE));
        assert!(made.is_err());
    }

    #[test]
    fn bytes_that_fit_are_overwritten_in_place() {
        // Capacity, new length, whether it fits: half of the room above 64 bytes, any below.
        let cases = [
            (0, 0, true),
            (0, 1, false),
            (10, 10, true),
            (10, 11, false),
            (64, 0, true),
            (65, 32, false),
            (65, 33, true),
            (1_000, 499, false),
            (1_000, 500, true),
            (1_000, 1_000, true),
            (1_000, 1_001, false),
        ];
        for (capacity, len, fits) in cases {
            let mut entry = bytes(&vec![1; capacity]);
            let allocation_bytes = entry.allocation_bytes();
            let new = vec![2; len];
            assert_eq!(entry.try_overwrite(&new).is_ok(), fits, "{len} over {capacity}");
            let expected = if fits { new.clone() } else { vec![1; capacity] };
            assert_eq!(*entry.value(), expected);
            check_head(&entry, b"key");

            // The room stays, so that the value can grow again.
            let back = vec![3; capacity];
            assert_eq!(entry.try_overwrite_owned(back.clone()), Ok(()));
            assert_eq!(*entry.value(), back);
            assert_eq!(entry.try_overwrite_owned(new.clone()).is_ok(), fits);
            assert_eq!(entry.allocation_bytes(), allocation_bytes);
            check_head(&entry, b"key");
        }
    }

    #[test]
    fn a_refused_source_comes_back_whole() {
        let mut entry = Entry::<str>::new(b"key", HASH, "old", DEADLINE);
        assert_eq!(entry.try_overwrite("a longer text"), Err("a longer text"));
        let owned = String::from("a longer text");
        assert_eq!(entry.try_overwrite_owned(owned), Err(String::from("a longer text")));
        assert_eq!(entry.try_overwrite("new"), Ok(()));
        assert_eq!(entry.try_overwrite_owned(String::from("\u{e4}")), Ok(()));
        assert_eq!(entry.value(), "\u{e4}");
    }

    #[test]
    fn identity_is_that_of_the_allocation() {
        let (left, right) = (bytes(b"value"), bytes(b"value"));
        assert!(left.is(&left.handle()) && !left.is(&right.handle()));
    }

    #[test]
    fn deadline_and_mark_are_kept_apart() {
        let mut entry = bytes(b"value");
        entry.set_deadline(u64::MAX);
        entry.set_access(0x8000);
        for mark in [1, 2, 3, 3] {
            entry.touch();
            assert_eq!(entry.access(), 0x8000 | mark);
        }
        assert_eq!(entry.try_overwrite(b"other"), Ok(()));
        assert_eq!((entry.deadline(), entry.access()), (u64::MAX, 0x8003));
    }
}
