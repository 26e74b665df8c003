//! Slab: memory for many small pieces, without a head on each, on huge pages.
//!
//! A table of a million entries is read at random, so that nearly every look-up needs a translation
//! of an address that the processor does not have at hand; huge pages need few of them. The memory
//! comes in chunks, each cut into runs, each run into blocks of one size class. A bin holds the
//! runs of one class that have room, for the threads of one stripe.
//!
//! The slab is the process's: a handle may outlive its cluster, and a block tells by its address
//! which run it belongs to. Its locks are leaves: they are taken under tokens, and the holder of a
//! bin's lock takes no other but the pool's.
#![expect(unsafe_code, reason = "an allocator")]

mod chunk;
mod class;
mod list;
#[cfg(all(test, not(slotkeep_plain_alloc)))]
mod model;
mod pool;
mod run;
mod span;
mod tables;

pub(crate) use crate::slab::tables::SlabAllocator;

use std::alloc;
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

use crate::limits::SLAB_STRIPES;
use crate::slab::chunk::CHUNK_BYTES;
use crate::slab::chunk::Chunk;
use crate::slab::class::CLASSES;
use crate::slab::class::Class;
use crate::slab::list::List;
use crate::slab::pool::Pool;
use crate::slab::run::Run;
use crate::sync::CachePadded;
use crate::sync::Mutex;
use crate::sync::OnceLock;
use crate::sync::number_of_this_thread;
use crate::sync::parallelism;

static SLAB: Slab = Slab::new();

/// Memory for `layout`; none if the system has none.
///
/// # Panics
///
/// If the size is zero.
#[inline]
pub(crate) fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    SLAB.allocate(layout)
}

/// Gives memory back.
///
/// # Safety
///
/// - `memory` came from [`allocate`] with this layout.
/// - Nobody uses it any more, and the pointer may reach all that [`allocate`]'s could.
#[inline]
pub(crate) unsafe fn free(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: guaranteed by caller.
    unsafe { SLAB.free(memory, layout) }
}

/// The bytes of the chunks in which the entries and the small tables of all clusters of this
/// process lie, be they used or not: a multiple of 2 MiB, or 0.
///
/// On 64-bit Linux the global allocator does not know of them; elsewhere they come from it. They
/// are resident but for what was not touched of the first one. Takes a lock for a moment.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), slotkeep::Error> {
/// let cluster = slotkeep::Cluster::builder().build()?;
/// cluster.client().set("user:1000", b"Ada")?;
/// assert_eq!(slotkeep::slab_bytes() % (2 << 20), 0);
/// # Ok(())
/// # }
/// ```
pub fn slab_bytes() -> usize {
    SLAB.pool.lock().chunk_count() * CHUNK_BYTES
}

/// The runs of one class that have room, for the threads of one stripe. A full run is in no bin and
/// comes back to its own with the first block that is given back.
type Bin = Mutex<List<Run>>;

/// An allocator of blocks.
struct Slab {
    stripes: [CachePadded<[Bin; CLASSES]>; SLAB_STRIPES],
    pool: Mutex<Pool>,
}

impl Slab {
    #[expect(
        clippy::large_stack_arrays,
        clippy::large_stack_frames,
        reason = "statics are made by the compiler"
    )]
    const fn new() -> Self {
        let stripes = [const { CachePadded::new([const { Mutex::new(List::new()) }; CLASSES]) };
            SLAB_STRIPES];
        Self { stripes, pool: Mutex::new(Pool::new()) }
    }

    /// Memory for `layout`; none if the system has none.
    ///
    /// # Panics
    ///
    /// If the size is zero.
    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let Some(class) = Class::of(layout) else {
            assert_ne!(layout.size(), 0, "nothing needs no memory");
            // SAFETY: just checked that the size is not zero.
            return NonNull::new(unsafe { alloc::alloc(layout) });
        };
        let stripe = stripe_of_this_thread();
        let mut bin = self.stripes[stripe][class.index].lock();
        let run = match bin.first() {
            Some(run) => run,
            None => self.add_run(&mut bin, stripe, class)?,
        };
        // SAFETY: a run of the bin has room and blocks of its class, and the bin is locked.
        let block = unsafe { Run::take(run, class.bytes) };
        // SAFETY: a run of the bin is alive.
        if unsafe { run.as_ref() }.is_full() {
            // SAFETY: it is in the bin.
            unsafe { bin.remove(run) };
        }
        Some(block)
    }

    /// Brings a run with room to this bin, which had none: one that another stripe has besides its
    /// first, so that what one thread loaded and others replace is used again; or a new one.
    #[cold]
    fn add_run(&self, bin: &mut List<Run>, stripe: usize, class: Class) -> Option<NonNull<Run>> {
        let number = u8::try_from(stripe).expect("there are few stripes");
        let adopted = self.stripes.iter().find_map(|other| {
            // Not waited for: whoever has it may want a run of this bin. Its own is taken anyway.
            let mut theirs = other[class.index].try_lock()?;
            let run = theirs.second()?;
            // SAFETY: it is in that bin.
            unsafe { theirs.remove(run) };
            // SAFETY: what is listed is alive.
            unsafe { run.as_ref() }.move_to(number);
            Some(run)
        });
        let run = match adopted {
            Some(run) => run,
            None => self.new_run(number, class)?,
        };
        // SAFETY: a run that left its bin, or a new one, is in no list.
        unsafe { bin.push(run) };
        Some(run)
    }

    /// A run of which nothing is used; none if there is no memory.
    fn new_run(&self, stripe: u8, class: Class) -> Option<NonNull<Run>> {
        let pooled = self.pool.lock().take();
        let pointer = match pooled {
            Some(run) => run,
            None => self.run_of_new_chunk()?,
        };
        // SAFETY: the pool gives runs that are alive, and while this one is out, they are.
        let run = unsafe { pointer.as_ref() };
        let blocks = Chunk::room_of_run(run.index()) / class.bytes;
        let blocks = u16::try_from(blocks).expect("a run has a few thousand words");
        run.start(stripe, blocks);
        Some(pointer)
    }

    fn run_of_new_chunk(&self) -> Option<NonNull<Run>> {
        let memory = self.pool.lock().reserve()?;
        // SAFETY: it was just reserved for a chunk, by this thread.
        let chunk = unsafe { Chunk::begin(memory) };
        // SAFETY: all of the chunk is free, and nobody else knows of it.
        let run = unsafe { Chunk::take_run(chunk) };
        // SAFETY: the other runs of the chunk are free, and it is in no list.
        unsafe { self.pool.lock().add(chunk) };
        Some(run)
    }

    /// Gives memory back.
    ///
    /// # Safety
    ///
    /// - As for the function of this name, with [`Slab::allocate`] of this slab.
    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout) {
        let Some(class) = Class::of(layout) else {
            // SAFETY: guaranteed by caller: with this layout it came from the global allocator.
            unsafe { alloc::dealloc(memory.as_ptr(), layout) };
            return;
        };
        let pointer = Chunk::run_of(memory);
        // SAFETY: a run lives while one of its blocks is used.
        let run = unsafe { pointer.as_ref() };
        let mut bin = loop {
            let stripe = run.stripe();
            let bin = self.stripes[stripe][class.index].lock();
            // A run that another stripe adopts leaves under the lock of the bin that it was in.
            if run.stripe() == stripe {
                break bin;
            }
        };
        let was_full = run.is_full();
        // SAFETY: guaranteed by caller: it is a block of this run, whose bin is locked.
        unsafe { run.put(memory) };
        if was_full {
            // SAFETY: a full run is in no list.
            unsafe { bin.push(pointer) };
        }
        if run.is_unused() {
            // SAFETY: a run with room is in its bin.
            unsafe { bin.remove(pointer) };
            drop(bin);
            // SAFETY: nothing of the run is used, and no list has it.
            unsafe { self.put_back(pointer) };
        }
    }

    /// Gives a run back to the pool.
    ///
    /// # Safety
    ///
    /// - It came from there, nothing of it is used, and it is in no list.
    #[cold]
    unsafe fn put_back(&self, run: NonNull<Run>) {
        // SAFETY: guaranteed by caller.
        let unused = unsafe { self.pool.lock().put(run) };
        if let Some(chunk) = unused {
            let memory = Chunk::start(chunk);
            // SAFETY: the pool says that all of it is free, and has forgotten it.
            unsafe { span::discard(memory) };
            // SAFETY: it was just discarded.
            unsafe { self.pool.lock().release(memory) };
        }
    }
}

/// The stripe of this thread: threads take the stripes in turn.
#[inline]
fn stripe_of_this_thread() -> usize {
    thread_local! {
        /// One above the stripe; 0 before the first call.
        static STRIPE: Cell<u8> = const { Cell::new(0) };
    }
    #[cold]
    fn draw() -> u8 {
        static STRIPES: OnceLock<usize> = OnceLock::new();
        // More than can run at once would only keep more runs half empty.
        let stripes = *STRIPES.get_or_init(|| SLAB_STRIPES.min(2 * parallelism()));
        let stripe = number_of_this_thread() % stripes + 1;
        let stripe = u8::try_from(stripe).expect("there are few stripes");
        STRIPE.set(stripe);
        stripe
    }
    let stripe = match STRIPE.get() {
        0 => draw(),
        stripe => stripe,
    };
    usize::from(stripe) - 1
}
