//! `StatsReport`: what was counted, by slot, worker and node, and in total.

use std::ptr;

use crate::cluster::Client;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::node::Roster;
use crate::shard::Stats;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::holds_token;
use crate::topology::NodeId;
use crate::worker::WorkerError;

/// What was counted of one slot on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SlotStats {
    /// The slot.
    pub slot: Slot,
    /// The node.
    pub node: NodeId,
    /// The counts, all of one instant.
    pub stats: Stats,
    /// The place of the slot's worker there among all workers.
    worker: usize,
}

/// What was counted in a cluster, read once. Whatever is asked of it is a sum of the same counts,
/// so that all of them agree with each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatsReport {
    /// By node, then by slot.
    slots: Vec<SlotStats>,
    nodes: Vec<NodeId>,
    workers: Vec<String>,
}

impl StatsReport {
    fn of<V: Value + ?Sized>(roster: &Roster<V>) -> Self {
        let mut report = Self { slots: Vec::new(), nodes: Vec::new(), workers: Vec::new() };
        let mut known = Vec::new();
        for member in roster.members() {
            report.nodes.push(member.id);
            // The places of this node's workers, which other nodes may use too.
            let places: Vec<_> = member
                .workers
                .iter()
                .map(|worker| {
                    let known_at =
                        known.iter().position(|&other| ptr::eq(other, &raw const **worker));
                    known_at.unwrap_or_else(|| {
                        known.push(&raw const **worker);
                        report.workers.push(worker.name().to_owned());
                        known.len() - 1
                    })
                })
                .collect();
            let happened = member.slot_stats().filter(|(_, stats)| *stats != Stats::default());
            report.slots.extend(happened.map(|(slot, stats)| {
                let worker = places[member.worker(slot).number()];
                SlotStats { slot, node: member.id, stats, worker }
            }));
        }
        report
    }

    /// The counts of each slot on each node where anything was counted, by node, then by slot, both
    /// ascending. A slot that moved is listed for each node that had it.
    pub fn slots(&self) -> &[SlotStats] {
        &self.slots
    }

    /// The counts of each worker, by its name: of the shards that it owns, whichever thread ran the
    /// calls.
    pub fn workers(&self) -> Vec<(&str, Stats)> {
        let mut sums = vec![Stats::default(); self.workers.len()];
        for slot in &self.slots {
            sums[slot.worker] += slot.stats;
        }
        self.workers.iter().map(String::as_str).zip(sums).collect()
    }

    /// The counts of each node, ascending.
    pub fn nodes(&self) -> Vec<(NodeId, Stats)> {
        let mut sums = vec![Stats::default(); self.nodes.len()];
        for slot in &self.slots {
            sums[slot.node.index()] += slot.stats;
        }
        self.nodes.iter().copied().zip(sums).collect()
    }

    /// The counts of everything.
    pub fn total(&self) -> Stats {
        self.slots.iter().map(|slot| slot.stats).sum()
    }
}

fn report<V: Value + ?Sized>(roster: &Roster<V>) -> Result<StatsReport, Error> {
    if holds_token() {
        return Err(WorkerError::Reentrant.into());
    }
    Ok(StatsReport::of(roster))
}

impl<V: Value + ?Sized> Cluster<V> {
    /// What was counted since the cluster began: hits, misses, writes, removals by their causes,
    /// moves, and what is there.
    ///
    /// Takes the token of each slot that was ever used, one after another: about a millisecond when
    /// all of them were, and 2 MiB for the report. The counts of a slot on a node are of one
    /// instant; a slot that moves meanwhile may be counted before on one side and after on the
    /// other. Answers after [`shutdown`](Self::shutdown) too.
    ///
    /// # Errors
    /// [`Error::Reentrant`] from inside a closure under a token.
    ///
    /// # Examples
    /// ```
    /// use slotkeep::Cluster;
    /// # fn main() -> Result<(), slotkeep::Error> {
    /// let cluster = Cluster::builder().nodes(3).build()?;
    /// let client = cluster.client();
    /// client.set("user:1000", b"Ada")?;
    /// assert!(client.get("user:1000")?.is_some());
    /// assert!(client.get("user:1001")?.is_none());
    /// let report = cluster.stats()?;
    /// assert_eq!((report.total().hits, report.total().misses), (1, 1));
    /// assert_eq!(report.nodes().into_iter().map(|(_, stats)| stats.inserts).sum::<u64>(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Result<StatsReport, Error> {
        report(self.roster())
    }
}

impl<V: Value + ?Sized> Client<V> {
    /// As [`Cluster::stats`]: of the whole cluster, whoever called.
    ///
    /// # Errors
    /// [`Error::Reentrant`] from inside a closure under a token.
    pub fn stats(&self) -> Result<StatsReport, Error> {
        report(&self.roster)
    }
}
