//! Unit tests of the slab: random work against a reference, threads, and what is given back.
#![expect(unsafe_code, reason = "blocks are filled and read")]

use std::slice;

use super::*;
use crate::limits::SLAB_BYTES_MAX;
use crate::slab::chunk::CHUNK_BYTES;
use crate::sync::spawn;

/// A block that is filled with what follows from its seed, so that an overlap is seen.
struct Piece {
    memory: NonNull<u8>,
    layout: Layout,
    seed: u8,
}

// SAFETY: a piece owns its memory.
unsafe impl Send for Piece {}

impl Piece {
    #[track_caller]
    fn new(slab: &Slab, layout: Layout, seed: u8) -> Self {
        let memory = slab.allocate(layout).expect("there is memory");
        assert_eq!(memory.addr().get() % layout.align(), 0, "{layout:?}");
        let mut piece = Self { memory, layout, seed };
        for (index, byte) in piece.bytes().iter_mut().enumerate() {
            *byte = pattern(seed, index);
        }
        piece
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the slab gave this many bytes; they are written before they are looked at.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.layout.size()) }
    }

    #[track_caller]
    fn check(&mut self) {
        let (seed, layout) = (self.seed, self.layout);
        let whole = (0..).zip(self.bytes()).all(|(index, byte)| *byte == pattern(seed, index));
        assert!(whole, "a block of {layout:?} was written to");
    }

    #[track_caller]
    fn free(mut self, slab: &Slab) {
        self.check();
        // SAFETY: it came from this slab with this layout, and ends here.
        unsafe { slab.free(self.memory, self.layout) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "any byte will do")]
fn pattern(seed: u8, index: usize) -> u8 {
    seed.wrapping_mul(31).wrapping_add(index as u8)
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a small layout")
}

#[track_caller]
fn free_all(slab: &Slab, pieces: impl IntoIterator<Item = Piece>) {
    for piece in pieces {
        piece.free(slab);
    }
}

/// Mostly small, some larger than a block can be, some widely aligned.
fn random_layout(random: &mut fastrand::Rng) -> Layout {
    let size = match random.u8(..10) {
        0 => random.usize(1..=2 * SLAB_BYTES_MAX),
        1 => random.usize(1..=SLAB_BYTES_MAX),
        _ => random.usize(1..=300),
    };
    layout(size, 1 << random.u32(..8))
}

#[test]
fn blocks_keep_apart_whatever_is_taken_and_given_back() {
    static SLAB: Slab = Slab::new();
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pieces = Vec::new();
        for round in 0..20_000 {
            // Comes to some thousand pieces, and goes back to few, again and again.
            let grows = random.u32(..10) < if round / 4_000 % 2 == 0 { 7 } else { 2 };
            if grows || pieces.is_empty() {
                pieces.push(Piece::new(&SLAB, random_layout(&mut random), random.u8(..)));
            } else {
                pieces.swap_remove(random.usize(..pieces.len())).free(&SLAB);
            }
        }
        free_all(&SLAB, pieces);
        assert_eq!(SLAB.pool.lock().chunk_count(), 1, "seed {seed}: the spare one");
        check_empty(&SLAB);
    }
}

#[track_caller]
fn check_empty(slab: &Slab) {
    let bins = slab.stripes.iter().flat_map(|stripe| stripe.iter());
    let kept = bins.filter(|bin| bin.lock().first().is_some()).count();
    assert_eq!(kept, 0, "bins with a run of which nothing is used");
}

#[test]
fn a_block_that_came_back_is_given_out_next() {
    static SLAB: Slab = Slab::new();
    let layout = layout(100, 8);
    let pieces: Vec<_> = (0..5_000).map(|_| Piece::new(&SLAB, layout, 1)).collect();
    let again = pieces.into_iter().map(|piece| {
        let before = piece.memory;
        piece.free(&SLAB);
        let again = Piece::new(&SLAB, layout, 2);
        assert_eq!(again.memory, before);
        again
    });
    free_all(&SLAB, again.collect::<Vec<_>>());
}

#[test]
fn chunks_are_filled_to_the_last_run_and_released_after_a_peak() {
    static SLAB: Slab = Slab::new();
    for bytes in [24, 104, 1_216, SLAB_BYTES_MAX] {
        let layout = layout(bytes, 8);
        let count = 3 * CHUNK_BYTES / bytes;
        let mut pieces: Vec<_> = (0..count).map(|_| Piece::new(&SLAB, layout, 3)).collect();
        let peak = SLAB.pool.lock().chunk_count();
        assert!((3..=4).contains(&peak), "{peak} chunks for three of {bytes}");
        // In an order that empties all chunks at about the same time.
        fastrand::Rng::with_seed(1).shuffle(&mut pieces);
        free_all(&SLAB, pieces);
        assert_eq!(SLAB.pool.lock().chunk_count(), 1, "the spare one");
        check_empty(&SLAB);
    }
}

#[test]
fn a_class_whose_runs_are_empty_leaves_them_to_others() {
    static SLAB: Slab = Slab::new();
    for bytes in 24..=SLAB_BYTES_MAX / 4 {
        let pieces: Vec<_> = (0..3).map(|_| Piece::new(&SLAB, layout(bytes, 8), 4)).collect();
        free_all(&SLAB, pieces);
    }
    assert_eq!(SLAB.pool.lock().chunk_count(), 1);
}

#[test]
fn blocks_may_be_given_back_by_any_thread() {
    const THREADS: u8 = 4;
    static SLAB: Slab = Slab::new();
    static PASSED_ON: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
    let work = |number| {
        let mut random = fastrand::Rng::with_seed(u64::from(number));
        for _ in 0..10_000 {
            let piece = Piece::new(&SLAB, random_layout(&mut random), number);
            let mut passed_on = PASSED_ON.lock();
            passed_on.push(piece);
            // Now many of them are freed, now few; mostly those of other threads.
            let kept = passed_on.len().min(random.usize(..2_000));
            let freed = passed_on.split_off(kept);
            drop(passed_on);
            free_all(&SLAB, freed);
        }
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|number| spawn(format!("user {number}"), move || work(number)).expect("a thread"))
        .collect();
    for thread in threads {
        thread.join().expect("no block was written to by others");
    }
    free_all(&SLAB, PASSED_ON.lock().drain(..));
    assert_eq!(SLAB.pool.lock().chunk_count(), 1, "the spare one");
    check_empty(&SLAB);
}

#[test]
fn what_one_thread_loaded_and_another_replaces_is_used_again() {
    static SLAB: Slab = Slab::new();
    const PIECES: usize = 60_000;
    let piece = |seed| Piece::new(&SLAB, layout(128, 8), seed);
    let mut pieces: Vec<_> = (0..PIECES).map(|_| piece(5)).collect();
    let loaded = SLAB.pool.lock().chunk_count();
    let replace = move || {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..4 * PIECES {
            let new = piece(6);
            std::mem::replace(&mut pieces[random.usize(..PIECES)], new).free(&SLAB);
        }
        let chunks = SLAB.pool.lock().chunk_count();
        assert!(chunks <= loaded + 1, "{chunks} chunks after {loaded}");
        free_all(&SLAB, pieces);
    };
    spawn("server".to_owned(), replace).expect("a thread").join().expect("what it checked holds");
    check_empty(&SLAB);
}

#[test]
fn runs_are_adopted_while_their_blocks_come_back() {
    const THREADS: u8 = 3;
    static SLAB: Slab = Slab::new();
    static SHARED: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
    let work = |number| {
        let mut random = fastrand::Rng::with_seed(u64::from(number));
        for _ in 0..60 {
            // Full runs of one stripe, whose blocks come back by all threads in any order.
            let mut pieces: Vec<_> =
                (0..600).map(|_| Piece::new(&SLAB, layout(1_000, 8), number)).collect();
            let mut shared = SHARED.lock();
            pieces.append(&mut shared);
            random.shuffle(&mut pieces);
            shared.extend(pieces.drain(..pieces.len() / 2));
            drop(shared);
            free_all(&SLAB, pieces);
        }
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|number| spawn(format!("user {number}"), move || work(number)).expect("a thread"))
        .collect();
    for thread in threads {
        thread.join().expect("no block was written to by others");
    }
    free_all(&SLAB, SHARED.lock().drain(..));
    assert_eq!(SLAB.pool.lock().chunk_count(), 1, "the spare one");
    check_empty(&SLAB);
}

#[test]
fn a_block_goes_to_the_bin_that_its_run_has_moved_to_meanwhile() {
    static SLAB: Slab = Slab::new();
    let class = Class::of(layout(1_000, 8)).expect("it is served");
    for _ in 0..50 {
        let piece = Piece::new(&SLAB, layout(1_000, 8), 7);
        let run = Chunk::run_of(piece.memory);
        // SAFETY: a run lives while one of its blocks is used.
        let stripe = unsafe { run.as_ref() }.stripe();
        let other = (stripe + 1) % SLAB_STRIPES;
        let mut left = SLAB.stripes[stripe][class.index].lock();
        let thread = spawn("user".to_owned(), move || piece.free(&SLAB)).expect("a thread");
        // Mostly it waits for the lock by then, which it looked up before.
        (0..1_000).for_each(|_| std::thread::yield_now());
        let mut joined = SLAB.stripes[other][class.index].lock();
        // SAFETY: it has room, so that it is in the bin that it leaves.
        unsafe { left.remove(run) };
        // SAFETY: as above, a block of it is still used.
        unsafe { run.as_ref() }.move_to(u8::try_from(other).expect("there are few stripes"));
        // SAFETY: it just left the one list that it was in.
        unsafe { joined.push(run) };
        drop((left, joined));
        thread.join().expect("nothing was written to");
        check_empty(&SLAB);
    }
}
