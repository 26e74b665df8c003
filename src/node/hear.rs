//! A node hears claims: the greater epoch wins, slot by slot.

use std::time::Duration;

use crate::migration::Closed;
use crate::migration::Heard;
use crate::migration::hear;
use crate::node::Claim;
use crate::node::Member;
use crate::node::Message;
use crate::node::MovePhase;
use crate::node::Roster;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::time::Now;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

impl<V: Value + ?Sized> Roster<V> {
    /// Applies a message at its receiver, claim by claim, one hold each, and answers stale ones.
    pub(crate) fn deliver(&self, message: &Message) {
        let Some(member) = self.member(message.to) else { return };
        let newer: Vec<_> =
            message.claims.iter().filter_map(|&claim| self.apply_claim(member, claim)).collect();
        if newer.is_empty() {
            return;
        }
        let claims: Arc<[Claim]> = newer.into();
        self.send(Message { from: message.to, to: message.from, claims });
    }

    /// Returns the newer claim if this one was stale.
    fn apply_claim(&self, member: &Member<V>, claim: Claim) -> Option<Claim> {
        let Claim { slot, ownership } = claim;
        member.saw_epoch(ownership.epoch);
        let known = member.view.get(slot);
        let names_me = |owned: SlotOwner| owned.owner == Some(member.id);
        if names_me(ownership) && !names_me(known) && known.epoch < ownership.epoch {
            // No other node makes this one an owner: it is an echo of what this node has forgotten
            // by a verb as in Redis, and the header does not own the slot.
            return None;
        }
        let heard = if member.view.owner(slot) == Some(member.id) {
            self.hear_as_owner(member, claim)
        } else {
            // Not this node's slot: no key and no mark depends on the view, and the greater epoch
            // wins whoever comes first. Should the node become the owner meanwhile, it does so by
            // an epoch that was drawn later than this claim's. The header stays untouched.
            let old = member.view.raise(slot, ownership);
            if old.epoch > ownership.epoch { Heard::Stale(old) } else { Heard::Adopted }
        };
        match heard {
            Heard::Stale(known) => Some(Claim { slot, ownership: known }),
            Heard::Conflict => {
                member.keep_conflict(claim, member.view.get(slot));
                None
            }
            Heard::Known | Heard::Adopted | Heard::Closed(_) => None,
        }
    }

    fn hear_as_owner(&self, member: &Member<V>, claim: Claim) -> Heard {
        let Claim { slot, ownership } = claim;
        let mut hold = member.headers.get(slot).lock();
        let now = Now::new(&*self.clock);
        let before = member.side(slot, &hold, &now);
        let mut side = before;
        let target_view = side.state.peer().and_then(|peer| self.view_of(peer, slot));
        let heard = hear(&mut side, ownership, target_view);
        if side != before {
            member.put_side(slot, &mut hold, &side);
        }
        if let Heard::Closed(closed) = heard {
            self.end_move(closed, &now);
        }
        heard
    }

    fn view_of(&self, node: NodeId, slot: Slot) -> Option<SlotOwner> {
        self.member(node).map(|member| member.view.get(slot))
    }

    /// Writes the outcome of a move into its record, in the hold that cleared its last mark.
    pub(crate) fn end_move(&self, closed: Closed, now: &Now<'_>) {
        let phase = if closed.flipped { MovePhase::Completed } else { MovePhase::Aborted };
        self.moves.end(closed.id, phase, Duration::from_nanos(now.nanos()));
    }
}
