//! Entry: key, value and deadline in one counted allocation; the table's reference to it.
#![expect(unsafe_code, reason = "a value is changed in place while nobody else can reach it")]

use std::mem::ManuallyDrop;

use crate::evict::Hit;
use crate::evict::Standing;
use crate::shard::counted::Counted;
use crate::shard::handle::Handle;
use crate::shard::kept::Kept;
use crate::shard::prefetch_read;
use crate::shard::value::Value;
use crate::sync::Ordering;
use crate::time::NEVER;
use crate::time::Now;

/// An overwrite in place may leave room unused: any amount up to this capacity, half above it.
const SLACK_FREE_BYTES: usize = 64;

/// How much of an entry is asked for ahead: a head, a key and a value of about 100 bytes.
const PREFETCHED_LINES: usize = 3;

/// A cache line.
const LINE_BYTES: usize = 64;

/// What an entry takes of a table, about: a pointer and a control byte at the usual load of tables
/// that double.
const TABLE_SHARE_BYTES: u64 = 16;

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
    counted: ManuallyDrop<Counted<V>>,
}

impl<V: Value + ?Sized> Entry<V> {
    /// An entry whose value is made of `source`; one allocation.
    ///
    /// # Panics
    ///
    /// If key or value exceed their limits, which the caller has checked.
    pub(crate) fn new(key: &[u8], source: V::Source<'_>, kept: Kept) -> Self {
        Self { counted: ManuallyDrop::new(Counted::of_source(key, source, kept)) }
    }

    /// As [`Entry::new`], of a value that stands alone; the buffer of bytes or text is freed here.
    pub(crate) fn from_owned(key: &[u8], owned: V::Owned, kept: Kept) -> Self {
        Self { counted: ManuallyDrop::new(Counted::of_owned(key, owned, kept)) }
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

    /// Asks for the line in which the head lies.
    #[inline]
    pub(crate) fn prefetch_head(&self) {
        prefetch_read(self.counted.head.as_ptr().cast::<u8>());
    }

    /// How long the entry is kept, and what somebody says that it weighs.
    pub(crate) fn kept(&self, now: &Now<'_>) -> Kept {
        match self.counted.extra() {
            None => Kept::until(self.deadline()),
            Some(extra) => Kept::until(extra.expires.load(Ordering::Relaxed))
                .unless_idle(extra.idle.load(Ordering::Relaxed), now)
                .weighing(extra.weight.load(Ordering::Relaxed)),
        }
    }

    /// Whether the entry has room for what there is to say of it.
    #[inline]
    pub(crate) fn can_keep(&self, kept: Kept) -> bool {
        kept.is_plain() || self.counted.extra().is_some()
    }

    /// Keeps the entry for another time and at another weight, for which it has room; only the
    /// holder of the shard's token calls this.
    #[inline]
    pub(crate) fn keep(&self, kept: Kept) {
        debug_assert!(self.can_keep(kept), "an entry has no room for its terms");
        if let Some(extra) = self.counted.extra() {
            extra.weight.store(kept.weight, Ordering::Relaxed);
            extra.idle.store(kept.idle, Ordering::Relaxed);
            extra.expires.store(kept.expires, Ordering::Relaxed);
        }
        self.counted.head().deadline.store(kept.deadline(), Ordering::Relaxed);
    }

    /// What eviction knows of the entry, by whatever policy.
    #[inline]
    pub(crate) fn trace(&self) -> u16 {
        self.counted.head().standing.load(Ordering::Relaxed)
    }

    /// Notes what eviction knows of the entry; only the holder of the shard's token calls this.
    #[inline]
    pub(crate) fn set_trace(&self, bits: u16) {
        self.counted.head().standing.store(bits, Ordering::Relaxed);
    }

    /// What the adaptive policy knows of the entry.
    #[inline]
    pub(crate) fn standing(&self) -> Standing {
        Standing::from_bits(self.trace())
    }

    /// Notes what the adaptive policy knows of the entry.
    #[inline]
    pub(crate) fn set_standing(&self, standing: Standing) {
        self.set_trace(standing.bits());
    }

    /// Notes a hit, from which the time without one counts anew.
    #[inline]
    pub(crate) fn touch(&self, hit: Hit, now: &Now<'_>) {
        if let Some(bits) = hit.on(self.trace()) {
            self.set_trace(bits);
        }
        if self.deadline() != NEVER {
            self.put_off(now);
        }
    }

    /// The entry expires later, if it is one that does so when nobody reads it.
    #[inline(never)]
    fn put_off(&self, now: &Now<'_>) {
        let Some(extra) = self.counted.extra() else { return };
        let idle = extra.idle.load(Ordering::Relaxed);
        if idle != NEVER {
            let expires = extra.expires.load(Ordering::Relaxed);
            let deadline = expires.min(now.nanos().saturating_add(idle));
            self.counted.head().deadline.store(deadline, Ordering::Relaxed);
        }
    }

    /// A handle for a caller; adds one to the count. The process ends at 2^31 handles.
    #[inline]
    pub(crate) fn handle(&self) -> Handle<V> {
        Handle::new(Counted::clone(&self.counted))
    }

    /// A second table's reference to the same entry, for a fault that a test plants. Bytes that the
    /// first of the two pins stay pinned.
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
    /// of it (of at most 64 bytes, all). Key, deadline and standing stay.
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

    /// What the entry weighs: what somebody says, or the bytes of its allocation and of its share
    /// of a table. What a value keeps elsewhere is not known here.
    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        let said = self.counted.extra().map_or(0, |extra| extra.weight.load(Ordering::Relaxed));
        if said != 0 { said } else { self.allocation_bytes() as u64 + TABLE_SHARE_BYTES }
    }

    /// What an entry weighs that is made for such a key, and for a value of so many bytes that is
    /// kept in this way.
    pub(crate) fn weight_of(key: &[u8], value_bytes: usize, kept: Kept) -> u64 {
        match kept.weight {
            0 => Counted::<V>::bytes_for(key, value_bytes, kept) as u64 + TABLE_SHARE_BYTES,
            said => said,
        }
    }

    /// `bytes` as a new length of the value, if no handle is out and an overwrite may take place.
    #[inline]
    fn room_for(&mut self, bytes: usize) -> Option<u32> {
        let capacity = self.counted.value_capacity();
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

impl<V: Value + ?Sized> Drop for Entry<V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nobody uses it after this drop, which happens once.
        let counted = unsafe { ManuallyDrop::take(&mut self.counted) };
        counted.let_go();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::evict::Entrance;
    use crate::limits::KEY_BYTES_MAX;
    use crate::time::Still;

    const DEADLINE: u64 = 77;

    /// A clock that stands at 7.
    #[track_caller]
    fn check_head<V: Value + ?Sized>(entry: &Entry<V>, key: &[u8]) {
        assert_eq!(entry.key(), key);
        assert_eq!(entry.deadline(), DEADLINE);
        assert_eq!(entry.standing(), Standing::default());
        assert!(entry.is_unique());
        assert_eq!((&raw const *entry.value()).cast::<u8>().addr() % V::ALIGNMENT, 0);
    }

    fn bytes(value: &[u8]) -> Entry<[u8]> {
        Entry::new(b"key", value, Kept::until(DEADLINE))
    }

    #[test]
    fn sized_values_come_back() {
        let number = Entry::<u64>::new(b"key", 42, Kept::until(DEADLINE));
        check_head(&number, b"key");
        assert_eq!(*number.value(), 42);
        assert_eq!(number.allocation_bytes(), 24 + 3 + 5 + 8);

        let text = Entry::<String>::from_owned(b"key", "text".repeat(20), Kept::until(DEADLINE));
        check_head(&text, b"key");
        assert_eq!(*text.value(), "text".repeat(20));

        let nothing = Entry::<()>::new(b"key", (), Kept::until(DEADLINE));
        check_head(&nothing, b"key");
        assert_eq!(nothing.allocation_bytes(), 24 + 3);

        let odd = Entry::<[u8; 3]>::new(b"key", [1, 2, 3], Kept::until(DEADLINE));
        check_head(&odd, b"key");
        assert_eq!(*odd.value(), [1, 2, 3]);

        let boxed: Box<dyn Fn(u32) -> u32 + Send + Sync> = Box::new(move |x| x + 1);
        let call =
            Entry::<Box<dyn Fn(u32) -> u32 + Send + Sync>>::new(b"k", boxed, Kept::until(DEADLINE));
        check_head(&call, b"k");
        assert_eq!((call.value())(41), 42);
    }

    #[test]
    fn bytes_and_text_come_back() {
        let long = vec![7_u8; 100_000];
        for value in [b"".as_slice(), b"v", b"value", &long] {
            for entry in
                [bytes(value), Entry::from_owned(b"key", value.to_vec(), Kept::until(DEADLINE))]
            {
                check_head(&entry, b"key");
                assert_eq!(entry.value(), value);
                assert_eq!(*entry.handle(), *value);
                assert_eq!(entry.allocation_bytes(), 24 + 3 + value.len());
            }
        }
        for value in ["", "text", "\u{e4}\u{20ac}\u{1f600}"] {
            let entry = Entry::<str>::new(b"key", value, Kept::until(DEADLINE));
            check_head(&entry, b"key");
            assert_eq!(entry.value(), value);
            let entry = Entry::<str>::from_owned(b"key", value.to_owned(), Kept::until(DEADLINE));
            check_head(&entry, b"key");
            assert_eq!(entry.value(), value);
        }
    }

    #[test]
    fn keys_of_any_legal_length_come_back() {
        for len in [0, 1, 7, 8, 9, KEY_BYTES_MAX] {
            let key: Vec<u8> = (0..len).map(|index| u8::try_from(index % 251).unwrap()).collect();
            check_head(&Entry::<u64>::new(&key, 1, Kept::until(DEADLINE)), &key);
            check_head(&Entry::<()>::new(&key, (), Kept::until(DEADLINE)), &key);
            let entry = Entry::<[u8]>::new(&key, b"value", Kept::until(DEADLINE));
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
        let mut entry = Entry::<V>::new(key, first, Kept::until(DEADLINE));
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
        let made =
            catch_unwind(|| Entry::<String>::new(&key, "x".repeat(99), Kept::until(DEADLINE)));
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
        let mut entry = Entry::<str>::new(b"key", "old", Kept::until(DEADLINE));
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
    fn deadline_and_standing_are_kept_apart() {
        let now = Now::new(&Still(7));
        let mut entry = bytes(b"value");
        entry.keep(Kept::until(u64::MAX));
        let standing = Standing::entered(Entrance::Window { serial: 0x7ff });
        entry.set_standing(standing);
        for marks in [1, 2, 2] {
            entry.touch(Hit::Mark, &now);
            let standing = entry.standing();
            assert!(standing.awaits(0x7ff) && standing.is_fresh());
            assert_eq!(standing.marks(), marks);
        }
        let touched = entry.standing();
        assert_eq!(entry.try_overwrite(b"other"), Ok(()));
        assert_eq!((entry.deadline(), entry.standing()), (u64::MAX, touched));
    }

    #[test]
    fn what_few_entries_have_lies_behind_any_value_and_is_kept_apart() {
        let now = Now::new(&Still(7));
        let kept = Kept::until(90).unless_idle(10, &now).weighing(5);
        for len in 0..40 {
            let value = vec![0xff; len];
            for key in (0..=20).map(|len| &b"a key of twenty bytes"[..len]) {
                let mut entry = Entry::<[u8]>::new(key, &value, kept);
                assert_eq!((entry.key(), entry.value()), (key, &*value));
                assert_eq!((entry.deadline(), entry.weight()), (17, 5));
                assert_eq!(entry.try_overwrite(&value), Ok(()));
                assert_eq!(entry.kept(&now), kept);
                entry.keep(Kept::until(90));
                assert_eq!((entry.key(), entry.value()), (key, &*value));
                assert_eq!(entry.kept(&now), Kept::until(90));
                assert_eq!(entry.weight(), entry.allocation_bytes() as u64 + TABLE_SHARE_BYTES);
            }
        }
        assert!(!bytes(b"value").can_keep(kept));
    }

    #[test]
    fn a_hit_puts_off_the_end_of_what_expires_unread_and_of_nothing_else() {
        let now = Now::new(&Still(7));
        for (expires, idle, before, after) in
            [(90, 10, 9, 17), (12, 10, 9, 12), (90, NEVER, 90, 90), (NEVER, u64::MAX - 1, 9, NEVER)]
        {
            let kept = Kept::until(expires).unless_idle(idle, &now).weighing(1);
            let entry = Entry::<[u8]>::new(b"key", b"value", kept);
            entry.counted.head().deadline.store(before, Ordering::Relaxed);
            entry.touch(Hit::Mark, &now);
            assert_eq!(entry.deadline(), after, "{expires} {idle}");
        }
    }
}
