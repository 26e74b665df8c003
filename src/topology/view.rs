//! `View`: for every slot its owner and the epoch of the flip that made it owner, a word each.

use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::AtomicU32;
use crate::sync::AtomicU64;
use crate::sync::Ordering;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::chunk::CHUNK_WORDS;
use crate::topology::chunk::CHUNKS;
use crate::topology::chunk::Chunk;

const SLOTS: usize = SLOT_COUNT as usize;

/// How many bits of a word name the node; those above are the epoch.
const NODE_BITS: u32 = 64 - Epoch::BITS;

/// Who owns a slot, by the flip of that epoch. Compared by epoch: the greater one is the newer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SlotOwner {
    /// The owner, or nobody.
    pub owner: Option<NodeId>,
    /// The epoch of the flip; [`Epoch::ZERO`] when the slot never had an owner.
    pub epoch: Epoch,
}

impl SlotOwner {
    pub(crate) fn new(owner: Option<NodeId>, epoch: Epoch) -> Self {
        Self { owner, epoch }
    }

    /// 48 bits of epoch above 16 bits of node, so that words compare by epoch.
    fn packed(self) -> u64 {
        self.epoch.get() << NODE_BITS | self.owner.map_or(0, NodeId::packed)
    }

    fn unpacked(word: u64) -> Self {
        Self { owner: NodeId::unpacked(word), epoch: Epoch::new(word >> NODE_BITS) }
    }
}

/// One ownership for every slot, a word each, so that readers need no lock. Words only ever grow,
/// but for `replace`.
///
/// A view takes 4 KiB, and a KiB more for each 128 neighbouring slots of which one has changed
/// since the view was made, and another one if they had changed in the view that it was copied
/// from; copies share what was different from slot to slot when that one was made.
pub(crate) struct View {
    chunks: Box<[Chunk; CHUNKS]>,
    /// How many slots have an owner.
    covered: AtomicU32,
}

impl View {
    /// A view in which nobody owns anything.
    pub(crate) fn new() -> Self {
        Self::from_fn(|_| SlotOwner::default())
    }

    /// A view of these ownerships.
    pub(crate) fn from_fn(ownership: impl Fn(Slot) -> SlotOwner) -> Self {
        let mut words = Slot::all().map(|slot| ownership(slot).packed());
        let mut next = |_| words.next().unwrap_or_default();
        Self::of_chunks((0..CHUNKS).map(|_| Chunk::of(&std::array::from_fn(&mut next))))
    }

    /// A view that knows what this one knows, each slot as it is when it is read.
    pub(crate) fn copy(&self) -> Self {
        Self::of_chunks(self.chunks.iter().map(Chunk::copy))
    }

    fn of_chunks(chunks: impl Iterator<Item = Chunk>) -> Self {
        let chunks = chunks.collect::<Box<[_]>>().try_into().ok().expect("as many as there are");
        let mut view = Self { chunks, covered: AtomicU32::new(0) };
        let covered = view.iter().filter(|(_, known)| known.owner.is_some()).count();
        *view.covered.get_mut() = u32::try_from(covered).unwrap_or(u32::MAX);
        view
    }

    /// The chunk of a slot, and which of its words is the slot's.
    #[inline]
    fn place(&self, slot: Slot) -> (&Chunk, usize) {
        // No slot lies behind the last chunk; the remainder says so to the compiler.
        (&self.chunks[slot.index() / CHUNK_WORDS % CHUNKS], slot.index() % CHUNK_WORDS)
    }

    #[inline]
    fn word(&self, slot: Slot) -> u64 {
        let (chunk, at) = self.place(slot);
        chunk.word(at)
    }

    /// What is known of one slot. Who reads an owner sees its flip.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> SlotOwner {
        SlotOwner::unpacked(self.word(slot))
    }

    /// The owner alone.
    #[inline]
    pub(crate) fn owner(&self, slot: Slot) -> Option<NodeId> {
        NodeId::unpacked(self.word(slot))
    }

    /// Takes `news` over if its epoch is greater, and returns what was known before.
    pub(crate) fn raise(&self, slot: Slot, news: SlotOwner) -> SlotOwner {
        SlotOwner::unpacked(self.raise_word(self.place(slot), news.packed()))
    }

    fn raise_word(&self, (chunk, at): (&Chunk, usize), news: u64) -> u64 {
        let old = chunk.raise(at, news);
        if old < news {
            self.count_change(NodeId::unpacked(old), NodeId::unpacked(news));
        }
        old
    }

    /// Replaces `known` by `news` unless somebody else was faster.
    pub(crate) fn replace(&self, slot: Slot, known: SlotOwner, news: SlotOwner) -> bool {
        let (chunk, at) = self.place(slot);
        let done = chunk.replace(at, known.packed(), news.packed());
        if done {
            self.count_change(known.owner, news.owner);
        }
        done
    }

    fn count_change(&self, old: Option<NodeId>, new: Option<NodeId>) {
        match (old, new) {
            (None, Some(_)) => drop(self.covered.fetch_add(1, Ordering::Relaxed)),
            (Some(_), None) => drop(self.covered.fetch_sub(1, Ordering::Relaxed)),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    /// Whether every slot has an owner in this view.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.covered.load(Ordering::Relaxed) == u32::from(SLOT_COUNT)
    }

    /// How many slots have an owner in this view.
    #[cfg(test)]
    pub(crate) fn covered(&self) -> usize {
        self.covered.load(Ordering::Relaxed) as usize
    }

    /// Every slot with what is known of it, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, SlotOwner)> + '_ {
        Slot::all().map(|slot| (slot, self.get(slot)))
    }

    /// The slots that a node owns, ascending, each with the epoch since which it does.
    pub(crate) fn owned_by(&self, node: NodeId) -> impl Iterator<Item = (Slot, Epoch)> + '_ {
        let owned = self.iter().filter(move |(_, known)| known.owner == Some(node));
        owned.map(|(slot, known)| (slot, known.epoch))
    }

    /// Takes over whatever `other` knows better.
    pub(crate) fn merge(&self, other: &Self) {
        for index in 0..CHUNKS {
            self.merge_chunk(index, other);
        }
    }

    /// As [`merge`](Self::merge), of one chunk. One that neither has changed since one was copied
    /// from the other is not looked at.
    pub(super) fn merge_chunk(&self, index: usize, other: &Self) {
        let (mine, theirs) = (&self.chunks[index], &other.chunks[index]);
        if mine.is_as_untouched_as(theirs) {
            return;
        }
        let (known, news) = (mine.look(), theirs.look());
        for at in 0..CHUNK_WORDS {
            let news = news.word(at);
            // By epoch alone, as claims are compared.
            if known.word(at) >> NODE_BITS < news >> NODE_BITS {
                self.raise_word((mine, at), news);
            }
        }
    }

    /// How many changes of a chunk have been counted; see [`Chunk::changes`].
    pub(super) fn changes_of(&self, index: usize) -> u64 {
        self.chunks[index].changes()
    }
}

/// One bit for each slot, set and cleared by several threads: 2 KiB.
#[derive(Debug)]
pub(crate) struct SlotBits(Box<[AtomicU64]>);

impl SlotBits {
    pub(crate) fn new() -> Self {
        Self(std::iter::repeat_with(|| AtomicU64::new(0)).take(SLOTS / 64).collect())
    }

    /// Whether the bit is set. Relaxed: who asks takes the slot's token next, or lives with a look
    /// that is a little old.
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.0[slot.index() / 64].load(Ordering::Relaxed) & 1 << (slot.index() % 64) != 0
    }

    /// Sets the bit. The holder of the slot's token calls it.
    #[inline]
    pub(crate) fn insert(&self, slot: Slot) {
        let (word, bit) = (slot.index() / 64, 1 << (slot.index() % 64));
        if self.0[word].load(Ordering::Relaxed) & bit == 0 {
            // SeqCst pairs with the load of `from`: who sets a bit and then looks at a worker's
            // alarm either sees that a pass has begun, or is seen by that pass.
            self.0[word].fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Clears the bit. The holder of the slot's token calls it.
    pub(crate) fn remove(&self, slot: Slot) {
        let (word, bit) = (slot.index() / 64, 1_u64 << (slot.index() % 64));
        self.0[word].fetch_and(!bit, Ordering::Relaxed);
    }

    /// The slots whose bits are set, ascending, each word read when it is reached.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.from(0)
    }

    /// The slots at or after `first` whose bits are set.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = Slot> + '_ {
        let words = self.0.iter().zip(0_u32..).skip((first / 64) as usize);
        words.flat_map(move |(word, index)| {
            // SeqCst pairs with the `fetch_or` of `insert`.
            let mut bits = word.load(Ordering::SeqCst);
            if index == first / 64 {
                bits &= u64::MAX << (first % 64);
            }
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                // Clears the lowest bit that is set.
                bits &= bits - 1;
                u16::try_from(index * 64 + bit).ok().and_then(Slot::new)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;

    fn owned(index: usize, epoch: u64) -> SlotOwner {
        SlotOwner::new(NodeId::new(index), Epoch::new(epoch))
    }

    #[test]
    fn the_greater_epoch_wins_whatever_the_node() {
        let view = View::new();
        let slot = Slot::MAX;
        assert_eq!(view.raise(slot, owned(9, 1)), SlotOwner::default());
        view.raise(slot, owned(0, 2));
        view.raise(slot, owned(9, 1));
        assert_eq!(view.get(slot), owned(0, 2));
        assert_eq!(view.covered(), 1);
        view.raise(slot, SlotOwner::new(None, Epoch::new(3)));
        assert_eq!((view.get(slot).owner, view.covered()), (None, 0));
    }

    /// Two nodes, with a border inside of a chunk.
    fn shared_out() -> View {
        View::from_fn(|slot| if slot.index() < 1000 { owned(0, 1) } else { owned(1, 2) })
    }

    fn changed(view: &View) -> usize {
        view.chunks.iter().filter(|chunk| chunk.has_changed()).count()
    }

    /// What is counted is what is there.
    #[track_caller]
    fn check_covered(view: &View, covered: usize) {
        assert_eq!(view.iter().filter(|(_, known)| known.owner.is_some()).count(), covered);
        assert_eq!((view.covered(), view.is_full()), (covered, covered == SLOTS));
    }

    #[test]
    fn only_the_chunks_of_slots_that_change_take_words() {
        let view = shared_out();
        check_covered(&view, SLOTS);
        // Older claims, and equal ones, are no change.
        for slot in Slot::all() {
            assert_eq!(view.raise(slot, view.get(slot)), view.get(slot));
            view.raise(slot, owned(7, 0));
        }
        assert_eq!(changed(&view), 0);
        for number in [0, 1000, 1001, 16_383] {
            let slot = Slot::new(number).unwrap();
            let (before, news) = (view.get(slot), SlotOwner::new(None, Epoch::new(9)));
            assert_eq!((view.raise(slot, news), view.get(slot)), (before, news));
        }
        assert_eq!(changed(&view), 3);
        check_covered(&view, SLOTS - 4);
        assert!(view.owned_by(NodeId::new(0).unwrap()).count() == 999, "neighbours stay");
        let slot = Slot::new(5000).unwrap();
        assert!(!view.replace(slot, owned(0, 1), owned(5, 5)));
        assert!(view.replace(slot, owned(1, 2), owned(5, 5)));
        assert_eq!(changed(&view), 4);
        check_covered(&view, SLOTS - 4);
    }

    #[test]
    fn a_copy_knows_the_same_and_changes_alone() {
        let view = shared_out();
        for (at, number) in [3_u16, 1005, 9000].into_iter().enumerate() {
            let slot = Slot::new(number).unwrap();
            view.raise(slot, owned(at, 9));
            let copy = view.copy();
            assert!(copy.iter().eq(view.iter()));
            assert_eq!(changed(&copy), 0);
            copy.raise(slot, SlotOwner::new(None, Epoch::new(10)));
            assert_eq!(view.get(slot), owned(at, 9));
            check_covered(&copy, SLOTS - 1);
            check_covered(&view, SLOTS);
        }
    }

    #[test]
    fn what_is_merged_is_the_newer_of_both_slot_by_slot() {
        let (mine, theirs) = (shared_out(), shared_out());
        mine.merge(&theirs.copy());
        assert_eq!(changed(&mine), 0, "equal views have no news");
        let blank = View::new();
        blank.merge(&theirs);
        assert!(blank.iter().eq(theirs.iter()));
        check_covered(&blank, SLOTS);
        let claims = [(0, Some(2), 5), (1, None, 6), (1000, Some(3), 7), (9000, Some(4), 8)];
        for (number, node, epoch) in claims {
            let (slot, owner) = (Slot::new(number).unwrap(), node.and_then(NodeId::new));
            theirs.raise(slot, SlotOwner::new(owner, Epoch::new(epoch)));
        }
        let newer = Slot::new(9000).unwrap();
        mine.raise(newer, owned(5, 9));
        mine.merge(&theirs);
        for (slot, known) in mine.iter() {
            let expected = if slot == newer { owned(5, 9) } else { theirs.get(slot) };
            assert_eq!(known, expected, "{slot}");
        }
        check_covered(&mine, SLOTS - 1);
        assert_eq!(changed(&mine), 3);
    }

    #[test]
    fn threads_that_change_one_fresh_chunk_at_once_lose_nothing() {
        const THREADS: u16 = 4;
        let slot = |number| Slot::new(number).unwrap();
        for round in 0..200 {
            let view = Arc::new((shared_out(), AtomicU32::new(0)));
            let threads = (0..THREADS).map(|number| {
                let shared = Arc::clone(&view);
                let claims = move || {
                    let (view, started) = &*shared;
                    started.fetch_add(1, Ordering::Relaxed);
                    while started.load(Ordering::Relaxed) < u32::from(THREADS) {
                        std::hint::spin_loop();
                    }
                    // A slot of its own, and one that all of them claim.
                    let none = SlotOwner::new(None, Epoch::new(3));
                    assert_eq!(view.raise(slot(896 + number), none), owned(0, 1));
                    view.raise(slot(900), owned(9, 10 + u64::from(number)));
                };
                crate::sync::spawn(format!("claimant {number}"), claims).unwrap()
            });
            let threads: Vec<_> = threads.collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(view.0.get(slot(900)), owned(9, 13), "round {round}");
            assert_eq!(view.0.get(slot(901)), owned(0, 1), "round {round}");
            check_covered(&view.0, SLOTS - usize::from(THREADS));
        }
    }

    #[test]
    fn replace_wants_what_was_read() {
        let view = View::new();
        assert!(view.replace(Slot::MIN, SlotOwner::default(), owned(1, 1)));
        assert!(!view.replace(Slot::MIN, SlotOwner::default(), owned(2, 2)));
        assert_eq!(view.get(Slot::MIN), owned(1, 1));
    }

    #[test]
    fn bits_are_found_again() {
        let bits = SlotBits::new();
        let slots = [0_u16, 63, 64, 9000, 16_383].map(|number| Slot::new(number).unwrap());
        for slot in slots {
            bits.insert(slot);
        }
        assert!(bits.iter().eq(slots));
        assert!(bits.from(64).eq(slots[2..].iter().copied()));
        assert!(bits.from(65).eq(slots[3..].iter().copied()));
        bits.remove(slots[2]);
        assert_eq!(bits.iter().count(), 4);
    }
}
