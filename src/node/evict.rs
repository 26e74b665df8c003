//! Eviction by the adaptive policy: the window, the ghost and the hands of one node.

use crate::evict::Drought;
use crate::evict::Ghost;
use crate::evict::Past;
use crate::evict::RETURN_LOOKS;
use crate::evict::Search;
use crate::evict::Ticket;
use crate::evict::WINDOW_PERCENT;
use crate::evict::Window;
use crate::evict::is_more_than;
use crate::limits::EVICT_ROUNDS_MAX;
use crate::node::Member;
use crate::node::Roster;
use crate::node::census::Census;
use crate::node::hands::Hands;
use crate::shard::Budget;
use crate::shard::Context;
use crate::shard::Decided;
use crate::shard::Dropped;
#[cfg(feature = "testing")]
use crate::shard::Garbage;
use crate::shard::Turn;
use crate::shard::Value;
use crate::shard::prefetch_read;
use crate::slot::Slot;
use crate::sync::AtomicU64;
use crate::sync::CachePadded;
use crate::sync::EvictingScope;
use crate::sync::Mutex;
use crate::sync::OnceLock;
use crate::sync::Ordering;
#[cfg(feature = "testing")]
use crate::testing::Fault;
use crate::topology::SlotBits;

/// So many tickets come up before the one whose header is asked for, and its table.
const TABLE_AHEAD: usize = 6;

/// So many tickets come up before the one whose entry is asked for, which its table leads to.
const ENTRY_AHEAD: usize = 3;

/// The order in which a node evicts: its window, its ghost and its hands.
///
/// Its locks are never taken under a token.
#[derive(Debug)]
pub(super) struct Evictor {
    window: CachePadded<Mutex<Window>>,
    drought: CachePadded<Drought>,
    /// Made when something is evicted for the first time, which is when it is known how many
    /// entries there are at the bound. Where weights are bounded, it grows with their number.
    past: OnceLock<Past>,
    /// When so many entries have entered the window, those that there are are counted again.
    /// Relaxed: whenever that is, it stands for itself.
    census_at: AtomicU64,
    hands: Hands<Slot>,
    /// The slot to which a hand came last. The others go on behind it, so that all of them walk
    /// together as one would.
    last: CachePadded<Mutex<Slot>>,
    /// The slots in which a hand finds a table. Written under the slot's token.
    pub(super) occupied: SlotBits,
}

/// Who has to give way.
enum Due {
    /// The entry of the window's oldest ticket.
    Oldest(Ticket),
    /// A main entry.
    Main,
    /// A main entry, if it is stale; then the head of the window takes its place.
    Stale,
}

impl Evictor {
    /// That of an empty node.
    pub(super) fn new() -> Self {
        Self {
            window: CachePadded::default(),
            drought: CachePadded::default(),
            past: OnceLock::new(),
            census_at: AtomicU64::new(u64::MAX),
            hands: Hands::all_at(Slot::MIN),
            last: CachePadded::new(Mutex::new(Slot::MIN)),
            occupied: SlotBits::new(),
        }
    }

    /// Notes that a slot, whose token the caller holds, has a table.
    pub(super) fn note_table(&self, slot: Slot) {
        self.occupied.insert(slot);
    }

    /// Whether new entries enter the window: until something is evicted for the first time they
    /// come in with the main ones, as far as those leave room for a window.
    pub(super) fn is_window_open(&self, budget: &Budget) -> bool {
        let has_room = || {
            let taken = budget.taken().saturating_add(budget.cost(0));
            !is_more_than(taken, 100 - WINDOW_PERCENT, budget.bound())
        };
        self.past.get().is_some() || !has_room()
    }

    /// The slot to which a hand goes that has seen one to its end.
    fn next_slot(&self) -> Slot {
        let mut last = self.last.lock();
        let next = self.occupied.from(u32::from(last.number()) + 1).next();
        *last = next.unwrap_or(Slot::MIN);
        *last
    }

    /// Asks for what the ghost reads about a hash.
    #[inline]
    pub(super) fn prefetch_ghost(&self, hash: u64) {
        if let Some(line) = self.past.get().and_then(|past| past.ghost.line(hash)) {
            prefetch_read(line);
        }
    }

    /// Who has to give way for an entry that enters the window. The tickets that come up soon are
    /// prepared for.
    fn due<V: Value + ?Sized>(
        &self,
        member: &Member<V>,
        (budget, past): (&Budget, &Past),
        entering: Option<&Ticket>,
    ) -> Due {
        let mut window = self.window.lock();
        let cost = window.cost() + entering.map_or(0, |ticket| ticket.cost);
        let main = budget.taken().saturating_sub(cost);
        if main > 0 && !past.share.is_exceeded(cost, budget.bound()) {
            window.break_streak();
            return Due::Main;
        }
        if main > 0 && window.ends_streak() {
            return Due::Stale;
        }
        let Some(oldest) = window.pop() else { return Due::Main };
        let ahead = [TABLE_AHEAD, ENTRY_AHEAD].map(|others| window.after(others));
        drop(window);
        self.prefetch(member, ahead);
        Due::Oldest(oldest)
    }

    /// Asks for what is read when these tickets come up: the table of the first one, and what the
    /// table of the second one leads to. Waits for no token, because it is no more than a guess.
    fn prefetch<V: Value + ?Sized>(&self, member: &Member<V>, [table, entry]: [Option<Ticket>; 2]) {
        if let Some(ticket) = table {
            member.headers.prefetch(ticket.slot, ticket.hash);
        }
        if let Some(ticket) = entry {
            self.prefetch_ghost(ticket.hash);
            if let Some(shard) = member.headers.get(ticket.slot).try_lock_bare() {
                shard.prefetch_decision(&ticket);
            }
        }
    }

    /// What is known of the keys that were evicted.
    fn past<V: Value + ?Sized>(&self, member: &Member<V>, budget: &Budget) -> &Past {
        self.past.get_or_init(|| {
            let census = Census::take(member, (&self.occupied, budget));
            self.census_at.store(census.entering, Ordering::Relaxed);
            Past::new(census.entries)
        })
    }

    /// Counts the entries, of which `entered` have entered the window by now, and lets the ghost
    /// grow with them.
    #[cold]
    #[inline(never)]
    fn fit_past<V: Value + ?Sized>(&self, member: &Member<V>, entered: u64) {
        let (Some(past), Some(budget)) = (self.past.get(), member.headers.budget()) else {
            return;
        };
        // Until it is done, nobody else needs to count.
        if self.census_at.swap(u64::MAX, Ordering::Relaxed) == u64::MAX {
            return;
        }
        let census = Census::take(member, (&self.occupied, budget));
        past.fit(census.entries);
        let next = entered.saturating_add(census.entering);
        self.census_at.store(next, Ordering::Relaxed);
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Makes room for an entry that has just come in, and gives it a ticket of the window, or makes
    /// it a main entry if it wins a place.
    pub(super) fn enter(&self, (member, evictor): (&Member<V>, &Evictor), ticket: Ticket) {
        if self.wins_place((member, evictor), &ticket) {
            self.make_room(member, None);
            member.headers.get(ticket.slot).lock().admit(&ticket);
            return;
        }
        self.make_room(member, Some(&ticket));
        let mut window = evictor.window.lock();
        let (to_look_up, entered) = (window.push(ticket), window.entered());
        drop(window);
        for ticket in to_look_up.into_iter().flatten() {
            let is_stale = !member.headers.get(ticket.slot).lock().awaits(&ticket);
            if !is_stale {
                evictor.window.lock().keep(ticket);
            }
        }
        if entered >= evictor.census_at.load(Ordering::Relaxed) {
            evictor.fit_past(member, entered);
        }
    }

    /// Whether what comes in becomes a main entry: it comes back, and if that is in a drought, the
    /// window gives way for it, or main entries that nobody uses do. Those are gone then.
    fn wins_place(&self, (member, evictor): (&Member<V>, &Evictor), ticket: &Ticket) -> bool {
        let Some(past) = evictor.past.get() else { return false };
        let Some(returned) = past.recall(ticket.hash) else { return false };
        if !evictor.drought.is_on() {
            return true;
        }
        let Some(budget) = member.headers.budget() else { return true };
        let window = evictor.window.lock().cost();
        let has_main = budget.taken() > window.saturating_add(ticket.cost);
        if !has_main || past.share.is_exceeded(window, budget.bound()) {
            return true;
        }
        // A value that writes here when it is dropped leaves it to the loop that evicted it.
        let Some(_scope) = EvictingScope::enter(budget) else { return false };
        let mut looks = 0;
        while budget.is_exceeded() && looks < RETURN_LOOKS {
            let has_gone = Dropped::after(|dropped| {
                let search = (Search::Weak, &past.ghost);
                self.turn_hand((member, evictor, Some(ticket)), search, dropped)
            });
            looks = if has_gone { 0 } else { looks + 1 };
        }
        let wins = !budget.is_exceeded();
        if !wins {
            past.turn_down(returned);
        }
        wins
    }

    /// Evicts an entry, or takes a step towards it. Whether there may be another one.
    #[inline(never)]
    pub(super) fn evict_one(
        &self,
        member: &Member<V>,
        (evictor, budget): (&Evictor, &Budget),
        entering: Option<&Ticket>,
    ) -> bool {
        let past = evictor.past(member, budget);
        // Freed after all locks: a value that is dropped may well write into this cache.
        Dropped::after(|dropped| {
            let mut turn = |search| {
                self.turn_hand((member, evictor, entering), (search, &past.ghost), dropped)
            };
            let oldest = || evictor.window.lock().pop();
            let ticket = match evictor.due(member, (budget, past), entering) {
                Due::Oldest(ticket) => ticket,
                Due::Stale => {
                    if turn(Search::Stale)
                        && let Some(ticket) = oldest()
                    {
                        member.headers.get(ticket.slot).lock().admit(&ticket);
                    }
                    return true;
                }
                Due::Main => {
                    if turn(Search::Unmarked) {
                        return true;
                    }
                    let Some(ticket) = oldest() else { return false };
                    ticket
                }
            };
            self.decide((member, evictor), (&past.ghost, &ticket), dropped);
            true
        })
    }

    /// Decides about the entry of a ticket.
    fn decide(
        &self,
        (member, evictor): (&Member<V>, &Evictor),
        (ghost, ticket): (&Ghost, &Ticket),
        dropped: &mut Dropped<V>,
    ) {
        #[cfg(feature = "testing")]
        if self.faults.has(Fault::EvictionInTwoHolds) {
            self.take_out_and_put_back(member, ticket, dropped);
        }
        let now = self.now();
        let mut context = Context::new(&now, &self.hasher, dropped);
        let mut hold = member.headers.get(ticket.slot).lock();
        let decided = hold.decide(ticket, &mut context);
        member.release(ticket.slot, hold);
        match decided {
            Decided::Kept => evictor.drought.kept(),
            Decided::Evicted => {
                evictor.drought.lost();
                ghost.remember(ticket.hash);
            }
            Decided::Stale | Decided::Expired => {}
        }
    }

    /// What the fault of that name does.
    #[cfg(feature = "testing")]
    fn take_out_and_put_back(&self, member: &Member<V>, ticket: &Ticket, dropped: &mut Dropped<V>) {
        let place = member.headers.get(ticket.slot);
        let Some(entry) = place.lock().take_out(ticket) else { return };
        crate::sync::back_off(0);
        let mut hold = place.lock();
        dropped.push(Garbage::Entry(hold.put_over(entry, ticket.hash, &self.hasher)));
        member.release(ticket.slot, hold);
    }

    /// Lets a hand go on until an entry is gone, or the one that it is after stays; whether one is
    /// gone. The one that enters goes only when nothing else is left.
    fn turn_hand(
        &self,
        (member, evictor, entering): (&Member<V>, &Evictor, Option<&Ticket>),
        (search, ghost): (Search, &Ghost),
        dropped: &mut Dropped<V>,
    ) -> bool {
        let mut hand = evictor.hands.take();
        let most = if search.is_of_one() { 1 } else { EVICT_ROUNDS_MAX };
        let mut rounds = 0;
        while rounds <= most {
            let now = self.now();
            let mut context = Context::new(&now, &self.hasher, dropped);
            let search = if rounds < EVICT_ROUNDS_MAX { search } else { Search::Any };
            let mut hold = member.headers.get(*hand).lock();
            let entering = entering.filter(|ticket| ticket.slot == *hand);
            let turned = hold.turn(search, entering, &mut context);
            if turned == Turn::Empty {
                // What comes in next makes a table, and notes it.
                evictor.occupied.remove(*hand);
            }
            member.release(*hand, hold);
            match turned {
                Turn::Gone(hash) => {
                    if let Some(hash) = hash {
                        ghost.remember_main(hash);
                    }
                    return true;
                }
                Turn::Spared => return false,
                Turn::More => {}
                Turn::End | Turn::Empty => {
                    let next = evictor.next_slot();
                    rounds += u32::from(next <= *hand);
                    *hand = next;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Condition;
    use crate::command::Deadline;
    use crate::command::Idle;
    use crate::command::Operation;
    use crate::command::Put;
    use crate::command::Remove;
    use crate::command::Set;
    use crate::command::SetAll;
    use crate::command::Transact;
    use crate::command::Transaction;
    use crate::limits::TICKETS_UNSEARCHED;
    use crate::node::Bound;
    use crate::node::MemberOptions;
    use crate::node::RosterOptions;
    use crate::node::bounded::Order;
    use crate::shard::Key;
    use crate::shard::Shard;
    use crate::sync::Arc;
    use crate::topology::NodeId;

    /// One node that is full.
    struct Full {
        roster: Arc<Roster<[u8]>>,
        node: NodeId,
    }

    /// A node that holds `{t}:0` to `{t}:7`, and no more than eight entries.
    fn full_of_eight() -> Full {
        full_of(8)
    }

    /// A node that holds so many entries of one slot, and no more.
    fn full_of(count: u64) -> Full {
        let options = RosterOptions::of_unit_tests();
        let member = MemberOptions { bound: Some(Bound::Entries(count)), ..options.member };
        let roster = Arc::new(Roster::new(RosterOptions { member, ..options }));
        let node = roster.add_node().expect("room for one");
        let full = Full { roster, node };
        // From the first eviction on new keys take tickets.
        full.put("{t}:first");
        (0..count).for_each(|number| full.put(&format!("{{t}}:{number}")));
        full
    }

    impl Full {
        fn member(&self) -> &Member<[u8]> {
            self.roster.known(self.node)
        }

        fn key<'k>(&self, name: &'k str) -> Key<'k> {
            Key::new(name.as_bytes(), &self.roster.hasher).expect("a short key")
        }

        #[track_caller]
        fn run<O: Operation<[u8]>>(&self, operation: O) -> O::Output {
            let slot = operation.keys()[0].slot;
            let ran = Dropped::after(|dropped| {
                let now = self.roster.now();
                let context = self.roster.context(&now, dropped);
                let held = (self.member().headers.get(slot).lock(), context);
                self.roster.run_held(self.member(), slot, operation, held)
            });
            let Ok(output) = ran else { panic!("nothing is refused") };
            output
        }

        fn put(&self, name: &str) {
            self.run(Put { key: self.key(name), value: &b"v"[..] });
        }

        /// Writes an entry that has expired by the time it is looked up.
        fn put_expired(&self, name: &str) {
            let (key, deadline, idle) = (self.key(name), Deadline::At(1), Idle::Default);
            let (value, condition) = (&b"v"[..], Condition::Always);
            self.run(Set { key, value, deadline, idle, weight: 0, condition, return_old: false });
        }

        fn set_all(&self, names: &[&str]) {
            let keys = names.iter().map(|name| self.key(name)).collect::<Vec<_>>().into();
            let values = vec![&b"v"[..]; names.len()];
            self.run(SetAll::<[u8]> { keys, values, weights: Vec::new() });
        }

        /// Stages what `stage` does, and applies it if that says so.
        fn transact(&self, names: &[&str], stage: fn(&mut Transaction<'_, [u8]>) -> bool) {
            let keys: Vec<_> = names.iter().map(|name| self.key(name)).collect();
            let closure = |staged: &mut Transaction<'_, [u8]>| {
                if stage(staged) { Ok(()) } else { Err(()) }
            };
            assert!(self.run(Transact { keys: &keys, closure }).is_ok(), "there is room");
        }

        fn remove(&self, name: &str) {
            assert!(self.run(Remove { key: self.key(name) }), "{name}");
        }

        fn is_there(&self, name: &str) -> bool {
            let key = self.key(name);
            let now = self.roster.now();
            self.member().peek(key.slot, |shard| shard.peek(&key, &now).is_some())
        }

        /// How many tickets there are, those of entries that are gone included.
        fn tickets(&self) -> u64 {
            let Some(Order::Adaptive(evictor)) = &self.member().order else {
                panic!("it has a bound")
            };
            evictor.window.lock().cost()
        }

        /// Runs something that evicts nothing, and compares how many tickets that makes.
        #[track_caller]
        fn check_issues(&self, tickets: u64, run: impl FnOnce(&Self)) {
            let before = self.tickets();
            run(self);
            assert_eq!(self.tickets() - before, tickets);
        }
    }

    #[test]
    fn tickets_of_keys_that_are_removed_do_not_pile_up() {
        let full = full_of_eight();
        for number in 0..1_000 {
            let name = format!("new:{number}");
            full.put(&name);
            if number > 0 {
                full.remove(&name);
            }
        }
        let most = 2 * 8 + TICKETS_UNSEARCHED as u64 + 4;
        assert!(full.tickets() <= most, "tickets of {} entries, where 8 may be", full.tickets());
    }

    #[test]
    fn what_is_written_over_an_expired_entry_has_a_ticket_and_goes_in_its_turn() {
        let write: [fn(&Full); 3] = [
            |full| full.put("{t}:new"),
            |full| full.set_all(&["{t}:new"]),
            |full| full.transact(&["{t}:new"], |staged| staged.set("{t}:new", b"v").is_ok()),
        ];
        for write in write {
            let full = full_of_eight();
            full.put_expired("{t}:new");
            full.check_issues(1, write);
            assert!(full.is_there("{t}:new"));
            // One for the entry that is gone, and one for this.
            full.put("{t}:next");
            full.put("{t}:next but one");
            assert!(!full.is_there("{t}:new"), "it stays beyond its turn");
        }
    }

    #[test]
    fn only_the_new_ones_of_many_keys_take_tickets() {
        let full = full_of_eight();
        let names: Vec<_> = (0..8).map(|number| format!("{{t}}:{number}")).collect();
        let mut keys: Vec<_> =
            names.iter().map(String::as_str).filter(|k| full.is_there(k)).collect();
        full.remove(keys[0]);
        full.remove(keys[1]);
        full.check_issues(0, |full| full.set_all(&keys[2..]));
        full.check_issues(1, |full| full.set_all(&keys[1..]));
        keys.extend(["{t}:new", "{t}:new"]);
        full.check_issues(1, |full| full.set_all(&keys[1..]));
    }

    #[test]
    fn what_comes_in_while_as_much_goes_takes_a_ticket() {
        let full = full_of_eight();
        full.put("{t}:a");
        full.check_issues(1, |full| {
            full.transact(&["{t}:a", "{t}:b"], |staged| {
                staged.remove("{t}:a").is_ok() && staged.set("{t}:b", b"v").is_ok()
            });
        });
        assert!(full.is_there("{t}:b") && !full.is_there("{t}:a"));
    }

    #[test]
    fn what_writes_nothing_takes_no_ticket() {
        let full = full_of_eight();
        full.remove("{t}:7");
        full.check_issues(0, |full| {
            full.transact(&["{t}:a"], |staged| staged.set("{t}:a", b"v").is_err());
        });
        assert!(!full.is_there("{t}:a"));
        full.check_issues(1, |full| full.put("{t}:a"));
        full.check_issues(0, |full| full.put("{t}:a"));
    }

    #[test]
    fn a_hint_is_renewed_when_an_eviction_has_halved_the_table() {
        let full = full_of(200);
        let slot = full.key("{t}").slot;
        let bytes = || full.member().peek(slot, Shard::memory_bytes);
        let before = bytes();
        for number in 0..100_000 {
            full.put(&format!("{{u}}:{number}"));
            let has_news = full.member().headers.get(slot).lock().take_news();
            assert!(!has_news, "{number} writes later");
            if bytes() < before / 4 {
                return;
            }
            // What is used stays, so that the table is not emptied.
            full.put(&format!("{{t}}:{}", number % 20));
        }
        panic!("what nobody uses stays");
    }
}
