//! `SlotMap`: a snapshot of who owns which slot.

use crate::slot::Slot;
use crate::slot::SlotRange;
use crate::slot::SlotSet;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;
use crate::topology::View;

/// A snapshot of a node's or a client's view: for every slot its owner and epoch (256 KiB).
///
/// Each slot was read at one instant; two slots may have been read at two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotMap {
    slots: Box<[SlotOwner]>,
}

impl SlotMap {
    pub(crate) fn of(view: &View) -> Self {
        Self { slots: view.iter().map(|(_, ownership)| ownership).collect() }
    }

    /// Who owns `slot`, and since which epoch.
    pub fn get(&self, slot: Slot) -> SlotOwner {
        self.slots[slot.index()]
    }

    /// Who owns `slot`.
    pub fn owner(&self, slot: Slot) -> Option<NodeId> {
        self.get(slot).owner
    }

    /// The slots of one node.
    pub fn slots_of(&self, node: NodeId) -> SlotSet {
        Slot::all().filter(|&slot| self.owner(slot) == Some(node)).collect()
    }

    /// The slots that nobody owns.
    pub fn unowned(&self) -> SlotSet {
        Slot::all().filter(|&slot| self.owner(slot).is_none()).collect()
    }

    /// The nodes that own at least one slot, ascending.
    pub fn owners(&self) -> Vec<NodeId> {
        let mut owners: Vec<_> = self.slots.iter().filter_map(|known| known.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// The runs of neighbouring slots with the same owner, ascending; unowned slots are left out.
    pub fn ranges(&self) -> Vec<(SlotRange, NodeId)> {
        let mut runs: Vec<(SlotRange, NodeId)> = Vec::new();
        let owned = Slot::all().filter_map(|slot| self.owner(slot).map(|owner| (slot, owner)));
        for (slot, owner) in owned {
            if let Some((run, last)) = runs.last_mut()
                && *last == owner
                && run.end().index() + 1 == slot.index()
                && let Ok(longer) = SlotRange::new(run.start(), slot)
            {
                *run = longer;
            } else {
                runs.push((SlotRange::from(slot), owner));
            }
        }
        runs
    }

    /// The greatest epoch among the slots of `node`: its config epoch, as Redis shows it.
    pub fn config_epoch(&self, node: NodeId) -> Epoch {
        let own = self.slots.iter().filter(|known| known.owner == Some(node));
        own.map(|known| known.epoch).max().unwrap_or(Epoch::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_owner_become_ranges() {
        let view = View::new();
        let (a, b) = (NodeId::new(0), NodeId::new(1));
        for (number, owner, epoch) in [(0, a, 1), (1, a, 2), (2, b, 3), (4, a, 4)] {
            let slot = Slot::new(number).unwrap();
            view.raise(slot, SlotOwner::new(owner, Epoch::new(epoch)));
        }
        let map = SlotMap::of(&view);
        let text: Vec<_> = map.ranges().iter().map(|(r, n)| format!("{r}={}", n.index())).collect();
        assert_eq!(text, ["0-1=0", "2=1", "4=0"]);
        assert_eq!(map.config_epoch(a.unwrap()).get(), 4);
        assert_eq!(map.unowned().len(), 16_384 - 4);
        assert_eq!(map.owners().len(), 2);
    }
}
