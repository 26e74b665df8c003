//! Value: what an entry can hold, and how it gets into and out of the entry's own allocation.
#![expect(unsafe_code, reason = "values are built in place, inside an entry's allocation")]

use std::ptr;

mod sealed {
    #[expect(unnameable_types, reason = "the seal: nobody else can implement it")]
    pub trait Sealed {}

    impl<T: Send + Sync + 'static> Sealed for T {}
    impl Sealed for [u8] {}
    impl Sealed for str {}
}

/// What a cluster can hold: any sized type that threads may share, `[u8]`, or `str`.
///
/// The trait names, for a value type, what a write takes and what an update works on.
/// It is implemented for every sized `T: Send + Sync + 'static`, for `[u8]` and for `str`, and it
/// is sealed: there is nothing to implement.
///
/// | value type | [`Source`](Value::Source) | [`Owned`](Value::Owned) | where the value lies |
/// |---|---|---|---|
/// | `[u8]` | `&[u8]` | `Vec<u8>` | in the entry's own allocation |
/// | `str` | `&str` | `String` | in the entry's own allocation |
/// | `T` | `T` | `T` | in the entry's own allocation, with whatever `T` points at elsewhere |
///
/// `[u8]` is the fast form for bytes: one allocation holds key and value.
/// `Arc<[u8]>`, `Vec<u8>` and `String` are sized values and work, but every read of their bytes
/// costs one more cache miss.
/// A value that is only known as a trait goes in as `Box<dyn Trait + Send + Sync>`; `dyn Trait`
/// itself is no value, because an entry keeps a length and no vtable.
///
/// # Safety
///
/// An entry trusts what this trait says about memory:
/// - `ALIGNMENT` is the alignment of `Self`.
/// - `IS_SIZED` holds only if every value has the same size, the one that `source_bytes` and
///   `owned_bytes` return.
/// - After `write_source` or `write_owned`, the bytes that `source_bytes` or `owned_bytes` named
///   are a valid `Self` behind `fat(address, bytes)`, and the same holds after an overwrite.
/// - None of these functions unwinds.
pub unsafe trait Value: sealed::Sealed + Send + Sync + 'static {
    /// What `set` takes: the value itself, or a borrow of bytes that are copied into the entry.
    type Source<'a>: Send;

    /// What `compute` returns and `update` works on: the value in a form that stands alone.
    type Owned: Send;

    /// What comes back of a value that was not written or that was overwritten in place: the value
    /// itself, or nothing where bytes are only ever copied.
    type Returned: Send + 'static;

    #[doc(hidden)]
    const ALIGNMENT: usize;

    #[doc(hidden)]
    const IS_SIZED: bool;

    /// The bytes that `source` takes inside an entry.
    #[doc(hidden)]
    fn source_bytes(source: &Self::Source<'_>) -> usize;

    /// The value that `source` stands for.
    #[doc(hidden)]
    fn of_source<'a>(source: &'a Self::Source<'_>) -> &'a Self;

    /// The value that `owned` stands for.
    #[doc(hidden)]
    fn of_owned(owned: &Self::Owned) -> &Self;

    /// The bytes that `owned` takes inside an entry.
    #[doc(hidden)]
    fn owned_bytes(owned: &Self::Owned) -> usize;

    /// The bytes of a value, without what it points at.
    #[doc(hidden)]
    fn size_bytes(value: &Self) -> usize {
        size_of_val(value)
    }

    /// What the caller gets back of a source that was not written.
    #[doc(hidden)]
    fn give_back(source: Self::Source<'_>) -> Self::Returned;

    /// The pointer to a value of `bytes` bytes at `address`; sized types ignore `bytes`.
    #[doc(hidden)]
    fn fat(address: *mut u8, bytes: usize) -> *mut Self;

    /// Makes a value of `source` in memory that holds none.
    ///
    /// # Safety
    ///
    /// - `target` is valid for writes of `source_bytes(&source)` bytes.
    /// - `target` is aligned to `ALIGNMENT`.
    /// - `source` does not borrow from that memory.
    #[doc(hidden)]
    unsafe fn write_source(source: Self::Source<'_>, target: *mut u8);

    /// Makes a value of `owned` in memory that holds none.
    ///
    /// # Safety
    ///
    /// - `target` is valid for writes of `owned_bytes(&owned)` bytes.
    /// - `target` is aligned to `ALIGNMENT`.
    #[doc(hidden)]
    unsafe fn write_owned(owned: Self::Owned, target: *mut u8);

    /// Replaces the value at `target` by one made of `source`.
    ///
    /// # Safety
    ///
    /// - `target` holds a value, and nothing else refers to it.
    /// - `target` is valid for writes of `source_bytes(&source)` bytes.
    /// - `source` does not borrow from that memory.
    #[doc(hidden)]
    unsafe fn overwrite_source(source: Self::Source<'_>, target: *mut u8) -> Self::Returned;

    /// Replaces the value at `target` by one made of `owned`.
    ///
    /// # Safety
    ///
    /// - `target` holds a value, and nothing else refers to it.
    /// - `target` is valid for writes of `owned_bytes(&owned)` bytes.
    #[doc(hidden)]
    unsafe fn overwrite_owned(owned: Self::Owned, target: *mut u8) -> Self::Returned;
}

/// A value that can be copied out of an entry, which `update` needs.
///
/// It is implemented for every value type that is `Clone`, for `[u8]` and for `str`.
pub trait CloneValue: Value {
    /// A copy of the value that stands alone.
    fn to_owned_value(&self) -> Self::Owned;
}

// SAFETY: size and alignment are the compiler's own, a moved `T` is a valid `T`, and neither
// `write` nor `replace` unwinds.
unsafe impl<T: Send + Sync + 'static> Value for T {
    type Source<'a> = T;
    type Owned = T;
    type Returned = T;

    const ALIGNMENT: usize = align_of::<T>();
    const IS_SIZED: bool = true;

    fn source_bytes(_source: &T) -> usize {
        size_of::<T>()
    }

    fn of_source(source: &T) -> &T {
        source
    }

    fn of_owned(owned: &T) -> &T {
        owned
    }

    fn owned_bytes(_owned: &T) -> usize {
        size_of::<T>()
    }

    fn give_back(source: T) -> T {
        source
    }

    fn fat(address: *mut u8, _bytes: usize) -> *mut T {
        address.cast()
    }

    unsafe fn write_source(source: T, target: *mut u8) {
        // SAFETY: the caller guarantees memory of the size and alignment of `T`.
        unsafe { target.cast::<T>().write(source) }
    }

    unsafe fn write_owned(owned: T, target: *mut u8) {
        // SAFETY: the caller guarantees memory of the size and alignment of `T`.
        unsafe { target.cast::<T>().write(owned) }
    }

    unsafe fn overwrite_source(source: T, target: *mut u8) -> T {
        // SAFETY: the caller guarantees a valid `T` at `target` that nothing else refers to.
        unsafe { target.cast::<T>().replace(source) }
    }

    unsafe fn overwrite_owned(owned: T, target: *mut u8) -> T {
        // SAFETY: the caller guarantees a valid `T` at `target` that nothing else refers to.
        unsafe { target.cast::<T>().replace(owned) }
    }
}

// SAFETY: bytes have alignment 1, any initialised bytes are a valid `[u8]`, and a copy of plain
// bytes does not unwind.
unsafe impl Value for [u8] {
    type Source<'a> = &'a [u8];
    type Owned = Vec<u8>;
    type Returned = ();

    const ALIGNMENT: usize = 1;
    const IS_SIZED: bool = false;

    fn source_bytes(source: &&[u8]) -> usize {
        source.len()
    }

    fn of_source<'a>(source: &'a &[u8]) -> &'a [u8] {
        source
    }

    fn of_owned(owned: &Vec<u8>) -> &[u8] {
        owned
    }

    fn owned_bytes(owned: &Vec<u8>) -> usize {
        owned.len()
    }

    fn give_back(_source: &[u8]) {}

    fn fat(address: *mut u8, bytes: usize) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(address, bytes)
    }

    unsafe fn write_source(source: &[u8], target: *mut u8) {
        // SAFETY: the caller guarantees room for `source`, and that it lies elsewhere.
        unsafe { target.copy_from_nonoverlapping(source.as_ptr(), source.len()) }
    }

    unsafe fn write_owned(owned: Vec<u8>, target: *mut u8) {
        // SAFETY: the caller guarantees room for `owned`, whose buffer is its own.
        unsafe { Self::write_source(&owned, target) }
    }

    unsafe fn overwrite_source(source: &[u8], target: *mut u8) {
        // SAFETY: the caller guarantees room, no overlap, and that nothing else refers to it; old
        // bytes need no drop.
        unsafe { Self::write_source(source, target) }
    }

    unsafe fn overwrite_owned(owned: Vec<u8>, target: *mut u8) {
        // SAFETY: as above; `owned` has a buffer of its own.
        unsafe { Self::write_source(&owned, target) }
    }
}

// SAFETY: as for `[u8]`; the bytes come from a `str` each time, whole, so they are UTF-8.
unsafe impl Value for str {
    type Source<'a> = &'a str;
    type Owned = String;
    type Returned = ();

    const ALIGNMENT: usize = 1;
    const IS_SIZED: bool = false;

    fn source_bytes(source: &&str) -> usize {
        source.len()
    }

    fn of_source<'a>(source: &'a &str) -> &'a str {
        source
    }

    fn of_owned(owned: &String) -> &str {
        owned
    }

    fn owned_bytes(owned: &String) -> usize {
        owned.len()
    }

    fn give_back(_source: &str) {}

    fn fat(address: *mut u8, bytes: usize) -> *mut str {
        ptr::slice_from_raw_parts_mut(address, bytes) as *mut str
    }

    unsafe fn write_source(source: &str, target: *mut u8) {
        // SAFETY: the caller guarantees room for `source`, and that it lies elsewhere.
        unsafe { <[u8]>::write_source(source.as_bytes(), target) }
    }

    unsafe fn write_owned(owned: String, target: *mut u8) {
        // SAFETY: the caller guarantees room for `owned`, whose buffer is its own.
        unsafe { Self::write_source(&owned, target) }
    }

    unsafe fn overwrite_source(source: &str, target: *mut u8) {
        // SAFETY: the caller guarantees room, no overlap, and that nothing else refers to it; old
        // bytes need no drop.
        unsafe { Self::write_source(source, target) }
    }

    unsafe fn overwrite_owned(owned: String, target: *mut u8) {
        // SAFETY: as above; `owned` has a buffer of its own.
        unsafe { Self::write_source(&owned, target) }
    }
}

impl<T: Clone + Send + Sync + 'static> CloneValue for T {
    fn to_owned_value(&self) -> T {
        self.clone()
    }
}

impl CloneValue for [u8] {
    fn to_owned_value(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl CloneValue for str {
    fn to_owned_value(&self) -> String {
        self.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Kept;
    use crate::shard::entry::Entry;

    fn owned_bytes_of<V: CloneValue + ?Sized>(value: &V) -> usize {
        V::owned_bytes(&value.to_owned_value())
    }

    #[test]
    fn a_copy_takes_the_bytes_of_the_value() {
        assert_eq!(owned_bytes_of(&7_u64), 8);
        assert_eq!(owned_bytes_of(&()), 0);
        assert_eq!(owned_bytes_of(&String::from("a longer text than a header")), 24);
        assert_eq!(owned_bytes_of("text"), 4);
        assert_eq!(owned_bytes_of(b"bytes".as_slice()), 5);
        assert_eq!(owned_bytes_of::<[u8]>(b""), 0);
    }

    #[test]
    fn source_and_value_agree_about_bytes() {
        assert_eq!(<u64 as Value>::source_bytes(&7), u64::size_bytes(&7));
        assert_eq!(<[u8]>::source_bytes(&b"abc".as_slice()), <[u8]>::size_bytes(b"abc"));
        assert_eq!(str::source_bytes(&"abc"), str::size_bytes("abc"));
    }

    #[test]
    fn a_copy_equals_its_value() {
        assert_eq!("text".to_owned_value(), "text");
        assert_eq!(b"bytes".as_slice().to_owned_value(), b"bytes");
        assert_eq!(7_u64.to_owned_value(), 7);
    }

    #[test]
    fn only_bytes_and_text_vary_in_size() {
        const { assert!(<u64 as Value>::IS_SIZED) };
        const { assert!(<String as Value>::IS_SIZED) };
        const { assert!(!<[u8] as Value>::IS_SIZED) };
        const { assert!(!<str as Value>::IS_SIZED) };
    }

    #[test]
    fn key_and_value_of_a_batch_may_have_their_own_lifetimes() {
        struct Write<'k, 'v, V: Value + ?Sized> {
            key: &'k [u8],
            source: V::Source<'v>,
        }
        fn store<V: Value + ?Sized>(write: Write<'_, '_, V>) -> Entry<V> {
            Entry::new(write.key, write.source, Kept::until(0))
        }
        let value = vec![1_u8, 2];
        let write = {
            let key: &'static [u8] = b"key";
            Write::<[u8]> { key, source: &value }
        };
        assert_eq!(store(write).value(), [1, 2]);
    }
}
