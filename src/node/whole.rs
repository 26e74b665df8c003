//! A whole slot, wherever its keys are: both sides of a moving slot under both tokens.

use crate::limits::REDIRECTS_BEFORE_GATE;
use crate::migration::SlotState;
use crate::node::Member;
use crate::node::Roster;
use crate::node::member::state_of;
use crate::node::pair::lock_pair;
use crate::shard::Dropped;
use crate::shard::Entry;
use crate::shard::Handle;
use crate::shard::Shard;
use crate::shard::Value;
use crate::slot::Slot;
use crate::time::Now;
use crate::worker::Patience;
use crate::worker::WorkerError;

/// The shards that hold a slot's keys, under their tokens.
struct Whole<'a, V: Value + ?Sized> {
    shards: [Option<&'a mut Shard<V>>; 2],
    now: &'a Now<'a>,
    dropped: &'a mut Dropped<V>,
}

impl<V: Value + ?Sized> Roster<V> {
    /// Handles of every live entry of a slot, read at one instant, in no order.
    pub(crate) fn read_slot(&self, slot: Slot) -> Result<Vec<Handle<V>>, WorkerError> {
        self.with_whole(slot, |whole| {
            let shards = whole.shards.iter().flatten();
            shards.flat_map(|shard| shard.iter_live(whole.now).map(Entry::handle)).collect()
        })
    }

    /// How many entries a slot has, expired ones that nobody met yet included, at one instant.
    pub(crate) fn count_slot(&self, slot: Slot) -> Result<usize, WorkerError> {
        self.with_whole(slot, |whole| whole.shards.iter().flatten().map(|shard| shard.len()).sum())
    }

    /// How many live entries a slot has, at one instant.
    pub(crate) fn count_live_slot(&self, slot: Slot) -> Result<usize, WorkerError> {
        self.with_whole(slot, |whole| {
            whole.shards.iter().flatten().map(|shard| shard.live_len(whole.now)).sum()
        })
    }

    /// What the entries of a slot weigh together, expired ones that nobody met yet included, at one
    /// instant.
    pub(crate) fn weigh_slot(&self, slot: Slot) -> Result<u64, WorkerError> {
        self.with_whole(slot, |whole| {
            let weights = whole.shards.iter().flatten().map(|shard| shard.weight());
            weights.fold(0, u64::saturating_add)
        })
    }

    /// Removes every entry of a slot at one instant; returns how many there were.
    pub(crate) fn clear_slot(&self, slot: Slot) -> Result<usize, WorkerError> {
        self.with_whole(slot, |whole| {
            let mut count = 0;
            for shard in whole.shards.iter_mut().flatten() {
                count += shard.len();
                shard.clear(whole.dropped);
            }
            count
        })
    }

    /// The slots that may hold keys, ascending: those that have had any, on whatever node.
    pub(crate) fn populated(&self) -> crate::slot::SlotSet {
        self.members().flat_map(|member| member.populated.iter()).collect()
    }

    /// Runs `visit` under the token of the slot's owner and, while a move is open, of its peer; in
    /// strict mode on the owner's worker.
    fn with_whole<R: Default + Send>(
        &self,
        slot: Slot,
        visit: impl FnOnce(&mut Whole<'_, V>) -> R + Send,
    ) -> Result<R, WorkerError> {
        self.expect_open()?;
        let mut gated = None;
        let mut tries = 0;
        let mut visit = Some(visit);
        loop {
            let Some(owner) = self.truth.owner(slot) else { return Ok(R::default()) };
            let owner = self.known(owner);
            let state = owner.peek_state(slot);
            let mut attempt = || {
                let held = self.lock_whole(owner, state, slot)?;
                visit.take().map(|visit| self.visit_whole(held, visit))
            };
            let visited = if self.strict {
                owner.worker(slot).call(Patience::Wait, attempt)?
            } else {
                attempt()
            };
            match visited {
                Some(result) => return Ok(result),
                // The slot moved on between the look and the tokens. After a few such races the
                // gate holds it still.
                None if tries < REDIRECTS_BEFORE_GATE => tries += 1,
                None => gated = gated.or_else(|| Some(self.gate.enter(slot))),
            }
        }
    }

    fn visit_whole<R>(
        &self,
        (mut first, mut second): Held<'_, V>,
        visit: impl FnOnce(&mut Whole<'_, V>) -> R,
    ) -> R {
        Dropped::after(|dropped| {
            let now = self.now();
            let shards = [Some(&mut *first), second.as_deref_mut()];
            let result = visit(&mut Whole { shards, now: &now, dropped });
            drop(second);
            drop(first);
            result
        })
    }

    /// Takes the tokens that a look at the owner's mark asks for, if the look still holds.
    fn lock_whole<'a>(
        &'a self,
        owner: &'a Member<V>,
        state: SlotState,
        slot: Slot,
    ) -> Option<Held<'a, V>> {
        let (mine, other) = match owner.peer_in(state) {
            None => (owner.headers.get(slot).lock(), None),
            Some(peer) => {
                let (mine, other) = lock_pair(owner, self.known(peer), slot);
                (mine, Some(other))
            }
        };
        // Only the peer matters: reservations may come and go.
        let same_peer = owner.peer_in(state_of(&mine)) == owner.peer_in(state);
        (self.truth.owner(slot) == Some(owner.id) && same_peer).then_some((mine, other))
    }
}

type Held<'a, V> = (crate::shard::Hold<'a, V>, Option<crate::shard::Hold<'a, V>>);

#[cfg(feature = "testing")]
impl<V: Value + ?Sized> Roster<V> {
    /// Checks one slot over all nodes: every live key has one home, which is the owner or the peer
    /// that the owner's mark names.
    ///
    /// # Panics
    /// When something does not hold.
    pub(crate) fn check_slot(&self, slot: Slot) {
        let now = self.now();
        let owner = self.truth.owner(slot);
        let peer = owner.and_then(|owner| self.known(owner).peek_state(slot).peer());
        let mut homes: Vec<(Box<[u8]>, crate::topology::NodeId)> = Vec::new();
        for member in self.members() {
            member.peek(slot, |body| {
                homes.extend(body.iter_live(&now).map(|e| (e.key().into(), member.id)));
            });
        }
        homes.sort_unstable();
        for pair in homes.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "a key has two homes: {pair:?}");
        }
        for (key, home) in &homes {
            let reachable = Some(*home) == owner || Some(*home) == peer;
            assert!(reachable, "key {key:?} of slot {slot} lies on {home}, owner {owner:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::MoveId;
    use crate::node::Node;
    use crate::node::RosterOptions;
    use crate::node::member::set_state;
    use crate::sync::Arc;

    #[test]
    fn a_reservation_that_comes_or_goes_turns_no_whole_slot_call_back() {
        let roster = Arc::new(Roster::<[u8]>::new(RosterOptions::of_unit_tests()));
        let [owner, other] = [(); 2].map(|()| roster.add_node().expect("room for two"));
        let node = Node::new(Arc::clone(&roster), owner).expect("just added");
        let slot = Slot::MIN;
        node.add_slots(&[slot]).expect("nobody has it");
        let id = MoveId::new(1);
        let reserved = SlotState::Reserved { id };
        let member = roster.known(owner);
        assert!(roster.lock_whole(member, reserved, slot).is_some());
        set_state(&mut member.headers.get(slot).lock(), reserved);
        assert!(roster.lock_whole(member, SlotState::Stable, slot).is_some());
        let (_, second) = roster.lock_whole(member, reserved, slot).expect("it is so");
        assert!(second.is_none());
        let open = SlotState::Migrating { target: other, id };
        assert!(roster.lock_whole(member, open, slot).is_none(), "no key may be missed");
    }
}
