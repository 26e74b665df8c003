//! `Oracle`: the whole cluster as one map, and what each operation does to it.

use std::collections::BTreeMap;
use std::time::Duration;

use slotkeep::Error;

use crate::model::op::Op;
use crate::model::op::Reply;
use crate::model::op::TimeLeft;
use crate::model::stage::Stage;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Stored {
    value: Vec<u8>,
    /// The entry is gone at this time of the virtual clock; nothing means never.
    deadline: Option<Duration>,
}

/// What the cluster should hold, by the index of the key. Expired entries are dropped before each
/// step, so that whatever is here is live.
#[derive(Clone, Debug)]
pub(super) struct Oracle<'s> {
    stage: &'s Stage,
    entries: BTreeMap<usize, Stored>,
}

impl<'s> Oracle<'s> {
    pub(super) fn new(stage: &'s Stage) -> Self {
        Self { stage, entries: BTreeMap::new() }
    }

    /// Drops what has expired; how many entries that were.
    pub(super) fn expire(&mut self, now: Duration) -> usize {
        let before = self.entries.len();
        self.entries.retain(|_, stored| stored.deadline.is_none_or(|deadline| now < deadline));
        before - self.entries.len()
    }

    pub(super) fn live(&self) -> usize {
        self.entries.len()
    }

    /// The live keys of a slot, with their values, in the order of the keys.
    pub(super) fn of_slot(&self, slot: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let of_slot = |&(key, _): &(&usize, &Stored)| self.stage.slot_of_key(*key) == slot;
        let entries = self.entries.iter().filter(of_slot);
        entries.map(|(&key, stored)| (self.stage.key(key).to_vec(), stored.value.clone())).collect()
    }

    pub(super) fn live_in(&self, slot: usize) -> usize {
        self.entries.keys().filter(|&&key| self.stage.slot_of_key(key) == slot).count()
    }

    pub(super) fn clear_slot(&mut self, slot: usize) {
        let stage = self.stage;
        self.entries.retain(|&key, _| stage.slot_of_key(key) != slot);
    }

    /// Runs an operation at one instant.
    pub(super) fn apply(&mut self, op: &Op, now: Duration) -> Result<Reply, Error> {
        Ok(match op {
            Op::Get(key) => Reply::Value(self.value(*key)),
            Op::Set { key, value, ttl } => {
                self.write(*key, *value, ttl.map(|ttl| now + ttl));
                Reply::Done
            }
            Op::SetAbsent { key, value } => {
                let absent = !self.entries.contains_key(key);
                if absent {
                    self.write(*key, *value, None);
                }
                Reply::Flag(absent)
            }
            Op::SetKeep { key, value } => {
                let kept = self.entries.get(key).and_then(|stored| stored.deadline);
                self.write(*key, *value, kept);
                Reply::Done
            }
            Op::Remove(key) => Reply::Flag(self.entries.remove(key).is_some()),
            Op::Take(key) => Reply::Value(self.entries.remove(key).map(|stored| stored.value)),
            Op::Incr { key, by } => Reply::Number(self.add(*key, *by)?),
            Op::Append { key, value } => Reply::Count(self.append(*key, *value)),
            Op::GetAll(keys) | Op::GetMany(keys) => {
                Reply::Values(keys.iter().map(|&key| self.value(key)).collect())
            }
            Op::SetAll(entries) | Op::SetMany(entries) => {
                for &(key, value) in entries {
                    self.write(key, value, None);
                }
                Reply::Done
            }
            Op::RemoveAll(keys) | Op::RemoveMany(keys) => {
                let removed = keys.iter().filter(|key| self.entries.remove(key).is_some());
                Reply::Count(removed.count())
            }
            Op::Swap(one, other) => {
                self.swap(*one, *other);
                Reply::Done
            }
            Op::TimeLeft(key) => {
                let left = self.entries.get(key).map(|stored| stored.deadline);
                Reply::Left(match left {
                    None => TimeLeft::NoKey,
                    Some(None) => TimeLeft::Unbounded,
                    Some(Some(deadline)) => TimeLeft::Time(deadline.saturating_sub(now)),
                })
            }
            Op::Expire { key, ttl } => {
                let found = self.entries.get_mut(key);
                Reply::Flag(found.map(|stored| stored.deadline = Some(now + *ttl)).is_some())
            }
            Op::Persist(key) => {
                let found = self.entries.get_mut(key);
                Reply::Flag(found.and_then(|stored| stored.deadline.take()).is_some())
            }
        })
    }

    fn value(&self, key: usize) -> Option<Vec<u8>> {
        self.entries.get(&key).map(|stored| stored.value.clone())
    }

    fn write(&mut self, key: usize, value: usize, deadline: Option<Duration>) {
        let value = self.stage.value(value).to_vec();
        self.entries.insert(key, Stored { value, deadline });
    }

    fn add(&mut self, key: usize, by: i64) -> Result<i64, Error> {
        let text = self.entries.get(&key).map(|stored| stored.value.as_slice());
        let number = text.map_or(Some(0), number_of).ok_or(Error::NotAnInteger)?;
        let sum = number.checked_add(by).ok_or(Error::Overflow)?;
        let stored =
            self.entries.entry(key).or_insert(Stored { value: Vec::new(), deadline: None });
        stored.value = sum.to_string().into_bytes();
        Ok(sum)
    }

    fn append(&mut self, key: usize, value: usize) -> usize {
        let suffix = self.stage.value(value);
        let stored =
            self.entries.entry(key).or_insert(Stored { value: Vec::new(), deadline: None });
        stored.value.extend_from_slice(suffix);
        stored.value.len()
    }

    /// Exchanges two values; both keep no deadline.
    fn swap(&mut self, one: usize, other: usize) {
        let (first, second) = (self.entries.remove(&one), self.entries.remove(&other));
        for (key, stored) in [(other, first), (one, second)] {
            if let Some(Stored { value, .. }) = stored {
                self.entries.insert(key, Stored { value, deadline: None });
            }
        }
    }
}

/// A decimal number in its one form: no sign but a minus, no leading zero.
fn number_of(text: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}
