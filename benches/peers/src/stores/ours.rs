//! Ours, with the defaults that it is shipped with; strict, with deadlines and with a bound, as
//! other stores.

use slotkeep::Bound;
use slotkeep::Builder;
use slotkeep::CloneValue;
use slotkeep::Cluster;
use slotkeep::Handle;
use slotkeep::Ownership;
use slotkeep::SetOptions;
use slotkeep::Value;

use crate::load::Step;
use crate::stores::Batches;
use crate::stores::Bounded;
use crate::stores::Client;
use crate::stores::Kept;
use crate::stores::LIFETIME;
use crate::stores::Store;
use crate::stores::value::change_bytes;
use crate::stores::value::changed_number;
use crate::stores::value::number;

/// A cluster of one node.
#[derive(Debug)]
pub struct Ours<V: Value + ?Sized> {
    cluster: Cluster<V>,
    expiring: bool,
}

/// The sorts of values that are compared.
pub trait Sort: CloneValue + Kept {
    /// What a write takes.
    fn source(written: &[u8]) -> Self::Source<'_>;

    /// Changes a value, its start excepted.
    fn change(value: &mut Self::Owned);
}

impl Sort for [u8] {
    #[inline]
    fn source(written: &[u8]) -> &[u8] {
        written
    }

    fn change(value: &mut Self::Owned) {
        change_bytes(value);
    }
}

impl Sort for u64 {
    #[inline]
    fn source(written: &[u8]) -> Self {
        number(written)
    }

    fn change(value: &mut Self) {
        *value = changed_number(*value);
    }
}

impl<V: Sort + ?Sized> Ours<V> {
    /// Every operation runs on the calling thread.
    pub fn new() -> Self {
        Self::over(Cluster::builder().values(), false)
    }

    /// Every operation runs on the worker of its shard.
    pub fn strict() -> Self {
        Self::over(Cluster::builder().ownership(Ownership::Strict).values(), false)
    }

    /// Every write sets a deadline.
    pub fn expiring() -> Self {
        Self::over(Cluster::builder().values(), true)
    }

    /// Room for so many entries.
    pub fn bounded(entries: usize) -> Self {
        Self::over(Cluster::builder().bound(Bound::Entries(entries as u64)).values(), false)
    }

    fn over(builder: Builder<V>, expiring: bool) -> Self {
        Self { cluster: builder.build().expect("a cluster of one node"), expiring }
    }
}

/// A client with a slot map of its own.
#[derive(Debug)]
pub struct OurClient<V: Value + ?Sized> {
    client: slotkeep::Client<V>,
    expiring: bool,
}

impl<V: Sort + ?Sized> Store for Ours<V> {
    type Client<'s> = OurClient<V>;

    fn client(&self) -> OurClient<V> {
        OurClient { client: self.cluster.client(), expiring: self.expiring }
    }
}

impl<V: Sort + ?Sized> Bounded for Ours<V> {
    fn entries(&self) -> usize {
        self.cluster.client().len().expect("it is served")
    }
}

impl<V: Sort + ?Sized> Client for OurClient<V> {
    type Kept = Handle<V>;

    #[inline]
    fn get(&self, key: &[u8]) -> Option<Handle<V>> {
        self.client.get(key).expect("it is served")
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) {
        let value = V::source(value);
        let is_served = if self.expiring {
            let options = SetOptions::new().expire_in(LIFETIME);
            self.client.set_with(key, value, &options).is_ok_and(|outcome| outcome.is_set())
        } else {
            self.client.set(key, value).is_ok()
        };
        assert!(is_served, "it is served");
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.client.remove(key).expect("it is served")
    }

    #[inline]
    fn modify(&self, key: &[u8]) -> bool {
        self.client.update(key, V::change).expect("it is served").is_some()
    }

    #[inline]
    fn scan(&self, steps: &[Step]) -> usize {
        let found = self.get_many(steps).into_iter().zip(steps);
        found.filter(|(value, step)| value.as_ref().is_some_and(|v| v.holds(step.value()))).count()
    }
}

impl<V: Sort + ?Sized> Batches for OurClient<V> {
    #[inline]
    fn get_many(&self, steps: &[Step]) -> Vec<Option<Handle<V>>> {
        self.client.get_many(steps).expect("it is served")
    }

    #[inline]
    fn set_many(&self, steps: &[Step]) {
        let entries = steps.iter().map(|step| (step, V::source(step.value())));
        self.client.set_many(entries).expect("it is served");
    }
}
