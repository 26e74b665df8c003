//! Entry: key, value and deadline in one counted allocation; the table's reference to it.
#![expect(unsafe_code, reason = "a value is changed in place while nobody else can reach it")]

use crate::shard::counted::Counted;
use crate::shard::handle::Handle;
use crate::shard::prefetch_read;
use crate::shard::value::Value;
use crate::sync::Ordering;

/// An overwrite in place may leave room unused: any amount up to this capacity, half above it.
const SLACK_FREE_BYTES: usize = 64;

/// How much of an entry is asked for ahead: a head, a key and a value of about 100 bytes.
const PREFETCHED_LINES: usize = 3;

/// A cache line.
const LINE_BYTES: usize = 64;

/// Marks saturate here: more would only make a once popular entry harder to evict.
const MARK_MAX: u16 = 3;

const _: () = assert!(size_of::<Option<Entry<[u8]>>>() == size_of::<usize>());

/// The table's reference to one allocation with head, key and value.
///
/// Layout: 24 bytes of head, the key right behind it, the value at its alignment. So a look-up
/// compares keys at an address that depends on nothing in the head, mostly in the head's line.
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
    pub(crate) fn new(key: &[u8], source: V::Source<'_>, deadline: u64) -> Self {
        Self { counted: Counted::of_source(key, source, deadline) }
    }

    /// As [`Entry::new`], of a value that stands alone; the buffer of bytes or text is freed here.
    pub(crate) fn from_owned(key: &[u8], owned: V::Owned, deadline: u64) -> Self {
        Self { counted: Counted::of_owned(key, owned, deadline) }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.counted.key()
    }

    #[inline]
    pub(crate) fn value(&self) -> &V {
        self.counted.value()
    }

    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.counted.head().deadline.load(Ordering::Relaxed)
    }

    /// Asks for the first lines of the allocation, in which the key and a small value lie.
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
        // SAFETY: a valid value lies there, and `is_unique` under `&mut self` says that nobody
        // else can reach it while the borrow lasts.
        Some(unsafe { &mut *self.counted.value_pointer() })
    }

    /// Overwrites the value in place, if no handle is out and the new value fits.
    ///
    /// It fits if it is a sized value, or if its bytes have room and do not waste more than half
    /// of it (of at most 64 bytes, all). Key, deadline and access word stay.
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
        let old = unsafe { V::overwrite_source(source, self.counted.value_pointer().cast()) };
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
        let old = unsafe { V::overwrite_owned(owned, self.counted.value_pointer().cast()) };
        self.set_value_len(bytes);
        Ok(old)
    }

    /// The bytes that were asked of the allocator for this entry.
    pub(crate) fn allocation_bytes(&self) -> usize {
        self.counted.own_layout().size()
    }

    /// `bytes` as a new length of the value, if no handle is out and an overwrite may take place.
    #[inline]
    fn room_for(&mut self, bytes: usize) -> Option<u32> {
        let capacity = self.counted.head().value_capacity as usize;
        let fits = V::IS_SIZED
            || (bytes <= capacity && (capacity <= SLACK_FREE_BYTES || capacity <= bytes * 2));
        if fits && self.is_unique() { u32::try_from(bytes).ok() } else { None }
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
    use crate::limits::KEY_BYTES_MAX;

    const DEADLINE: u64 = 77;

    #[track_caller]
    fn check_head<V: Value + ?Sized>(entry: &Entry<V>, key: &[u8]) {
        assert_eq!(entry.key(), key);
        assert_eq!(entry.deadline(), DEADLINE);
        assert_eq!(entry.access(), 0);
        assert!(entry.is_unique());
        assert_eq!((&raw const *entry.value()).cast::<u8>().addr() % V::ALIGNMENT, 0);
    }

    fn bytes(value: &[u8]) -> Entry<[u8]> {
        Entry::new(b"key", value, DEADLINE)
    }

    #[test]
    fn sized_values_come_back() {
        let number = Entry::<u64>::new(b"key", 42, DEADLINE);
        check_head(&number, b"key");
        assert_eq!(*number.value(), 42);
        assert_eq!(number.allocation_bytes(), 24 + 3 + 5 + 8);

        let text = Entry::<String>::from_owned(b"key", "text".repeat(20), DEADLINE);
        check_head(&text, b"key");
        assert_eq!(*text.value(), "text".repeat(20));

        let nothing = Entry::<()>::new(b"key", (), DEADLINE);
        check_head(&nothing, b"key");
        assert_eq!(nothing.allocation_bytes(), 24 + 3);

        let odd = Entry::<[u8; 3]>::new(b"key", [1, 2, 3], DEADLINE);
        check_head(&odd, b"key");
        assert_eq!(*odd.value(), [1, 2, 3]);

        let boxed: Box<dyn Fn(u32) -> u32 + Send + Sync> = Box::new(move |x| x + 1);
        let call = Entry::<Box<dyn Fn(u32) -> u32 + Send + Sync>>::new(b"k", boxed, DEADLINE);
        check_head(&call, b"k");
        assert_eq!((call.value())(41), 42);
    }

    #[test]
    fn bytes_and_text_come_back() {
        let long = vec![7_u8; 100_000];
        for value in [b"".as_slice(), b"v", b"value", &long] {
            for entry in [bytes(value), Entry::from_owned(b"key", value.to_vec(), DEADLINE)] {
                check_head(&entry, b"key");
                assert_eq!(entry.value(), value);
                assert_eq!(*entry.handle(), *value);
                assert_eq!(entry.allocation_bytes(), 24 + 3 + value.len());
            }
        }
        for value in ["", "text", "\u{e4}\u{20ac}\u{1f600}"] {
            let entry = Entry::<str>::new(b"key", value, DEADLINE);
            check_head(&entry, b"key");
            assert_eq!(entry.value(), value);
            let entry = Entry::<str>::from_owned(b"key", value.to_owned(), DEADLINE);
            check_head(&entry, b"key");
            assert_eq!(entry.value(), value);
        }
    }

    #[test]
    fn keys_of_any_legal_length_come_back() {
        for len in [0, 1, 7, 8, 9, KEY_BYTES_MAX] {
            let key: Vec<u8> = (0..len).map(|index| u8::try_from(index % 251).unwrap()).collect();
            check_head(&Entry::<u64>::new(&key, 1, DEADLINE), &key);
            check_head(&Entry::<()>::new(&key, (), DEADLINE), &key);
            let entry = Entry::<[u8]>::new(&key, b"value", DEADLINE);
            check_head(&entry, &key);
            assert_eq!(Handle::key(&entry.handle()), key);
        }
    }

    /// Key and value of an entry stay apart: neither an overwrite nor a change in place of one
    /// touches the other, and nothing is wasted but padding.
    #[track_caller]
    fn check_layout<V>(key: &[u8], [first, second, third]: [V; 3])
    where
        V: PartialEq + Copy + std::fmt::Debug + Send + Sync + 'static,
    {
        let mut entry = Entry::<V>::new(key, first, DEADLINE);
        check_head(&entry, key);
        let start = (24 + key.len()).next_multiple_of(align_of::<V>());
        assert_eq!(entry.allocation_bytes(), start + size_of::<V>());
        assert_eq!(entry.try_overwrite(second), Ok(first));
        assert_eq!(entry.try_overwrite_owned(first), Ok(second));
        *entry.value_mut().expect("no handle is out") = third;
        check_head(&entry, key);
        assert_eq!((*entry.handle(), Handle::key(&entry.handle())), (third, key));
    }

    #[test]
    fn key_and_value_keep_apart_at_every_alignment() {
        #[repr(align(128))]
        #[derive(Clone, Copy, PartialEq, Debug)]
        struct Lines([u8; 128]);

        let name: Vec<u8> = (1..=20).collect();
        for key in (0..=name.len()).map(|len| &name[..len]) {
            check_layout(key, [0xff_u8, 0, 0x55]);
            check_layout(key, [[0xff_u8; 3], [0; 3], [0x55; 3]]);
            check_layout(key, [u64::MAX, 0, 0x55]);
            check_layout(key, [u128::MAX, 0, 0x55]);
            check_layout(key, [Lines([0xff; 128]), Lines([0; 128]), Lines([0x55; 128])]);
        }
    }

    #[test]
    fn a_key_above_the_limit_panics() {
        let key = vec![0; KEY_BYTES_MAX + 1];
        let made = catch_unwind(|| Entry::<String>::new(&key, "x".repeat(99), DEADLINE));
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
        let mut entry = Entry::<str>::new(b"key", "old", DEADLINE);
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
