//! The slot map of a client: patched by the first MOVED, refreshed by the second.

use crate::node::Member;
use crate::shard::Value;
use crate::slot::Slot;
use crate::sync::AtomicU32;
use crate::sync::Ordering;
use crate::topology::Followed;
use crate::topology::NodeId;
use crate::topology::SlotOwner;
use crate::topology::View;

/// What a client and its clones believe about the owners. An entry is never replaced by an older
/// one, so that clones may share it.
pub(crate) struct ClientMap {
    view: View,
    /// How far refreshes have come.
    followed: Followed,
    moved_since_refresh: AtomicU32,
}

impl ClientMap {
    /// A map that knows what `view` knows.
    pub(crate) fn of(view: &View) -> Self {
        Self {
            view: view.copy(),
            followed: Followed::new(),
            moved_since_refresh: AtomicU32::new(0),
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    #[inline]
    pub(crate) fn owner(&self, slot: Slot) -> Option<NodeId> {
        self.view.owner(slot)
    }

    /// Learns from a MOVED that `member` answered.
    pub(crate) fn learn<V: Value + ?Sized>(&self, slot: Slot, news: SlotOwner, member: &Member<V>) {
        self.view.raise(slot, news);
        if self.moved_since_refresh.fetch_add(1, Ordering::Relaxed) > 0 {
            self.moved_since_refresh.store(0, Ordering::Relaxed);
            self.followed.merge(&self.view, member.id, &member.view);
        }
    }

    /// Asks everybody about one slot; whether anybody knows a newer owner.
    pub(crate) fn ask_around(&self, slot: Slot, views: impl Iterator<Item = SlotOwner>) -> bool {
        let mut learned = false;
        for news in views {
            learned |= self.view.raise(slot, news).epoch < news.epoch && news.owner.is_some();
        }
        learned
    }
}
