//! Run: a part of a chunk, cut into blocks of one class.
#![expect(unsafe_code, reason = "blocks are carved out of raw memory, and linked while free")]

use std::cell::Cell;
use std::ptr::NonNull;

use crate::slab::chunk::Chunk;
use crate::slab::list::Linked;
use crate::slab::list::Links;
use crate::sync::AtomicU8;
use crate::sync::Ordering;

/// A block that is free: the next one of its run lies in its first bytes.
struct Block {
    next: Option<NonNull<Block>>,
}

/// What describes a run; it lies in the head of the run's chunk, in a cache line of its own,
/// because neighbours may be different threads'.
///
/// A run is given out by the pool, belongs to one bin while any of its blocks is used, and goes
/// back. The lock of that bin guards all but `stripe` and `index`.
#[repr(C, align(64))]
pub(super) struct Run {
    /// Blocks that came back.
    free: Cell<Option<NonNull<Block>>>,
    links: Links<Self>,
    /// So many blocks at the end of the run were never given out. They are not linked, so that
    /// their memory is first touched by who uses it.
    fresh: Cell<u16>,
    /// How many blocks are given out.
    used: Cell<u16>,
    /// Which stripe the run belongs to. Written under the lock of the bin that it leaves, if it is
    /// in one, so that who holds that lock can rely on it.
    ///
    /// Relaxed throughout: it is read again under the lock.
    stripe: AtomicU8,
    /// Which run of its chunk this is; fixed.
    index: u8,
}

impl Linked for Run {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Run {
    pub(super) const fn new(index: u8) -> Self {
        Self {
            free: Cell::new(None),
            links: Links::new(),
            fresh: Cell::new(0),
            used: Cell::new(0),
            stripe: AtomicU8::new(0),
            index,
        }
    }

    /// Prepares a run of which nothing is used for `blocks` blocks and the bin that it goes to.
    pub(super) fn start(&self, stripe: u8, blocks: u16) {
        self.stripe.store(stripe, Ordering::Relaxed);
        self.free.set(None);
        self.fresh.set(blocks);
    }

    /// Notes that the run goes to the bin of another stripe. The caller holds the locks of both.
    pub(super) fn move_to(&self, stripe: u8) {
        self.stripe.store(stripe, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn stripe(&self) -> usize {
        usize::from(self.stripe.load(Ordering::Relaxed))
    }

    pub(super) fn index(&self) -> u8 {
        self.index
    }

    /// Whether every block is given out.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.get().is_none() && self.fresh.get() == 0
    }

    /// Whether no block is given out.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.used.get() == 0
    }

    /// Gives a block out. The pointer reaches all of the chunk, as [`Run::put`] needs it.
    ///
    /// # Safety
    ///
    /// - `run` points into its chunk and may reach all of it.
    /// - The caller holds the lock of the run's bin.
    /// - The run is not full, and its blocks are of `bytes` bytes.
    #[inline]
    pub(super) unsafe fn take(run: NonNull<Self>, bytes: usize) -> NonNull<u8> {
        // SAFETY: guaranteed by caller: the chunk lives while its run is used.
        let this = unsafe { run.as_ref() };
        this.used.set(this.used.get() + 1);
        if let Some(block) = this.free.get() {
            // SAFETY: `put` wrote it, and nobody has the block.
            this.free.set(unsafe { block.read() }.next);
            return block.cast();
        }
        let fresh = this.fresh.get();
        this.fresh.set(fresh - 1);
        let end = Chunk::end_of_run(run, this.index);
        // SAFETY: `start` was told how many blocks fit before the end; `fresh` of them are left.
        unsafe { end.sub(usize::from(fresh) * bytes) }
    }

    /// Takes a block back.
    ///
    /// # Safety
    ///
    /// - The caller holds the lock of the run's bin.
    /// - `block` came from [`Run::take`] of this run, and nobody uses it any more.
    #[inline]
    pub(super) unsafe fn put(&self, block: NonNull<u8>) {
        let block = block.cast::<Block>();
        // SAFETY: guaranteed by caller: the block is ours; it has a word at least, aligned.
        unsafe { block.write(Block { next: self.free.get() }) };
        self.free.set(Some(block));
        self.used.set(self.used.get() - 1);
    }
}
