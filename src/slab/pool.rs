//! Pool: the chunks, and the runs of them that no bin has.
#![expect(unsafe_code, reason = "chunks are reached through pointers")]

use std::ptr::NonNull;

use crate::limits::SLAB_HUGE_CHUNKS_MAX;
use crate::slab::chunk::Chunk;
use crate::slab::chunk::prepare_allocator;
use crate::slab::list::List;
use crate::slab::run::Run;

/// What bins take runs from. Lies under a lock, which the holder of a bin's lock may take.
pub(super) struct Pool {
    /// The chunks of which some runs are free and some are not.
    partial: List<Chunk>,
    /// A chunk that is all free, so that a load that comes and goes asks the system only once.
    // Invariant: came from `Chunk::allocate`, and nobody else knows of it.
    spare: Option<NonNull<Chunk>>,
    /// How many chunks there are, the spare one included.
    chunk_count: usize,
}

// SAFETY: a pool owns its spare chunk.
unsafe impl Send for Pool {}

impl Pool {
    pub(super) const fn new() -> Self {
        Self { partial: List::new(), spare: None, chunk_count: 0 }
    }

    /// A run that nobody uses; none if there is no memory.
    pub(super) fn take(&mut self) -> Option<NonNull<Run>> {
        let chunk = match self.partial.first() {
            Some(chunk) => chunk,
            None => self.add_chunk()?,
        };
        // SAFETY: a chunk of the list has a free run, and `&mut self` stands for the lock.
        let run = unsafe { Chunk::take_run(chunk) };
        // SAFETY: a chunk of the list is alive.
        if unsafe { chunk.as_ref() }.is_full() {
            // SAFETY: it is in the list.
            unsafe { self.partial.remove(chunk) };
        }
        Some(run)
    }

    /// Takes a run back. What it returns is a chunk to be released once the lock is given back.
    ///
    /// # Safety
    ///
    /// - The run came from this pool, nothing of it is used, and it is in no list.
    pub(super) unsafe fn put(&mut self, run: NonNull<Run>) -> Option<NonNull<Chunk>> {
        let pointer = Chunk::of_run(run);
        // SAFETY: a chunk lives while one of its runs is not in the pool.
        let chunk = unsafe { pointer.as_ref() };
        let was_full = chunk.is_full();
        // SAFETY: guaranteed by caller: the run is alive.
        chunk.put_run(unsafe { run.as_ref() }.index());
        if was_full {
            // SAFETY: a chunk without free runs is in no list.
            unsafe { self.partial.push(pointer) };
        }
        if !chunk.is_unused() {
            return None;
        }
        // SAFETY: a chunk with free runs is in the list, unless it is the spare one.
        unsafe { self.partial.remove(pointer) };
        if self.spare.is_none() {
            self.spare = Some(pointer);
            return None;
        }
        self.chunk_count -= 1;
        Some(pointer)
    }

    /// How many chunks there are.
    #[cfg(all(test, not(slotkeep_plain_alloc)))]
    pub(super) fn chunk_count(&self) -> usize {
        self.chunk_count
    }

    /// The spare chunk or a new one, put into the list.
    #[cold]
    fn add_chunk(&mut self) -> Option<NonNull<Chunk>> {
        let chunk = if let Some(spare) = self.spare.take() { spare } else { self.new_chunk()? };
        // SAFETY: neither the spare chunk nor a new one is in a list.
        unsafe { self.partial.push(chunk) };
        Some(chunk)
    }

    /// A chunk of the allocator's.
    fn new_chunk(&mut self) -> Option<NonNull<Chunk>> {
        if self.chunk_count == 0 {
            prepare_allocator();
        }
        // The first chunk of a process stays in small pages, of which only those that are used take
        // memory: a small engine does not need 2 MiB.
        let huge = (1..=SLAB_HUGE_CHUNKS_MAX).contains(&self.chunk_count);
        let chunk = Chunk::allocate(huge)?;
        self.chunk_count += 1;
        Some(chunk)
    }
}
