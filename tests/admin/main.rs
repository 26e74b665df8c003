//! The admin verbs: what each one wants, what it does, and what it says when it is refused.

mod coverage;
mod epochs;
mod keys;
mod setup;
mod slots;
mod verbs;

use slotkeep::{AdminError, Error, MigrateOptions, MoveId, SetSlot};

use crate::setup::{KEY, assigned, one, slot, two};

#[test]
fn after_shutdown_every_verb_answers_closed() {
    let (cluster, nodes) = assigned(2);
    cluster.shutdown();
    let closed = |done: Result<(), AdminError>| {
        assert_eq!(done.map_err(Error::from), Err(Error::Closed));
    };
    let s = slot(3300);
    closed(nodes[0].add_slots(&[s]));
    closed(nodes[0].del_slots(&[s]));
    closed(nodes[0].flush_slots());
    closed(nodes[0].bump_epoch().map(drop));
    closed(nodes[1].set_slot(s, SetSlot::Importing { source: one() }).map(drop));
    closed(nodes[0].migrate_batch(s, MoveId::new(1), 1).map(drop));
    closed(nodes[0].migrate_keys(&[KEY], two(), MigrateOptions::default()).map(drop));
    closed(nodes[0].copy_keys(&[KEY], two(), MigrateOptions::default()).map(drop));
    closed(cluster.abort_step(MoveId::new(1), 1).map(drop));
    assert!(matches!(cluster.add_node(), Err(Error::Closed)));
}
