//! `Op`: one call with its arguments. `Pending`: a call on its way.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use slotkeep::{Client, Error, SetOptions, Steps, Transaction};

use crate::model::stage::Stage;

/// A handle to a value of bytes.
pub(super) type Handle = slotkeep::Handle<[u8]>;

/// A call, by the indexes of its keys and values. All keys are of one slot, but for `GetMany`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Get(usize),
    Set { key: usize, value: usize, ttl: Option<Duration> },
    Remove(usize),
    Take(usize),
    Incr { key: usize, by: i64 },
    GetAll(Vec<usize>),
    SetAll(Vec<(usize, usize)>),
    RemoveAll(Vec<usize>),
    // From here on: calls without a form in steps, which run in one step as a whole.
    SetAbsent { key: usize, value: usize },
    SetKeep { key: usize, value: usize },
    Append { key: usize, value: usize },
    Swap(usize, usize),
    TimeLeft(usize),
    Expire { key: usize, ttl: Duration },
    Persist(usize),
    GetMany(Vec<usize>),
    SetMany(Vec<(usize, usize)>),
    RemoveMany(Vec<usize>),
}

/// What a call answers, in a form that the oracle can answer too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    Value(Option<Vec<u8>>),
    Values(Vec<Option<Vec<u8>>>),
    Done,
    Flag(bool),
    Count(usize),
    Number(i64),
    Left(TimeLeft),
}

/// How long a key has to live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimeLeft {
    NoKey,
    Unbounded,
    Time(Duration),
}

impl Op {
    /// A call that has a form in steps.
    pub(super) fn stepped(rng: &mut Rng, stage: &Stage) -> Self {
        let key = rng.usize(0..stage.key_count());
        match rng.u8(0..16) {
            0..4 => Self::Get(key),
            4..7 => Self::Set { key, value: any_value(rng, stage), ttl: maybe_ttl(rng) },
            7 => Self::Remove(key),
            8 => Self::Take(key),
            9..11 => Self::Incr { key, by: any_sum(rng) },
            11..13 => Self::GetAll(some_keys(rng, stage)),
            13..15 => Self::SetAll(some_entries(rng, stage)),
            _ => Self::RemoveAll(some_keys(rng, stage)),
        }
    }

    /// Any call.
    pub(super) fn any(rng: &mut Rng, stage: &Stage) -> Self {
        let key = rng.usize(0..stage.key_count());
        match rng.u8(0..16) {
            0 => Self::SetAbsent { key, value: any_value(rng, stage) },
            1 => Self::SetKeep { key, value: any_value(rng, stage) },
            2 => Self::Append { key, value: any_value(rng, stage) },
            3 => {
                let keys = stage.keys_of(stage.slot_of_key(key));
                let first = rng.usize(0..keys.len());
                Self::Swap(keys[first], keys[(first + 1) % keys.len()])
            }
            4 => Self::TimeLeft(key),
            5 => Self::Expire { key, ttl: any_ttl(rng) },
            6 => Self::Persist(key),
            7 => Self::GetMany((0..stage.key_count()).filter(|_| rng.bool()).collect()),
            8 => Self::SetMany(some_entries(rng, stage)),
            9 => Self::RemoveMany(some_keys(rng, stage)),
            _ => Self::stepped(rng, stage),
        }
    }

    pub(super) fn keys(&self) -> Vec<usize> {
        match self {
            Self::Get(key)
            | Self::Set { key, .. }
            | Self::Remove(key)
            | Self::Take(key)
            | Self::Incr { key, .. }
            | Self::SetAbsent { key, .. }
            | Self::SetKeep { key, .. }
            | Self::Append { key, .. }
            | Self::TimeLeft(key)
            | Self::Expire { key, .. }
            | Self::Persist(key) => vec![*key],
            Self::Swap(one, other) => vec![*one, *other],
            Self::GetAll(keys)
            | Self::RemoveAll(keys)
            | Self::GetMany(keys)
            | Self::RemoveMany(keys) => keys.clone(),
            Self::SetAll(entries) | Self::SetMany(entries) => {
                entries.iter().map(|&(key, _)| key).collect()
            }
        }
    }

    /// Whether a move may split the keys of this call: an atomic call on different keys.
    pub(super) fn can_be_split(&self) -> bool {
        let atomic =
            matches!(self, Self::GetAll(_) | Self::SetAll(_) | Self::RemoveAll(_) | Self::Swap(..));
        let keys = self.keys();
        atomic && keys.iter().any(|key| *key != keys[0])
    }

    /// Runs the whole call by the public interface.
    fn run(&self, client: &Client, stage: &Stage) -> Result<(Reply, Vec<Handle>), Error> {
        let names = |keys: &[usize]| keys.iter().map(|&key| stage.key(key)).collect::<Vec<_>>();
        let pairs = |entries: &[(usize, usize)]| {
            let named = entries.iter().map(|&(key, value)| (stage.key(key), stage.value(value)));
            named.collect::<Vec<_>>()
        };
        let plain = |reply| Ok((reply, Vec::new()));
        let set = |key, value, options: SetOptions<'_>| {
            client.set_with(stage.key(key), stage.value(value), &options)
        };
        match self {
            Self::Get(key) => Ok(of_value(client.get(stage.key(*key))?)),
            Self::Set { key, value, ttl } => {
                let options = ttl.map_or(SetOptions::new(), |ttl| SetOptions::new().expire_in(ttl));
                set(*key, *value, options)?;
                plain(Reply::Done)
            }
            Self::SetAbsent { key, value } => {
                let outcome = set(*key, *value, SetOptions::new().if_absent())?;
                plain(Reply::Flag(outcome.is_set()))
            }
            Self::SetKeep { key, value } => {
                set(*key, *value, SetOptions::new().keep_expiry())?;
                plain(Reply::Done)
            }
            Self::Remove(key) => plain(Reply::Flag(client.remove(stage.key(*key))?)),
            Self::Take(key) => Ok(of_value(client.take(stage.key(*key))?)),
            Self::Incr { key, by } => plain(Reply::Number(client.incr(stage.key(*key), *by)?)),
            Self::Append { key, value } => {
                let len = client.append(stage.key(*key), stage.value(*value))?;
                plain(Reply::Count(len))
            }
            Self::GetAll(keys) => Ok(of_values(client.mget(&names(keys))?)),
            Self::GetMany(keys) => Ok(of_values(client.get_many(&names(keys))?)),
            Self::SetAll(entries) => client.mset(pairs(entries)).and_then(|()| plain(Reply::Done)),
            Self::SetMany(entries) => {
                client.set_many(pairs(entries)).and_then(|()| plain(Reply::Done))
            }
            Self::RemoveAll(keys) => plain(Reply::Count(client.remove_all(&names(keys))?)),
            Self::RemoveMany(keys) => plain(Reply::Count(client.remove_many(&names(keys))?)),
            Self::Swap(one, other) => {
                let (one, other) = (stage.key(*one), stage.key(*other));
                client.transaction(&[one, other], |both| swap(both, one, other))??;
                plain(Reply::Done)
            }
            Self::TimeLeft(key) => {
                let left = client.ttl(stage.key(*key))?;
                let bounded = |left: Option<_>| left.map_or(TimeLeft::Unbounded, TimeLeft::Time);
                plain(Reply::Left(left.map_or(TimeLeft::NoKey, bounded)))
            }
            Self::Expire { key, ttl } => plain(Reply::Flag(client.expire(stage.key(*key), *ttl)?)),
            Self::Persist(key) => plain(Reply::Flag(client.persist(stage.key(*key))?)),
        }
    }
}

fn swap(
    both: &mut Transaction<'_, [u8]>,
    one: &[u8],
    other: &[u8],
) -> Result<(), slotkeep::CommandError> {
    let first = both.get(one)?.map(<[u8]>::to_vec);
    let second = both.get(other)?.map(<[u8]>::to_vec);
    for (key, value) in [(other, first), (one, second)] {
        match value {
            Some(value) => both.set(key, &value)?,
            None => drop(both.remove(key)?),
        }
    }
    Ok(())
}

fn of_value(found: Option<Handle>) -> (Reply, Vec<Handle>) {
    (Reply::Value(found.as_ref().map(|handle| handle.to_vec())), found.into_iter().collect())
}

fn of_values(found: Vec<Option<Handle>>) -> (Reply, Vec<Handle>) {
    let values = found.iter().map(|found| found.as_ref().map(|handle| handle.to_vec())).collect();
    (Reply::Values(values), found.into_iter().flatten().collect())
}

fn any_value(rng: &mut Rng, stage: &Stage) -> usize {
    rng.usize(0..stage.value_count())
}

fn any_sum(rng: &mut Rng) -> i64 {
    if rng.u8(0..8) == 0 { i64::MIN / 2 } else { rng.i64(-9..100) }
}

/// From nothing at all to a time that a run sees pass, seldom one that never ends.
fn any_ttl(rng: &mut Rng) -> Duration {
    match rng.u8(0..16) {
        0 => Duration::ZERO,
        1 => Duration::from_secs(1_000_000),
        _ => Duration::from_millis(rng.u64(1..300)),
    }
}

fn maybe_ttl(rng: &mut Rng) -> Option<Duration> {
    rng.bool().then(|| any_ttl(rng))
}

/// One to four keys of one slot, in any order, seldom one of them twice.
fn some_keys(rng: &mut Rng, stage: &Stage) -> Vec<usize> {
    let keys = stage.keys_of(rng.usize(0..stage.slots.len()));
    let count = rng.usize(1..=4);
    (0..count).map(|_| keys[rng.usize(0..keys.len())]).collect()
}

fn some_entries(rng: &mut Rng, stage: &Stage) -> Vec<(usize, usize)> {
    let keys = some_keys(rng, stage);
    keys.into_iter().map(|key| (key, any_value(rng, stage))).collect()
}

/// The steps of a call, by what it answers.
enum CallSteps<'s> {
    Value(Steps<'s, Option<Handle>>),
    Values(Steps<'s, Vec<Option<Handle>>>),
    Done(Steps<'s, ()>),
    Flag(Steps<'s, bool>),
    Count(Steps<'s, usize>),
    Number(Steps<'s, i64>),
    /// All of it is one step.
    Whole,
}

/// A call on its way.
pub(super) struct Pending<'s> {
    pub(super) op: Op,
    /// The number of the client.
    pub(super) client: usize,
    /// The step of the run in which it began.
    pub(super) began: u32,
    stage: &'s Stage,
    steps: CallSteps<'s>,
}

impl fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("op", &self.op).finish_non_exhaustive()
    }
}

impl<'s> Pending<'s> {
    /// Prepares a call, but asks nobody yet.
    pub(super) fn begin(stage: &'s Stage, client: usize, op: Op, began: u32) -> Self {
        let asks = &stage.clients[client];
        let names =
            |keys: &[usize]| keys.iter().map(|&key| stage.key(key)).collect::<Vec<&'s [u8]>>();
        let steps = match &op {
            Op::Get(key) => CallSteps::Value(asks.step_get(stage.key(*key))),
            Op::Set { key, value, ttl } => {
                CallSteps::Done(asks.step_set(stage.key(*key), stage.value(*value), *ttl))
            }
            Op::Remove(key) => CallSteps::Flag(asks.step_remove(stage.key(*key))),
            Op::Take(key) => CallSteps::Value(asks.step_take(stage.key(*key))),
            Op::Incr { key, by } => CallSteps::Number(asks.step_incr(stage.key(*key), *by)),
            Op::GetAll(keys) => CallSteps::Values(asks.step_mget(&names(keys))),
            Op::SetAll(entries) => {
                let named =
                    entries.iter().map(|&(key, value)| (stage.key(key), stage.value(value)));
                CallSteps::Done(asks.step_mset(named.collect()))
            }
            Op::RemoveAll(keys) => CallSteps::Count(asks.step_remove_all(&names(keys))),
            Op::SetAbsent { .. }
            | Op::SetKeep { .. }
            | Op::Append { .. }
            | Op::Swap(..)
            | Op::TimeLeft(_)
            | Op::Expire { .. }
            | Op::Persist(_)
            | Op::GetMany(_)
            | Op::SetMany(_)
            | Op::RemoveMany(_) => CallSteps::Whole,
        };
        Self { op, client, began, stage, steps }
    }

    /// The same call by the public interface, which runs it in one step of the run.
    pub(super) fn whole(stage: &'s Stage, client: usize, op: Op, began: u32) -> Self {
        Self { op, client, began, stage, steps: CallSteps::Whole }
    }

    /// At most one hold; the answer and the handles in it when the call has ended.
    pub(super) fn step(&mut self) -> Option<Result<(Reply, Vec<Handle>), Error>> {
        let plain = |reply| (reply, Vec::new());
        Some(match &mut self.steps {
            CallSteps::Value(steps) => steps.step()?.map(of_value),
            CallSteps::Values(steps) => steps.step()?.map(of_values),
            CallSteps::Done(steps) => steps.step()?.map(|()| plain(Reply::Done)),
            CallSteps::Flag(steps) => steps.step()?.map(|flag| plain(Reply::Flag(flag))),
            CallSteps::Count(steps) => steps.step()?.map(|count| plain(Reply::Count(count))),
            CallSteps::Number(steps) => steps.step()?.map(|sum| plain(Reply::Number(sum))),
            CallSteps::Whole => self.op.run(&self.stage.clients[self.client], self.stage),
        })
    }
}
