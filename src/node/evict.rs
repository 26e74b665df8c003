//! Eviction by the adaptive policy: the window, the ghost and the hands of one node.

use crate::evict::Entrance;
use crate::evict::GHOSTS_FOR_TWO;
use crate::evict::Ghost;
use crate::evict::STALE_MAIN_PERCENT;
use crate::evict::Staleness;
use crate::evict::Ticket;
use crate::evict::WINDOW_PERCENT;
use crate::evict::Window;
use crate::evict::is_more_than;
use crate::limits::EVICT_ROUNDS_MAX;
use crate::limits::GHOST_FINGERPRINTS_MAX;
use crate::node::Member;
use crate::node::Roster;
use crate::node::hands::Hands;
use crate::shard::Budget;
use crate::shard::Context;
use crate::shard::Decided;
use crate::shard::Dropped;
#[cfg(feature = "testing")]
use crate::shard::Garbage;
use crate::shard::Turn;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::AtomicU32;
use crate::sync::CachePadded;
use crate::sync::Mutex;
use crate::sync::OnceLock;
use crate::sync::Ordering;
#[cfg(feature = "testing")]
use crate::testing::Fault;
use crate::topology::SlotBits;

/// The order in which a node evicts: its window, its ghost and its hands.
///
/// Its locks are never taken under a token.
#[derive(Debug)]
pub(super) struct Evictor {
    window: CachePadded<Mutex<Window>>,
    /// Made when something is evicted for the first time, which is when it is known how many
    /// entries there are at the bound.
    ghost: OnceLock<Ghost>,
    hands: Hands<Slot>,
    /// The slot to which a hand came last. The others go on behind it, so that all of them walk
    /// together as one would.
    last: CachePadded<Mutex<Slot>>,
    /// The slots in which a hand finds a table. Written under the slot's token.
    occupied: SlotBits,
    /// The bits of what the hand that turned last has found of the marks. Relaxed: a guess.
    staleness: AtomicU32,
}

impl Evictor {
    /// That of an empty node.
    pub(super) fn new() -> Self {
        Self {
            window: CachePadded::default(),
            ghost: OnceLock::new(),
            hands: Hands::all_at(Slot::MIN),
            last: CachePadded::new(Mutex::new(Slot::MIN)),
            occupied: SlotBits::new(),
            staleness: AtomicU32::new(Staleness::default().bits()),
        }
    }

    /// Notes that a slot, whose token the caller holds, has a table.
    pub(super) fn note_table(&self, slot: Slot) {
        self.occupied.insert(slot);
    }

    /// Where new entries enter: until something is evicted for the first time with the main ones,
    /// as far as those leave room for a window.
    pub(super) fn entrance(&self, budget: Option<&Budget>, serial: u16) -> Entrance {
        let has_room = |budget: &Budget| {
            let taken = budget.taken().saturating_add(budget.cost(0));
            !is_more_than(taken, 100 - WINDOW_PERCENT, budget.bound())
        };
        let is_filling = self.ghost.get().is_none() && budget.is_none_or(has_room);
        if is_filling { Entrance::Main } else { Entrance::Window { serial } }
    }

    /// The slot to which a hand goes that has seen one to its end.
    fn next_slot(&self) -> Slot {
        let mut last = self.last.lock();
        let next = self.occupied.from(u32::from(last.number()) + 1).next();
        *last = next.unwrap_or(Slot::MIN);
        *last
    }

    fn staleness(&self) -> Staleness {
        Staleness::from_bits(self.staleness.load(Ordering::Relaxed))
    }

    /// Whether main has to give way: most of its marks are stale, and it is large enough.
    fn is_main_stale(&self, budget: &Budget, main: u64) -> bool {
        self.staleness().is_most() && is_more_than(main, STALE_MAIN_PERCENT, budget.bound())
    }

    /// The oldest ticket, if it is the window that has to give way for an entry that enters there
    /// at this cost.
    fn due_ticket(&self, budget: &Budget, entering: u64) -> Option<Ticket> {
        let mut window = self.window.lock();
        let cost = window.cost();
        let main = budget.taken().saturating_sub(cost + entering);
        let is_full = is_more_than(cost + entering, WINDOW_PERCENT, budget.bound());
        let gives_way = main == 0 || is_full && !self.is_main_stale(budget, main);
        if gives_way { window.pop() } else { None }
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Makes room for an entry that has just come in, and gives it a ticket of the window; one that
    /// the ghost remembers becomes a main entry.
    pub(super) fn enter(&self, (member, evictor): (&Member<V>, &Evictor), ticket: Ticket) {
        if evictor.ghost.get().is_some_and(|ghost| ghost.take(ticket.hash)) {
            self.make_room(member, 0);
            member.headers.get(ticket.slot).lock().admit(&ticket);
            return;
        }
        self.make_room(member, ticket.cost);
        let to_look_up = evictor.window.lock().push(ticket);
        for ticket in to_look_up.into_iter().flatten() {
            let is_stale = !member.headers.get(ticket.slot).lock().awaits(&ticket);
            if !is_stale {
                evictor.window.lock().keep(ticket);
            }
        }
    }

    /// Evicts an entry, or takes a step towards it. Whether there may be another one.
    #[inline(never)]
    pub(super) fn evict_one(
        &self,
        member: &Member<V>,
        (evictor, budget): (&Evictor, &Budget),
        entering: u64,
    ) -> bool {
        let ghost = evictor.ghost.get_or_init(|| Ghost::new(fingerprints(member, budget)));
        // Freed after all locks: a value that is dropped may well write into this cache.
        Dropped::after(|dropped| {
            let ticket = evictor.due_ticket(budget, entering);
            let found = ticket.is_some() || self.turn_hand((member, evictor), dropped);
            let last = || evictor.window.lock().pop();
            match ticket.or_else(|| if found { None } else { last() }) {
                Some(ticket) => self.decide(member, (ghost, &ticket), dropped),
                None => return found,
            }
            true
        })
    }

    /// Decides about the entry of a ticket.
    fn decide(
        &self,
        member: &Member<V>,
        (ghost, ticket): (&Ghost, &Ticket),
        dropped: &mut Dropped<V>,
    ) {
        #[cfg(feature = "testing")]
        if self.faults.has(Fault::EvictionInTwoHolds) {
            self.take_out_and_put_back(member, ticket, dropped);
        }
        let now = self.now();
        let mut context = Context::new(&now, &self.hasher, dropped);
        let decided = member.headers.get(ticket.slot).lock().decide(ticket, &mut context);
        if decided == Decided::Evicted {
            ghost.remember(ticket.hash);
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

    /// Lets a hand go on until an entry is gone; whether one is.
    fn turn_hand(
        &self,
        (member, evictor): (&Member<V>, &Evictor),
        dropped: &mut Dropped<V>,
    ) -> bool {
        let mut hand = evictor.hands.take();
        let mut staleness = evictor.staleness();
        let mut rounds = 0;
        while rounds <= EVICT_ROUNDS_MAX {
            let now = self.now();
            let mut context = Context::new(&now, &self.hasher, dropped);
            let spares = rounds < EVICT_ROUNDS_MAX;
            let mut hold = member.headers.get(*hand).lock();
            let turned = hold.turn(&mut staleness, spares, &mut context);
            if turned == Turn::Empty {
                // What comes in next makes a table, and notes it.
                evictor.occupied.remove(*hand);
            }
            drop(hold);
            match turned {
                Turn::Gone => {
                    evictor.staleness.store(staleness.bits(), Ordering::Relaxed);
                    return true;
                }
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

/// How many fingerprints the ghost of a node has that is at its bound.
fn fingerprints<V: Value + ?Sized>(member: &Member<V>, budget: &Budget) -> usize {
    let entries = match budget.cost(0) {
        1 => budget.bound(),
        _ => {
            member.populated.iter().map(|slot| member.peek(slot, |shard| shard.len() as u64)).sum()
        }
    };
    let fingerprints = entries.saturating_mul(GHOSTS_FOR_TWO) / 2;
    usize::try_from(fingerprints).unwrap_or(usize::MAX).min(GHOST_FINGERPRINTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Put;
    use crate::command::Remove;
    use crate::limits::TICKETS_UNSEARCHED;
    use crate::node::Bound;
    use crate::node::MemberOptions;
    use crate::node::RosterOptions;
    use crate::node::bounded::Order;
    use crate::shard::Key;
    use crate::sync::Arc;

    #[test]
    fn tickets_of_keys_that_are_removed_do_not_pile_up() {
        let options = RosterOptions::<[u8]>::of_unit_tests();
        let member = MemberOptions { bound: Some(Bound::Entries(8)), ..options.member };
        let roster = Arc::new(Roster::new(RosterOptions { member, ..options }));
        let node = roster.add_node().expect("room for one");
        let member = roster.known(node);
        let run = |name: &str, removes: bool| {
            let key = Key::new(name.as_bytes(), &roster.hasher).expect("a short key");
            Dropped::after(|dropped| {
                let now = roster.now();
                let held = (member.headers.get(key.slot).lock(), roster.context(&now, dropped));
                if removes {
                    let removed = roster.run_held(member, key.slot, Remove { key }, held);
                    assert!(removed.is_ok_and(|found| found), "{name}");
                } else {
                    let put = Put { key, value: &b"v"[..] };
                    assert!(roster.run_held(member, key.slot, put, held).is_ok(), "{name}");
                }
            });
        };
        // From the first eviction on new keys take tickets.
        (0..9).for_each(|number| run(&format!("k:{number}"), false));
        for number in 0..1_000 {
            let name = format!("new:{number}");
            run(&name, false);
            if number > 0 {
                run(&name, true);
            }
        }
        let Some(Order::Adaptive(evictor)) = &member.order else { panic!("it has a bound") };
        let window = evictor.window.lock().cost();
        let most = 2 * 8 + TICKETS_UNSEARCHED as u64 + 4;
        assert!(window <= most, "tickets of {window} entries, where 8 may be");
    }
}
