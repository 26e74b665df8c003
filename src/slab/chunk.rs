//! Chunk: the unit that the slab takes from the system, a huge page where there are any.
#![expect(unsafe_code, reason = "a chunk describes itself in its own memory")]

use std::array;
use std::cell::Cell;
use std::ptr::NonNull;

use crate::slab::list::Linked;
use crate::slab::list::Links;
use crate::slab::run::Run;

/// The size of a chunk and its alignment: from a block to its chunk is one mask.
pub(super) const CHUNK_BYTES: usize = 2 << 20;

const RUN_BYTES: usize = 64 << 10;

const RUNS: usize = CHUNK_BYTES / RUN_BYTES;

/// What the head keeps of the first run.
const HEAD_ROOM_BYTES: usize = 32 << 10;

/// At how many places in that room the head may lie. Chunks are aligned so widely that heads at one
/// place would share a few sets of every cache, and push each other out.
const HEAD_PLACES: usize = HEAD_ROOM_BYTES / size_of::<Chunk>();

const _: () = assert!(size_of::<Chunk>() <= HEAD_ROOM_BYTES, "a head lies in its room");

/// The head of a chunk. Runs have their own rules; the lock of the pool guards the rest.
#[repr(C, align(64))]
pub(super) struct Chunk {
    runs: [Run; RUNS],
    /// A bit for every run that the pool has.
    free: Cell<u32>,
    links: Links<Self>,
}

const _: () = assert!(RUNS == u32::BITS as usize);

impl Linked for Chunk {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Chunk {
    /// Begins a chunk, all of it free, in address space of a chunk.
    ///
    /// # Safety
    ///
    /// - `start` is that of a chunk's memory, which may be written, and which nobody else knows of.
    pub(super) unsafe fn begin(start: NonNull<u8>) -> NonNull<Self> {
        let head = Self::head(start);
        let runs = array::from_fn(|index| Run::new(u8::try_from(index).expect("a few runs")));
        // SAFETY: `head` lies within the new chunk and is aligned for it.
        unsafe { head.write(Self { runs, free: Cell::new(u32::MAX), links: Links::new() }) };
        head
    }

    /// Where the memory of a chunk begins.
    pub(super) fn start(chunk: NonNull<Self>) -> NonNull<u8> {
        start_of(chunk)
    }

    /// The head of the chunk that lies around `inside`, which may reach all of it.
    fn head<T>(inside: NonNull<T>) -> NonNull<Self> {
        let start = start_of(inside);
        // SAFETY: a place lies within the chunk.
        unsafe { start.add(head_offset(start.addr().get())) }.cast()
    }

    /// The run that a block lies in.
    #[inline]
    pub(super) fn run_of(block: NonNull<u8>) -> NonNull<Run> {
        let index = block.addr().get() % CHUNK_BYTES / RUN_BYTES;
        // The runs are what a head begins with.
        let runs = Self::head(block).cast::<Run>();
        // SAFETY: the index is below `RUNS`.
        unsafe { runs.add(index) }
    }

    /// The chunk of a run.
    pub(super) fn of_run(run: NonNull<Run>) -> NonNull<Self> {
        Self::head(run)
    }

    /// Where the run of this index ends, in the chunk of which `run` is a part.
    #[inline]
    pub(super) fn end_of_run(run: NonNull<Run>, index: u8) -> NonNull<u8> {
        // SAFETY: it is at most the end of the chunk.
        unsafe { start_of(run).add((usize::from(index) + 1) * RUN_BYTES) }
    }

    /// How many bytes of the run of this index are for blocks.
    pub(super) const fn room_of_run(index: u8) -> usize {
        if index == 0 { RUN_BYTES - HEAD_ROOM_BYTES } else { RUN_BYTES }
    }

    /// Takes a free run out.
    ///
    /// # Safety
    ///
    /// - `chunk` is one, and the caller holds the lock of its pool, or alone knows of the chunk.
    /// - It has a free run.
    pub(super) unsafe fn take_run(chunk: NonNull<Self>) -> NonNull<Run> {
        // SAFETY: guaranteed by caller.
        let free = &unsafe { chunk.as_ref() }.free;
        let index = free.get().trailing_zeros();
        free.set(free.get() & !(1 << index));
        // SAFETY: as there is a free run, the index is below `RUNS`.
        unsafe { chunk.cast::<Run>().add(index as usize) }
    }

    /// Puts a run back. The caller holds the lock of the pool.
    pub(super) fn put_run(&self, index: u8) {
        debug_assert_eq!(self.free.get() & 1 << index, 0, "a run that is free already");
        self.free.set(self.free.get() | 1 << index);
    }

    /// Whether no run is free.
    pub(super) fn is_full(&self) -> bool {
        self.free.get() == 0
    }

    /// Whether all runs are free.
    pub(super) fn is_unused(&self) -> bool {
        self.free.get() == u32::MAX
    }
}

/// Where the chunk begins that lies around `inside`, which may reach all of it.
#[inline]
fn start_of<T>(inside: NonNull<T>) -> NonNull<u8> {
    let offset = inside.addr().get() % CHUNK_BYTES;
    // SAFETY: chunks are aligned to their size, so that this many bytes of it lie before.
    unsafe { inside.cast::<u8>().sub(offset) }
}

/// Where in a chunk its head lies: a place that looks drawn at random from where the chunk lies.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits of a chunk's number tell it")]
const fn head_offset(start: usize) -> usize {
    // The golden ratio spreads chunks that lie at any regular distance.
    let spread = ((start / CHUNK_BYTES) as u32).wrapping_mul(0x9E37_79B9);
    (spread >> 16) as usize * HEAD_PLACES / (1 << 16) * size_of::<Chunk>()
}
