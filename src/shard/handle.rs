//! Handle: a counted reference that a caller keeps, to the value of one entry as it was read.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use crate::shard::counted::Counted;
use crate::shard::value::Value;

const _: () = assert!(size_of::<Handle<[u8]>>() == size_of::<usize>());
const _: () = assert!(size_of::<Option<Handle<str>>>() == size_of::<usize>());

/// A value that was read, shared with the engine and without a copy.
///
/// A handle derefs to the value and keeps it as it was at the time of the read: a later write puts
/// a new value beside it and never touches this one.
/// It holds no lock, may be sent, kept and dropped anywhere, and may outlive the node and the
/// cluster, so nothing that is done with a handle can block the engine.
///
/// It is one pointer wide. A clone adds one to a count in the entry; the memory of key and value
/// is free when the engine has let go of the entry and the last handle is dropped, by whoever
/// drops it.
/// While a handle is out the entry cannot be overwritten in place: a write allocates instead.
///
/// Comparison, order and hash are those of the value.
pub struct Handle<V: Value + ?Sized> {
    // Invariant: this reference is counted, so nobody overwrites the value while it lives.
    counted: Counted<V>,
}

impl<V: Value + ?Sized> Handle<V> {
    /// The key under which the value was read.
    ///
    /// An associated function, so that it hides no method of the value: `Handle::key(&handle)`.
    pub fn key(this: &Self) -> &[u8] {
        this.counted.key()
    }

    /// Whether both handles are to the very same entry, not only to equal values.
    ///
    /// An overwrite in place happens only between handles, so two reads with no handle kept in
    /// between can be the same entry with different values.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.counted.is(&other.counted)
    }

    pub(super) fn new(counted: Counted<V>) -> Self {
        Self { counted }
    }

    pub(super) fn counted(this: &Self) -> &Counted<V> {
        &this.counted
    }
}

impl<V: Value + ?Sized> Deref for Handle<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        self.counted.value()
    }
}

impl<V: Value + ?Sized> Clone for Handle<V> {
    #[inline]
    fn clone(&self) -> Self {
        Self { counted: self.counted.clone() }
    }
}

impl<V: Value + ?Sized> AsRef<V> for Handle<V> {
    fn as_ref(&self) -> &V {
        self
    }
}

/// Sound for maps, because comparison, order and hash of a handle are those of its value.
impl<V: Value + ?Sized> Borrow<V> for Handle<V> {
    fn borrow(&self) -> &V {
        self
    }
}

impl<V: Value + ?Sized + fmt::Debug> fmt::Debug for Handle<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<V: Value + ?Sized + fmt::Display> fmt::Display for Handle<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<V: Value + ?Sized + PartialEq> PartialEq for Handle<V> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<V: Value + ?Sized + PartialEq> PartialEq<V> for Handle<V> {
    fn eq(&self, other: &V) -> bool {
        **self == *other
    }
}

impl<V: Value + ?Sized + Eq> Eq for Handle<V> {}

impl<V: Value + ?Sized + PartialOrd> PartialOrd for Handle<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<V: Value + ?Sized + Ord> Ord for Handle<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<V: Value + ?Sized + Hash> Hash for Handle<V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::hash::{BuildHasher, RandomState};
    use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
    use std::thread;

    use super::*;
    use crate::shard::Kept;
    use crate::shard::entry::Entry;
    use crate::sync::AtomicU32;
    use crate::sync::Ordering::Relaxed;

    /// A value that shows how many of its kind are alive.
    struct Live {
        count: &'static AtomicU32,
        id: u64,
    }

    impl Live {
        fn new(count: &'static AtomicU32, id: u64) -> Self {
            count.fetch_add(1, Relaxed);
            Self { count, id }
        }
    }

    impl Drop for Live {
        fn drop(&mut self) {
            self.count.fetch_sub(1, Relaxed);
        }
    }

    fn stored(value: &[u8]) -> Entry<[u8]> {
        Entry::new(b"key", value, Kept::until(0))
    }

    fn bytes(value: &[u8]) -> Handle<[u8]> {
        stored(value).handle()
    }

    #[test]
    fn a_handle_outlives_its_entry() {
        let handle = bytes(b"value");
        assert_eq!(*handle, *b"value");
        assert_eq!(Handle::key(&handle), b"key");
        assert_eq!(handle.as_ref().len(), 5);
    }

    #[test]
    fn comparison_order_and_hash_are_those_of_the_value() {
        let hasher = RandomState::new();
        let cases: [&[u8]; 5] = [b"", b"a", b"ab", b"b", b"b"];
        for left in cases {
            for right in cases {
                let (a, b) = (bytes(left), bytes(right));
                assert_eq!(a == b, left == right);
                assert_eq!(a == *right, left == right);
                assert_eq!(a.cmp(&b), left.cmp(right));
                assert_eq!(a.partial_cmp(&b), left.partial_cmp(right));
            }
            assert_eq!(hasher.hash_one(bytes(left)), hasher.hash_one(left));
        }
    }

    #[test]
    fn a_value_finds_its_handle_in_a_map() {
        let map: BTreeMap<_, _> = [(bytes(b"one"), 1), (bytes(b"two"), 2)].into();
        assert_eq!(map.get(b"two".as_slice()), Some(&2));
    }

    #[test]
    fn it_prints_as_its_value() {
        let entry = Entry::<str>::new(b"key", "tex\"t", Kept::until(0));
        assert_eq!(format!("{:?}", entry.handle()), "\"tex\\\"t\"");
        assert_eq!(format!("{:>8}", entry.handle()), "   tex\"t");
    }

    #[test]
    fn only_handles_to_one_entry_are_the_same() {
        let handle = bytes(b"value");
        let clone = handle.clone();
        assert!(Handle::ptr_eq(&handle, &clone));
        assert!(!Handle::ptr_eq(&handle, &bytes(b"value")));
        drop(handle);
        assert_eq!(clone, *b"value".as_slice());
    }

    #[test]
    fn a_handle_goes_where_an_arc_goes() {
        fn check<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static>() {}
        check::<Handle<[u8]>>();
        check::<Handle<str>>();
        check::<Handle<String>>();
    }

    #[test]
    fn many_threads_clone_and_drop_and_the_value_drops_once() {
        static LIVE: AtomicU32 = AtomicU32::new(0);
        let entry = Entry::<Live>::new(b"key", Live::new(&LIVE, 42), Kept::until(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                let handle = entry.handle();
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for round in 0..2_000 {
                        kept.push(handle.clone());
                        assert_eq!(kept[kept.len() / 2].id, 42);
                        if round % 7 == 0 {
                            kept.clear();
                        }
                    }
                });
            }
            drop(entry);
        });
        assert_eq!(LIVE.load(Relaxed), 0);
    }

    #[test]
    fn aligned_values_live_as_long_as_their_last_reference() {
        static LIVE: AtomicU32 = AtomicU32::new(0);
        #[repr(align(128))]
        struct Aligned(Live);

        let value = Aligned(Live::new(&LIVE, 5));
        let entry = Entry::<Aligned>::new(b"key", value, Kept::until(0));
        assert_eq!((&raw const *entry.value()).addr() % 128, 0);
        assert_eq!(entry.allocation_bytes(), 128 + 128);
        let handle = entry.handle();
        let clone = handle.clone();
        drop(entry);
        drop(handle);
        assert_eq!(LIVE.load(Relaxed), 1);
        assert_eq!(clone.0.id, 5);
        drop(clone);
        assert_eq!(LIVE.load(Relaxed), 0);
    }

    #[test]
    fn a_drop_that_panics_frees_the_memory() {
        static LIVE: AtomicU32 = AtomicU32::new(0);
        struct Panics(#[expect(dead_code, reason = "dropped after the panic")] Live);
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("a value's own panic");
            }
        }
        let make = || Entry::<Panics>::new(b"key", Panics(Live::new(&LIVE, 1)), Kept::until(0));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(make()))).is_err());
        assert_eq!(LIVE.load(Relaxed), 0);
        let handle = make().handle();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(handle))).is_err());
        assert_eq!(LIVE.load(Relaxed), 0);
    }

    #[test]
    fn each_value_drops_once_through_overwrites_too() {
        static LIVE: AtomicU32 = AtomicU32::new(0);
        let mut entry = Entry::<Live>::new(b"key", Live::new(&LIVE, 1), Kept::until(0));
        let Ok(old) = entry.try_overwrite(Live::new(&LIVE, 2)) else { panic!("unique and sized") };
        assert_eq!((old.id, entry.value().id, LIVE.load(Relaxed)), (1, 2, 2));
        drop(old);
        assert_eq!(LIVE.load(Relaxed), 1);

        let handle = entry.handle();
        let Err(refused) = entry.try_overwrite_owned(Live::new(&LIVE, 3)) else {
            panic!("a handle is out")
        };
        assert_eq!((refused.id, handle.id, LIVE.load(Relaxed)), (3, 2, 2));
        drop(handle);
        assert!(entry.try_overwrite_owned(refused).is_ok_and(|old| old.id == 2));
        entry.value_mut().unwrap().id = 4;
        assert_eq!((entry.value().id, LIVE.load(Relaxed)), (4, 1));
        drop(entry);
        assert_eq!(LIVE.load(Relaxed), 0);
    }

    #[test]
    fn nothing_changes_while_a_handle_is_out() {
        let mut entry = stored(b"old");
        let handle = entry.handle();
        assert!(!entry.is_unique());
        assert_eq!(entry.try_overwrite(b"new"), Err(b"new".as_slice()));
        assert_eq!(entry.try_overwrite_owned(b"new".to_vec()), Err(b"new".to_vec()));
        assert_eq!(entry.value_mut(), None);
        assert_eq!(*handle, *b"old");

        // The count is what matters, not which handle is dropped.
        let clone = handle.clone();
        drop(handle);
        assert!(!entry.is_unique());
        drop(clone);
        assert_eq!(entry.try_overwrite(b"new"), Ok(()));
        assert_eq!(*entry.handle(), *b"new");
        entry.value_mut().unwrap()[0] = b'N';
        assert_eq!(entry.value(), b"New");
    }

    #[test]
    fn readers_never_see_an_overwrite_of_what_they_hold() {
        // One thread overwrites whenever it may, as the holder of the token; the others hold
        // handles, check that what they hold is of one piece, and drop them at any time.
        let mut entry = stored(&[0; 48]);
        let mut in_place_count = 0_u32;
        thread::scope(|scope| {
            for round in 0..400_u32 {
                let fill = u8::try_from(round % 256).unwrap();
                match entry.try_overwrite(&[fill; 48]) {
                    Ok(()) => in_place_count += 1,
                    Err(source) => entry = stored(source),
                }
                let handle = entry.handle();
                scope.spawn(move || {
                    let clone = handle.clone();
                    drop(handle);
                    assert_eq!(*clone, [fill; 48]);
                });
                if round % 4 == 0 {
                    while !entry.is_unique() {
                        thread::yield_now();
                    }
                }
            }
        });
        assert!(100 <= in_place_count);
        assert!(entry.is_unique());
    }
}
