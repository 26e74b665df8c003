//! Pool: the chunks, and the runs of them that no bin has.
#![expect(unsafe_code, reason = "chunks are reached through pointers")]

use std::ptr::NonNull;

use crate::slab::chunk::Chunk;
use crate::slab::list::List;
use crate::slab::run::Run;
use crate::slab::span;
use crate::slab::span::Spans;

/// What bins take runs from. Lies under a lock, which the holder of a bin's lock may take.
pub(super) struct Pool {
    /// The chunks of which some runs are free and some are not.
    partial: List<Chunk>,
    /// A chunk that is all free, so that a load that comes and goes asks the system only once.
    // Invariant: nobody else knows of it.
    spare: Option<NonNull<Chunk>>,
    /// How many chunks there are, the spare one included.
    chunk_count: usize,
    spans: Spans,
}

// SAFETY: a pool owns its spare chunk.
unsafe impl Send for Pool {}

impl Pool {
    pub(super) const fn new() -> Self {
        Self { partial: List::new(), spare: None, chunk_count: 0, spans: Spans::new() }
    }

    /// A run that nobody uses, if a chunk has one.
    pub(super) fn take(&mut self) -> Option<NonNull<Run>> {
        let chunk = if let Some(chunk) = self.partial.first() {
            chunk
        } else {
            let spare = self.spare.take()?;
            // SAFETY: the spare chunk is in no list.
            unsafe { self.partial.push(spare) };
            spare
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

    /// Takes a run back. What it returns is a chunk that it has
    /// forgotten, to be discarded without the lock, and released.
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
        Some(pointer)
    }

    /// How many chunks there are.
    pub(super) fn chunk_count(&self) -> usize {
        self.chunk_count
    }

    /// Memory for another chunk; none if there is none. It is first touched by who begins the
    /// chunk, without the lock: the system clears all of it then.
    pub(super) fn reserve(&mut self) -> Option<NonNull<u8>> {
        let memory = self.spans.take()?;
        // The first chunk of a process stays in small pages, of which only those that are used take
        // memory: a small engine does not need 2 MiB.
        span::advise(memory, self.chunk_count != 0);
        self.chunk_count += 1;
        Some(memory)
    }

    /// Takes a chunk that was begun in reserved memory.
    ///
    /// # Safety
    ///
    /// - It has a free run, and is in no list.
    pub(super) unsafe fn add(&mut self, chunk: NonNull<Chunk>) {
        // SAFETY: guaranteed by caller.
        unsafe { self.partial.push(chunk) };
    }

    /// Takes the memory of a chunk back.
    ///
    /// # Safety
    ///
    /// - It came from [`Pool::reserve`], it was discarded, and nobody knows of it.
    pub(super) unsafe fn release(&mut self, memory: NonNull<u8>) {
        // SAFETY: guaranteed by caller.
        unsafe { self.spans.put(memory) };
        self.chunk_count -= 1;
    }
}
