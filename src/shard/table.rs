//! The table of a shard: entries by key, lazy expiry on every access.

use std::mem;

use hashbrown::HashTable;

use crate::evict::Hit;
use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::KeyHasher;
use crate::shard::Value;
use crate::shard::expire::Expiry;
use crate::shard::key::is_same_key;
use crate::shard::prefetch_read;
use crate::shard::tally::Tally;
use crate::shard::tally::count_expired;
use crate::slab::SlabAllocator;
use crate::time::NEVER;
use crate::time::Now;

/// What the token of a slot guards: the keys, and how the node stands to the slot. The default, all
/// zero bytes, is not owned, not open, empty, and owns no memory.
pub(crate) struct Shard<V: Value + ?Sized> {
    table: Option<Table<V>>,
    pub(super) aside: Option<Box<Aside>>,
    // Invariant: the sum of the weights of the entries.
    pub(super) weight: u64,
    /// Values that were replaced; what does not fit into the bits is carried over into the tally.
    pub(super) updates: u16,
    /// The other node of the move, packed; 0 is nobody.
    pub(crate) peer: u16,
    /// The mark, in the encoding of the floors above; 0 is none.
    pub(crate) mark: u8,
    /// Whether this node owns the slot in its own view.
    pub(crate) owned: bool,
    /// The table was made, came from another shard, grew or shrank, or a deadline came nearer,
    /// since `take_news`.
    news: bool,
}

/// The entries. Made with the first key.
pub(crate) struct Table<V: Value + ?Sized> {
    pub(super) entries: Entries<V>,
}

/// The hash table; its buckets lie in the slab.
pub(super) type Entries<V> = HashTable<Entry<V>, SlabAllocator>;

/// What a shard needs that was used: its counts, a move that is open, entries with deadlines.
// The counts of a full cache come first, in pairs that lie in one cache line each, wherever the
// allocator puts a box.
#[derive(Default)]
#[repr(C)]
pub(super) struct Aside {
    pub(super) tally: Tally,
    /// The move that is open here; 0 is none.
    move_id: u64,
    pub(super) expiry: Expiry,
    /// Where the next batch of a migration starts to look.
    pub(super) cursor: usize,
    /// Where a hand that comes here goes on.
    pub(super) hand: usize,
}

impl<V: Value + ?Sized> Table<V> {
    /// Puts in an entry whose key is not here, and says whether the table grew for it, or was
    /// rehashed in place.
    fn add(&mut self, entry: Entry<V>, hash: u64, hasher: &KeyHasher) -> bool {
        let grew = self.grow_if_full(hasher);
        self.entries.insert_unique(hash, entry, |other| hasher.hash(other.key()));
        grew
    }
}

impl<V: Value + ?Sized> Drop for Table<V> {
    /// Empties the table before its buckets are freed, so that they are freed also when the drop of
    /// a value panics.
    fn drop(&mut self) {
        self.entries.drain().for_each(drop);
    }
}

impl<V: Value + ?Sized> Default for Table<V> {
    fn default() -> Self {
        Self { entries: HashTable::default() }
    }
}

impl<V: Value + ?Sized> Default for Shard<V> {
    fn default() -> Self {
        let (table, aside) = (None, None);
        Self { table, aside, weight: 0, updates: 0, peer: 0, mark: 0, owned: false, news: false }
    }
}

impl<V: Value + ?Sized> Shard<V> {
    /// Whether this is the default.
    pub(super) const fn is_vacant(&self) -> bool {
        let is_empty = self.table.is_none() && self.weight == 0;
        let is_unused = self.aside.is_none() && self.updates == 0 && !self.news;
        is_empty && is_unused && self.peer == 0 && self.mark == 0 && !self.owned
    }

    /// Whether the slot is this node's and no move is open.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.owned && self.mark == 0
    }

    /// The move that is open here; 0 is none.
    pub(crate) fn move_id(&self) -> u64 {
        self.aside.as_ref().map_or(0, |aside| aside.move_id)
    }

    /// Notes which move is open here; 0 is none.
    pub(crate) fn set_move_id(&mut self, id: u64) {
        if self.move_id() != id {
            self.aside().move_id = id;
            self.drop_idle_aside();
        }
    }

    /// Looks a key up; an expired entry is removed and counts as absent.
    #[expect(clippy::inline_always, reason = "what a call is made of stays in registers")]
    #[inline(always)]
    pub(crate) fn get(
        &mut self,
        key: &Key<'_>,
        context: &mut Context<'_, V>,
    ) -> Option<&mut Entry<V>> {
        let entries = &mut self.table.as_mut()?.entries;
        let is_meant = |entry: &Entry<V>| {
            // More than the key: the value is wanted next, and its lines would come one by one.
            entry.prefetch();
            is_same_key(entry.key(), key.bytes)
        };
        let found = entries.find_entry(key.hash, is_meant).ok()?;
        if context.now.is_past(found.get().deadline()) {
            self.weight -= found.get().weight();
            context.dropped.push(Garbage::Entry(found.remove().0));
            count_expired(&mut self.aside);
            return None;
        }
        Some(found.into_mut())
    }

    /// Looks a key up without side effects; an expired entry counts as absent.
    pub(crate) fn peek(&self, key: &Key<'_>, now: &Now<'_>) -> Option<&Entry<V>> {
        self.peek_at(key.hash, key.bytes, now)
    }

    /// [`peek`](Self::peek) for a key whose slot nobody asks for.
    pub(super) fn peek_at(&self, hash: u64, key: &[u8], now: &Now<'_>) -> Option<&Entry<V>> {
        self.find(hash, key).filter(|found| !now.is_past(found.deadline()))
    }

    /// The entry of a key, live or not.
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<&Entry<V>> {
        self.table.as_ref()?.entries.find(hash, |entry| is_same_key(entry.key(), key))
    }

    /// Takes a live entry out; an expired one is removed and counts as absent.
    pub(crate) fn take_live(
        &mut self,
        key: &Key<'_>,
        context: &mut Context<'_, V>,
    ) -> Option<Entry<V>> {
        let entries = &mut self.table.as_mut()?.entries;
        let found =
            entries.find_entry(key.hash, |entry| is_same_key(entry.key(), key.bytes)).ok()?;
        let entry = found.remove().0;
        self.weight -= entry.weight();
        if context.now.is_past(entry.deadline()) {
            context.dropped.push(Garbage::Entry(entry));
            count_expired(&mut self.aside);
            return None;
        }
        Some(entry)
    }

    /// Puts an entry in that somebody writes, and returns the one it replaces. Eviction knows of it
    /// what it knew of a live one, and a hit more; any other has just come in.
    pub(crate) fn write(
        &mut self,
        entry: Entry<V>,
        hash: u64,
        context: &mut Context<'_, V>,
    ) -> Option<Entry<V>> {
        let entry = match self.peek_at(hash, entry.key(), context.now) {
            Some(present) => {
                entry.set_trace(hit_trace(present, context.hit));
                entry
            }
            None => context.let_in(entry, hash),
        };
        let replaced = self.insert(entry, hash, context.hasher);
        self.count_write(replaced.as_ref(), context.now);
        replaced
    }

    /// Puts an entry in under the hash of its key, and returns the one it replaces, live or not.
    ///
    /// Costs the hashes of all keys when a new key makes the table grow.
    pub(crate) fn insert(
        &mut self,
        entry: Entry<V>,
        hash: u64,
        hasher: &KeyHasher,
    ) -> Option<Entry<V>> {
        debug_assert_eq!(hash, hasher.hash(entry.key()), "an entry goes under a wrong hash");
        let deadline = entry.deadline();
        let table = self.table.get_or_insert_default();
        let key = entry.key();
        let present = table.entries.find_mut(hash, |other| other.key() == key);
        self.weight += entry.weight();
        let replaced = if let Some(present) = present {
            self.weight -= present.weight();
            Some(mem::replace(present, entry))
        } else {
            if table.add(entry, hash, hasher) {
                self.note_rehash();
            }
            None
        };
        self.note_deadline(deadline);
        replaced
    }

    /// Writes a value and clears the key's deadline: in place when no handle is out and it fits.
    /// `weight` is what somebody says that it weighs, where there are terms.
    #[expect(clippy::inline_always, reason = "what a call is made of stays in registers")]
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        key: &Key<'_>,
        value: V::Source<'_>,
        weight: u64,
        context: &mut Context<'_, V>,
    ) {
        if let Some(terms) = context.terms {
            let kept = terms.kept(key, weight, context.now);
            return self.put_on_terms(key, value, kept, context);
        }
        let Some(present) = self.get(key, context) else {
            return self.put_new(key, value, context);
        };
        match present.try_overwrite(value) {
            Ok(old) => {
                present.keep(Kept::until(NEVER));
                present.touch(context.hit, context.now);
                context.dropped.push(Garbage::Value(old));
            }
            Err(value) => {
                let old = put_anew(present, key, value, context.hit);
                let weight = present.weight();
                self.weight = self.weight - old.weight() + weight;
                context.dropped.push(Garbage::Entry(old));
            }
        }
        self.count_update();
    }

    /// [`put`](Self::put) of a key that is not here.
    #[inline(never)]
    fn put_new(&mut self, key: &Key<'_>, value: V::Source<'_>, context: &mut Context<'_, V>) {
        let entry = Entry::new(key.bytes, value, Kept::until(NEVER));
        let entry = context.let_in(entry, key.hash);
        let replaced = self.insert(entry, key.hash, context.hasher);
        debug_assert!(replaced.is_none(), "the key was absent");
        self.tally().inserts += 1;
    }

    /// Asks for the counts that go up when an entry comes in or goes.
    #[inline]
    pub(crate) fn prefetch_tally(&self) {
        if let Some(aside) = &self.aside {
            prefetch_read(&raw const aside.tally);
        }
    }

    /// Asks for the lines of the entry that is probably this key's, by its tag alone.
    #[inline]
    pub(crate) fn prefetch(&self, key: &Key<'_>) {
        if let Some(table) = &self.table
            && let Some(entry) = table.entries.find(key.hash, |_| true)
        {
            entry.prefetch();
        }
    }

    /// Takes note that every entry may lie in another bucket, even where there are as many of them:
    /// a sweep that is half done starts over, and who releases the token renews the hint.
    pub(super) fn note_rehash(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.expiry.restart();
        }
        self.news = true;
    }

    /// Tells the shard that one of its entries now expires at `deadline`.
    #[inline]
    pub(crate) fn note_deadline(&mut self, deadline: u64) {
        if deadline != NEVER {
            self.news |= self.aside().expiry.note(deadline);
        }
    }

    /// Whether the table was made, came from another shard, grew or shrank, or a deadline came
    /// nearer, since the last call.
    #[inline]
    pub(crate) fn take_news(&mut self) -> bool {
        mem::take(&mut self.news)
    }

    /// No entry expires before this time.
    pub(crate) fn next_deadline(&self) -> u64 {
        self.aside.as_ref().map_or(NEVER, |aside| aside.expiry.next_deadline)
    }

    /// No entry has a deadline, as somebody has seen who looked at all of them in this hold.
    pub(crate) fn forget_deadlines(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.expiry = Expiry::default();
            self.drop_idle_aside();
        }
    }

    /// How many entries there are, expired ones that nobody met yet included.
    pub(crate) fn len(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.entries.len())
    }

    /// How many live entries there are. Looks at every entry if some may have expired.
    pub(crate) fn live_len(&self, now: &Now<'_>) -> usize {
        if self.may_have_expired(now) { self.iter_live(now).count() } else { self.len() }
    }

    /// Whether there is a live entry. Looks at entries only if some may have expired.
    pub(crate) fn has_live(&self, now: &Now<'_>) -> bool {
        match self.len() {
            0 => false,
            _ if self.may_have_expired(now) => self.iter_live(now).next().is_some(),
            _ => true,
        }
    }

    fn may_have_expired(&self, now: &Now<'_>) -> bool {
        now.is_past(self.next_deadline())
    }

    /// The live entries, in no order.
    pub(crate) fn iter_live<'s>(
        &'s self,
        now: &'s Now<'_>,
    ) -> impl Iterator<Item = &'s Entry<V>> + 's {
        let entries = self.table.iter().flat_map(|table| table.entries.iter());
        entries.filter(|entry| !now.is_past(entry.deadline()))
    }

    /// Every entry, expired ones included, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<V>> + '_ {
        self.table.iter().flat_map(|table| table.entries.iter())
    }

    /// Lets go of every entry, uncounted; how many there were.
    pub(super) fn let_go(&mut self, dropped: &mut Dropped<V>) -> u64 {
        let count = self.len() as u64;
        dropped.extend(self.table.take().map(Garbage::Table));
        self.weight = 0;
        if let Some(aside) = &mut self.aside {
            let (move_id, tally) = (aside.move_id, aside.tally);
            **aside = Aside { tally, move_id, ..Aside::default() };
            self.drop_idle_aside();
        }
        count
    }

    /// Every entry changes hands at once, deadlines and sweep with them; what lies at `to` has
    /// expired and is let go of. The counts stay. Takes the same short time whatever the shards
    /// hold.
    pub(crate) fn hand_over_to(&mut self, to: &mut Self, dropped: &mut Dropped<V>) {
        to.clear_expired(dropped);
        let count = self.len() as u64;
        if count > 0 {
            self.tally().moved_out += count;
            to.tally().moved_in += count;
        }
        to.table = self.table.take();
        to.weight = mem::take(&mut self.weight);
        // The worker there has not heard of these deadlines.
        to.news = to.table.is_some();
        if let Some(aside) = &mut self.aside
            && aside.expiry.next_deadline != NEVER
        {
            to.aside().expiry = mem::take(&mut aside.expiry);
            self.drop_idle_aside();
        }
    }

    /// The bytes of the table and its entries, without what the allocator adds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let aside = self.aside.as_ref().map_or(0, |_| size_of::<Aside>());
        let Some(table) = &self.table else { return aside };
        let entries: usize = table.entries.iter().map(Entry::allocation_bytes).sum();
        aside + table.entries.allocation_size() + entries
    }

    /// The sum of the weights of the entries.
    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The table, to look at.
    pub(super) fn table_ref(&self) -> Option<&Table<V>> {
        self.table.as_ref()
    }

    /// The table, the sum of its weights, and what is kept beside it, if there are entries. Who
    /// takes entries out takes their weights out of the sum.
    pub(super) fn parts(&mut self) -> Option<(&mut Table<V>, &mut u64, &mut Aside)> {
        let table = self.table.as_mut()?;
        Some((table, &mut self.weight, self.aside.get_or_insert_default()))
    }

    /// The table and the sum of its weights, without what is kept beside it.
    pub(super) fn table(&mut self) -> Option<(&mut Table<V>, &mut u64)> {
        Some((self.table.as_mut()?, &mut self.weight))
    }

    pub(super) fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    fn drop_idle_aside(&mut self) {
        let is_idle = |aside: &Aside| {
            let is_still = aside.move_id == 0 && aside.expiry.next_deadline == NEVER;
            is_still && aside.tally == Tally::default()
        };
        self.aside.take_if(|aside| is_idle(aside));
    }

    /// Recomputes what is derived: every entry is found under its own key, hash and slot, once, and
    /// no deadline lies before `next_deadline`.
    ///
    /// # Panics
    /// When something does not hold.
    #[cfg(feature = "testing")]
    pub(crate) fn check_invariants(&self, hash: impl Fn(&[u8]) -> u64, slot: crate::slot::Slot) {
        let weights = self.iter().map(Entry::weight);
        assert_eq!(weights.sum::<u64>(), self.weight, "the weights do not add up");
        let Some(table) = self.table_ref() else { return };
        for entry in &table.entries {
            let key = entry.key();
            assert_eq!(crate::slot::Slot::of(key), slot, "an entry lies in a wrong slot");
            assert!(entry.deadline() >= self.next_deadline(), "a deadline was not noted");
            let found = table.entries.iter_hash(hash(key)).filter(|other| other.key() == key);
            let (own, others): (Vec<_>, Vec<_>) =
                found.partition(|other| std::ptr::eq(*other, entry));
            assert_eq!(own.len(), 1, "an entry lies under a wrong hash");
            assert!(others.is_empty(), "a key is there twice");
        }
    }
}

/// What eviction knows of an entry after one more hit.
fn hit_trace<V: Value + ?Sized>(entry: &Entry<V>, hit: Hit) -> u16 {
    let bits = entry.trace();
    hit.on(bits).unwrap_or(bits)
}

/// Puts an entry with another value where `present` is, and returns that one.
#[inline(never)]
fn put_anew<V: Value + ?Sized>(
    present: &mut Entry<V>,
    key: &Key<'_>,
    value: V::Source<'_>,
    hit: Hit,
) -> Entry<V> {
    let entry = Entry::new(key.bytes, value, Kept::until(NEVER));
    entry.set_trace(hit_trace(present, hit));
    mem::replace(present, entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Still;

    #[test]
    fn a_key_is_found_however_often_its_table_has_grown() {
        let (hasher, now) = (KeyHasher::seeded(1), Now::new(&Still(0)));
        let mut shard = Shard::<u64>::default();
        let names: Vec<_> = (0..2_000_u64).map(u64::to_le_bytes).collect();
        let keys = Key::all(&names, &hasher).expect("short keys");
        for (count, key) in keys.iter().enumerate() {
            let entry = Entry::new(key.bytes, count as u64, Kept::until(NEVER));
            assert!(shard.insert(entry, key.hash, &hasher).is_none(), "a new key");
            if shard.take_news() {
                for (value, key) in keys[..=count].iter().enumerate() {
                    let found = shard.peek(key, &now).map(Entry::value);
                    assert_eq!(found, Some(&(value as u64)), "of {count}");
                }
            }
        }
    }

    #[cfg(feature = "testing")]
    #[test]
    fn an_entry_under_a_wrong_hash_and_a_key_that_is_there_twice_are_noticed() {
        let hasher = KeyHasher::seeded(1);
        let check = |keys: [(&[u8], u64); 2]| {
            let mut shard = Shard::<()>::default();
            for (key, error) in keys {
                let hash_of = |entry: &Entry<()>| hasher.hash(entry.key()) ^ error;
                let entry = Entry::new(key, (), Kept::until(NEVER));
                shard.weight += entry.weight();
                shard.table.get_or_insert_default().entries.insert_unique(
                    hash_of(&entry),
                    entry,
                    hash_of,
                );
            }
            let check =
                || shard.check_invariants(|key| hasher.hash(key), crate::slot::Slot::of(b"{a}"));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_ok()
        };
        assert!(check([(b"{a}", 0), (b"{a}b", 0)]));
        assert!(!check([(b"{a}", 0), (b"{a}b", u64::MAX)]), "an entry that nobody finds");
        assert!(!check([(b"{a}", 0), (b"{a}", 0)]), "a key twice");
    }
}
