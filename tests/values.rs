//! What a cluster holds: bytes, text, numbers, types without `Clone`, boxed closures.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use slotkeep::{Cluster, Compute, Error, Handle, SetOptions, SetOutcome, Value};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use support::{Tested, key, keys, with_each_cluster};

/// What works for every type of value: reads, writes, conditions, closures, whole slots.
fn check_calls<V, S>(
    source: impl Fn(usize) -> S + Copy + Sync,
    shown: impl Fn(&V) -> usize + Copy + Sync,
) where
    V: Value<Owned = S> + ?Sized,
    S: AsSource<V>,
{
    with_each_cluster::<V>(|fixture| {
        let client = &fixture.client;
        let read = |name: &String| -> Result<Option<usize>, Error> {
            Ok(client.get(name)?.map(|value| shown(&value)))
        };
        let names = keys(8);
        for (number, name) in names.iter().enumerate() {
            source(number).with(|value| client.set(name, value).map_err(Error::from))?;
        }
        fixture.disturb();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(read(name)?, Some(number));
            source(100).with(|value| client.set(name, value).map_err(Error::from))?;
            assert_eq!(read(name)?, Some(100));
            let refused = source(200).with(|value| {
                let absent = SetOptions::new().if_absent();
                Ok(client.set_with(name, value, &absent).map_err(Error::from)?.is_set())
            })?;
            assert!(!refused);
            let seen = client.get(name)?.expect("there");
            let replaced =
                source(300).with(|value| client.replace(&seen, value).map_err(Error::from))?;
            assert!(replaced && shown(&seen) == 100);
            let computed = client.compute(name, |seen| {
                assert_eq!(seen.map(shown), Some(300));
                Compute::Replace(source(400))
            })?;
            assert_eq!(computed.map(|value| shown(&value)), Some(400));
            assert_eq!(client.update_in_place(name, |value| shown(value)), Ok(Some(400)));
            assert_eq!(client.take(name)?.map(|value| shown(&value)), Some(400));
            assert_eq!(read(name)?, None);
        }
        let entries = (0..4).map(|number| (key(number), source(number)));
        for (name, value) in entries {
            value.with(|value| client.set_many([(&name, value)]))?;
        }
        assert_eq!(client.entries_of_slot(support::slot())?.len(), 4);
        assert_eq!(client.remove_many(&keys(8)), Ok(4));
        Ok(())
    });
}

/// Lends or gives an owned value as what a write takes.
trait AsSource<V: Value + ?Sized> {
    fn with<R>(self, write: impl FnOnce(V::Source<'_>) -> Result<R, Error>) -> Result<R, Error>;
}

impl AsSource<[u8]> for Vec<u8> {
    fn with<R>(self, write: impl FnOnce(&[u8]) -> Result<R, Error>) -> Result<R, Error> {
        write(&self)
    }
}

impl AsSource<str> for String {
    fn with<R>(self, write: impl FnOnce(&str) -> Result<R, Error>) -> Result<R, Error> {
        write(&self)
    }
}

impl AsSource<u64> for u64 {
    fn with<R>(self, write: impl FnOnce(u64) -> Result<R, Error>) -> Result<R, Error> {
        write(self)
    }
}

/// A type that cannot be copied, serialized or compared.
struct Session {
    user: usize,
    _log: Vec<Box<dyn Fn() + Send + Sync>>,
}

impl AsSource<Session> for Session {
    fn with<R>(self, write: impl FnOnce(Self) -> Result<R, Error>) -> Result<R, Error> {
        write(self)
    }
}

type Callback = Box<dyn Fn() -> usize + Send + Sync>;

impl AsSource<Callback> for Callback {
    fn with<R>(self, write: impl FnOnce(Self) -> Result<R, Error>) -> Result<R, Error> {
        write(self)
    }
}

#[test]
fn bytes_are_values() {
    // Lengths differ, so that an overwrite in place is not always possible.
    check_calls::<[u8], _>(|number| vec![b'.'; number], <[u8]>::len);
}

#[test]
fn text_is_a_value() {
    check_calls::<str, _>(|number| "\u{e9}".repeat(number), |text| text.chars().count());
}

#[test]
fn numbers_are_values() {
    check_calls::<u64, _>(
        |number| u64::try_from(number).expect("it fits"),
        |&value| usize::try_from(value).expect("it fits"),
    );
}

#[test]
fn a_type_without_clone_is_a_value() {
    check_calls::<Session, _>(
        |user| Session { user, _log: vec![Box::new(|| ())] },
        |session| session.user,
    );
}

#[test]
fn a_boxed_closure_is_a_value_and_can_be_called() {
    check_calls::<Callback, _>(|number| Box::new(move || number), |callback| callback());
}

/// Shows how many of its kind are alive.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn every_value_is_dropped_exactly_once() {
    let alive = Arc::new(AtomicUsize::new(0));
    with_each_cluster::<Counted>(|fixture| {
        let client = &fixture.client;
        let names = keys(10);
        let check = |count, what: &str| assert_eq!(alive.load(Ordering::Relaxed), count, "{what}");
        let before = alive.load(Ordering::Relaxed);
        for name in &names {
            client.set(name, Counted::new(&alive))?;
        }
        fixture.disturb();
        for name in &names {
            client.set(name, Counted::new(&alive))?;
        }
        check(before + 10, "overwritten");
        let handle = client.get(&names[0])?;
        client.set(&names[0], Counted::new(&alive))?;
        check(before + 11, "overwritten while a handle is out");
        drop(handle);
        check(before + 10, "the handle was the last reference");
        client.compute(&names[1], |_| Compute::Replace(Counted::new(&alive)))?;
        client.compute(&names[2], |_| Compute::Remove)?;
        client.remove(&names[3])?;
        drop(client.take(&names[4])?);
        check(before + 7, "removed");
        let outcome =
            client.set_with(&names[2], Counted::new(&alive), &SetOptions::new().if_present())?;
        assert!(matches!(outcome, SetOutcome::NotSet { .. }));
        check(before + 8, "handed back");
        drop(outcome);
        fixture.restore();
        check(before + 7, "moved");
        client.clear()?;
        check(before, "cleared");
        // What lies in the cluster at its end goes with it.
        client.set(&names[0], Counted::new(&alive))?;
        Ok(())
    });
    assert_eq!(alive.load(Ordering::Relaxed), 0, "the clusters are gone, and so are their values");
}

#[test]
fn a_value_of_no_bytes_and_one_that_is_aligned_are_values() -> Tested {
    #[derive(Clone, PartialEq, Debug)]
    #[repr(align(64))]
    struct Line([u8; 64]);
    fn check<V>(value: &V) -> Tested
    where
        V: Clone + PartialEq + Debug + Send + Sync + 'static,
    {
        let cluster = Cluster::builder().values::<V>().build()?;
        let client = cluster.client();
        for length in 0..70 {
            let name = "k".repeat(length);
            client.set(&name, value.clone())?;
            let read: Handle<V> = client.get(&name)?.expect("there");
            assert_eq!((&*read, Handle::key(&read)), (value, name.as_bytes()));
        }
        Ok(())
    }
    check(&())?;
    check(&Line([7; 64]))?;
    check(&[1_u128; 3])?;
    check(&Some(String::from("text")))
}
