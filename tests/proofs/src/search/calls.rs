//! Calls of clients, one hold a step: what `src/node/execute.rs` and `src/cluster/call.rs` do.

use crate::limits::REDIRECTS_BEFORE_GATE;
use crate::migration;
use crate::migration::ClusterHealth;
use crate::migration::Facts;
use crate::migration::Kind;
use crate::migration::Owner;
use crate::migration::Presence;
use crate::migration::Request;
use crate::migration::Route;
use crate::migration::Semantics;
use crate::migration::SlotState;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

use super::setup::Setup;
use super::violation::Violation;
use super::wording::Wording;
use super::world::Asking;
use super::world::Call;
use super::world::Entry;
use super::world::Errand;
use super::world::KEYS;
use super::world::KeyIndex;
use super::world::Op;
use super::world::Pull;
use super::world::Way;
use super::world::World;
use super::world::node_id;
use super::world::raise;

/// What one hold of a call came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The call was served, and has ended.
    Served,
    /// It was sent on by MOVED or ASK.
    SentOn,
    /// The same node is asked again: the slot has changed between two holds of the call. Counts as
    /// a redirect, though no node sent the call on.
    AsksAgain,
    /// It goes on in the next hold.
    GoesOn,
    /// It has ended: the keys are split.
    Split,
    /// It has ended: nobody owns the slot.
    Down,
}

impl World {
    /// A call begins at the node that its client's map names.
    pub(crate) fn begin(&mut self, client: usize, op: Op) {
        // `Client::any_node` is the first.
        let at = self.clients[client].map.owner.unwrap_or(node_id(0));
        let (errand, late_for) = (Errand::Ask(Asking::No), [false; KEYS]);
        let (asked_around, redirects, inside) = (false, 0, false);
        let call = Call { op, at, errand, asked_around, redirects, inside, late_for };
        self.clients[client].call = Some(call);
    }

    /// `Call::step`: one hold of a call that has begun.
    pub(crate) fn step(&mut self, client: usize, setup: &Setup) -> Result<Step, Violation> {
        let Some(mut call) = self.clients[client].call else { return Ok(Step::Served) };
        let step = match call.errand {
            Errand::Ask(asking) => self.ask(client, &mut call, asking, setup)?,
            Errand::Pull(pull) => self.run_pulled(client, &mut call, pull, setup)?,
        };
        let goes_on = !matches!(step, Step::Served | Step::Split | Step::Down);
        if matches!(step, Step::SentOn | Step::AsksAgain) {
            self.count_redirect(&mut call, setup)?;
        }
        self.clients[client].call = goes_on.then_some(call);
        if !self.is_gate_closed() {
            self.late_verbs = 0;
        }
        Ok(step)
    }

    /// `Call::count_redirect`, where there are gates.
    fn count_redirect(&mut self, call: &mut Call, setup: &Setup) -> Result<(), Violation> {
        let Some(gate) = setup.gate else { return Ok(()) };
        call.redirects += 1;
        if call.redirects > gate.redirects_max {
            return Err(Violation::TooManyRedirects(call.redirects));
        }
        if u32::from(call.redirects) > REDIRECTS_BEFORE_GATE && !call.inside {
            if !self.is_gate_closed() {
                self.late_verbs = gate.late_verbs;
            }
            call.inside = true;
        }
        Ok(())
    }

    /// `Roster::execute`, one token.
    fn ask(
        &mut self,
        client: usize,
        call: &mut Call,
        asking: Asking,
        setup: &Setup,
    ) -> Result<Step, Violation> {
        if let Some(judged) = self.asking_to_judge(call.at, asking, setup) {
            call.errand = Errand::Pull(judged);
            return Ok(Step::GoesOn);
        }
        self.ask_with(client, call, asking, setup)
    }

    /// `asking_to_judge`: ASKING that names no move, at a node that imports.
    fn asking_to_judge(&self, at: NodeId, asking: Asking, setup: &Setup) -> Option<Pull> {
        match (asking, self.node(at).state) {
            (Asking::Any, SlotState::Importing { source, id })
                if setup.wording != Wording::AskingWithoutId =>
            {
                Some(Pull { source, target: at, id, way: Way::Neither })
            }
            _ => None,
        }
    }

    /// `Roster::execute_routed`.
    fn ask_with(
        &mut self,
        client: usize,
        call: &mut Call,
        asking: Asking,
        setup: &Setup,
    ) -> Result<Step, Violation> {
        let facts = self.facts(call, asking, setup);
        let route = migration::route(&facts, || self.presence(call, setup.wording));
        self.follow(client, call, route, setup)
    }

    /// `Executed::Redirect` and `Call::follow`: a call is served, or knows where to go.
    fn follow(
        &mut self,
        client: usize,
        call: &mut Call,
        route: Route,
        setup: &Setup,
    ) -> Result<Step, Violation> {
        match route {
            Route::Serve => {
                self.run(call.op, call.at)?;
                Ok(Step::Served)
            }
            Route::PullBack { target, id } => {
                let (source, way) = (call.at, Way::Back);
                call.errand = Errand::Pull(Pull { source, target, id, way });
                Ok(Step::GoesOn)
            }
            Route::Pull { source, target, id } => {
                call.errand = Errand::Pull(Pull { source, target, id, way: Way::Forth });
                Ok(Step::GoesOn)
            }
            Route::Ask { target, id } => {
                let is_wire = setup.semantics == Semantics::Redis;
                let asking = if is_wire { Asking::Any } else { Asking::Move(id) };
                (call.at, call.errand) = (target, Errand::Ask(asking));
                Ok(Step::SentOn)
            }
            Route::Moved { owner } => {
                self.learn(client, self.node(call.at).view, setup.wording);
                let map = self.clients[client].map;
                let better = map.owner.filter(|&better| better != call.at);
                (call.at, call.errand) = (better.unwrap_or(owner), Errand::Ask(Asking::No));
                Ok(Step::SentOn)
            }
            Route::TryAgain if setup.semantics == Semantics::Redis => Ok(Step::Split),
            Route::ClusterDown(_) => Ok(self.ask_around(client, call)),
            Route::TryAgain | Route::Trimming | Route::CrossSlot => {
                Err(Violation::Impossible("a route"))
            }
        }
    }

    /// `Roster::facts`.
    fn facts(&self, call: &Call, asking: Asking, setup: &Setup) -> Facts {
        let node = self.node(call.at);
        let owner = match node.view.owner {
            _ if node.owned => Owner::Me,
            Some(owner) if owner != call.at => Owner::Other(owner),
            Some(_) | None => Owner::None,
        };
        Facts {
            node: call.at,
            semantics: setup.semantics,
            request: Request::OneSlot,
            kind: if call.op.writes() { Kind::Write } else { Kind::Read },
            owner,
            health: ClusterHealth::Ok,
            state: node.state,
            asking: match asking {
                Asking::No => false,
                _ if setup.wording == Wording::AskingWithoutId => true,
                Asking::Move(id) => node.state.move_id() == Some(id),
                // It is judged under both tokens, and names a move afterwards.
                Asking::Any => false,
            },
            replica_of_owner: false,
            readonly: false,
            trimming: false,
        }
    }

    /// `count_presence`.
    fn presence(&self, call: &Call, wording: Wording) -> Presence {
        let entries = self.node(call.at).entries;
        let early = wording == Wording::ClockBeforeTheToken;
        let is_here = |&&key: &&KeyIndex| {
            let seems_live = early && entries[key] == Entry::Dead && call.late_for[key];
            entries[key].is_live() || seems_live
        };
        let keys = call.op.keys();
        let present = keys.iter().filter(is_here).count();
        Presence { missing: keys.len() - present, present, multi: keys.len() > 1 }
    }

    /// `ClientMap::learn`: with one slot, the answering node's whole map says no more than MOVED.
    fn learn(&mut self, client: usize, news: SlotOwner, wording: Wording) {
        let stalest = self.nodes[..self.count].iter().map(|node| node.view).min_by_key(|v| v.epoch);
        let client = &mut self.clients[client];
        if wording == Wording::MapOfAnyNode {
            client.map = stalest.filter(|_| client.refreshes_next).unwrap_or(news);
            client.refreshes_next = !client.refreshes_next;
        } else {
            raise(&mut client.map, news);
        }
    }

    /// `Call::down`: before it is believed, everybody is asked once.
    fn ask_around(&mut self, client: usize, call: &mut Call) -> Step {
        if call.asked_around {
            return Step::Down;
        }
        call.asked_around = true;
        let before = self.clients[client].map;
        let mut map = before;
        self.nodes[..self.count].iter().for_each(|node| raise(&mut map, node.view));
        self.clients[client].map = map;
        let learned = map.owner.is_some() && map.epoch > before.epoch;
        match map.owner.filter(|&owner| learned || owner != call.at) {
            Some(owner) => {
                (call.at, call.errand) = (owner, Errand::Ask(Asking::No));
                Step::GoesOn
            }
            None => Step::Down,
        }
    }

    /// `Roster::execute_pull`, two tokens: named keys travel, and the call runs.
    fn run_pulled(
        &mut self,
        client: usize,
        call: &mut Call,
        pull: Pull,
        setup: &Setup,
    ) -> Result<Step, Violation> {
        // What it carried to the node counts no more: the mark for which it did has gone.
        call.errand = Errand::Ask(Asking::No);
        if pull.way == Way::Neither {
            let asking = self.judged(call.op, pull);
            return self.ask_with(client, call, asking, setup);
        }
        if !self.may_pull(pull, setup.wording) {
            let Some(route) = self.answer_without_pull(call.at, pull) else {
                return Ok(Step::AsksAgain);
            };
            return self.follow(client, call, route, setup);
        }
        let (from, to) = match pull.way {
            Way::Forth | Way::Neither => (pull.source, pull.target),
            Way::Back => (pull.target, pull.source),
        };
        call.op.keys().iter().for_each(|&key| self.travel(from, to, key));
        self.run(call.op, to)?;
        Ok(Step::Served)
    }

    /// `Roster::judge_held`: ASKING that names no move is that of the open move, or none.
    fn judged(&self, op: Op, Pull { source, target, id, .. }: Pull) -> Asking {
        let is_open = migration::check_batch(&self.marks(source), &self.marks(target), id).is_ok();
        let is_here = |&key: &KeyIndex| self.node(source).entries[key].is_live();
        let honoured = is_open && !op.keys().iter().any(is_here);
        if honoured { Asking::Move(id) } else { Asking::No }
    }

    /// Whether the move is open, or aborting, as the pull says.
    fn may_pull(&self, Pull { source, target, id, way }: Pull, wording: Wording) -> bool {
        let (source, mut target) = (self.marks(source), self.marks(target));
        let looks_away = wording == Wording::AbortOfTheSourceFirst && way == Way::Back;
        if looks_away && target.state.move_id() == Some(id) {
            target.state = SlotState::Retired { source: source.node, id };
        }
        match way {
            Way::Forth | Way::Neither => {
                migration::check_batch(&source, &target, id).is_ok()
                    || wording == Wording::PullWithoutCheck
            }
            Way::Back => migration::check_pull_back(&source, &target, id).is_ok(),
        }
    }

    /// `Roster::answer_without_pull`; nothing when the node is to be asked again.
    fn answer_without_pull(&self, asked: NodeId, pull: Pull) -> Option<Route> {
        let node = self.node(asked);
        match (node.state, node.view.owner) {
            (SlotState::Migrating { target, id }, _) if id == pull.id => {
                Some(Route::Ask { target, id })
            }
            (SlotState::Importing { id, .. }, Some(owner)) if id == pull.id && owner != asked => {
                Some(Route::Moved { owner })
            }
            _ => None,
        }
    }

    /// `Operation::run` at a node: whatever it meets there has to be what was acknowledged last.
    fn run(&mut self, op: Op, at: NodeId) -> Result<(), Violation> {
        match op {
            Op::Get(key) => self.read(key, at)?,
            Op::GetBoth => op.keys().iter().try_for_each(|&key| self.read(key, at))?,
            Op::Remove(key) => {
                self.read(key, at)?;
                self.write(at, key, Entry::Absent);
            }
            Op::Set(key) => self.write(at, key, Entry::Live { current: true, expires: false }),
            Op::SetExpiring(key) => {
                self.write(at, key, Entry::Live { current: true, expires: true });
            }
            Op::SetBoth => op.keys().iter().for_each(|&key| {
                self.write(at, key, Entry::Live { current: true, expires: false });
            }),
        }
        Ok(())
    }

    /// A lookup removes what has expired.
    fn read(&mut self, key: KeyIndex, at: NodeId) -> Result<(), Violation> {
        let acknowledged = self.acknowledged[key];
        let entry = &mut self.node_mut(at).entries[key];
        if entry.is_live() != acknowledged || entry.is_live() != entry.is_current() {
            return Err(Violation::Read { key, at });
        }
        if *entry == Entry::Dead {
            *entry = Entry::Absent;
        }
        Ok(())
    }
}
