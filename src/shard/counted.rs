//! Counted: one allocation with head, key and value, and a counted reference to it.
#![expect(unsafe_code, reason = "an entry is one hand-laid allocation behind a thin pointer")]

use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::mem::offset_of;
use std::process;
use std::ptr::{self, NonNull};
use std::slice;

use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::shard::kept::Kept;
use crate::shard::pinned;
use crate::shard::value::Value;
use crate::slab;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Above this many references the process ends, as it does for `Arc`: the other half of the range
/// is room for the threads that are past the check at the same time.
const REFERENCES_MAX: u32 = u32::MAX / 2;

/// What lies at the start of the allocation; the key follows at once, then the value at its
/// alignment. The hash of the key is not kept: who needs it computes it.
#[repr(C)]
pub(super) struct Head {
    // Invariant: room for the value, and in the bit above it whether an `Extra` follows; fixed,
    // because the allocation is freed by it. First, because a look-up reads everything else, and
    // the key behind it.
    capacity: u32,
    // Invariant: the number of `Counted` that point here, until the last one frees it.
    references: AtomicU32,
    // Relaxed throughout: only the holder of the shard's token reads or writes it, and the token
    // orders its holders.
    pub(super) deadline: AtomicU64,
    // Invariant: the bytes of the value, at most the capacity. Written only by a holder of
    // `&mut Counted` that is unique, so that nobody reads meanwhile.
    pub(super) value_len: u32,
    // The bits of a `Standing`, or what another policy keeps here. Relaxed throughout: a guess for
    // eviction that orders nothing.
    pub(super) standing: AtomicU16,
    // Invariant: the bytes of the key; fixed, because it tells where the value lies.
    key_len: u16,
}

const _: () = assert!(size_of::<Head>() == 24 && align_of::<Head>() == 8);
const _: () = assert!(align_of::<Extra>() <= align_of::<Head>());
// What a look-up reads first lies last, next to the key. Entries begin at any multiple of 8, so
// that one in eight has its key in another line than the key's length.
const _: () = assert!(offset_of!(Head, capacity) == 0 && offset_of!(Head, key_len) == 22);
const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX < HAS_EXTRA as usize);

/// The bit of a capacity that says that an [`Extra`] follows the value.
const HAS_EXTRA: u32 = 1 << 31;

/// What few entries need; it lies behind the room for the value. Relaxed throughout, as the
/// deadline.
#[repr(C)]
pub(super) struct Extra {
    /// What somebody says that the entry weighs.
    pub(super) weight: AtomicU64,
    /// The entry expires when nobody has read it for so long.
    pub(super) idle: AtomicU64,
    /// When it does so even if it is read.
    pub(super) expires: AtomicU64,
}

/// One counted reference to the allocation of an entry; the common core of [`Entry`](super::Entry)
/// and [`Handle`](super::Handle).
///
/// As an `Arc` without weak references: a clone comes only from another reference, and whoever
/// drops the last one drops the value and frees the memory. Only one of them is a table's, and
/// [lets go](Self::let_go); so what is left until the last one is dropped is pinned by handles.
pub(super) struct Counted<V: Value + ?Sized> {
    // Invariant: points to a live allocation of `Self::layout`, with provenance over all of it,
    // whose head, key and value are initialised.
    pub(super) head: NonNull<Head>,
    // Owns a `V` as a box does: same drop check, same auto traits except for the two below.
    owns: PhantomData<Box<V>>,
}

// SAFETY: whoever has a reference can share the value and can be the one that drops it, and
// `Value` demands `Send + Sync`; the head is changed by atomics or by a unique owner.
unsafe impl<V: Value + ?Sized> Send for Counted<V> {}

// SAFETY: as above; `&Counted` gives `&V` and, by cloning, another `Counted`.
unsafe impl<V: Value + ?Sized> Sync for Counted<V> {}

impl<V: Value + ?Sized> Counted<V> {
    const ALIGNMENT: usize =
        if V::ALIGNMENT < align_of::<Head>() { align_of::<Head>() } else { V::ALIGNMENT };

    /// A reference to a new allocation whose value is made of `source`.
    ///
    /// # Panics
    ///
    /// If key or value exceed their limits, which the caller has checked.
    pub(super) fn of_source(key: &[u8], source: V::Source<'_>, kept: Kept) -> Self {
        let head = Self::allocate(key, V::source_bytes(&source), kept);
        // SAFETY: `allocate` made room for `source_bytes` bytes, aligned, that nobody knows of.
        unsafe { V::write_source(source, Self::value_address(head, key.len())) };
        Self { head, owns: PhantomData }
    }

    /// As [`Counted::of_source`], of a value that stands alone.
    pub(super) fn of_owned(key: &[u8], owned: V::Owned, kept: Kept) -> Self {
        let head = Self::allocate(key, V::owned_bytes(&owned), kept);
        // SAFETY: `allocate` made room for `owned_bytes` bytes, aligned, that nobody knows of.
        unsafe { V::write_owned(owned, Self::value_address(head, key.len())) };
        Self { head, owns: PhantomData }
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        // SAFETY: `allocate` wrote `key_len` bytes there, which never change, and the allocation
        // lives as long as `self`.
        unsafe { slice::from_raw_parts(Self::key_address(self.head), self.key_len()) }
    }

    #[inline]
    pub(super) fn value(&self) -> &V {
        // SAFETY: the invariant of `head` says that a value of `value_len` bytes lies there; it
        // changes only through `&mut self` of a unique reference, and then nobody has `&self`.
        unsafe { &*self.value_pointer() }
    }

    /// Whether both refer to the same allocation.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        self.head == other.head
    }

    #[inline]
    pub(super) fn head(&self) -> &Head {
        // SAFETY: the invariant of `head` says that it points to an initialised head; the plain
        // fields change only through `&mut self` of a unique reference.
        unsafe { self.head.as_ref() }
    }

    // Invariant: with `&mut self`, true means that this is the only reference and stays so.
    // References come from references: from `self`, which is borrowed, or from another one, which
    // the count would show. See `Entry` for what that means for a shard.
    #[inline]
    pub(super) fn is_unique(&self) -> bool {
        // Acquire: pairs with the Release decrement in `drop`, so that all reads through a
        // dropped handle happened before whatever the caller writes now.
        self.head().references.load(Ordering::Acquire) == 1
    }

    #[inline]
    pub(super) fn key_len(&self) -> usize {
        usize::from(self.head().key_len)
    }

    fn layout(key_len: usize, capacity: u32) -> Layout {
        let bytes = if capacity & HAS_EXTRA == 0 {
            Self::value_offset(key_len) + capacity as usize
        } else {
            Self::extra_offset(key_len, capacity) + size_of::<Extra>()
        };
        Layout::from_size_align(bytes, Self::ALIGNMENT)
            .expect("key and value are within their limits")
    }

    /// The bytes of an allocation with a value of so many bytes that is kept in this way.
    pub(super) fn bytes_for(key: &[u8], value_bytes: usize, kept: Kept) -> usize {
        let capacity = u32::try_from(value_bytes).unwrap_or(!HAS_EXTRA);
        let extra = if kept.is_plain() { 0 } else { HAS_EXTRA };
        Self::layout(key.len(), capacity | extra).size()
    }

    /// The layout of this allocation.
    #[inline]
    pub(super) fn own_layout(&self) -> Layout {
        Self::layout(self.key_len(), self.head().capacity)
    }

    /// The room for the value, in bytes.
    #[inline]
    pub(super) fn value_capacity(&self) -> usize {
        (self.head().capacity & !HAS_EXTRA) as usize
    }

    /// What few entries have.
    #[inline]
    pub(super) fn extra(&self) -> Option<&Extra> {
        let capacity = self.head().capacity;
        if capacity & HAS_EXTRA == 0 {
            return None;
        }
        let extra = Self::extra_address(self.head, self.key_len(), capacity);
        // SAFETY: the bit says that `allocate` wrote one there, aligned, which lives as long as
        // `self` and is changed by atomics only.
        Some(unsafe { &*extra })
    }

    /// Where the extra lies, if there is one: behind the room for the value.
    const fn extra_offset(key_len: usize, capacity: u32) -> usize {
        let end = Self::value_offset(key_len) + (capacity & !HAS_EXTRA) as usize;
        end.next_multiple_of(align_of::<Extra>())
    }

    /// Where the value lies: behind the key, at its alignment.
    #[inline]
    const fn value_offset(key_len: usize) -> usize {
        (size_of::<Head>() + key_len).next_multiple_of(V::ALIGNMENT)
    }

    // All of these lie inside the allocation, so wrapping arithmetic loses no provenance.
    #[inline]
    fn key_address(head: NonNull<Head>) -> *mut u8 {
        head.as_ptr().cast::<u8>().wrapping_add(size_of::<Head>())
    }

    #[inline]
    fn value_address(head: NonNull<Head>, key_len: usize) -> *mut u8 {
        head.as_ptr().cast::<u8>().wrapping_add(Self::value_offset(key_len))
    }

    #[inline]
    fn extra_address(head: NonNull<Head>, key_len: usize, capacity: u32) -> *mut Extra {
        head.as_ptr().wrapping_byte_add(Self::extra_offset(key_len, capacity)).cast()
    }

    /// Where the value lies, with its length.
    #[inline]
    pub(super) fn value_pointer(&self) -> *mut V {
        let address = Self::value_address(self.head, self.key_len());
        V::fat(address, self.head().value_len as usize)
    }

    /// Memory with head and key written, and room for a value of `value_bytes` that is yet to be
    /// written.
    fn allocate(key: &[u8], value_bytes: usize, kept: Kept) -> NonNull<Head> {
        assert!(key.len() <= KEY_BYTES_MAX, "a key of {} bytes", key.len());
        assert!(value_bytes <= VALUE_BYTES_MAX, "a value of {value_bytes} bytes");
        let key_len = u16::try_from(key.len()).expect("checked against KEY_BYTES_MAX");
        let value_len = u32::try_from(value_bytes).expect("checked against VALUE_BYTES_MAX");

        let capacity = if kept.is_plain() { value_len } else { value_len | HAS_EXTRA };
        let layout = Self::layout(key.len(), capacity);
        let Some(memory) = slab::allocate(layout) else { handle_alloc_error(layout) };
        let head = memory.cast::<Head>();
        let content = Head {
            capacity,
            references: AtomicU32::new(1),
            deadline: AtomicU64::new(kept.deadline()),
            value_len,
            standing: AtomicU16::new(0),
            key_len,
        };
        // SAFETY: `layout` puts a head first and is aligned for it.
        unsafe { head.write(content) };
        let target = Self::key_address(head);
        // SAFETY: `layout` has room for the key behind the head, and nobody else knows of it.
        unsafe { target.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
        if capacity & HAS_EXTRA != 0 {
            let extra = Extra {
                weight: AtomicU64::new(kept.weight),
                idle: AtomicU64::new(kept.idle),
                expires: AtomicU64::new(kept.expires),
            };
            let target = Self::extra_address(head, key.len(), capacity);
            // SAFETY: `layout` has room for it there; the allocation is aligned to a head, which
            // is as much as an extra needs, and the offset is a multiple of that.
            unsafe { target.write(extra) };
        }
        head
    }

    /// Drops the table's reference.
    pub(super) fn let_go(self) {
        if self.is_unique() {
            let mut last = ManuallyDrop::new(self);
            // SAFETY: `is_unique` says so and has synchronised with the others, and what is never
            // dropped ends its scope here.
            unsafe { last.free() }
        } else {
            pinned::pin(self.own_layout().size());
            drop(self);
        }
    }

    /// Drops the value and frees the memory, the latter also if the value's drop unwinds.
    ///
    /// # Safety
    ///
    /// - There is no other reference, nor does one come.
    /// - The caller has synchronised with the decrements of all others.
    /// - Nobody uses `self` afterwards.
    #[inline(never)]
    unsafe fn free(&mut self) {
        let value = self.value_pointer();
        let _memory = Memory { address: self.head.cast(), layout: self.own_layout() };
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
        pinned::unpin(self.own_layout().size());
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
        // used, since neither the capacity nor the key's length ever changes.
        unsafe { slab::free(self.address, self.layout) }
    }
}
