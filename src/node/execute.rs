//! One operation on one node: token, state, route and run in one hold.

use std::mem;

use crate::command::Access;
use crate::command::Operation;
use crate::migration::ClusterHealth;
use crate::migration::Facts;
use crate::migration::Kind;
use crate::migration::MoveId;
use crate::migration::Owner;
use crate::migration::Presence;
use crate::migration::Request;
use crate::migration::Route;
use crate::migration::Semantics;
use crate::migration::SlotState;
use crate::migration::route;
use crate::node::Member;
use crate::node::Pull;
use crate::node::Roster;
use crate::node::Way;
use crate::node::bounded::Order;
use crate::node::member::state_of;
use crate::shard::Bare;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Hold;
use crate::shard::Key;
use crate::shard::Refusal;
use crate::shard::Shard;
use crate::shard::Value;
use crate::slot::Slot;
use crate::testing::Fault;
use crate::time::Now;
use crate::topology::SlotOwner;
use crate::worker::Patience;
use crate::worker::WorkerError;

/// Whether a call carries ASKING, and for which move. An argument of one call, never a state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Asking {
    /// It carries none.
    #[default]
    No,
    /// It names the move that an ASK named. Counts on the target while that move is open, and
    /// nowhere else.
    Move(MoveId),
    /// It names none: ASKING as it comes over the wire. Counts only in a call of
    /// [`Semantics::Redis`], and only if, under the tokens of both sides, the source is migrating
    /// to the node that is asked and holds none of the call's keys. So an ASKING that comes late,
    /// when the move has ended and another one is open, reads and writes no second home of a key.
    Any,
}

/// How one attempt of a call is made.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) slot: Slot,
    pub(crate) asking: Asking,
    pub(crate) semantics: Semantics,
    pub(crate) patience: Patience,
    /// The clock's reading before the token, for the fault of that name.
    pub(crate) early: Option<u64>,
    /// Whether room has been made, as far as there is something to evict.
    pub(crate) is_last: bool,
}

/// What a node answers when it does not serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Redirected {
    pub(crate) route: Route,
    /// What the node knows of the slot's owner: MOVED carries its epoch.
    pub(crate) known: SlotOwner,
}

/// What an attempt came to. Whatever was not run comes back.
pub(crate) enum Executed<O, T> {
    Done(T),
    Redirect(Redirected, O),
    /// The keys have to be pulled together first, under both tokens.
    Pull(Pull, O),
    /// The slot's state has changed; the same node is to be asked again.
    Again(O),
    /// There is no room for what it would write.
    NoRoom(Refusal, O),
}

/// What running an operation came to: its output, or that there is no room for what it would write.
pub(crate) type Ran<O, T> = Result<T, (Refusal, O)>;

impl<O, T> From<Ran<O, T>> for Executed<O, T> {
    fn from(ran: Ran<O, T>) -> Self {
        match ran {
            Ok(output) => Self::Done(output),
            Err((refusal, operation)) => Self::NoRoom(refusal, operation),
        }
    }
}

/// An attempt that did not reach the shard.
type NotExecuted<O> = (WorkerError, O);

pub(crate) type Attempted<O, T> = Result<Executed<O, T>, NotExecuted<O>>;

impl<V: Value + ?Sized> Roster<V> {
    /// Takes the token of a slot to serve an operation with these keys, where nothing stands in its
    /// way: the cluster is open, lends its tokens and asks for nothing more, the slot is the node's
    /// and no move of it is open. If anything does, [`hold`](Self::hold) and
    /// [`execute`](Self::execute) find out what.
    #[expect(clippy::inline_always, reason = "what a call is made of stays in registers")]
    #[inline(always)]
    pub(crate) fn hold_at_once<'r>(
        &self,
        member: &'r Member<V>,
        keys: &[Key<'_>],
        (slot, patience): (Slot, Patience),
    ) -> Option<Bare<'r, V>> {
        // Before anything else, because the lines are a long way off.
        if let [key, ..] = keys {
            member.headers.prefetch(key.slot, key.hash);
        }
        if !self.plain || self.expect_open().is_err() {
            return None;
        }
        let header = member.headers.get(slot);
        let hold = match patience {
            Patience::Wait => header.lock_bare(),
            Patience::Try => header.try_lock_bare()?,
        };
        (hold.is_settled() && member.is_up()).then_some(hold)
    }

    /// Runs an operation under a token that [`hold_at_once`](Self::hold_at_once) took.
    #[inline]
    pub(crate) fn serve_at_once<O: Operation<V>>(
        &self,
        member: &Member<V>,
        (slot, mut hold): (Slot, Bare<'_, V>),
        operation: O,
    ) -> O::Output {
        // As `Dropped::after`, but for its closure, into which the operation would be copied. Made
        // after the token was taken, it is freed after the token all the same: what runs gives the
        // token back on whatever way out, and nothing before it lets go of anything.
        let mut dropped = Dropped::new();
        let now = Now::new(&*self.clock);
        let mut context = Context::new(&now, &self.hasher, &mut dropped);
        let output = operation.run(&mut hold, &mut context);
        hold.count_units(1);
        member.release_bare(slot, hold);
        dropped.free();
        mem::forget(dropped);
        output
    }

    /// [`hold_at_once`](Self::hold_at_once) where what the nodes hold is bounded, or entries are
    /// kept on terms of the cluster.
    #[inline]
    pub(crate) fn hold<'r>(
        &self,
        member: &'r Member<V>,
        keys: &[Key<'_>],
        (slot, patience): (Slot, Patience),
    ) -> Option<Hold<'r, V>> {
        if let [key, ..] = keys {
            member.headers.prefetch(key.slot, key.hash);
        }
        if self.plain || !self.serves_at_once() {
            return None;
        }
        let header = member.headers.get(slot);
        let hold = match patience {
            Patience::Wait => header.lock(),
            Patience::Try => header.try_lock()?,
        };
        (hold.is_settled() && member.is_up()).then_some(hold)
    }

    /// Runs an operation under a token that [`hold`](Self::hold) took.
    #[inline]
    pub(crate) fn serve<O: Operation<V>>(
        &self,
        member: &Member<V>,
        (slot, hold): (Slot, Hold<'_, V>),
        operation: O,
    ) -> Ran<O, O::Output> {
        Dropped::after(|dropped| {
            let now = Now::new(&*self.clock);
            let context = self.context(&now, dropped);
            self.run_held(member, slot, operation, (hold, context))
        })
    }

    /// Runs an operation under the token of a slot in which all of its keys are, and gives the
    /// token back.
    #[expect(clippy::inline_always, reason = "what a call is made of stays in registers")]
    #[inline(always)]
    pub(super) fn run_held<O: Operation<V>>(
        &self,
        member: &Member<V>,
        slot: Slot,
        operation: O,
        held: (Hold<'_, V>, Context<'_, V>),
    ) -> Ran<O, O::Output> {
        match &member.order {
            Some(order) if O::ACCESS == Access::Write => {
                self.run_bounded((member, order), slot, operation, held)
            }
            Some(order @ Order::Sampled(_)) => {
                Ok(Self::run_traced((member, order), slot, operation, held))
            }
            Some(_) | None => Ok(Self::run_and_release(member, slot, operation, held)),
        }
    }

    /// Runs an operation under the token and gives it back.
    #[expect(clippy::inline_always, reason = "what a call is made of stays in registers")]
    #[inline(always)]
    pub(super) fn run_and_release<O: Operation<V>>(
        member: &Member<V>,
        slot: Slot,
        operation: O,
        (mut hold, mut context): (Hold<'_, V>, Context<'_, V>),
    ) -> O::Output {
        let output = operation.run(&mut hold, &mut context);
        Self::count_and_release(member, slot, hold);
        output
    }

    /// Counts an operation that has run, and gives the token back.
    #[inline]
    pub(super) fn count_and_release(member: &Member<V>, slot: Slot, mut hold: Hold<'_, V>) {
        hold.count_units(1);
        member.release(slot, hold);
    }

    /// Runs an operation on a node, in place or, in strict mode, on the shard's worker.
    #[inline]
    pub(crate) fn execute<O>(
        &self,
        member: &Member<V>,
        attempt: Attempt,
        operation: O,
    ) -> Attempted<O, O::Output>
    where
        O: Operation<V> + Send,
        O::Output: Send,
    {
        if let Err(error) = self.expect_open() {
            return Err((error, operation));
        }
        if self.strict {
            return Self::on_worker(member, attempt, operation, |attempt, operation| {
                self.making_room(member, attempt, operation, |attempt, operation| {
                    self.execute_here(member, attempt, operation)
                })
            });
        }
        self.making_room(member, attempt, operation, |attempt, operation| {
            self.execute_here(member, attempt, operation)
        })
    }

    /// Sends an attempt to the shard's worker. What was not run comes back.
    pub(super) fn on_worker<O, T>(
        member: &Member<V>,
        attempt: Attempt,
        operation: O,
        run: impl FnOnce(Attempt, O) -> Attempted<O, T> + Send,
    ) -> Attempted<O, T>
    where
        O: Send,
        T: Send,
    {
        let mut waiting = Some(operation);
        let borrowed = &mut waiting;
        let answer = member
            .worker(attempt.slot)
            .call(attempt.patience, move || borrowed.take().map(|op| run(attempt, op)));
        match (answer, waiting) {
            (Ok(Some(attempted)), _) => attempted,
            (Err(error), Some(operation)) => Err((error, operation)),
            (Ok(None), _) | (Err(_), None) => unreachable!("an operation runs once or comes back"),
        }
    }

    /// Runs an operation in place, under the token.
    fn execute_here<O: Operation<V>>(
        &self,
        member: &Member<V>,
        attempt: Attempt,
        operation: O,
    ) -> Attempted<O, O::Output> {
        let header = member.headers.get(attempt.slot);
        Dropped::after(|dropped| {
            let early_state = self.state_outside_token(member, attempt.slot);
            let hold = match attempt.patience {
                Patience::Wait => header.lock(),
                Patience::Try => match header.try_lock() {
                    Some(hold) => hold,
                    None => return Err((WorkerError::Busy, operation)),
                },
            };
            let early = attempt.early.map(EarlyClock);
            let now = match &early {
                Some(early) => Now::new(early),
                None => Now::new(&*self.clock),
            };
            let mut context = self.context(&now, dropped);
            context.guesses &= !attempt.is_last;
            Ok(if early_state == Some(true) && member.is_up() {
                self.run_held(member, attempt.slot, operation, (hold, context)).into()
            } else {
                self.execute_routed(member, attempt, operation, (hold, context))
            })
        })
    }

    /// The way of a slot that is open, foreign or down: asks `route` and does as it says.
    #[cold]
    pub(super) fn execute_routed<O: Operation<V>>(
        &self,
        member: &Member<V>,
        attempt: Attempt,
        operation: O,
        (hold, context): (Hold<'_, V>, Context<'_, V>),
    ) -> Executed<O, O::Output> {
        if let Some(judged) = asking_to_judge(member, attempt, &hold) {
            return Executed::Pull(judged, operation);
        }
        let facts = self.facts(member, attempt, O::ACCESS, &hold);
        let presence = || count_presence(operation.keys(), &hold, context.now);
        match route(&facts, presence) {
            Route::Serve => {
                let held = (hold, context);
                self.run_held(member, attempt.slot, operation, held).into()
            }
            Route::PullBack { target, id } => {
                Executed::Pull(Pull { source: member.id, target, id, way: Way::Back }, operation)
            }
            Route::Pull { source, target, id } => {
                Executed::Pull(Pull { source, target, id, way: Way::Forth }, operation)
            }
            route @ (Route::Ask { .. }
            | Route::Moved { .. }
            | Route::TryAgain
            | Route::Trimming
            | Route::CrossSlot
            | Route::ClusterDown(_)) => {
                let known = member.view.get(attempt.slot);
                Executed::Redirect(Redirected { route, known }, operation)
            }
        }
    }

    /// Collects what the routing decision depends on.
    pub(crate) fn facts(
        &self,
        member: &Member<V>,
        attempt: Attempt,
        access: Access,
        body: &Shard<V>,
    ) -> Facts {
        let state = state_of(body);
        let owner = match member.view.owner(attempt.slot) {
            _ if body.owned => Owner::Me,
            // Not mine any more, though the view says so yet: it is being unassigned.
            Some(owner) if owner != member.id => Owner::Other(owner),
            Some(_) | None => Owner::None,
        };
        let health = if member.is_up() {
            ClusterHealth::Ok
        } else {
            let reads_allowed = member.reads_when_down();
            ClusterHealth::Down { reads_allowed, pubsub_allowed: true }
        };
        Facts {
            node: member.id,
            semantics: attempt.semantics,
            request: Request::OneSlot,
            kind: match access {
                Access::Read => Kind::Read,
                Access::Write => Kind::Write,
            },
            owner,
            health,
            state,
            asking: self.is_asking(attempt.asking, state),
            replica_of_owner: false,
            readonly: false,
            trimming: false,
        }
    }

    /// ASKING counts only for the move that is open here.
    fn is_asking(&self, asking: Asking, state: SlotState) -> bool {
        match asking {
            // What names no move is judged under both tokens, and names one afterwards.
            Asking::No | Asking::Any => self.faults.has(Fault::NoAskingCheck),
            Asking::Move(id) => state.move_id() == Some(id) || self.faults.has(Fault::AskWithoutId),
        }
    }

    /// The fault of that name: what an earlier hold says of the slot.
    #[inline]
    fn state_outside_token(&self, member: &Member<V>, slot: Slot) -> Option<bool> {
        if !self.faults.has(Fault::StateOutsideToken) {
            return None;
        }
        let settled = member.headers.get(slot).lock().is_settled();
        crate::sync::back_off(0);
        Some(settled)
    }
}

/// ASKING that names no move, at a node that imports: the source has a say in it.
fn asking_to_judge<V: Value + ?Sized>(
    member: &Member<V>,
    attempt: Attempt,
    body: &Shard<V>,
) -> Option<Pull> {
    match (attempt.asking, attempt.semantics, state_of(body)) {
        (Asking::Any, Semantics::Redis, SlotState::Importing { source, id })
            if source != member.id =>
        {
            Some(Pull { source, target: member.id, id, way: Way::Neither })
        }
        _ => None,
    }
}

/// Counts which keys are here, without side effects.
fn count_presence<V: Value + ?Sized>(keys: &[Key<'_>], body: &Shard<V>, now: &Now<'_>) -> Presence {
    let present = keys.iter().filter(|key| body.peek(key, now).is_some()).count();
    let multi = keys.iter().any(|key| key.bytes != keys[0].bytes);
    Presence { missing: keys.len() - present, present, multi }
}

/// A clock that was read before the token.
struct EarlyClock(u64);

impl crate::time::Clock for EarlyClock {
    fn nanos(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::RosterOptions;
    use crate::node::member::set_state;
    use crate::sync::Arc;
    use crate::topology::NodeId;

    fn two_nodes() -> Arc<Roster<[u8]>> {
        let roster = Arc::new(Roster::new(RosterOptions::of_unit_tests()));
        roster.add_node().unwrap();
        roster.add_node().unwrap();
        roster
    }

    /// Every mark that a header can carry.
    fn states(peer: NodeId, id: MoveId) -> [SlotState; 6] {
        [
            SlotState::Stable,
            SlotState::Migrating { target: peer, id },
            SlotState::Importing { source: peer, id },
            SlotState::Aborting { target: peer, id },
            SlotState::Retired { source: peer, id },
            SlotState::Reserved { id },
        ]
    }

    #[test]
    fn the_fast_path_serves_what_route_would_serve() {
        let roster = two_nodes();
        let (me, peer) = (NodeId::new(0).unwrap(), NodeId::new(1).unwrap());
        let member = roster.known(me);
        let (slot, id) = (Slot::MAX, MoveId::new(7));
        let (mut fast, mut asked) = (0, 0);
        for owner in [None, Some(me), Some(peer)] {
            let flip = roster.flip_to(slot, owner);
            member.view.raise(slot, flip);
            for (state, up) in states(peer, id).into_iter().flat_map(|s| [(s, false), (s, true)]) {
                member.set_full_coverage(!up);
                let mut hold = member.headers.get(slot).lock();
                hold.owned = owner == Some(me);
                set_state(&mut hold, state);
                assert_eq!(state_of(&hold), state, "a header keeps every mark");
                let other = Asking::Move(MoveId::new(8));
                for asking in [Asking::No, Asking::Any, Asking::Move(id), other] {
                    let (semantics, patience) = (Semantics::Pull, Patience::Wait);
                    let is_last = false;
                    let attempt =
                        Attempt { slot, asking, semantics, patience, early: None, is_last };
                    for access in [Access::Read, Access::Write] {
                        let facts = roster.facts(member, attempt, access, &hold);
                        let present = Presence { missing: 1, present: 0, multi: false };
                        let routed = route(&facts, || present);
                        asked += 1;
                        if hold.is_settled() && member.is_up() {
                            fast += 1;
                            assert_eq!(routed, Route::Serve, "{facts:?}");
                        }
                    }
                }
            }
        }
        assert!(fast > 0 && fast < asked, "{fast} of {asked}");
    }
}
