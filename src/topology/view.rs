//! `View`: for every slot its owner and the epoch of the flip that made it owner, a word each.

use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::AtomicU32;
use crate::sync::AtomicU64;
use crate::sync::Ordering;
use crate::topology::Epoch;
use crate::topology::NodeId;

const SLOTS: usize = SLOT_COUNT as usize;

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
        self.epoch.get() << 16 | self.owner.map_or(0, NodeId::packed)
    }

    fn unpacked(word: u64) -> Self {
        Self { owner: NodeId::unpacked(word), epoch: Epoch::new(word >> 16) }
    }
}

/// One ownership for every slot: 128 KiB, a word each, so that readers need no lock. Words only
/// ever grow, but for `replace`.
pub(crate) struct View {
    words: Box<[AtomicU64]>,
    /// How many slots have an owner.
    covered: AtomicU32,
}

impl View {
    /// A view in which nobody owns anything.
    pub(crate) fn new() -> Self {
        Self {
            words: std::iter::repeat_with(|| AtomicU64::new(0)).take(SLOTS).collect(),
            covered: AtomicU32::new(0),
        }
    }

    /// What is known of one slot.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> SlotOwner {
        // Acquire pairs with the AcqRel of `raise`: who reads an owner sees its flip.
        SlotOwner::unpacked(self.words[slot.index()].load(Ordering::Acquire))
    }

    /// The owner alone.
    #[inline]
    pub(crate) fn owner(&self, slot: Slot) -> Option<NodeId> {
        NodeId::unpacked(self.words[slot.index()].load(Ordering::Acquire))
    }

    /// Takes `news` over if its epoch is greater, and returns what was known before.
    pub(crate) fn raise(&self, slot: Slot, news: SlotOwner) -> SlotOwner {
        // AcqRel pairs with the Acquire of `get`.
        let word = news.packed();
        let old = self.words[slot.index()].fetch_max(word, Ordering::AcqRel);
        if old < word {
            self.count_change(NodeId::unpacked(old), news.owner);
        }
        SlotOwner::unpacked(old)
    }

    /// Replaces `known` by `news` unless somebody else was faster.
    pub(crate) fn replace(&self, slot: Slot, known: SlotOwner, news: SlotOwner) -> bool {
        // AcqRel pairs with the Acquire of `get`.
        let done = self.words[slot.index()]
            .compare_exchange(known.packed(), news.packed(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
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

    /// Takes over whatever `other` knows better; returns whether anything was.
    pub(crate) fn merge(&self, other: &Self) -> bool {
        let mut learned = false;
        for (slot, news) in other.iter() {
            // Nearly always nothing is new, and a load costs less than a locked write.
            learned |=
                self.get(slot).epoch < news.epoch && self.raise(slot, news).epoch < news.epoch;
        }
        learned
    }
}

/// One bit for each slot, set and cleared by several threads: 2 KiB.
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
