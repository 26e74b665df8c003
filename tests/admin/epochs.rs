//! BUMPEPOCH and what nodes know of epochs.

use slotkeep::{BumpEpoch, ClusterState, Epoch, SetSlot};

use crate::setup::{assigned, open, slot, three, two};

#[test]
fn bump_epoch_gives_the_greatest_epoch_once() {
    let (cluster, nodes) = assigned(2);
    let greatest = nodes[1].config_epoch();
    assert_eq!(nodes[1].bump_epoch(), Ok(BumpEpoch::Still(greatest)));
    let BumpEpoch::Bumped(epoch) = nodes[0].bump_epoch().unwrap() else {
        panic!("the first node did not have the greatest epoch");
    };
    assert_eq!(epoch.get(), greatest.get() + 1);
    assert_eq!(nodes[0].config_epoch(), epoch);
    assert_eq!(nodes[0].bump_epoch(), Ok(BumpEpoch::Still(epoch)));
    assert_eq!(cluster.slot_map().config_epoch(two()), greatest, "no claim has changed");
    assert!(matches!(nodes[1].bump_epoch(), Ok(BumpEpoch::Bumped(later)) if later > epoch));
}

#[test]
fn a_bumped_epoch_takes_no_slot_and_the_next_flip_is_newer() {
    let (cluster, nodes) = assigned(2);
    nodes[0].bump_epoch().unwrap();
    let bumped = nodes[0].config_epoch();
    let s = slot(3300);
    open(&nodes[0], &nodes[1], s);
    nodes[1].set_slot(s, SetSlot::Node { owner: two() }).unwrap();
    assert!(cluster.slot_map().get(s).epoch > bumped);
    assert_eq!(nodes[0].slot_owner(s).owner, Some(two()));
}

#[test]
fn a_node_that_joins_knows_every_owner_and_owns_nothing() {
    let (cluster, nodes) = assigned(2);
    let joined = cluster.add_node().unwrap();
    assert_eq!(joined.id(), three());
    assert!(joined.slots().is_empty());
    assert_eq!(joined.slot_map(), nodes[0].slot_map());
    assert_eq!(joined.cluster_state(), ClusterState::Ok);
    assert_eq!(joined.config_epoch(), Epoch::ZERO);
    assert_eq!(joined.current_epoch(), nodes[1].current_epoch());
}
