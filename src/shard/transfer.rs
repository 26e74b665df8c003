//! Entries travel between two shards of one slot, by pointer, under both tokens.

use crate::limits::MIGRATE_BUCKETS;
use crate::limits::MIGRATE_CHUNK_KEYS;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Key;
use crate::shard::Shard;
use crate::shard::Value;
use crate::time::Clock;

/// What ends a batch of whichever entries come first.
#[derive(Clone, Copy)]
pub(crate) struct Quota<'q> {
    /// So many live entries.
    pub(crate) keys: usize,
    /// So many bytes; the entry that reaches the bound still travels.
    pub(crate) bytes: u64,
    /// This time of this clock, looked at after every [`MIGRATE_CHUNK_KEYS`] entries.
    pub(crate) until: Option<(u64, &'q dyn Clock)>,
}

impl Quota<'_> {
    /// What may still be taken after so much.
    fn without(self, taken: Travelled) -> Self {
        let (keys, bytes) = (self.keys - taken.keys, self.bytes.saturating_sub(taken.bytes));
        Self { keys, bytes, ..self }
    }

    fn is_used_up(self) -> bool {
        self.keys == 0 || self.bytes == 0
    }

    fn is_over(self) -> bool {
        self.is_used_up() || self.until.is_some_and(|(until, clock)| clock.nanos() >= until)
    }
}

/// Which entries travel.
#[derive(Clone, Copy)]
pub(crate) enum Batch<'b> {
    /// Whichever come first, within a quota; perhaps fewer, though more are there.
    Any(Quota<'b>),
    /// The named keys.
    Named(&'b [Key<'b>]),
}

/// What happens when a live entry of the same key is at the destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Nothing of the batch travels.
    Refuse,
    /// It is replaced.
    Replace,
    /// It stays, and what comes is dropped.
    Keep,
}

/// How much has travelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Travelled {
    /// Live entries.
    pub(crate) keys: usize,
    /// The bytes of their allocations.
    pub(crate) bytes: u64,
}

impl Travelled {
    fn count<V: Value + ?Sized>(&mut self, entry: &Entry<V>) {
        self.keys += 1;
        self.bytes += entry.allocation_bytes() as u64;
    }
}

/// What a transfer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    /// So much travelled.
    Moved(Travelled),
    /// A live entry of the same key is at the destination; nothing travelled.
    Busy,
}

/// Moves entries from `from` to `to`: all of the batch or nothing. An expired entry of either side
/// is dropped where it lies, and never put over a live one. Deadlines and identities stay.
pub(crate) fn transfer<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &mut Shard<V>,
    (batch, existing): (Batch<'_>, Existing),
    context: &mut Context<'_, V>,
) -> Transfer {
    let moved = match batch {
        Batch::Any(quota) => Some(transfer_any(from, to, (quota, existing), context)),
        Batch::Named(keys) => transfer_named(from, to, (keys, existing), context),
    };
    if from.len() == 0 {
        from.clear(context.dropped);
    }
    moved.map_or(Transfer::Busy, Transfer::Moved)
}

fn transfer_named<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &mut Shard<V>,
    (keys, existing): (&[Key<'_>], Existing),
    context: &mut Context<'_, V>,
) -> Option<Travelled> {
    let mut take = |key| Some((key, from.remove(key, context)?));
    let travelling: Vec<(&Key<'_>, _)> = keys.iter().filter_map(&mut take).collect();
    let is_there = |(key, _): &(&Key<'_>, _)| to.peek(key, context.now).is_some();
    if existing == Existing::Refuse && travelling.iter().any(is_there) {
        for (key, entry) in travelling {
            from.insert(entry, key.hash, context.hasher);
        }
        return None;
    }
    let mut sent = Travelled::default();
    for (key, entry) in travelling {
        to.receive((entry, key.hash), existing, &mut sent, context);
    }
    Some(sent)
}

/// Sends chunk after chunk until the quota is reached, nothing is left, or the next
/// [`MIGRATE_BUCKETS`] buckets have been looked at. Refuses nothing: to learn whether a key of the
/// batch is at the destination, the batch would have to be taken out first.
fn transfer_any<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &mut Shard<V>,
    (quota, existing): (Quota<'_>, Existing),
    context: &mut Context<'_, V>,
) -> Travelled {
    let mut sent = Travelled::default();
    let mut left = quota;
    let mut chunk = Vec::with_capacity(MIGRATE_CHUNK_KEYS.min(quota.keys).min(from.len()));
    let mut buckets_left = from.bucket_count().min(MIGRATE_BUCKETS);
    while buckets_left > 0 && from.len() > 0 {
        buckets_left -= from.take_chunk(&mut chunk, (&mut left, buckets_left), context);
        for entry in chunk.drain(..) {
            let hash = context.hasher.hash(entry.key());
            to.receive((entry, hash), existing, &mut sent, context);
        }
        if left.is_over() {
            break;
        }
    }
    sent
}

/// Drops what has expired in `from`, and what is live in `to` as well; returns how many entries are
/// left. Looks at every entry of `from`.
pub(crate) fn drop_copies<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &Shard<V>,
    context: &mut Context<'_, V>,
) -> usize {
    let Context { now, hasher, dropped } = context.reborrow();
    let is_there = |key: &[u8]| to.peek_at(hasher.hash(key), key, now).is_some();
    if let Some(table) = from.table() {
        let copies = table
            .entries
            .extract_if(|entry| now.is_past(entry.deadline()) || is_there(entry.key()));
        dropped.extend(copies.map(Garbage::Entry));
    }
    if from.len() == 0 {
        from.clear(dropped);
    }
    from.len()
}

impl<V: Value + ?Sized> Shard<V> {
    /// Takes an entry in that has left another shard, and counts it, unless a live one is to stay.
    fn receive(
        &mut self,
        (entry, hash): (Entry<V>, u64),
        existing: Existing,
        sent: &mut Travelled,
        context: &mut Context<'_, V>,
    ) {
        let is_there = || self.peek_at(hash, entry.key(), context.now).is_some();
        if existing == Existing::Keep && is_there() {
            context.dropped.push(Garbage::Entry(entry));
            return;
        }
        sent.count(&entry);
        let replaced = self.insert(entry, hash, context.hasher);
        context.dropped.extend(replaced.map(Garbage::Entry));
    }

    fn bucket_count(&mut self) -> usize {
        self.table().map_or(0, |table| table.entries.num_buckets())
    }

    /// Takes a chunk of live entries out of the next `buckets_left` buckets, within what the quota
    /// has `left`, and drops expired ones on the way, which count for the chunk. Returns how many
    /// buckets it looked at.
    fn take_chunk(
        &mut self,
        taken: &mut Vec<Entry<V>>,
        (left, buckets_left): (&mut Quota<'_>, usize),
        context: &mut Context<'_, V>,
    ) -> usize {
        let Some((table, aside)) = self.table_and_aside() else { return buckets_left };
        let buckets = table.entries.num_buckets();
        let (mut looked, mut expired) = (0, 0);
        while looked < buckets_left && !table.entries.is_empty() {
            if taken.len() + expired == MIGRATE_CHUNK_KEYS || left.is_used_up() {
                break;
            }
            let bucket = if aside.cursor < buckets { aside.cursor } else { 0 };
            aside.cursor = bucket + 1;
            looked += 1;
            let Ok(found) = table.entries.get_bucket_entry(bucket) else { continue };
            let entry = found.remove().0;
            if context.now.is_past(entry.deadline()) {
                context.dropped.push(Garbage::Entry(entry));
                expired += 1;
            } else {
                let mut one = Travelled::default();
                one.count(&entry);
                *left = left.without(one);
                taken.push(entry);
            }
        }
        looked
    }
}

/// What the fault of that name does.
#[cfg(feature = "testing")]
impl<V: Value + ?Sized> Shard<V> {
    /// Puts every entry into `other` as well and keeps it here.
    pub(crate) fn share_into(&self, other: &mut Self, context: &mut Context<'_, V>) {
        for entry in self.iter() {
            let hash = context.hasher.hash(entry.key());
            let replaced = other.insert(entry.share(), hash, context.hasher);
            context.dropped.extend(replaced.map(Garbage::Entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Dropped;
    use crate::shard::KeyHasher;
    use crate::sync::AtomicU64;
    use crate::sync::Ordering;
    use crate::time::NEVER;
    use crate::time::Now;

    /// A clock that every look moves by one.
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn nanos(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    fn shard(keys: std::ops::Range<u32>, value: u8, deadline: u64) -> Shard<[u8]> {
        let hasher = KeyHasher::seeded(1);
        let mut shard = Shard::default();
        for number in keys {
            let name = format!("{{b}}:{number}");
            let key = Key::new(name.as_bytes(), &hasher).unwrap();
            let entry = Entry::<[u8]>::new(key.bytes, &[value], deadline);
            shard.insert(entry, key.hash, &hasher);
        }
        shard
    }

    /// Sends a batch that is never refused.
    #[track_caller]
    fn send(
        (from, to): (&mut Shard<[u8]>, &mut Shard<[u8]>),
        batch: (Batch<'_>, Existing),
        clock: &Ticking,
    ) -> Travelled {
        let (now, hasher) = (Now::new(clock), KeyHasher::seeded(1));
        let mut context = Context { now: &now, hasher: &hasher, dropped: &mut Dropped::new() };
        match transfer(from, to, batch, &mut context) {
            Transfer::Moved(sent) => sent,
            Transfer::Busy => panic!("a batch is refused"),
        }
    }

    fn values(shard: &Shard<[u8]>) -> Vec<u8> {
        shard.iter().map(|entry| entry.value()[0]).collect()
    }

    #[test]
    fn a_batch_ends_when_its_hold_is_over_and_the_next_ones_send_the_rest() {
        let clock = Ticking(AtomicU64::new(0));
        let (mut from, mut to) = (shard(0..300, 1, NEVER), Shard::default());
        let mut batches = Vec::new();
        while from.len() > 0 {
            // The third look of each batch finds that time is over.
            let until = clock.0.load(Ordering::Relaxed) + 2;
            let quota = Quota { keys: 4096, bytes: u64::MAX, until: Some((until, &clock)) };
            let batch = (Batch::Any(quota), Existing::Replace);
            let sent = send((&mut from, &mut to), batch, &clock);
            assert!(sent.keys > 0, "a batch always gets on");
            batches.push(sent.keys);
        }
        assert_eq!(to.len(), 300);
        assert_eq!(batches.iter().sum::<usize>(), 300);
        assert!(batches.iter().all(|&keys| keys <= 3 * MIGRATE_CHUNK_KEYS), "{batches:?}");
    }

    #[test]
    fn what_is_kept_is_not_replaced_unless_it_has_expired() {
        let clock = Ticking(AtomicU64::new(10));
        let (mut from, mut to) = (shard(0..6, 1, NEVER), shard(0..2, 2, NEVER));
        for dead in 2..4 {
            let mut old = shard(dead..dead + 1, 3, 5);
            let table = old.table().unwrap();
            let entry = table.entries.drain().next().unwrap();
            let hasher = KeyHasher::seeded(1);
            let hash = hasher.hash(entry.key());
            to.insert(entry, hash, &hasher);
        }
        let quota = Quota { keys: 64, bytes: u64::MAX, until: None };
        let batch = (Batch::Any(quota), Existing::Keep);
        let sent = send((&mut from, &mut to), batch, &clock);
        assert_eq!((sent.keys, from.len(), to.len()), (4, 0, 6));
        let mut values = values(&to);
        values.sort_unstable();
        assert_eq!(values, [1, 1, 1, 1, 2, 2]);
    }
}
