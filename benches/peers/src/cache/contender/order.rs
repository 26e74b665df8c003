//! The two plain orders: what was used longest ago goes first (LRU), or what came in first (FIFO).

use crate::cache::contender::Cache;
use crate::cache::trace::Access;
use crate::cache::trace::Room;
use crate::cache::trace::Trace;

/// The end of the list, before its first and after its last entry.
const END: u32 = 0;

/// A cache whose entries stand in a list, which loses its head.
#[derive(Debug)]
pub struct Order {
    /// By key number plus one; that of [`END`] holds the list's tail and head.
    links: Vec<Link>,
    renews: bool,
    room: u64,
    free: u64,
}

/// An entry's place in the list.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    before: u32,
    after: u32,
    weight: u64,
    is_held: bool,
}

impl Order {
    /// LRU: a hit puts an entry to the end of the list.
    pub fn of_use(trace: &Trace, room: Room) -> Self {
        let links = vec![Link::default(); trace.distinct() + 1];
        Self { links, renews: true, room: room.weight, free: room.weight }
    }

    /// FIFO: hits change nothing.
    pub fn of_insertion(trace: &Trace, room: Room) -> Self {
        Self { renews: false, ..Self::of_use(trace, room) }
    }

    fn link(&mut self, at: u32) -> &mut Link {
        &mut self.links[at as usize]
    }

    fn detach(&mut self, at: u32) {
        let Link { before, after, .. } = *self.link(at);
        self.link(before).after = after;
        self.link(after).before = before;
    }

    fn append(&mut self, at: u32) {
        let tail = self.link(END).before;
        self.link(tail).after = at;
        self.link(END).before = at;
        let link = self.link(at);
        (link.before, link.after) = (tail, END);
    }
}

impl Cache for Order {
    fn access(&mut self, access: Access<'_>) -> bool {
        let at = access.number + 1;
        if self.link(at).is_held {
            if self.renews {
                self.detach(at);
                self.append(at);
            }
            return true;
        }
        // What is heavier than the whole cache is not taken, and drives nothing out.
        if access.weight > self.room {
            return false;
        }
        while self.free < access.weight {
            let head = self.link(END).after;
            self.detach(head);
            let link = self.link(head);
            link.is_held = false;
            self.free += link.weight;
        }
        self.append(at);
        let link = self.link(at);
        (link.is_held, link.weight) = (true, access.weight);
        self.free -= access.weight;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::contender::tests::hits;
    use crate::cache::contender::tests::room;
    use crate::cache::contender::tests::small;
    use crate::random::Random;

    /// A list, its head first, that is searched.
    struct List {
        entries: Vec<(u32, u64)>,
        renews: bool,
        room: u64,
    }

    impl Cache for List {
        fn access(&mut self, access: Access<'_>) -> bool {
            let entry = (access.number, access.weight);
            let found = self.entries.iter().position(|&held| held == entry);
            if let Some(place) = found {
                if self.renews {
                    self.entries.remove(place);
                    self.entries.push(entry);
                }
            } else if access.weight <= self.room {
                self.entries.push(entry);
                while self.entries.iter().map(|(_, weight)| weight).sum::<u64>() > self.room {
                    self.entries.remove(0);
                }
            }
            found.is_some()
        }
    }

    #[test]
    fn both_orders_hit_what_a_searched_list_hits() {
        let mut random = Random::new();
        for round in 0..4000 {
            let trace = small(&mut random, round % 2 == 0);
            let weight = 1 + random.below(6) as u64;
            for renews in [false, true] {
                let fresh = if renews { Order::of_use } else { Order::of_insertion };
                let expected =
                    hits(&trace, &mut List { entries: Vec::new(), renews, room: weight });
                let found = hits(&trace, &mut fresh(&trace, room(weight)));
                assert_eq!(found, expected, "room {weight}, renews {renews}: {trace:?}");
            }
        }
    }
}
