//! What the tables of a bounded cache take: they follow what is in them, downwards as well.

use std::ops::Range;

use slotkeep::{Bound, Client, Cluster, Error, Policy, Slot};

use crate::Tested;

/// Room for what a shard has beside its table.
const ASIDE_BYTES: usize = 256;

/// A node with room for some entries, which lie in a few slots.
struct Node {
    cluster: Cluster,
    client: Client,
}

/// A key of a slot, as long as any other.
fn key(tag: &str, number: u32) -> String {
    format!("{{{tag}}}{number:08}")
}

impl Node {
    fn new(capacity: u64, policy: Policy) -> Result<Self, Error> {
        let cluster = Cluster::builder().bound(Bound::Entries(capacity)).policy(policy).build()?;
        let client = cluster.client();
        Ok(Self { cluster, client })
    }

    fn insert(&self, tag: &str, mut numbers: Range<u32>) -> Tested {
        Ok(numbers.try_for_each(|number| self.client.set(key(tag, number), b""))?)
    }

    fn read(&self, tag: &str, mut numbers: Range<u32>) -> Tested {
        numbers.try_for_each(|number| self.client.get(key(tag, number)).map(drop))
    }

    fn len(&self, tag: &str) -> usize {
        self.cluster.nodes()[0].count_keys_in_slot(Slot::of(tag)).expect("no closure runs")
    }

    /// Whether the table of a slot has at most three buckets for every entry, or twice as many, as
    /// long as there was a reason to put the last step off.
    fn fits(&self, tag: &str) -> bool {
        let node = &self.cluster.nodes()[0];
        let bytes = node.memory_bytes_in_slot(Slot::of(tag)).expect("no closure runs");
        let len = self.len(tag);
        // A pointer and a control byte each.
        bytes - len * (24 + key(tag, 0).len()) <= 9 * 2 * 3 * len + ASIDE_BYTES
    }
}

#[test]
fn a_slot_that_has_lost_most_of_its_entries_to_another_one_gives_its_table_back() -> Tested {
    for policy in [Policy::Adaptive, Policy::AllKeysLru, Policy::AllKeysLfu, Policy::AllKeysRandom]
    {
        let node = Node::new(1_500, policy)?;
        node.insert("old", 0..1_500)?;
        let mut next = 0;
        while node.len("old") > 150 || !node.fits("old") {
            node.insert("new", next..next + 100)?;
            node.read("old", 0..100)?;
            next += 100;
            assert!(node.len("old") >= 10, "{policy}: a few entries in a large table");
            assert!(next < 500_000, "{policy}: a table stays as large as it was");
        }
    }
    Ok(())
}

#[test]
fn so_does_a_slot_whose_entries_the_window_has_lost() -> Tested {
    let node = Node::new(10_000, Policy::Adaptive)?;
    node.insert("main", 0..10_000)?;
    node.read("main", 0..10_000)?;
    // The window has room for some five hundred.
    node.insert("flood", 0..400)?;
    assert!(node.len("flood") >= 300, "they are in the window");
    node.read("main", 0..10_000)?;
    node.insert("next", 0..450)?;
    let left = node.len("flood");
    assert!((10..80).contains(&left), "the window has lost most of them, and {left} are left");
    assert!(node.fits("flood"), "{left} entries in a large table");
    Ok(())
}
