//! The table of a shard: entries by key, lazy expiry on every access.

use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::shard::Entry;
use crate::shard::Key;
use crate::shard::Value;
use crate::shard::expire::SweepState;
use crate::time::NEVER;
use crate::time::Now;

/// What a shard lets go of under its token. It is freed when the token is back.
pub(crate) type Dropped<V> = SmallVec<[Garbage<V>; 2]>;

/// One thing to free.
#[expect(dead_code, reason = "garbage is only ever dropped")]
pub(crate) enum Garbage<V: Value + ?Sized> {
    Entry(Entry<V>),
    Value(V::Returned),
    Owned(V::Owned),
    Table(Box<Table<V>>),
}

/// The keys of one slot in one node. The default, all zero bytes, is empty and owns nothing.
pub(crate) struct Shard<V: Value + ?Sized> {
    table: Option<Box<Table<V>>>,
    /// The table was made or a deadline came nearer since `take_news`.
    news: bool,
}

/// The second block of a shard, made with its first key.
pub(crate) struct Table<V: Value + ?Sized> {
    pub(super) entries: HashTable<Entry<V>>,
    /// No entry expires before this time.
    pub(super) next_deadline: u64,
    /// How far the sweep of this table has come.
    pub(super) sweep: SweepState,
    /// Where the next batch of a migration starts to look.
    pub(super) cursor: usize,
}

impl<V: Value + ?Sized> Drop for Table<V> {
    /// Empties the table before its buckets are freed, so that they are freed also when the drop of
    /// a value panics.
    fn drop(&mut self) {
        self.entries.drain().for_each(drop);
    }
}

impl<V: Value + ?Sized> Default for Shard<V> {
    fn default() -> Self {
        Self { table: None, news: false }
    }
}

impl<V: Value + ?Sized> Shard<V> {
    /// Looks a key up; an expired entry is removed and counts as absent.
    #[inline]
    pub(crate) fn get(
        &mut self,
        key: &Key<'_>,
        now: &Now<'_>,
        dropped: &mut Dropped<V>,
    ) -> Option<&mut Entry<V>> {
        let entries = &mut self.table.as_mut()?.entries;
        let found = entries.find_entry(key.hash, |entry| entry.key() == key.bytes).ok()?;
        if now.is_past(found.get().deadline()) {
            dropped.push(Garbage::Entry(found.remove().0));
            return None;
        }
        Some(found.into_mut())
    }

    /// Looks a key up without side effects; an expired entry counts as absent.
    pub(crate) fn peek(&self, key: &Key<'_>, now: &Now<'_>) -> Option<&Entry<V>> {
        let entries = &self.table.as_ref()?.entries;
        let found = entries.find(key.hash, |entry| entry.key() == key.bytes)?;
        (!now.is_past(found.deadline())).then_some(found)
    }

    /// Takes a live entry out; an expired one is removed and counts as absent.
    pub(crate) fn remove(
        &mut self,
        key: &Key<'_>,
        now: &Now<'_>,
        dropped: &mut Dropped<V>,
    ) -> Option<Entry<V>> {
        let entries = &mut self.table.as_mut()?.entries;
        let found = entries.find_entry(key.hash, |entry| entry.key() == key.bytes).ok()?;
        let entry = found.remove().0;
        if now.is_past(entry.deadline()) {
            dropped.push(Garbage::Entry(entry));
            return None;
        }
        Some(entry)
    }

    /// Puts an entry in and returns the one it replaces, live or not.
    pub(crate) fn insert(&mut self, entry: Entry<V>) -> Option<Entry<V>> {
        let deadline = entry.deadline();
        let table = self.table_mut();
        if table.entries.len() == table.entries.capacity() {
            // This insertion may move every entry to another bucket, the number of buckets the
            // same: a sweep that is half done starts over.
            table.sweep.restart();
        }
        let (hash, key) = (entry.hash(), entry.key());
        let slot = table.entries.entry(hash, |other| other.key() == key, Entry::hash);
        let replaced = match slot {
            hashbrown::hash_table::Entry::Occupied(mut found) => {
                Some(std::mem::replace(found.get_mut(), entry))
            }
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                vacant.insert(entry);
                None
            }
        };
        self.note_deadline(deadline);
        replaced
    }

    fn table_mut(&mut self) -> &mut Table<V> {
        self.table.get_or_insert_with(|| {
            self.news = true;
            Box::new(Table {
                entries: HashTable::new(),
                next_deadline: NEVER,
                sweep: SweepState::default(),
                cursor: 0,
            })
        })
    }

    /// Tells the shard that one of its entries now expires at `deadline`.
    #[inline]
    pub(crate) fn note_deadline(&mut self, deadline: u64) {
        if deadline == NEVER {
            return;
        }
        if let Some(table) = &mut self.table {
            table.sweep.note(deadline);
            if deadline < table.next_deadline {
                table.next_deadline = deadline;
                self.news = true;
            }
        }
    }

    /// Whether the table was made or a deadline came nearer since the last call.
    #[inline]
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// No entry expires before this time.
    pub(crate) fn next_deadline(&self) -> u64 {
        self.table.as_ref().map_or(NEVER, |table| table.next_deadline)
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

    /// Lets go of everything.
    pub(crate) fn clear(&mut self, dropped: &mut Dropped<V>) {
        dropped.extend(self.table.take().map(Garbage::Table));
    }

    /// Everything changes hands at once, deadlines and sweep with it; what lies at `to` is let go
    /// of. Takes the same short time whatever the shards hold.
    pub(crate) fn hand_over_to(&mut self, to: &mut Self, dropped: &mut Dropped<V>) {
        to.clear(dropped);
        to.table = self.table.take();
        // The worker there has not heard of these deadlines.
        to.news = to.table.is_some();
    }

    /// The bytes of the table and its entries, without what the allocator adds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let Some(table) = &self.table else { return 0 };
        let entries: usize = table.entries.iter().map(Entry::allocation_bytes).sum();
        size_of::<Table<V>>() + table.entries.allocation_size() + entries
    }

    pub(super) fn table(&mut self) -> Option<&mut Table<V>> {
        self.table.as_deref_mut()
    }

    /// Recomputes what is derived: every entry is found under its own key, hash and slot, once, and
    /// no deadline lies before `next_deadline`.
    ///
    /// # Panics
    /// When something does not hold.
    #[cfg(feature = "testing")]
    pub(crate) fn check_invariants(&self, hash: impl Fn(&[u8]) -> u64, slot: crate::slot::Slot) {
        for entry in self.iter() {
            assert_eq!(entry.hash(), hash(entry.key()), "an entry lies under a wrong hash");
            assert_eq!(crate::slot::Slot::of(entry.key()), slot, "an entry lies in a wrong slot");
            assert!(entry.deadline() >= self.next_deadline(), "a deadline was not noted");
            let same = self
                .iter()
                .filter(|other| other.hash() == entry.hash() && other.key() == entry.key());
            assert_eq!(same.count(), 1, "a key is there twice");
        }
    }
}
