//! `Fix`: repairs what a check finds, one repair a step, while the cluster serves.

use std::cell::Cell;
use std::cell::OnceCell;
use std::fmt;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::limits::CHECK_FINDINGS_MAX;
use crate::limits::FIX_ROUNDS_MAX;
use crate::limits::MIGRATE_KEYS_DEFAULT;
use crate::node::AdminError;
use crate::node::Conflict;
use crate::node::HandoverRecord;
use crate::node::Holding;
use crate::node::MovePhase;
use crate::node::Node;
use crate::node::SetSlot;
use crate::reshard::CheckReport;
use crate::reshard::Finding;
use crate::reshard::Handover;
use crate::reshard::Move;
use crate::reshard::MoveStep;
use crate::reshard::Resume;
use crate::reshard::check::finding_of;
use crate::reshard::check::look_twice;
use crate::reshard::check::open_handovers;
use crate::reshard::diagnose::Look;
use crate::reshard::diagnose::OpenMove;
use crate::reshard::driver::Driver;
use crate::reshard::wait_out;
use crate::shard::Value;
use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::slot::SlotSet;
use crate::topology::NodeId;
use crate::worker::WorkerError;

/// What [`Cluster::fix_with`] does where there is a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FixOptions {
    open_moves: Resume,
    uncovered: Uncovered,
}

/// What becomes of slots that nobody owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uncovered {
    /// Each goes to the node that holds most of its keys; without keys to the one that the
    /// cluster's word names, and else to the one with the fewest slots.
    Assign,
    /// They stay as they are, and so do keys that lie somewhere in them.
    Leave,
}

impl FixOptions {
    /// Open moves are finished, slots that nobody owns are assigned.
    pub fn new() -> Self {
        Self { open_moves: Resume::Finish, uncovered: Uncovered::Assign }
    }

    /// What becomes of moves that are open.
    #[must_use]
    pub fn open_moves(mut self, how: Resume) -> Self {
        self.open_moves = how;
        self
    }

    /// What becomes of slots that nobody owns.
    #[must_use]
    pub fn uncovered(mut self, how: Uncovered) -> Self {
        self.uncovered = how;
        self
    }
}

impl Default for FixOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What was done about a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Repair {
    /// The move was finished: the slot has its new owner.
    Finished,
    /// The move was aborted: every key is back.
    Aborted,
    /// The slot got this owner, or this owner claimed it by a later epoch.
    Claimed {
        /// The owner.
        by: NodeId,
    },
    /// What a node had no right to was taken away from it; its keys come home by a move that is
    /// aborted.
    Reclaimed {
        /// The owner.
        by: NodeId,
        /// The other node.
        from: NodeId,
    },
    /// The node was told who owns the slot.
    Told,
    /// The conflict was none any more, and was forgotten.
    Forgotten,
}

/// What a fix did, and what it could not do. Prints a line for each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FixReport {
    /// What was done, in its order; at most [`CHECK_FINDINGS_MAX`].
    pub repaired: Vec<(Finding, Repair)>,
    /// How many more repairs there were.
    pub omitted: u64,
    /// What was still there when nothing more could be done.
    pub left: CheckReport,
}

impl FixReport {
    /// Whether there was nothing to do.
    pub fn is_empty(&self) -> bool {
        self.repaired.is_empty() && self.left.is_healthy()
    }

    fn push(&mut self, finding: Finding, repair: Repair) {
        if self.repaired.len() < CHECK_FINDINGS_MAX {
            self.repaired.push((finding, repair));
        } else {
            self.omitted += 1;
        }
    }
}

impl fmt::Display for FixReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (finding, repair) in &self.repaired {
            writeln!(f, "{finding}: {repair:?}")?;
        }
        if self.omitted > 0 {
            writeln!(f, "and {} more repairs", self.omitted)?;
        }
        self.left.findings.iter().try_for_each(|finding| writeln!(f, "{finding}: left"))
    }
}

/// What a step of a [`Fix`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FixStep {
    /// There is more to do.
    More,
    /// A call holds the slot still; try again a little later.
    Busy,
    /// Everything was looked at.
    Done,
}

/// What is to be done about a finding.
#[derive(Clone, Copy)]
enum Act {
    Drive(OpenMove),
    Claim(NodeId),
    Reclaim { by: NodeId, from: NodeId },
    Tell { node: NodeId, owner: NodeId },
}

/// Repairs slot after slot, one repair a step; what `Cluster::fix` drives to its end.
///
/// It may be dropped at any step: what is left is what a check finds, and the next fix goes on.
pub struct Fix<V: Value + ?Sized> {
    cluster: Cluster<V>,
    nodes: Vec<Node<V>>,
    options: FixOptions,
    /// How many slots each node owns, counted when it is first asked.
    slot_counts: OnceCell<Vec<Cell<usize>>>,
    /// The conflicts that were kept when the fix began.
    kept: Vec<(NodeId, Conflict)>,
    slots: SlotSet,
    next: Option<Slot>,
    /// How many repairs of the present slot were tried.
    rounds: u32,
    /// The handovers that were open when the fix began, and are not closed yet.
    handovers: Vec<HandoverRecord>,
    driving: Option<Driving>,
    report: FixReport,
}

/// A move or a handover that is being finished or undone.
struct Driving {
    finding: Finding,
    driver: Box<dyn Driver>,
    /// A refusal turns it round, once: a handover one of whose slots cannot be reserved; or only
    /// the target of a move is marked, and when the source cannot take the move over, that mark is
    /// all that is left of it.
    may_turn: bool,
}

impl<V: Value + ?Sized> fmt::Debug for Fix<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fix = f.debug_struct("Fix");
        fix.field("next", &self.next).field("report", &self.report).finish_non_exhaustive()
    }
}

impl<V: Value + ?Sized> Fix<V> {
    /// A fix of these slots that has not begun.
    pub fn new(cluster: &Cluster<V>, options: FixOptions, slots: SlotSet) -> Self {
        let nodes = cluster.nodes();
        let kept = |node: &Node<V>| {
            let id = node.id();
            node.conflicts().into_iter().map(move |conflict| (id, conflict))
        };
        Self {
            cluster: cluster.clone(),
            handovers: open_handovers(cluster, &slots),
            next: slots.iter().next(),
            slots,
            kept: nodes.iter().flat_map(kept).collect(),
            nodes,
            options,
            slot_counts: OnceCell::new(),
            rounds: 0,
            driving: None,
            report: FixReport::default(),
        }
    }

    /// What was done so far.
    pub fn report(&self) -> &FixReport {
        &self.report
    }

    /// Looks at one slot and makes one repair there, or goes on with one that takes several steps.
    ///
    /// A step that looks takes many holds, one token in each: those of every node that has to do
    /// with the slot, up to [`CHECK_LOOKS_MAX`](crate::limits::CHECK_LOOKS_MAX) times, and then the
    /// one of the repair. A step that goes on with a move or a handover takes one hold.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`]; the fix stays where it is.
    pub fn step(&mut self) -> Result<FixStep, Error> {
        if let Some(driving) = self.driving.take() {
            return self.drive(driving);
        }
        if let Some(record) = self.handovers.pop() {
            return self.begin_handover(&record);
        }
        let Some(slot) = self.next else { return Ok(FixStep::Done) };
        let look = look_twice(&self.cluster, &self.nodes, slot)?;
        let found = look.findings();
        let act = self.next_act(&look).filter(|_| self.rounds < self.rounds_max());
        let about = act.and_then(|act| self.reason_of(act, &found));
        let (Some(act), Some(about)) = (act, about) else {
            for finding in found {
                self.report.left.push(finding);
            }
            self.go_on_after(slot);
            return Ok(FixStep::More);
        };
        self.act(about, act, &look)
    }

    fn rounds_max(&self) -> u32 {
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        FIX_ROUNDS_MAX.saturating_add(nodes.saturating_mul(4))
    }

    fn go_on_after(&mut self, slot: Slot) {
        self.rounds = 0;
        let mut later = (slot.number() + 1..SLOT_COUNT).filter_map(Slot::new);
        self.next = later.find(|&next| self.slots.contains(next));
        if self.next.is_none() {
            self.forget_conflicts();
        }
    }

    /// Moves come first, since their own verbs end them; then the slot gets one owner, the owner
    /// everything that is its, and at last all others hear of it.
    fn next_act(&self, look: &Look) -> Option<Act> {
        if look.is_reserved() {
            return None;
        }
        if let Some(open) = look.holdings.iter().find_map(|holding| look.open_move(holding)) {
            return Some(Act::Drive(open));
        }
        let Some(owner) = look.owner() else {
            return self.next_owner(look).map(Act::Claim);
        };
        let by = owner.node;
        if let Some(rival) = look.recorded_rival() {
            return Some(Act::Reclaim { by, from: rival });
        }
        if look.recorded != owner.view {
            return Some(Act::Claim(by));
        }
        if owner.state.is_open() {
            return owner.state.peer().map(|from| Act::Reclaim { by, from });
        }
        // A node that takes itself for the owner hears no claim, whatever its header says.
        let has_no_right = |holding: &&Holding| {
            let claims = holding.owns || holding.view.owner == Some(holding.node);
            holding.node != by && (claims || look.is_stray(holding))
        };
        if let Some(other) = look.holdings.iter().find(has_no_right) {
            return Some(Act::Reclaim { by, from: other.node });
        }
        let kept = self.kept_of(look.slot).map(|(_, conflict)| conflict.claim.ownership);
        let mut heard = look.views.iter().map(|&(_, view)| view).chain(kept);
        if heard.any(|view| view != owner.view && view.epoch >= owner.view.epoch) {
            return Some(Act::Claim(by));
        }
        let behind = look.views.iter().find(|&&(node, _)| node != by);
        behind.map(|&(node, _)| Act::Tell { node, owner: by })
    }

    fn kept_of(&self, slot: Slot) -> impl Iterator<Item = &(NodeId, Conflict)> {
        self.kept.iter().filter(move |(_, conflict)| conflict.claim.slot == slot)
    }

    /// The finding about which something is done: the one that fits it best.
    fn reason_of(&self, act: Act, found: &[Finding]) -> Option<Finding> {
        let fitting = found.iter().find(|finding| act.is_about(finding)).or(found.first());
        let slot = self.next?;
        let kept = || {
            let &(node, conflict) = self.kept_of(slot).next()?;
            Some(Finding::KeptConflict { node, conflict })
        };
        fitting.cloned().or_else(kept)
    }

    fn next_owner(&self, look: &Look) -> Option<NodeId> {
        if self.options.uncovered == Uncovered::Leave {
            return None;
        }
        let most = look.holdings.iter().rev().max_by_key(|holding| holding.live_keys);
        let with_keys = most.filter(|holding| holding.live_keys > 0).map(|holding| holding.node);
        let fewest = || {
            let counted = self.nodes.iter().map(Node::id).zip(self.slot_counts());
            counted.min_by_key(|(node, count)| (count.get(), *node)).map(|(node, _)| node)
        };
        with_keys.or(look.recorded.owner).or_else(fewest)
    }

    fn act(&mut self, finding: Finding, act: Act, look: &Look) -> Result<FixStep, Error> {
        let slot = look.slot;
        let done = match act {
            Act::Drive(open) => return self.begin_drive(finding, open),
            Act::Claim(by) => {
                let claimed = self.node(by).and_then(|node| node.claim_slot(slot, look.recorded));
                claimed.map(|()| self.count_claim(by, look))
            }
            Act::Reclaim { by, from } => {
                let reclaimed = self.node(by).and_then(|node| node.reclaim(slot, from));
                reclaimed.map(|_| Repair::Reclaimed { by, from })
            }
            Act::Tell { node, owner } => {
                let verb = SetSlot::Node { owner };
                let told = self.node(node).and_then(|node| node.set_slot(slot, verb));
                told.map(|_| Repair::Told)
            }
        };
        self.note(finding, done)
    }

    fn slot_counts(&self) -> &[Cell<usize>] {
        self.slot_counts.get_or_init(|| {
            let map = self.cluster.slot_map();
            self.nodes.iter().map(|node| Cell::new(map.slots_of(node.id()).len())).collect()
        })
    }

    fn count_claim(&self, by: NodeId, look: &Look) -> Repair {
        let counts = self.slot_counts.get().filter(|_| look.recorded.owner.is_none());
        if let Some(count) = counts.and_then(|counts| counts.get(by.index())) {
            count.update(|count| count + 1);
        }
        Repair::Claimed { by }
    }

    /// A node, which may have joined since the fix began.
    fn node(&self, id: NodeId) -> Result<Node<V>, AdminError> {
        self.cluster.node(id).ok_or(AdminError::UnknownNode { node: id })
    }

    /// A repair that was refused changed nothing: somebody else was faster, and the slot is looked
    /// at again.
    fn note(&mut self, about: Finding, done: Result<Repair, AdminError>) -> Result<FixStep, Error> {
        match done {
            Err(AdminError::Worker(WorkerError::Busy)) => return Ok(FixStep::Busy),
            Err(AdminError::Worker(error)) => return Err(error.into()),
            Err(_) => {}
            Ok(repair) => self.report.push(about, repair),
        }
        self.rounds += 1;
        Ok(FixStep::More)
    }

    fn begin_drive(
        &mut self,
        finding: Finding,
        OpenMove { id, phase, .. }: OpenMove,
    ) -> Result<FixStep, Error> {
        // One that has just ended has nothing to pause.
        let _ = self.cluster.resume_move(id);
        let mut driver = match Move::take_over(&self.cluster, id, MIGRATE_KEYS_DEFAULT) {
            Ok(driver) => driver,
            Err(Error::Admin(error)) => return self.note(finding, Err(error)),
            Err(error) => return Err(error),
        };
        if self.options.open_moves == Resume::Abort {
            driver.abort();
        }
        let may_turn = phase == MovePhase::Importing;
        self.driving = Some(Driving { finding, driver: Box::new(driver), may_turn });
        Ok(FixStep::More)
    }

    fn begin_handover(&mut self, record: &HandoverRecord) -> Result<FixStep, Error> {
        let finding = finding_of(record);
        let begun = Handover::take_over(&self.cluster, record.id).and_then(|mut driver| {
            if self.options.open_moves == Resume::Abort {
                driver.abort()?;
            }
            Ok(driver)
        });
        let driver = match begun {
            Ok(driver) => driver,
            // Another driver has ended it meanwhile.
            Err(Error::Admin(error)) => return self.note(finding, Err(error)),
            Err(error) => return Err(error),
        };
        self.driving = Some(Driving { finding, driver: Box::new(driver), may_turn: true });
        Ok(FixStep::More)
    }

    fn drive(&mut self, mut driving: Driving) -> Result<FixStep, Error> {
        let stepped = match driving.driver.step() {
            Ok(MoveStep::Done { flipped }) => {
                self.rounds += 1;
                let repair = if flipped { Repair::Finished } else { Repair::Aborted };
                self.report.push(driving.finding, repair);
                return Ok(FixStep::More);
            }
            Ok(MoveStep::More) => Ok(FixStep::More),
            Ok(MoveStep::Busy | MoveStep::Paused | MoveStep::Wait { .. }) => Ok(FixStep::Busy),
            Err(error @ (Error::Closed | Error::Reentrant)) => Err(error),
            Err(_) if driving.may_turn => {
                driving.may_turn = false;
                driving.driver.abort();
                Ok(FixStep::More)
            }
            Err(_) => {
                self.rounds += 1;
                // Unless another driver has ended it meanwhile.
                let is_open = |id| self.cluster.handovers().iter().any(|record| record.id == id);
                if matches!(driving.finding, Finding::OpenHandover { id, .. } if is_open(id)) {
                    self.report.left.push(driving.finding);
                }
                return Ok(FixStep::More);
            }
        };
        self.driving = Some(driving);
        stepped
    }

    fn forget_conflicts(&mut self) {
        for node in &self.nodes {
            let before = node.conflicts();
            node.forget_resolved_conflicts(&self.slots);
            let after = node.conflicts();
            for conflict in before.into_iter().filter(|kept| self.slots.contains(kept.claim.slot)) {
                let finding = Finding::KeptConflict { node: node.id(), conflict };
                if after.contains(&conflict) {
                    self.report.left.push(finding);
                } else {
                    self.report.push(finding, Repair::Forgotten);
                }
            }
        }
    }
}

impl Act {
    /// Whether this is done about a finding.
    fn is_about(self, finding: &Finding) -> bool {
        match (self, finding) {
            (Self::Drive(open), Finding::OpenMove { id, .. }) => *id == open.id,
            (Self::Claim(_), Finding::Uncovered { .. } | Finding::Unrecorded { .. })
            | (Self::Reclaim { .. }, Finding::DoubleClaim { .. }) => true,
            (
                Self::Reclaim { by, from },
                Finding::StrayMark { node, .. } | Finding::OrphanedKeys { node, .. },
            ) => *node == from || *node == by,
            (Self::Tell { node, .. }, Finding::StaleView { node: of, .. }) => *of == node,
            _ => false,
        }
    }
}

impl<V: Value + ?Sized> Cluster<V> {
    /// Repairs what [`check`](Self::check) finds: [`fix_with`](Self::fix_with) the default options.
    ///
    /// # Errors
    /// As `fix_with`.
    pub fn fix(&self) -> Result<FixReport, Error> {
        self.fix_with(FixOptions::new())
    }

    /// Repairs what [`check`](Self::check) finds, slot by slot, on the calling thread, while calls
    /// are served: never more than two tokens of one slot are held, for one repair or one batch of
    /// keys.
    ///
    /// - A move that is open is finished or aborted, as the options say, also one that is paused;
    ///   one that has flipped is finished. So is the handover of a set in which one of the slots
    ///   is; one that is committed is finished.
    /// - Of several owners the one with the greatest epoch stays. The others' keys come home to it;
    ///   of a key that both have, the owner's stays.
    /// - Keys that nobody found come home. What has expired does not, nor what the owner has too.
    ///   A key that was removed at the owner while another node kept it is found there again:
    ///   nothing tells it from one that the owner never had.
    /// - A slot that nobody owns is assigned, as the options say.
    /// - Views that contradict the owner's are told again, by a later epoch if need be, and kept
    ///   conflicts that this settles are forgotten.
    ///
    /// It may be repeated, also after it was interrupted, and does nothing when all is well. Other
    /// drivers may be at work meanwhile; they may find that a move of theirs has ended. Slots that
    /// ADDSLOTS or DELSLOTS has reserved are left to them.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`]; what was repaired stays so.
    pub fn fix_with(&self, options: FixOptions) -> Result<FixReport, Error> {
        self.fix_slots(&Slot::all().collect(), options)
    }

    /// [`fix_with`](Self::fix_with) in some slots only.
    ///
    /// # Errors
    /// As `fix_with`.
    pub fn fix_slots(&self, slots: &SlotSet, options: FixOptions) -> Result<FixReport, Error> {
        let mut fix = Fix::new(self, options, slots.clone());
        let mut busy = 0_u32;
        loop {
            match fix.step()? {
                FixStep::More => busy = 0,
                FixStep::Busy => {
                    busy = busy.saturating_add(1);
                    wait_out(MoveStep::Busy, busy);
                }
                FixStep::Done => return Ok(fix.report),
            }
        }
    }
}
