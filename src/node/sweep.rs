//! The chores of a worker: its shards with deadlines are swept one hold at a time.

use crate::node::Member;
use crate::node::Roster;
use crate::shard::Dropped;
use crate::shard::Sweep;
use crate::shard::Value;
use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::time::NEVER;
use crate::topology::NodeId;
use crate::worker::Chores;
use crate::worker::Worker;

const SLOTS: u32 = SLOT_COUNT as u32;

impl<V: Value + ?Sized> Chores for Roster<V> {
    fn sweep(&self, worker: &Worker, from: u32) -> Option<(u32, u64)> {
        let (member, slot) = self.next_deadline_at(worker, from)?;
        let place = place_of(member.id, slot);
        Some(match self.sweep_shard(member, slot) {
            Sweep::More => (place, NEVER),
            Sweep::Next(time) => (place + 1, time),
        })
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// The first shard at or after a place that has a deadline and belongs to the worker.
    fn next_deadline_at(&self, worker: &Worker, from: u32) -> Option<(&Member<V>, Slot)> {
        let (mut node, mut slot) = ((from / SLOTS) as usize, from % SLOTS);
        while let Some(member) = NodeId::new(node).and_then(|id| self.member(id)) {
            let owns = member.workers.get(worker.number());
            if owns.is_some_and(|own| std::ptr::eq(Arc::as_ptr(own), worker)) {
                let count = member.workers.len();
                let found = member
                    .deadlines
                    .from(slot)
                    .find(|slot| slot.index() % count == worker.number());
                if let Some(found) = found {
                    return Some((member, found));
                }
            }
            (node, slot) = (node + 1, 0);
        }
        None
    }

    /// One hold of the sweep of one shard.
    pub(crate) fn sweep_shard(&self, member: &Member<V>, slot: Slot) -> Sweep {
        let mut dropped = Dropped::new();
        let mut hold = member.headers.get(slot).lock();
        let now = self.now();
        let swept = hold.sweep(now.nanos(), &mut dropped);
        if swept == Sweep::Next(NEVER) {
            member.deadlines.remove(slot);
        }
        swept
    }
}

fn place_of(node: NodeId, slot: Slot) -> u32 {
    u32::try_from(node.index()).unwrap_or(u32::MAX) * SLOTS + u32::from(slot.number())
}
