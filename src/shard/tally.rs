//! `Tally`: what is counted of a shard besides its units, and the hits that follow from both.
//!
//! A *unit* is one key of one operation that ran. Each is one of: a hit, a miss, an insert, an
//! update, a removal, or none of these. The header counts the units, and a hit writes nothing else:
//! hits are the units that nothing else accounts for.

use crate::shard::Context;
use crate::shard::Dropped;
use crate::shard::Entry;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Stats;
use crate::shard::Value;
use crate::shard::table::Aside;
use crate::time::Now;

/// So many updates are counted in the shard itself before the tally hears of them.
const UPDATES_CARRIED: u64 = 1 << u16::BITS;

/// The rarer counts of one shard in one node. They stay when its entries move on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct Tally {
    pub(crate) inserts: u64,
    pub(crate) evicted: u64,
    pub(crate) misses: u64,
    /// In steps of [`UPDATES_CARRIED`]; the shard has the rest.
    updates: u64,
    /// Entries that were removed; each is a unit.
    pub(crate) removed: u64,
    /// Units that found and did nothing that has a count of its own.
    pub(crate) others: u64,
    /// Units that the header did not count: those of operations on several keys, after the first.
    pub(crate) extra: u64,
    pub(crate) expired: u64,
    pub(crate) cleared: u64,
    pub(crate) moved_in: u64,
    pub(crate) moved_out: u64,
}

impl Tally {
    /// Counts an entry as removed that no operation asked to remove.
    pub(crate) fn discard(&mut self) {
        self.removed += 1;
        self.extra += 1;
    }

    /// Counts an entry that another one of the same key takes the place of, or that had expired.
    pub(crate) fn drop_copy(&mut self, has_expired: bool) {
        if has_expired {
            self.expired += 1;
        } else {
            self.discard();
        }
    }

    /// Counts an entry that made room for others, or had expired by then.
    pub(crate) fn lose(&mut self, has_expired: bool) {
        self.expired += u64::from(has_expired);
        self.evicted += u64::from(!has_expired);
    }

    /// The units that are accounted for, given the updates that were not carried.
    fn explained(&self, updates: u16) -> u64 {
        let updates = self.updates + u64::from(updates);
        self.misses + self.inserts + updates + self.removed + self.others
    }

    /// What a shard's counts come to, but for what lies in it now.
    fn stats(&self, units: u64, updates: u16) -> Stats {
        Stats {
            hits: (units + self.extra).saturating_sub(self.explained(updates)),
            misses: self.misses,
            inserts: self.inserts,
            updates: self.updates + u64::from(updates),
            removed: self.removed,
            expired: self.expired,
            evicted: self.evicted,
            cleared: self.cleared,
            moved_in: self.moved_in,
            moved_out: self.moved_out,
            ..Stats::default()
        }
    }
}

impl<V: Value + ?Sized> Shard<V> {
    /// Removes a live entry for who asked for that, which is a unit of the counts.
    pub(crate) fn remove(
        &mut self,
        key: &Key<'_>,
        context: &mut Context<'_, V>,
    ) -> Option<Entry<V>> {
        let removed = self.take_live(key, context);
        let tally = self.tally();
        match removed {
            Some(_) => tally.removed += 1,
            None => tally.others += 1,
        }
        removed
    }

    /// Lets go of every entry.
    pub(crate) fn clear(&mut self, dropped: &mut Dropped<V>) {
        let count = self.let_go(dropped);
        if count > 0 {
            self.tally().cleared += count;
        }
    }

    /// Lets go of every entry; they have all expired.
    pub(crate) fn clear_expired(&mut self, dropped: &mut Dropped<V>) {
        let count = self.let_go(dropped);
        if count > 0 {
            self.tally().expired += count;
        }
    }

    /// The counts beside those of the header.
    #[inline(never)]
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.aside().tally
    }

    /// A copy of the counts; of a shard that was never used too.
    pub(super) fn tally_so_far(&self) -> Tally {
        self.aside.as_ref().map_or(Tally::default(), |aside| aside.tally)
    }

    /// Counts an entry that somebody wrote, given the one that it replaced.
    pub(crate) fn count_write(&mut self, replaced: Option<&Entry<V>>, now: &Now<'_>) {
        let has_expired = replaced.is_some_and(|old| now.is_past(old.deadline()));
        match replaced {
            Some(_) if !has_expired => self.count_update(),
            Some(_) | None => {
                let tally = self.tally();
                tally.inserts += 1;
                tally.expired += u64::from(has_expired);
            }
        }
    }

    /// Counts a value that replaced another one.
    #[inline]
    pub(crate) fn count_update(&mut self) {
        self.updates = self.updates.wrapping_add(1);
        if self.updates == 0 {
            self.carry_updates();
        }
    }

    #[cold]
    #[inline(never)]
    fn carry_updates(&mut self) {
        self.tally().updates += UPDATES_CARRIED;
    }

    /// Counts a unit for a key of an operation on several, before anything is done with it: the
    /// header counts one for all of them, which stands for the first.
    pub(crate) fn count_key(&mut self, index: usize) {
        if index > 0 {
            self.tally().extra += 1;
        }
    }

    /// What the counts of this shard come to, given its units.
    pub(super) fn stats(&self, units: u64) -> Stats {
        let tally = self.tally_so_far();
        let entries = self.len() as u64;
        Stats { entries, weight: self.weight(), ..tally.stats(units, self.updates) }
    }

    /// Checks that no more was counted than happened, and that the entries are those that came and
    /// did not go.
    ///
    /// # Panics
    /// When something does not hold.
    #[cfg(feature = "testing")]
    pub(super) fn check_counts(&self, units: u64) {
        let tally = self.tally_so_far();
        let explained = tally.explained(self.updates);
        assert!(explained <= units + tally.extra, "{tally:?} says more than {units} units");
        let stats = self.stats(units);
        let came = stats.inserts + stats.moved_in;
        let went = stats.removals() + stats.moved_out;
        assert_eq!(Some(stats.entries), came.checked_sub(went), "entries came or went: {stats:?}");
    }
}

/// Counts an entry that was met and had expired.
#[cold]
#[inline(never)]
pub(super) fn count_expired(aside: &mut Option<Box<Aside>>) {
    aside.get_or_insert_default().tally.expired += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_nothing_else_accounts_for_is_a_hit() {
        let tally = Tally { misses: 1, inserts: 2, removed: 4, others: 8, ..Tally::default() };
        assert_eq!(tally.stats(15 + 3 + 5, 3).hits, 5);
        assert_eq!(tally.stats(15, 0).hits, 0);
        let several = Tally { extra: 7, ..tally };
        assert_eq!(several.stats(15, 0).hits, 7);
    }

    #[test]
    fn what_goes_without_being_asked_for_is_no_hit_and_hides_none() {
        let mut tally = Tally::default();
        tally.discard();
        tally.drop_copy(false);
        tally.drop_copy(true);
        let stats = tally.stats(5, 0);
        assert_eq!((stats.hits, stats.removed, stats.expired), (5, 2, 1));
        assert_eq!(stats.removals(), 3);
    }

    #[test]
    fn updates_are_counted_beyond_what_the_shard_has_bits_for() {
        let mut shard = Shard::<u64>::default();
        for count in 0..=3 * UPDATES_CARRIED {
            assert_eq!(shard.stats(count).updates, count);
            shard.count_update();
        }
        assert_eq!(shard.stats(4 * UPDATES_CARRIED).hits, UPDATES_CARRIED - 1);
    }

    #[test]
    fn whatever_the_tally_says_of_more_units_than_ran_hits_do_not_wrap() {
        assert_eq!(Tally { misses: 2, ..Tally::default() }.stats(1, 0).hits, 0);
    }
}
