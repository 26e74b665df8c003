//! The pull: an operation runs once the keys that it names lie on one side of their slot's move.

use crate::command::Operation;
use crate::migration::MoveId;
use crate::migration::Route;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::migration::check_batch;
use crate::migration::check_pull_back;
use crate::node::Asking;
use crate::node::Attempt;
use crate::node::Attempted;
use crate::node::Executed;
use crate::node::Redirected;
use crate::node::Roster;
use crate::node::pair::Holds;
use crate::node::pair::lock_pair;
use crate::node::pair::try_lock_pair;
use crate::shard::Batch;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Existing;
use crate::shard::Transfer;
use crate::shard::Travelled;
use crate::shard::Value;
use crate::shard::transfer;
use crate::testing::Fault;
use crate::topology::NodeId;
use crate::worker::Patience;
use crate::worker::WorkerError;

/// Both tokens, the source's first, and what an operation needs besides.
type Held<'a, V> = (Holds<'a, V>, Context<'a, V>);

/// The way that the named keys go, and the side on which the operation runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From the source of an open move to its target.
    Forth,
    /// From the target of a move that is being aborted to its source.
    Back,
    /// None travels: it is only seen whether ASKING that names no move is to be honoured at the
    /// target.
    Neither,
}

/// What has to be done before an operation can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pull {
    pub(crate) source: NodeId,
    pub(crate) target: NodeId,
    pub(crate) id: MoveId,
    pub(crate) way: Way,
}

impl Pull {
    /// The node on which the operation runs.
    pub(crate) fn runs_at(self) -> NodeId {
        match self.way {
            Way::Forth | Way::Neither => self.target,
            Way::Back => self.source,
        }
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Pulls the keys that an operation names to one side of their slot's move and runs it there:
    /// under both tokens, in place or, in strict mode, on the source's worker.
    ///
    /// `asked` is the node whose answer this is, one of the two. When the move is not open any more
    /// as the pull says, nothing travels and that node answers what it answers without a pull.
    #[cold]
    pub(crate) fn execute_pull<O>(
        &self,
        asked: NodeId,
        pull: Pull,
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
        let run = |attempt, operation| {
            self.making_room(
                self.known(pull.runs_at()),
                attempt,
                operation,
                |attempt, operation| self.pull_here(asked, pull, attempt, operation),
            )
        };
        if self.strict {
            return Self::on_worker(self.known(pull.source), attempt, operation, run);
        }
        run(attempt, operation)
    }

    fn pull_here<O: Operation<V>>(
        &self,
        asked: NodeId,
        pull: Pull,
        attempt: Attempt,
        operation: O,
    ) -> Attempted<O, O::Output> {
        let (source, target) = (self.known(pull.source), self.known(pull.target));
        if source.id == target.id {
            let state = source.peek_state(attempt.slot);
            return Ok(self.answer_without_pull(asked, state, (pull, attempt), operation));
        }
        let pulled = Dropped::after(|dropped| {
            let holds = match attempt.patience {
                Patience::Wait => Some(lock_pair(source, target, attempt.slot)),
                Patience::Try => try_lock_pair(source, target, attempt.slot),
            };
            let Some(holds) = holds else {
                return Err((WorkerError::Busy, operation));
            };
            let now = self.now();
            let mut context = self.context(&now, dropped);
            context.guesses &= !attempt.is_last;
            let held = (holds, context);
            Ok(match pull.way {
                Way::Forth | Way::Back => self.pull_held(asked, (pull, attempt), operation, held),
                Way::Neither => self.judge_held((pull, attempt), operation, held),
            })
        });
        self.make_room(self.known(pull.runs_at()), None);
        pulled
    }

    fn pull_held<O: Operation<V>>(
        &self,
        asked: NodeId,
        (pull, attempt): (Pull, Attempt),
        operation: O,
        ((at_source, at_target), mut context): Held<'_, V>,
    ) -> Executed<O, O::Output> {
        let slot = attempt.slot;
        let (source, target) = (self.known(pull.source), self.known(pull.target));
        let sides = (source.marks(slot, &at_source), target.marks(slot, &at_target));
        let legal = match pull.way {
            Way::Back => check_pull_back(&sides.0, &sides.1, pull.id).is_ok(),
            // What the target would not serve after ASKING is not served by a pull either.
            Way::Forth | Way::Neither => {
                target.serves(O::ACCESS) && check_batch(&sides.0, &sides.1, pull.id).is_ok()
            }
        };
        if !legal && !self.faults.has(Fault::PullWithoutCheck) {
            if is_aborting_alone(&sides.0, pull) {
                drop(at_target);
                let held = (at_source, context);
                return self.run_held(source, slot, operation, held).into();
            }
            let state = if asked == source.id { sides.0.state } else { sides.1.state };
            return self.answer_without_pull(asked, state, (pull, attempt), operation);
        }
        let (mut from, mut to, taker) = match pull.way {
            Way::Back => (at_target, at_source, source),
            Way::Forth | Way::Neither => (at_source, at_target, target),
        };
        let existing = if pull.way == Way::Back { Existing::Keep } else { Existing::Replace };
        let named = (Batch::Named(operation.keys()), existing);
        context.hit = taker.hit(slot, 0);
        let pulled = transfer(&mut from, &mut to, named, &mut context);
        if let Transfer::Moved(Travelled { keys: keys @ 1.., bytes }) = pulled {
            self.moves.change(pull.id, |record| {
                record.bytes_moved += bytes;
                match pull.way {
                    Way::Back => record.keys_returned += keys as u64,
                    Way::Forth | Way::Neither => record.keys_moved += keys as u64,
                }
            });
        }
        // Whatever changes the marks needs the other token too, and the keys are all here: one
        // token is enough, and a long closure holds up one side only.
        drop(from);
        // What came over is no part of what the operation writes.
        to.settle_now();
        self.answers.count_pull();
        self.run_held(taker, slot, operation, (to, context)).into()
    }

    /// Turns ASKING that names no move into that of the open move, or into none, and goes on as the
    /// target does with such a call.
    fn judge_held<O: Operation<V>>(
        &self,
        (pull, mut attempt): (Pull, Attempt),
        operation: O,
        ((at_source, at_target), context): Held<'_, V>,
    ) -> Executed<O, O::Output> {
        let slot = attempt.slot;
        let (source, target) = (self.known(pull.source), self.known(pull.target));
        let sides = (source.marks(slot, &at_source), target.marks(slot, &at_target));
        let is_open = check_batch(&sides.0, &sides.1, pull.id).is_ok();
        let is_here = |key| at_source.peek(key, context.now).is_some();
        let honoured = is_open && !operation.keys().iter().any(is_here);
        attempt.asking = if honoured { Asking::Move(pull.id) } else { Asking::No };
        drop(at_source);
        self.execute_routed(target, attempt, operation, (at_target, context))
    }

    /// What a node answers to a request that would have been pulled, when the other side of the
    /// move says otherwise.
    ///
    /// A source whose target has flipped, and which has not heard of it, goes on with ASK: the
    /// target serves. A target that imports while its source is not migrating serves nothing. When
    /// the mark of the node itself has changed, it is to be asked again.
    fn answer_without_pull<O, T>(
        &self,
        asked: NodeId,
        state: SlotState,
        (pull, attempt): (Pull, Attempt),
        operation: O,
    ) -> Executed<O, T> {
        let known = self.known(asked).view.get(attempt.slot);
        let route = match (state, known.owner) {
            (SlotState::Migrating { target, id }, _) if id == pull.id => Route::Ask { target, id },
            (SlotState::Importing { id, .. }, Some(owner)) if id == pull.id && owner != asked => {
                Route::Moved { owner }
            }
            _ => return Executed::Again(operation),
        };
        Executed::Redirect(Redirected { route, known }, operation)
    }
}

/// Whether a source goes on with the abort of a move whose target has lost its mark, which only
/// verbs as in Redis can do to it. Nothing can be pulled, and the source answers by what it has.
fn is_aborting_alone(source: &Side, pull: Pull) -> bool {
    let mark = SlotState::Aborting { target: pull.target, id: pull.id };
    pull.way == Way::Back && source.owns() && source.state == mark
}
