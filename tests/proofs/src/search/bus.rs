//! Claims on their way: what `src/node/bus.rs` and `src/node/hear.rs` do.

use crate::migration;
use crate::topology::NodeId;

use super::setup::Setup;
use super::wording::Wording;
use super::world::Message;
use super::world::World;
use super::world::raise;

impl World {
    /// A claim goes out, and the bus holds it: the broadcast after a flip, NODE or STABLE on an
    /// owner, NODE on a bystander, the answer to a stale claim. Whatever the occasion, it says what
    /// its sender knew at one instant; here a sender may speak at any. False when there is no room.
    pub(crate) fn send(&mut self, from: NodeId, to: NodeId, setup: &Setup) -> bool {
        let message = Message { to, claim: self.node(from).view };
        if setup.messages == 0 {
            self.deliver(message, setup.wording);
            return true;
        }
        let held = &mut self.messages[..setup.messages];
        if held.contains(&Some(message)) {
            return false;
        }
        let Some(place) = held.iter_mut().find(|place| place.is_none()) else { return false };
        *place = Some(message);
        true
    }

    /// A message that is held arrives. Whether there was one.
    pub(crate) fn arrive(&mut self, place: usize, wording: Wording) -> bool {
        let message = self.messages[place].take();
        message.inspect(|&message| self.deliver(message, wording)).is_some()
    }

    /// `Roster::apply_claim`, the receiver's token, if it owns the slot. The answer to a stale
    /// claim is a step of its own.
    pub(crate) fn deliver(&mut self, message: Message, wording: Wording) {
        let Message { to, claim } = message;
        self.hear_wrongly(message, wording);
        if self.node(to).view.owner == Some(to) {
            self.hear_as_owner(message);
        } else if claim.owner != Some(to) {
            // No other node makes this one an owner.
            raise(&mut self.node_mut(to).view, claim);
        }
    }

    /// `Roster::hear_as_owner`: the peer's view is read without its token.
    fn hear_as_owner(&mut self, Message { to, claim }: Message) {
        let mut side = self.side(to);
        let target_view = side.state.peer().map(|peer| self.node(peer).view);
        migration::hear(&mut side, claim, target_view);
        self.put(&side);
    }
}
