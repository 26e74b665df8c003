//! Whole slots and the whole cluster: keys of a slot, iteration, counts, retain, clear.

use std::fmt;
use std::iter::FusedIterator;
use std::vec;

use crate::cluster::Client;
use crate::error::Error;
use crate::shard::Handle;
use crate::shard::Value;
use crate::slot::Slot;

impl<V: Value + ?Sized> Client<V> {
    /// Handles of every live entry of a slot, read at one instant, in no order;
    /// [`Handle::key`] tells the keys. A moving slot is read under both tokens.
    ///
    /// Costs a count up for each entry, under the token.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn entries_of_slot(&self, slot: Slot) -> Result<Vec<Handle<V>>, Error> {
        Ok(self.roster.read_slot(slot)?)
    }

    /// Iterates over the whole cluster, slot by slot, ascending; each slot is read at one instant,
    /// a moving one under both tokens.
    ///
    /// A key that is there for the whole pass is seen exactly once; one that comes or goes
    /// meanwhile is seen at most once. The handles of one slot are held at a time.
    pub fn iter(&self) -> Iter<V> {
        let slots = self.roster.populated();
        let slots: Vec<_> = slots.iter().collect();
        Iter { client: self.clone(), slots: slots.into_iter(), entries: Vec::new().into_iter() }
    }

    /// How many entries there are, expired ones that nobody met yet included. Each slot is counted
    /// at one instant, the slots one after another.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn len(&self) -> Result<usize, Error> {
        self.sum(|slot| Ok(self.roster.count_slot(slot)?))
    }

    /// Whether there is no entry, not even an expired one that nobody met yet.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// How many live entries there are. Looks at every entry of a slot in which some may have
    /// expired.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn live(&self) -> Result<usize, Error> {
        self.sum(|slot| Ok(self.roster.count_live_slot(slot)?))
    }

    /// The counts that [`len`](Self::len) adds up: one snapshot, whose sum is the total.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn counts(&self) -> Result<Vec<(Slot, usize)>, Error> {
        self.roster.expect_open()?;
        let slots = self.roster.populated();
        let counts = slots.iter().map(|slot| Ok((slot, self.roster.count_slot(slot)?)));
        counts.filter(|count| !matches!(count, Ok((_, 0)))).collect()
    }

    /// What the entries weigh together, expired ones that nobody met yet included: what a
    /// [`weigher`](crate::Builder::weigher) says, or the bytes that they take of memory, with their
    /// share of the tables. Each slot is read at one instant, the slots one after another; the sum
    /// ends at `u64::MAX`.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn weight(&self) -> Result<u64, Error> {
        self.roster.expect_open()?;
        let slots = self.roster.populated();
        slots
            .iter()
            .try_fold(0_u64, |sum, slot| Ok(sum.saturating_add(self.roster.weigh_slot(slot)?)))
    }

    /// Removes every entry that the predicate does not want to stay; how many.
    ///
    /// Goes over the entries as [`iter`](Self::iter) does. The predicate runs on the calling thread
    /// without a token, so it may take its time, call the engine and panic, which leaves the
    /// entries that are still to come. An entry that was written after the predicate has seen it
    /// stays. Costs what `iter` does, and a call for each entry that goes.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`], and [`Error::Busy`] to a
    /// [`trying`](Self::trying) client; what was removed before is gone.
    pub fn retain(&self, mut stays: impl FnMut(&[u8], &V) -> bool) -> Result<usize, Error> {
        // A pass over nothing asks nobody.
        self.roster.expect_open()?;
        let mut removed = 0;
        for entry in self {
            let entry = entry?;
            if !stays(Handle::key(&entry), &entry) {
                removed += usize::from(self.remove_same(&entry)?);
            }
        }
        Ok(removed)
    }

    /// Removes every entry, slot by slot, each at one instant; how many there were, expired ones
    /// included. An entry that is written meanwhile may stay.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`]; slots before it are cleared.
    pub fn clear(&self) -> Result<usize, Error> {
        self.sum(|slot| Ok(self.roster.clear_slot(slot)?))
    }

    /// Removes every entry of one slot at one instant; how many there were, expired ones included.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Reentrant`].
    pub fn clear_slot(&self, slot: Slot) -> Result<usize, Error> {
        Ok(self.roster.clear_slot(slot)?)
    }

    fn sum(&self, count: impl Fn(Slot) -> Result<usize, Error>) -> Result<usize, Error> {
        self.roster.expect_open()?;
        let slots = self.roster.populated();
        slots.iter().try_fold(0, |sum, slot| Ok(sum + count(slot)?))
    }
}

/// Iterates over the entries of a cluster; see [`Client::iter`].
pub struct Iter<V: Value + ?Sized> {
    client: Client<V>,
    slots: vec::IntoIter<Slot>,
    entries: vec::IntoIter<Handle<V>>,
}

impl<V: Value + ?Sized> Iterator for Iter<V> {
    /// An entry, or, once, why the iteration ended early.
    type Item = Result<Handle<V>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            let slot = self.slots.next()?;
            match self.client.entries_of_slot(slot) {
                Ok(entries) => self.entries = entries.into_iter(),
                Err(error) => {
                    self.slots = Vec::new().into_iter();
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<V: Value + ?Sized> IntoIterator for &Client<V> {
    type Item = Result<Handle<V>, Error>;
    type IntoIter = Iter<V>;

    fn into_iter(self) -> Iter<V> {
        self.iter()
    }
}

impl<V: Value + ?Sized> FusedIterator for Iter<V> {}

impl<V: Value + ?Sized> fmt::Debug for Iter<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("slots_left", &self.slots.len()).finish_non_exhaustive()
    }
}
