//! A slot on its way to and fro: three nodes, one slot with so many keys, and the ways to move it.

use std::thread;

use slotkeep::Cluster;
use slotkeep::Error;
use slotkeep::MigrateOptions;
use slotkeep::Node;
use slotkeep::SetSlot;
use slotkeep::Slot;
use slotkeep::limits::MIGRATE_KEYS_DEFAULT;
use slotkeep::reshard::Move;
use slotkeep::reshard::MoveStep;
use slotkeep::reshard::PlannedMove;

use crate::measure::Contestant;

/// What a value takes, in bytes.
pub const VALUE: [u8; 64] = [b'v'; 64];

/// Three nodes, of which the third only hears of the moves, and one slot with keys.
pub struct Stage {
    cluster: Cluster,
    slot: Slot,
    /// The slot's owner, and where it goes.
    ends: [Node; 2],
    /// The keys of the slot, 20 bytes each.
    keys: Vec<String>,
}

/// How the slot goes from one end to the other; returns how many keys went along.
type Way = fn(&Stage, &Node, &Node) -> Result<u64, Error>;

impl Stage {
    /// A cluster with so many keys in its one slot.
    ///
    /// # Errors
    /// The cluster cannot be built.
    pub fn of(count: usize) -> Result<Self, Error> {
        let cluster = Cluster::builder().nodes(3).build()?;
        let keys: Vec<_> = (0..count).map(|number| format!("{{move}}:{number:013}")).collect();
        let client = cluster.client();
        for key in &keys {
            client.set(key, &VALUE)?;
        }
        let slot = Slot::of("{move}");
        let (owner, others): (Vec<_>, Vec<_>) =
            cluster.nodes().into_iter().partition(|node| node.slots().contains(slot));
        let mut ends = owner.into_iter().chain(others);
        let ends = [(); 2].map(|()| ends.next().expect("there are three nodes"));
        Ok(Self { cluster, slot, ends, keys })
    }

    /// [`Node::hand_over`], under a name that tells this stage from another one.
    pub fn handover(&self, name: &str) -> Contestant<'_> {
        self.to_and_fro(name, Self::hand_over)
    }

    /// [`Move`], which sends keys in batches of the default size.
    pub fn classic(&self) -> Contestant<'_> {
        self.to_and_fro("classic, batches", Self::drive)
    }

    /// The verbs of SETSLOT around MIGRATE of one key after another.
    pub fn key_by_key(&self) -> Contestant<'_> {
        self.to_and_fro("classic, key by key", Self::migrate)
    }

    /// A pass moves the slot away and back: two operations, each the move of one slot.
    fn to_and_fro(&self, name: &str, way: Way) -> Contestant<'_> {
        Contestant::new(name, 2, move || {
            let [home, away] = &self.ends;
            let forth = way(self, home, away).expect("the slot moves away");
            let back = way(self, away, home).expect("the slot moves back");
            assert_eq!([forth, back], [self.keys.len() as u64; 2], "every key goes along");
            forth + back
        })
    }

    fn hand_over(&self, source: &Node, target: &Node) -> Result<u64, Error> {
        Ok(source.hand_over(self.slot, target.id())?.keys)
    }

    fn drive(&self, source: &Node, target: &Node) -> Result<u64, Error> {
        let planned = PlannedMove { slot: self.slot, source: source.id(), target: target.id() };
        let mut driver = Move::new(&self.cluster, planned, MIGRATE_KEYS_DEFAULT)?;
        loop {
            match driver.step()? {
                MoveStep::More => {}
                MoveStep::Busy => thread::yield_now(),
                MoveStep::Done { .. } => return Ok(driver.keys_moved()),
                MoveStep::Paused | MoveStep::Wait { .. } => unreachable!("nobody holds it back"),
            }
        }
    }

    fn migrate(&self, source: &Node, target: &Node) -> Result<u64, Error> {
        target.set_slot(self.slot, SetSlot::Importing { source: source.id() })?;
        source.set_slot(self.slot, SetSlot::Migrating { target: target.id() })?;
        let mut moved = 0;
        for key in &self.keys {
            let sent = source.migrate_keys(&[key], target.id(), MigrateOptions::default())?;
            moved += sent.moved as u64;
        }
        // Its claim closes the move at the source and is heard by the third node.
        target.set_slot(self.slot, SetSlot::Node { owner: target.id() })?;
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_takes_all_keys_along_and_the_third_node_hears_of_it() {
        let stage = Stage::of(65).expect("a cluster");
        let [home, away] = &stage.ends;
        let ways: [Way; 3] = [Stage::hand_over, Stage::drive, Stage::migrate];
        for (at, way) in ways.into_iter().enumerate() {
            assert_eq!(way(&stage, home, away).expect("it moves away"), 65, "way {at}");
            let owners = stage.cluster.nodes().into_iter().map(|node| node.slot_owner(stage.slot));
            let owners: Vec<_> = owners.collect();
            assert!(owners.iter().all(|owner| owner.owner == Some(away.id())), "{owners:?}");
            assert_eq!(away.count_keys_in_slot(stage.slot).expect("it is there"), 65, "way {at}");
            assert_eq!(way(&stage, away, home).expect("it moves back"), 65, "way {at}");
        }
    }

    #[test]
    fn keys_of_the_slot_have_twenty_bytes() {
        let stage = Stage::of(3).expect("a cluster");
        assert!(stage.keys.iter().all(|key| key.len() == 20 && Slot::of(key) == stage.slot));
    }
}
