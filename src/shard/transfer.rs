//! Entries travel between two shards of one slot, by pointer, under both tokens.

use crate::limits::MIGRATE_BUCKETS;
use crate::limits::MIGRATE_CHUNK_KEYS;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Key;
use crate::shard::Refusal;
use crate::shard::Shard;
use crate::shard::Value;
use crate::shard::Write;
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
    /// There is no room at the destination; nothing travelled.
    Full(Refusal),
}

/// Moves entries from `from` to `to`: all of the batch or nothing. An expired entry of either side
/// is dropped where it lies, and never put over a live one. Deadlines and identities stay.
///
/// The room of the context is that of `to`. A batch of whichever entries come first is as much of
/// it as there is room for.
pub(crate) fn transfer<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &mut Shard<V>,
    (batch, existing): (Batch<'_>, Existing),
    context: &mut Context<'_, V>,
) -> Transfer {
    let moved = match batch {
        Batch::Any(quota) => transfer_any(from, to, (quota, existing), context),
        Batch::Named(keys) => transfer_named(from, to, (keys, existing), context),
    };
    if from.len() == 0 {
        from.clear(context.dropped);
    }
    moved
}

fn transfer_named<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &mut Shard<V>,
    (keys, existing): (&[Key<'_>], Existing),
    context: &mut Context<'_, V>,
) -> Transfer {
    if let Some(room) = context.room {
        let weigh = |key| from.peek(key, context.now).map(Entry::weight);
        let writes = keys.iter().map(|key| Write { key: *key, weight: weigh(key) });
        let writes = writes.filter(|write| write.weight.is_some()).collect();
        if let Err(refusal) = room.admit(to, writes) {
            return Transfer::Full(refusal);
        }
    }
    let mut take = |key| Some((key, from.take_live(key, context)?));
    let travelling: Vec<(&Key<'_>, _)> = keys.iter().filter_map(&mut take).collect();
    let is_there = |(key, _): &(&Key<'_>, _)| to.peek(key, context.now).is_some();
    if existing == Existing::Refuse && travelling.iter().any(is_there) {
        for (key, entry) in travelling {
            from.insert(entry, key.hash, context.hasher);
        }
        return Transfer::Busy;
    }
    from.tally().moved_out += travelling.len() as u64;
    let mut sent = Travelled::default();
    for (key, entry) in travelling {
        to.receive((entry, key.hash), existing, &mut sent, context);
    }
    Transfer::Moved(sent)
}

/// Sends chunk after chunk until the quota is reached, nothing is left, or the next
/// [`MIGRATE_BUCKETS`] buckets have been looked at. Refuses nothing: to learn whether a key of the
/// batch is at the destination, the batch would have to be taken out first.
fn transfer_any<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &mut Shard<V>,
    (quota, existing): (Quota<'_>, Existing),
    context: &mut Context<'_, V>,
) -> Transfer {
    let mut sent = Travelled::default();
    let mut left = quota;
    let mut refused = None;
    let mut chunk = Vec::with_capacity(MIGRATE_CHUNK_KEYS.min(quota.keys).min(from.len()));
    let mut buckets_left = from.bucket_count().min(MIGRATE_BUCKETS);
    while buckets_left > 0 && from.len() > 0 {
        let mut arriving = context.room.map(|room| room.arrivals(to));
        let mut admits = |entry: &Entry<V>| {
            let asked = arriving.as_mut().map_or(Ok(()), |arriving| arriving.admit(entry));
            refused = asked.err();
            refused.is_none()
        };
        buckets_left -=
            from.take_chunk(&mut chunk, (&mut left, buckets_left), &mut admits, context);
        from.tally().moved_out += chunk.len() as u64;
        for entry in chunk.drain(..) {
            let hash = context.hasher.hash(entry.key());
            to.receive((entry, hash), existing, &mut sent, context);
        }
        if left.is_over() || refused.is_some() {
            break;
        }
    }
    match refused {
        Some(refusal) if sent.keys == 0 => Transfer::Full(refusal),
        Some(_) | None => Transfer::Moved(sent),
    }
}

/// Drops what has expired in `from`, and what is live in `to` as well; returns how many entries are
/// left. Looks at every entry of `from`.
pub(crate) fn drop_copies<V: Value + ?Sized>(
    from: &mut Shard<V>,
    to: &Shard<V>,
    context: &mut Context<'_, V>,
) -> usize {
    let Context { now, hasher, dropped, .. } = context.reborrow();
    let is_there = |key: &[u8]| to.peek_at(hasher.hash(key), key, now).is_some();
    if let Some((table, weight, aside)) = from.parts() {
        let copies = table
            .entries
            .extract_if(|entry| now.is_past(entry.deadline()) || is_there(entry.key()));
        let count = |entry: &Entry<V>| {
            *weight -= entry.weight();
            aside.tally.drop_copy(now.is_past(entry.deadline()));
        };
        dropped.extend(copies.inspect(count).map(Garbage::Entry));
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
        self.tally().moved_in += 1;
        let is_there = || self.peek_at(hash, entry.key(), context.now).is_some();
        if existing == Existing::Keep && is_there() {
            self.tally().drop_copy(false);
            context.dropped.push(Garbage::Entry(entry));
            return;
        }
        sent.count(&entry);
        entry.set_trace(context.hit.arrived(entry.trace()));
        self.insert_over(entry, hash, context);
    }

    /// Puts in what has been counted as coming, and lets go of what was there.
    fn insert_over(&mut self, entry: Entry<V>, hash: u64, context: &mut Context<'_, V>) {
        if let Some(replaced) = self.insert(entry, hash, context.hasher) {
            self.tally().drop_copy(context.now.is_past(replaced.deadline()));
            context.dropped.push(Garbage::Entry(replaced));
        }
    }

    fn bucket_count(&self) -> usize {
        self.table_ref().map_or(0, |table| table.entries.num_buckets())
    }

    /// Takes a chunk of live entries out of the next `buckets_left` buckets, within what the quota
    /// has `left`, and drops expired ones on the way, which count for the chunk. It ends before one
    /// that is not admitted. Returns how many buckets it looked at.
    fn take_chunk(
        &mut self,
        taken: &mut Vec<Entry<V>>,
        (left, buckets_left): (&mut Quota<'_>, usize),
        admits: &mut impl FnMut(&Entry<V>) -> bool,
        context: &mut Context<'_, V>,
    ) -> usize {
        let Some((table, weight, aside)) = self.parts() else { return buckets_left };
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
            let has_expired = context.now.is_past(found.get().deadline());
            if !has_expired && !admits(found.get()) {
                aside.cursor = bucket;
                break;
            }
            let entry = found.remove().0;
            *weight -= entry.weight();
            if has_expired {
                context.dropped.push(Garbage::Entry(entry));
                aside.tally.expired += 1;
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
            other.tally().moved_in += 1;
            other.insert_over(entry.share(), hash, context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Dropped;
    use crate::shard::Kept;
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
            let entry = Entry::<[u8]>::new(key.bytes, &[value], Kept::until(deadline));
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
        let dropped = &mut Dropped::new();
        let mut context = Context::new(&now, &hasher, dropped);
        match transfer(from, to, batch, &mut context) {
            Transfer::Moved(sent) => sent,
            Transfer::Busy | Transfer::Full(_) => panic!("a batch is refused"),
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
            let (table, _) = old.table().unwrap();
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
