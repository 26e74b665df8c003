//! Eviction from one shard: what becomes of an entry whose ticket has come up, and of those that
//! the hand meets.

use crate::evict::Search;
use crate::evict::Ticket;
use crate::limits::EVICT_BUCKETS;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
#[cfg(feature = "testing")]
use crate::shard::KeyHasher;
use crate::shard::Shard;
use crate::shard::Value;

/// The heads of the entries in so many buckets ahead of the hand are on their way to the cache.
const BUCKETS_AHEAD: usize = 16;

/// What became of the entry of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decided {
    /// There is none: it was removed, replaced, moved or decided about.
    Stale,
    /// It is a main entry now.
    Kept,
    /// It had expired, and is gone.
    Expired,
    /// It was evicted.
    Evicted,
}

/// How far the hand got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// An entry is gone; the hash of its key, if it was a main entry and had not expired.
    Gone(Option<u64>),
    /// The main entry that was asked about stays.
    Spared,
    /// It has seen so many buckets as one hold may look at.
    More,
    /// It has come to the end of the table.
    End,
    /// There is no table, or there was an empty one, which is gone.
    Empty,
}

impl<V: Value + ?Sized> Shard<V> {
    /// Decides about the entry of a ticket: it stays as a main entry if it was hit, else it goes.
    pub(crate) fn decide(&mut self, ticket: &Ticket, context: &mut Context<'_, V>) -> Decided {
        let Some((table, weight, aside)) = self.parts() else { return Decided::Stale };
        let awaits = |entry: &Entry<V>| entry.standing().awaits(ticket.serial);
        let Ok(found) = table.entries.find_entry(ticket.hash, awaits) else {
            return Decided::Stale;
        };
        let entry = found.get();
        let has_expired = context.now.is_past(entry.deadline());
        if !has_expired && let Some(main) = entry.standing().promoted() {
            entry.set_standing(main);
            return Decided::Kept;
        }
        *weight -= entry.weight();
        context.dropped.push(Garbage::Entry(found.remove().0));
        aside.tally.lose(has_expired);
        self.halve_if_sparse(context.hasher);
        if has_expired { Decided::Expired } else { Decided::Evicted }
    }

    /// Asks for what [`decide`](Self::decide) will read: the entry that is probably meant, and the
    /// counts.
    pub(crate) fn prefetch_decision(&self, ticket: &Ticket) {
        if let Some(table) = self.table_ref()
            && let Some(entry) = table.entries.find(ticket.hash, |_| true)
        {
            entry.prefetch_head();
        }
        self.prefetch_tally();
    }

    /// Whether the entry of a ticket is there, and waits for its turn.
    pub(crate) fn awaits(&self, ticket: &Ticket) -> bool {
        let awaits = |entry: &Entry<V>| entry.standing().awaits(ticket.serial);
        self.table_ref().is_some_and(|table| table.entries.find(ticket.hash, awaits).is_some())
    }

    /// Makes the entry of a ticket a main entry.
    pub(crate) fn admit(&mut self, ticket: &Ticket) {
        let Some((table, _)) = self.table() else { return };
        let awaits = |entry: &Entry<V>| entry.standing().awaits(ticket.serial);
        if let Some(entry) = table.entries.find(ticket.hash, awaits) {
            entry.set_standing(entry.standing().in_main());
        }
    }

    /// Lets the hand go on over the buckets of this shard until an entry is gone, from where the
    /// last one that was here has stopped: so an entry meets hands in turns of equal length,
    /// however many there are. It looks at [`EVICT_BUCKETS`] at most.
    pub(crate) fn turn(
        &mut self,
        search: Search,
        entering: Option<&Ticket>,
        context: &mut Context<'_, V>,
    ) -> Turn {
        if self.len() == 0 {
            self.clear(context.dropped);
            return Turn::Empty;
        }
        let Some((table, weight, aside)) = self.parts() else { return Turn::Empty };
        let buckets = table.entries.num_buckets();
        // A smaller table may have come here meanwhile.
        let start = if aside.hand <= buckets { aside.hand } else { 0 };
        let end = buckets.min(start + EVICT_BUCKETS);
        let mut ahead = start;
        for bucket in start..end {
            while ahead < buckets.min(bucket + BUCKETS_AHEAD) {
                if let Some(entry) = table.entries.get_bucket(ahead) {
                    entry.prefetch_head();
                }
                ahead += 1;
            }
            let Ok(found) = table.entries.get_bucket_entry(bucket) else { continue };
            let entry = found.get();
            let has_expired = context.now.is_past(entry.deadline());
            if !has_expired && search != Search::Any {
                if waits(entry, search, entering) {
                    continue;
                }
                if stays(entry, search) {
                    if search.is_of_one() {
                        aside.hand = bucket + 1;
                        return Turn::Spared;
                    }
                    continue;
                }
            }
            let is_main = !has_expired && !entry.standing().is_in_window();
            let hash = is_main.then(|| context.hasher.hash(entry.key()));
            *weight -= entry.weight();
            context.dropped.push(Garbage::Entry(found.remove().0));
            aside.tally.lose(has_expired);
            aside.hand = bucket + 1;
            return Turn::Gone(hash);
        }
        let has_more = end < buckets;
        aside.hand = if has_more { end } else { 0 };
        if has_more {
            return Turn::More;
        }
        self.halve_if_sparse(context.hasher);
        Turn::End
    }
}

/// What the fault of two holds does.
#[cfg(feature = "testing")]
impl<V: Value + ?Sized> Shard<V> {
    /// Takes the entry of a ticket out; whatever becomes of it, one is gone.
    pub(crate) fn take_out(&mut self, ticket: &Ticket) -> Option<Entry<V>> {
        let (table, weight, aside) = self.parts()?;
        let awaits = |entry: &Entry<V>| entry.standing().awaits(ticket.serial);
        let (entry, _) = table.entries.find_entry(ticket.hash, awaits).ok()?.remove();
        *weight -= entry.weight();
        aside.tally.lose(false);
        Some(entry)
    }

    /// Puts an entry over that of the same key, if there is one; what is left over.
    pub(crate) fn put_over(&mut self, entry: Entry<V>, hash: u64, hasher: &KeyHasher) -> Entry<V> {
        let is_same = |other: &Entry<V>| other.key() == entry.key();
        let present = self.table_ref().and_then(|table| table.entries.find(hash, is_same));
        if present.is_none() {
            return entry;
        }
        self.insert(entry, hash, hasher).expect("the one that is present")
    }
}

/// Whether an entry is in the window, and no hand has met it there before, or has just entered. A
/// hand that is after one main entry comes round too fast to count as one that has met it.
fn waits<V: Value + ?Sized>(entry: &Entry<V>, search: Search, entering: Option<&Ticket>) -> bool {
    let standing = entry.standing();
    if entering.is_some_and(|ticket| standing.awaits(ticket.serial)) {
        return true;
    }
    let met = if standing.is_in_window() { standing.met_in_window() } else { None };
    if let Some(met) = met
        && !search.is_of_one()
    {
        entry.set_standing(met);
    }
    met.is_some()
}

/// Whether the hand lets a main entry pass, which costs it a mark.
fn stays<V: Value + ?Sized>(entry: &Entry<V>, search: Search) -> bool {
    let standing = entry.standing();
    let stays = match search {
        Search::Unmarked | Search::Weak => standing.marks() > 0,
        Search::Stale => standing.is_fresh(),
        Search::Any => false,
    };
    if stays {
        entry.set_standing(standing.passed());
    }
    stays
}
