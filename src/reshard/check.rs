//! `Cluster::check`: everything that is open or not as it should be, slot by slot.

use std::fmt;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::limits::CHECK_FINDINGS_MAX;
use crate::limits::CHECK_LOOKS_MAX;
use crate::node::HandoverRecord;
use crate::node::Node;
use crate::reshard::Finding;
use crate::reshard::diagnose::Look;
use crate::reshard::diagnose::Recorded;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::SlotSet;

/// What a check found; nothing when all is well. Prints a line for each finding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// By slot, open handovers first and kept conflicts last; at most [`CHECK_FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// How many more there were.
    pub omitted: u64,
}

impl CheckReport {
    /// Whether nothing was found.
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn push(&mut self, finding: Finding) {
        if self.findings.len() < CHECK_FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.omitted += 1;
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))?;
        if self.omitted > 0 { writeln!(f, "and {} more", self.omitted) } else { Ok(()) }
    }
}

impl<V: Value + ?Sized> Cluster<V> {
    /// Looks for moves that are open, slots without an owner or with several, keys that nobody
    /// finds, marks that belong to no move, and views that contradict each other. Changes nothing;
    /// [`fix`](Self::fix) repairs what it finds.
    ///
    /// One slot after another, and in a slot one node's token after another; when something is
    /// found the slot is looked at again, until two looks agree. So a cluster at rest is seen as it
    /// is. While it is being changed, what is found was so for a moment: an open move is often one
    /// that goes on, and a view may be behind because the claim is on its way.
    ///
    /// Takes the token of each slot's owner and of each node that has had something of the slot,
    /// and reads one word for each slot of each node.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn check(&self) -> Result<CheckReport, Error> {
        self.check_slots(&Slot::all().collect())
    }

    /// [`check`](Self::check) of some slots only.
    ///
    /// # Errors
    /// As `check`.
    pub fn check_slots(&self, slots: &SlotSet) -> Result<CheckReport, Error> {
        let nodes = self.nodes();
        let mut report = CheckReport::default();
        for record in open_handovers(self, slots) {
            report.push(finding_of(&record));
        }
        for slot in slots {
            for finding in look_twice(self, &nodes, slot)?.findings() {
                report.push(finding);
            }
        }
        for node in &nodes {
            let kept = node.conflicts().into_iter();
            for conflict in kept.filter(|conflict| slots.contains(conflict.claim.slot)) {
                report.push(Finding::KeptConflict { node: node.id(), conflict });
            }
        }
        Ok(report)
    }
}

/// The open handovers of sets in which one of the slots is.
pub(super) fn open_handovers<V: Value + ?Sized>(
    cluster: &Cluster<V>,
    slots: &SlotSet,
) -> Vec<HandoverRecord> {
    let mut open = cluster.handovers();
    open.retain(|record| record.moves.iter().any(|planned| slots.contains(planned.slot)));
    open
}

pub(super) fn finding_of(record: &HandoverRecord) -> Finding {
    let slot = record.moves.first().map_or(Slot::MIN, |planned| planned.slot);
    Finding::OpenHandover { slot, id: record.id, phase: record.phase }
}

/// Looks at a slot until nothing is to be said of it, or two looks agree.
pub(super) fn look_twice<V: Value + ?Sized>(
    cluster: &Cluster<V>,
    nodes: &[Node<V>],
    slot: Slot,
) -> Result<Look, Error> {
    let mut look = look(cluster, nodes, slot)?;
    for _ in 1..CHECK_LOOKS_MAX {
        if look.findings().is_empty() {
            break;
        }
        let again = self::look(cluster, nodes, slot)?;
        let agree = again == look;
        look = again;
        if agree {
            break;
        }
    }
    Ok(look)
}

fn look<V: Value + ?Sized>(
    cluster: &Cluster<V>,
    nodes: &[Node<V>],
    slot: Slot,
) -> Result<Look, Error> {
    let recorded = cluster.slot_owner(slot);
    let holdings = cluster.holdings(slot)?;
    let views = nodes.iter().map(|node| (node.id(), node.slot_owner(slot)));
    let views = views.filter(|&(_, view)| view != recorded).collect();
    let marks = holdings.iter().filter_map(|holding| holding.state.move_id());
    let records = marks.filter_map(|id| cluster.move_record(id));
    let live_keys = |node| holdings.iter().find(|at| at.node == node).map_or(0, |at| at.live_keys);
    let records = records.filter(|record| !record.phase.is_ended()).map(|record| Recorded {
        id: record.id,
        source: record.source,
        target: record.target,
        is_prepared: record.explains_copies(live_keys(record.target)),
    });
    let records = records.collect();
    Ok(Look { slot, recorded, holdings, views, records })
}
