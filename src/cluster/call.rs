//! `Call`: one call of a client on its way through the nodes, one hold a step.

use crate::cluster::Answer;
use crate::cluster::Client;
use crate::cluster::Hop;
use crate::command::CommandError;
use crate::command::Operation;
use crate::error::Error;
use crate::error::Redirect;
use crate::limits::REDIRECTS_BEFORE_GATE;
use crate::limits::REDIRECTS_MAX;
use crate::limits::TRY_AGAIN_RETRIES;
use crate::migration::Down;
use crate::migration::Route;
use crate::node::Asking;
use crate::node::Attempt;
use crate::node::Attempted;
use crate::node::Executed;
use crate::node::Pull;
use crate::node::Redirected;
use crate::node::Way;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::back_off;
use crate::time::Clock;
use crate::time::nanos_of;
use crate::topology::GatePass;
use crate::topology::NodeId;
use crate::worker::Patience;

/// A call on its way. `None` in `operation` means that it has ended.
pub(crate) struct Call<'c, V: Value + ?Sized, O> {
    client: &'c Client<V>,
    operation: Option<O>,
    attempt: Attempt,
    at: NodeId,
    /// The next step pulls the keys together.
    pull: Option<Pull>,
    redirects: u32,
    try_agains: u32,
    asked_around: bool,
    /// Until when the call waits out `TRYAGAIN`, once it does.
    wait_until: Option<u64>,
    gate: Option<GatePass<'c>>,
}

/// How a call ended: its answer, or an error with the operation that was not run.
pub(crate) type Ended<O, T> = Result<T, (Error, O)>;

impl<'c, V, O> Call<'c, V, O>
where
    V: Value + ?Sized,
    O: Operation<V> + Send,
    O::Output: Send,
{
    /// A call of which nobody has been asked yet.
    #[cold]
    pub(crate) fn new(
        client: &'c Client<V>,
        (slot, patience): (Slot, Patience),
        operation: O,
    ) -> Self {
        Self {
            client,
            operation: Some(operation),
            attempt: client.attempt(slot, patience),
            at: client.first_node(slot),
            pull: None,
            redirects: 0,
            try_agains: 0,
            asked_around: false,
            wait_until: None,
            gate: None,
        }
    }

    /// Runs a call, which is nearly always served at once.
    #[inline]
    pub(crate) fn begin(
        client: &'c Client<V>,
        (slot, patience): (Slot, Patience),
        operation: O,
    ) -> Ended<O, O::Output> {
        if client.trace.is_some() {
            return Self::new(client, (slot, patience), operation).run();
        }
        let member = client.first_member(slot);
        match client.roster.hold_at_once(member, operation.keys(), (slot, patience)) {
            Some(hold) => Ok(client.roster.serve_at_once(member, (slot, hold), operation)),
            None => Self::begin_otherwise(client, (slot, patience), operation),
        }
    }

    /// [`begin`](Self::begin) where a call asks for more than a look at its shard. Out of line, and
    /// as if it were rare, so that nothing is made ready for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_otherwise(
        client: &'c Client<V>,
        (slot, patience): (Slot, Patience),
        operation: O,
    ) -> Ended<O, O::Output> {
        let member = client.first_member(slot);
        let at_once = || client.roster.hold(member, operation.keys(), (slot, patience));
        match if client.trace.is_none() { at_once() } else { None } {
            Some(hold) => match client.roster.serve(member, (slot, hold), operation) {
                Ok(output) => Ok(output),
                // The long way makes room, if it can.
                Err((_, operation)) => Self::new(client, (slot, patience), operation).run(),
            },
            None => Self::new(client, (slot, patience), operation).run(),
        }
    }

    /// Goes on until the end.
    pub(crate) fn run(mut self) -> Ended<O, O::Output> {
        loop {
            if let Some(ended) = self.step() {
                return ended;
            }
        }
    }

    /// Asks one node, in one hold; an answer when the call has ended.
    pub(crate) fn step(&mut self) -> Option<Ended<O, O::Output>> {
        let operation = self.operation.take()?;
        let roster = &self.client.roster;
        let Some(pull) = self.pull.take() else {
            let executed = roster.execute(roster.known(self.at), self.attempt, operation);
            return self.take(executed);
        };
        let executed = roster.execute_pull(self.at, pull, self.attempt, operation);
        if let Ok(Executed::Done(_)) = executed {
            self.at = pull.runs_at();
        }
        self.take(executed)
    }

    /// Takes what an attempt came to.
    fn take(&mut self, executed: Attempted<O, O::Output>) -> Option<Ended<O, O::Output>> {
        match executed {
            Ok(Executed::Done(output)) => {
                self.trace(Answer::Served);
                Some(Ok(output))
            }
            Ok(Executed::Redirect(redirected, operation)) => match self.follow(redirected) {
                Ok(()) => self.go_on(operation),
                Err(error) => Some(Err((error, operation))),
            },
            Ok(Executed::Pull(pull, operation)) => {
                let Pull { source, target, way, .. } = pull;
                match way {
                    Way::Forth => self.trace(Answer::Pull { source, target }),
                    Way::Back => self.trace(Answer::PullBack { target }),
                    Way::Neither => {}
                }
                self.pull = Some(pull);
                self.go_on(operation)
            }
            Ok(Executed::NoRoom(refusal, operation)) => {
                self.trace(Answer::Refused);
                Some(Err((CommandError::from(refusal).into(), operation)))
            }
            Ok(Executed::Again(operation)) => {
                self.trace(Answer::Again);
                match self.count_redirect(self.at) {
                    Ok(()) => self.go_on(operation),
                    Err(error) => Some(Err((error, operation))),
                }
            }
            Err((error, operation)) => {
                self.trace(Answer::Refused);
                Some(Err((error.into(), operation)))
            }
        }
    }

    fn go_on(&mut self, operation: O) -> Option<Ended<O, O::Output>> {
        self.operation = Some(operation);
        None
    }

    /// Decides which node is next.
    #[cold]
    fn follow(&mut self, redirected: Redirected) -> Result<(), Error> {
        let Redirected { route, known } = redirected;
        self.trace(match route {
            Route::Ask { target, id } => Answer::Ask { target, id },
            Route::Moved { owner } => Answer::Moved { owner },
            Route::TryAgain | Route::Trimming => Answer::TryAgain,
            Route::ClusterDown(_) => Answer::Down,
            Route::CrossSlot => Answer::Refused,
            // `execute` runs these itself.
            Route::Serve | Route::Pull { .. } | Route::PullBack { .. } => return Ok(()),
        });
        if self.client.pinned.is_some() {
            return Err(self.told(route));
        }
        match route {
            Route::Ask { target, id } => {
                self.client.roster.answers.count_ask();
                self.count_redirect(target)?;
                self.attempt.asking = Asking::Move(id);
                self.at = target;
                Ok(())
            }
            Route::Moved { owner } => {
                let slot = self.attempt.slot;
                self.client.roster.answers.count_moved();
                self.count_redirect(owner)?;
                self.attempt.asking = Asking::No;
                let member = self.client.roster.known(self.at);
                self.client.map.learn(slot, known, member);
                // The map may know better than the node that answered.
                let better = self.client.map.owner(slot).filter(|&known| known != self.at);
                self.at = better.unwrap_or(owner);
                Ok(())
            }
            Route::TryAgain | Route::Trimming => self.try_again(),
            Route::ClusterDown(reason) => self.down(reason),
            Route::CrossSlot => Err(Error::CrossSlot),
            Route::Serve | Route::Pull { .. } | Route::PullBack { .. } => Ok(()),
        }
    }

    /// What a node answers, as a client hears it that follows nothing.
    fn told(&self, route: Route) -> Error {
        let slot = self.attempt.slot;
        match route {
            Route::Moved { owner } => Error::Redirected(Redirect::Moved { slot, owner }),
            Route::Ask { target, id } => Error::Redirected(Redirect::Ask { slot, target, id }),
            Route::ClusterDown(reason) => Error::ClusterDown { slot, reason },
            Route::CrossSlot => Error::CrossSlot,
            Route::TryAgain
            | Route::Trimming
            | Route::Serve
            | Route::Pull { .. }
            | Route::PullBack { .. } => {
                self.client.roster.answers.count_try_again();
                Error::TryAgain { slot }
            }
        }
    }

    fn count_redirect(&mut self, to: NodeId) -> Result<(), Error> {
        let roster = &self.client.roster;
        roster.answers.count_redirect();
        self.redirects += 1;
        let nodes = u32::try_from(roster.node_count()).unwrap_or(u32::MAX);
        if self.redirects > REDIRECTS_MAX.saturating_add(nodes) {
            let (slot, redirects) = (self.attempt.slot, self.redirects);
            return Err(Error::TooManyRedirects { slot, from: self.at, to, redirects });
        }
        if self.redirects > REDIRECTS_BEFORE_GATE && self.gate.is_none() {
            self.gate = Some(roster.gate.enter(self.attempt.slot));
        }
        Ok(())
    }

    /// The keys are split. A call in the gate leaves it, so that the move can go on.
    fn try_again(&mut self) -> Result<(), Error> {
        let slot = self.attempt.slot;
        self.client.roster.answers.count_try_again();
        self.gate = None;
        self.redirects = 0;
        self.try_agains += 1;
        if self.try_agains > TRY_AGAIN_RETRIES {
            let now = self.client.roster.clock.nanos();
            let wait_until = *self
                .wait_until
                .get_or_insert_with(|| now.saturating_add(nanos_of(self.client.waiting)));
            if now >= wait_until {
                return Err(Error::TryAgain { slot });
            }
            back_off(self.try_agains - TRY_AGAIN_RETRIES);
        }
        self.attempt.asking = Asking::No;
        self.at = self.client.first_node(slot);
        Ok(())
    }

    /// Before the error is believed, everybody is asked once.
    fn down(&mut self, reason: Down) -> Result<(), Error> {
        let slot = self.attempt.slot;
        let roster = &self.client.roster;
        if !self.asked_around {
            self.asked_around = true;
            let learned = self
                .client
                .map
                .ask_around(slot, roster.members().map(|member| member.view.get(slot)));
            let owner = self.client.map.owner(slot).filter(|&owner| learned || owner != self.at);
            if let Some(owner) = owner {
                self.attempt.asking = Asking::No;
                self.at = owner;
                return Ok(());
            }
        }
        Err(Error::ClusterDown { slot, reason })
    }

    #[inline]
    fn trace(&self, answer: Answer) {
        if let Some(trace) = &self.client.trace {
            let asking = match self.attempt.asking {
                Asking::No | Asking::Any => None,
                Asking::Move(id) => Some(id),
            };
            trace.push(Hop { slot: self.attempt.slot, node: self.at, asking, answer });
        }
    }
}
