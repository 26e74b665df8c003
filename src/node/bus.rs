//! The bus: claims travel between the nodes of one process.

use std::collections::VecDeque;

use crate::limits::BUS_HELD_MAX;
use crate::node::Roster;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::sync::fence;
use crate::topology::NodeId;
use crate::topology::SlotOwner;

/// Who owns a slot, by the flip of that epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    /// The slot.
    pub slot: Slot,
    /// The owner and the epoch.
    pub ownership: SlotOwner,
}

/// Claims on their way from one node to another.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) claims: Arc<[Claim]>,
}

/// Delivers at once, unless a test holds messages back.
pub(crate) struct Bus {
    held: Mutex<Option<VecDeque<Message>>>,
}

impl Bus {
    pub(crate) fn new() -> Self {
        Self { held: Mutex::new(None) }
    }

    /// Keeps the message if messages are held back; else it is to be delivered now, and so is the
    /// oldest of too many.
    fn accept(&self, message: Message) -> Option<Message> {
        let mut held = self.held.lock();
        let Some(queue) = held.as_mut() else { return Some(message) };
        queue.push_back(message);
        if queue.len() > BUS_HELD_MAX { queue.pop_front() } else { None }
    }
}

/// What tests do to the bus.
#[cfg(feature = "testing")]
impl Bus {
    /// From now on messages are held back.
    pub(crate) fn hold(&self) {
        self.held.lock().get_or_insert_default();
    }

    /// From now on messages are delivered at once; returns those that were held back.
    pub(crate) fn release(&self) -> VecDeque<Message> {
        self.held.lock().take().unwrap_or_default()
    }

    pub(crate) fn held_count(&self) -> usize {
        self.held.lock().as_ref().map_or(0, VecDeque::len)
    }

    /// Takes one of the held messages out, whichever the index names.
    pub(crate) fn take(&self, index: usize) -> Option<Message> {
        self.held.lock().as_mut()?.remove(index)
    }
}

impl<V: Value + ?Sized> Roster<V> {
    /// Tells every other node of claims that `from` makes. The caller holds no token.
    pub(crate) fn broadcast(&self, from: NodeId, claims: &[Claim]) {
        if claims.is_empty() {
            return;
        }
        // Pairs with the fence of `add_node`: a node that is not found here merges the cluster's
        // words, in which these claims are.
        fence(Ordering::SeqCst);
        let claims: Arc<[Claim]> = claims.into();
        for to in self.members().map(|member| member.id).filter(|&to| to != from) {
            self.send(Message { from, to, claims: Arc::clone(&claims) });
        }
    }

    /// Sends one message, and delivers it at once unless messages are held back.
    pub(crate) fn send(&self, message: Message) {
        if let Some(message) = self.bus.accept(message) {
            self.deliver(&message);
        }
    }
}
