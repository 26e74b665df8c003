//! Batches over any slots: hash all, prefetch, then run; atomic slot by slot only.

use smallvec::SmallVec;

use crate::cluster::Client;
use crate::cluster::client::check_value;
use crate::command::Get;
use crate::command::GetAll;
use crate::command::Operation;
use crate::command::Remove;
use crate::command::RemoveAll;
use crate::command::SetAll;
use crate::error::Error;
use crate::limits::BATCH_KEYS_MAX;
use crate::limits::BATCH_WINDOW;
use crate::migration::Semantics;
use crate::node::Visit;
use crate::node::Window;
use crate::shard::Context;
use crate::shard::Handle;
use crate::shard::KEYS_INLINE;
use crate::shard::Key;
use crate::shard::Keys;
use crate::shard::Shard;
use crate::shard::Value;

/// What a batch holds for each of its keys.
type Inline<T> = SmallVec<[T; KEYS_INLINE]>;

/// The keys of a batch by slot, and their places in the call; in the order of the call where slots
/// are the same.
struct Sorted<'k> {
    keys: Keys<'k>,
    places: Inline<usize>,
}

/// What a batch does with the keys of each slot, and what it gathers. The places are those of the
/// keys in the call.
trait Gather<V: Value + ?Sized> {
    /// Whether it may put entries in.
    const ADDS: bool = false;

    /// Does it under the token of the slot.
    fn serve(
        &mut self,
        keys: (&[Key<'_>], &[usize]),
        shard: &mut Shard<V>,
        context: &mut Context<'_, V>,
    );

    /// Does it by a call, which goes wherever the keys are.
    fn call(&mut self, client: &Client<V>, keys: (&[Key<'_>], &[usize])) -> Result<(), Error>;
}

/// Reads, into what was found at each place.
struct Reads<V: Value + ?Sized>(Vec<Option<Handle<V>>>);

impl<V: Value + ?Sized> Gather<V> for Reads<V> {
    #[inline]
    fn serve(
        &mut self,
        (keys, places): (&[Key<'_>], &[usize]),
        shard: &mut Shard<V>,
        context: &mut Context<'_, V>,
    ) {
        for (&key, &place) in keys.iter().zip(places) {
            self.0[place] = Get { key }.run(shard, context);
        }
    }

    fn call(
        &mut self,
        client: &Client<V>,
        (keys, places): (&[Key<'_>], &[usize]),
    ) -> Result<(), Error> {
        let found = client.call(keys[0].slot, GetAll { keys: keys.into() })?;
        places.iter().zip(found).for_each(|(&place, value)| self.0[place] = value);
        Ok(())
    }
}

/// Writes, of the value at each place.
struct Writes<'v, V: Value + ?Sized>(Vec<Option<V::Source<'v>>>);

impl<V: Value + ?Sized> Gather<V> for Writes<'_, V> {
    const ADDS: bool = true;

    #[inline]
    fn serve(
        &mut self,
        (keys, places): (&[Key<'_>], &[usize]),
        shard: &mut Shard<V>,
        context: &mut Context<'_, V>,
    ) {
        for (key, &place) in keys.iter().zip(places) {
            if let Some(value) = self.0[place].take() {
                // A weigher comes with a bound, and there batches go by calls.
                shard.put(key, value, 0, context);
            }
        }
    }

    fn call(
        &mut self,
        client: &Client<V>,
        (keys, places): (&[Key<'_>], &[usize]),
    ) -> Result<(), Error> {
        let values: Vec<_> = places.iter().filter_map(|&place| self.0[place].take()).collect();
        let weights = client.weigh_all(keys, &values);
        client.call(keys[0].slot, SetAll { keys: keys.into(), values, weights })
    }
}

/// Removals, counted.
struct Removals(usize);

impl<V: Value + ?Sized> Gather<V> for Removals {
    #[inline]
    fn serve(
        &mut self,
        (keys, _): (&[Key<'_>], &[usize]),
        shard: &mut Shard<V>,
        context: &mut Context<'_, V>,
    ) {
        for &key in keys {
            self.0 += usize::from(Remove { key }.run(shard, context));
        }
    }

    fn call(&mut self, client: &Client<V>, (keys, _): (&[Key<'_>], &[usize])) -> Result<(), Error> {
        self.0 += client.call(keys[0].slot, RemoveAll { keys: keys.into() })?;
        Ok(())
    }
}

impl<V: Value + ?Sized> Client<V> {
    /// Reads any keys, in their order. The keys of one slot are read at one instant; by a client of
    /// [`Semantics::Redis`] one by one.
    ///
    /// # Errors
    /// The first error that a slot answered; see [`Error`].
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Handle<V>>>, Error> {
        let keys = self.sort(keys)?;
        let mut reads = Reads(vec![None; keys.places.len()]);
        self.each_slot(&keys, &mut reads)?;
        Ok(reads.0)
    }

    /// Writes any keys and clears their deadlines. The keys of one slot are written at one instant;
    /// by a client of [`Semantics::Redis`] one by one. Of two values of one key the later stays.
    ///
    /// # Errors
    /// The first error that a slot answered; what comes before it, in ascending order of the slots,
    /// is written, and so may be what comes in the next [`BATCH_WINDOW`] slots. Repeating the call
    /// is harmless. See [`Error`].
    pub fn set_many<'v, K: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V::Source<'v>)>,
    ) -> Result<(), Error> {
        let (names, values): (Vec<K>, Vec<V::Source<'v>>) =
            entries.into_iter().take(BATCH_KEYS_MAX + 1).unzip();
        values.iter().try_for_each(check_value::<V>)?;
        let keys = self.sort(&names)?;
        self.each_slot(&keys, &mut Writes::<V>(values.into_iter().map(Some).collect()))
    }

    /// Removes any keys; how many were there. The keys of one slot are removed at one instant; by a
    /// client of [`Semantics::Redis`] one by one.
    ///
    /// # Errors
    /// The first error that a slot answered; what comes before it, in ascending order of the slots,
    /// is removed, and so may be what comes in the next [`BATCH_WINDOW`] slots. Repeating the call
    /// is harmless. See [`Error`].
    pub fn remove_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<usize, Error> {
        let keys = self.sort(keys)?;
        let mut removals = Removals(0);
        self.each_slot(&keys, &mut removals)?;
        Ok(removals.0)
    }

    fn sort<'k>(&self, keys: &'k [impl AsRef<[u8]>]) -> Result<Sorted<'k>, Error> {
        if keys.len() > BATCH_KEYS_MAX {
            return Err(Error::TooManyKeys { keys: keys.len() });
        }
        let keys =
            Key::all(keys, &self.roster.hasher).map_err(|bytes| Error::KeyTooLong { bytes })?;
        let mut places: Inline<usize> = (0..keys.len()).collect();
        places.sort_by_key(|&place| keys[place].slot);
        let keys = places.iter().map(|&place| keys[place]).collect();
        Ok(Sorted { keys, places })
    }

    /// Goes from slot to slot, ascending. As in Redis, where a move may split the keys of a slot,
    /// each key of a client of [`Semantics::Redis`] goes alone.
    fn each_slot(&self, sorted: &Sorted<'_>, gather: &mut impl Gather<V>) -> Result<(), Error> {
        let together = self.semantics == Semantics::Pull;
        let mut groups = sorted.keys.chunk_by(|one, next| together && one.slot == next.slot);
        let mut next_window = || -> Window<'_, V> {
            std::array::from_fn(|_| {
                groups.next().map(|keys| Visit::new(self.first_member(keys[0].slot), keys))
            })
        };
        let mut places = &sorted.places[..];
        let mut window = next_window();
        while window[0].is_some() {
            // What the next window reads first is on its way while this one is served.
            let following = next_window();
            let (keys, rest) = places.split_at(key_count(&window));
            self.each_visit(&window, keys, gather)?;
            (window, places) = (following, rest);
        }
        Ok(())
    }

    /// Serves the visits of a window that can be served at once, and calls for the others.
    fn each_visit<G: Gather<V>>(
        &self,
        window: &Window<'_, V>,
        places: &[usize],
        gather: &mut G,
    ) -> Result<(), Error> {
        let mut start = 0;
        let starts = window.each_ref().map(|visit| {
            let here = start;
            start += visit.as_ref().map_or(0, |visit| visit.keys().len());
            here
        });
        let of = |index: usize| {
            let keys = window[index].as_ref().map_or(&[][..], Visit::keys);
            (keys, &places[starts[index]..][..keys.len()])
        };
        let mut served = [false; BATCH_WINDOW];
        // At a bound, room is made between the visits, while no token is held.
        if self.goes_in_windows() && !(G::ADDS && self.roster.bound().is_some()) {
            served = self.roster.serve_window(window, |index, shard, context| {
                gather.serve(of(index), shard, context);
            });
        }
        for index in (0..BATCH_WINDOW).filter(|&index| !served[index]) {
            let keys = of(index);
            if !keys.0.is_empty() {
                gather.call(self, keys)?;
            }
        }
        Ok(())
    }

    /// Whether nobody looks at this client's hops, and its keys need not go one by one.
    fn goes_in_windows(&self) -> bool {
        self.trace.is_none() && self.pinned.is_none() && self.semantics == Semantics::Pull
    }
}

/// How many keys a window visits.
fn key_count<V: Value + ?Sized>(window: &Window<'_, V>) -> usize {
    window.iter().flatten().map(|visit| visit.keys().len()).sum()
}
