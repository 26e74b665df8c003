//! Keys travel from source to target: batches of a move, and MIGRATE of named keys.

use crate::migration::MoveId;
use crate::migration::SetSlotError;
use crate::migration::Side;
use crate::migration::SlotState;
use crate::migration::check_batch;
use crate::node::AdminError;
use crate::node::BatchLimits;
use crate::node::Node;
use crate::node::setslot::Pair;
use crate::shard::Batch;
use crate::shard::CloneValue;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Existing;
use crate::shard::Garbage;
use crate::shard::Key;
use crate::shard::Transfer;
use crate::shard::Value;
use crate::shard::Write;
use crate::shard::transfer;
use crate::slot::Slot;
#[cfg(feature = "testing")]
use crate::testing::Fault;
use crate::topology::NodeId;
use crate::worker::Patience;

/// What a batch did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchResult {
    /// How many live keys travelled.
    pub moved: usize,
    /// How many bytes their entries take.
    pub bytes: u64,
    /// How many entries are left where they came from, expired ones included.
    pub left: usize,
}

/// Options of MIGRATE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// A key that is at the target already is replaced, instead of
    /// [`AdminError::BusyKey`].
    pub replace: bool,
}

impl MigrateOptions {
    /// Replaces keys that are at the target already.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    fn existing(self) -> Existing {
        if self.replace { Existing::Replace } else { Existing::Refuse }
    }
}

impl<V: Value + ?Sized> Node<V> {
    /// Moves a batch of keys of an open move from this node, the source, to its target: so many, or
    /// what [`BatchLimits`] say.
    ///
    /// Runs on the slot's worker here, under both tokens: all of the batch is moved at one instant,
    /// by pointer; deadlines and identities stay. What has expired is removed, not sent. A batch
    /// may be smaller, down to none, while [`left`](BatchResult::left) is not 0: it looks at
    /// [`MIGRATE_BUCKETS`](crate::limits::MIGRATE_BUCKETS) buckets of the table at most, and ends
    /// where a target that refuses what it has no room for has none.
    ///
    /// # Errors
    /// [`AdminError::BatchSize`], `BatchBytes`, `HoldTime`, `SetSlot` with `NoSuchMove` when the
    /// move is not open under `id`, `TargetFull` when there is no room for a single key, `Worker`.
    /// Nothing was changed, and trying again is harmless.
    pub fn migrate_batch(
        &self,
        slot: Slot,
        id: MoveId,
        limits: impl Into<BatchLimits>,
    ) -> Result<BatchResult, AdminError> {
        let limits = limits.into().check()?;
        let sent = self.on_source((slot, SetSlotError::NoSuchMove), |pair| {
            check_batch(&pair.me, &pair.peer, id)
                .map_err(|error| AdminError::SetSlot { slot, error })?;
            let quota = self.roster.quota(limits, pair.now);
            self.send(pair, (slot, id), (Batch::Any(quota), Existing::Replace))
        });
        sent.inspect_err(|&error| self.roster.moves.refused(id, error))
    }

    /// MIGRATE: moves named keys of one slot from this node, the source of an open move, to its
    /// target. All of the live ones at one instant, or none.
    ///
    /// # Errors
    /// `NoKey` when none is here and live, `BusyKey` (see [`MigrateOptions`]), `CrossSlot`,
    /// `KeyTooLong`, `BatchSize`, `SetSlot` with `TargetNotImporting` when no move to `target` is
    /// open, `TargetFull`, `UnknownNode`, `Worker`. Nothing was changed, and trying again is
    /// harmless.
    pub fn migrate_keys(
        &self,
        keys: &[impl AsRef<[u8]>],
        target: NodeId,
        options: MigrateOptions,
    ) -> Result<BatchResult, AdminError> {
        self.roster.named(target)?;
        let (slot, keys) = self.hash_keys(keys)?;
        self.on_source((slot, SetSlotError::TargetNotImporting { target }), |pair| {
            let id = open_move_to(&pair.me, &pair.peer, target)
                .map_err(|error| AdminError::SetSlot { slot, error })?;
            let sent = self.send(pair, (slot, id), (Batch::Named(&keys), options.existing()))?;
            if sent.moved == 0 { Err(AdminError::NoKey) } else { Ok(sent) }
        })
    }

    /// Moves a batch and counts it in the move's record, in the same hold.
    fn send(
        &self,
        pair: &mut Pair<'_, V>,
        (slot, id): (Slot, MoveId),
        batch: (Batch<'_>, Existing),
    ) -> Result<BatchResult, AdminError> {
        let mut context = Context::new(pair.now, pair.hasher, pair.dropped);
        context.room = pair.peer_room;
        context.hit = self.roster.known(pair.peer.node).hit(slot, 0);
        #[cfg(feature = "testing")]
        if self.roster.faults.has(Fault::CopyWithoutDelete) {
            pair.my_shard.share_into(pair.peer_shard, &mut context);
            return Ok(BatchResult { moved: pair.my_shard.len(), bytes: 0, left: 0 });
        }
        let sent = transfer(pair.my_shard, pair.peer_shard, batch, &mut context);
        match sent {
            Transfer::Busy => Err(AdminError::BusyKey),
            Transfer::Full(refusal) => Err(AdminError::target_full(slot, refusal)),
            Transfer::Moved(moved) => {
                let left = pair.my_shard.len();
                self.roster.moves.change(id, |record| {
                    record.keys_moved += moved.keys as u64;
                    record.bytes_moved += moved.bytes;
                    record.keys_left = left as u64;
                });
                Ok(BatchResult { moved: moved.keys, bytes: moved.bytes, left })
            }
        }
    }

    /// Runs on the slot's worker here, under the tokens of this node and of the node that its mark
    /// names; refused with `unmarked` when it names none.
    fn on_source<R: Send>(
        &self,
        (slot, unmarked): (Slot, SetSlotError),
        run: impl Fn(&mut Pair<'_, V>) -> Result<R, AdminError> + Send,
    ) -> Result<R, AdminError> {
        self.roster.expect_open()?;
        let member = self.member();
        member.worker(slot).call(Patience::Wait, move || {
            let Some(peer) = member.peer_in(member.peek_state(slot)) else {
                return Err(AdminError::SetSlot { slot, error: unmarked });
            };
            let peer = self.roster.known(peer);
            let send = || self.roster.on_marks((member, peer), slot, &run);
            let sent = self.roster.with_room_at(peer, send);
            self.roster.make_room(peer, None);
            sent
        })?
    }

    fn hash_keys<'k>(
        &self,
        keys: &'k [impl AsRef<[u8]>],
    ) -> Result<(Slot, Vec<Key<'k>>), AdminError> {
        BatchLimits::of_keys(keys.len()).check()?;
        let hash = |key: &'k _| {
            Key::new(AsRef::<[u8]>::as_ref(key), &self.roster.hasher)
                .map_err(|bytes| AdminError::KeyTooLong { bytes })
        };
        let keys = keys.iter().map(hash).collect::<Result<Vec<_>, _>>()?;
        let slot = keys[0].slot;
        if keys.iter().any(|key| key.slot != slot) {
            return Err(AdminError::CrossSlot);
        }
        Ok((slot, keys))
    }
}

impl<V: CloneValue + ?Sized> Node<V> {
    /// MIGRATE with COPY: copies named keys to a node that imports their slot from this one, before
    /// the move begins. Returns how many were copied.
    ///
    /// The copies are never served, except by what looks at one node alone; STABLE on the importer
    /// drops them, and MIGRATING is refused while they are there.
    ///
    /// # Errors
    /// As [`migrate_keys`](Self::migrate_keys); `SetSlot` with `SlotIsOpen` once the move began.
    pub fn copy_keys(
        &self,
        keys: &[impl AsRef<[u8]>],
        target: NodeId,
        options: MigrateOptions,
    ) -> Result<usize, AdminError> {
        let peer = self.roster.named(target)?;
        let (slot, keys) = self.hash_keys(keys)?;
        let refused = |error| AdminError::SetSlot { slot, error };
        if target == self.id {
            return Err(refused(SetSlotError::MoveToSelf { node: target }));
        }
        self.roster.expect_open()?;
        let member = self.member();
        member.worker(slot).call(Patience::Wait, || {
            let copy_now = |pair: &mut Pair<'_, V>| {
                check_copy(&pair.me, &pair.peer).map_err(refused)?;
                let copied = copy(pair, slot, (&keys, options.existing()))?;
                if let Some(id) = pair.peer.state.move_id() {
                    self.roster.moves.change(id, |record| record.keys_copied += copied as u64);
                }
                Ok(copied)
            };
            let copy = || self.roster.on_marks((member, peer), slot, copy_now);
            let copied = self.roster.with_room_at(peer, copy);
            self.roster.make_room(peer, None);
            copied
        })?
    }
}

fn copy<V: CloneValue + ?Sized>(
    pair: &mut Pair<'_, V>,
    slot: Slot,
    (keys, existing): (&[Key<'_>], Existing),
) -> Result<usize, AdminError> {
    // A caller's `Clone` runs under the tokens, and so does the `Drop` of copies that are refused.
    let _scope = crate::sync::ClosureScope::enter();
    let mut copies = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(entry) = pair.my_shard.peek(key, pair.now) else { continue };
        if copies.iter().any(|(copied, _): &(Entry<V>, _)| copied.key() == key.bytes) {
            continue;
        }
        if existing == Existing::Refuse && pair.peer_shard.peek(key, pair.now).is_some() {
            return Err(AdminError::BusyKey);
        }
        let owned = entry.value().to_owned_value();
        copies.push((Entry::from_owned(key.bytes, owned, entry.kept(pair.now)), *key));
    }
    if copies.is_empty() {
        return Err(AdminError::NoKey);
    }
    if let Some(room) = pair.peer_room {
        let write =
            |(copied, key): &(Entry<V>, _)| Write { key: *key, weight: Some(copied.weight()) };
        let admitted = room.admit(pair.peer_shard, copies.iter().map(write).collect());
        admitted.map_err(|refusal| AdminError::target_full(slot, refusal))?;
    }
    let count = copies.len();
    for (copied, key) in copies {
        // No operation of a client's made them, so that no unit stands for them.
        pair.peer_shard.tally().extra += 1;
        let replaced = pair.peer_shard.insert(copied, key.hash, pair.hasher);
        pair.peer_shard.count_write(replaced.as_ref(), pair.now);
        pair.dropped.extend(replaced.map(Garbage::Entry));
    }
    Ok(count)
}

/// The move that is open from `me` to the named target.
fn open_move_to(me: &Side, peer: &Side, target: NodeId) -> Result<MoveId, SetSlotError> {
    let id = me.state.move_id().filter(|_| peer.node == target);
    id.filter(|&id| check_batch(me, peer, id).is_ok())
        .ok_or(SetSlotError::TargetNotImporting { target })
}

/// A copy goes from an owner without a mark to a node that imports from it.
fn check_copy(me: &Side, peer: &Side) -> Result<(), SetSlotError> {
    if !me.owns() {
        return Err(SetSlotError::NotOwner { node: me.node });
    }
    if let Some(id) = me.state.move_id() {
        return Err(SetSlotError::SlotIsOpen { node: me.node, id });
    }
    let imports = matches!(peer.state, SlotState::Importing { source, .. } if source == me.node);
    if imports { Ok(()) } else { Err(SetSlotError::TargetNotImporting { target: peer.node }) }
}
