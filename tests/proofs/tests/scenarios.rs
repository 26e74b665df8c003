//! The resharding scenarios of the test suites of Redis and Valkey, under the names that they have
//! there, with the amounts that they have there.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use slotkeep::reshard::{FixOptions, MoveKind, PlannedMove, Reshard, Resume, resume};
use slotkeep::{Client, Cluster, Node, NodeId, SetSlot, Slot, SlotSet, SlotState};

type Tested = Result<(), Box<dyn Error>>;

const KINDS: [MoveKind; 2] = [MoveKind::Handover, MoveKind::Classic];

/// Waits for all threads; the first that failed is what the scenario fails with.
fn join_all(handles: Vec<thread::ScopedJoinHandle<'_, Result<(), slotkeep::Error>>>) -> Tested {
    let ended: Vec<_> = handles.into_iter().map(thread::ScopedJoinHandle::join).collect();
    ended.into_iter().try_for_each(|ended| Ok(ended.map_err(|_| "a thread panicked")??))
}

/// No mark and no open move is left, and every key has one home.
#[track_caller]
fn check_settled(cluster: &Cluster) {
    for node in cluster.nodes() {
        let marked = Slot::all().find(|&slot| node.slot_state(slot) != Ok(SlotState::Stable));
        assert_eq!(marked, None, "{} has a mark", node.id());
    }
    let open = cluster.moves().into_iter().find(|record| !record.phase.is_ended());
    assert_eq!(open, None, "an open move");
    cluster.check_invariants();
}

mod live_resharding {
    //! `04-resharding`: "Cluster consistency during live resharding", "Verify keys".

    use super::*;

    const LISTS: usize = 50_000;
    const APPENDS: usize = 200_000;
    const SLOTS_A_MOVE: usize = 100;
    const WRITERS: usize = 2;

    /// Fewer resharding rounds beside the appends have not tested anything.
    const ROUNDS_MIN: u64 = 10;

    /// Appends to the lists whose numbers are `writer` modulo the writers.
    fn append(
        client: &Client,
        writer: usize,
        lists: &mut [Vec<u8>],
    ) -> Result<(), slotkeep::Error> {
        let mut rng = Rng::with_seed(writer as u64);
        for number in 0..APPENDS / WRITERS {
            let index = rng.usize(..lists.len());
            let element = format!("{number},");
            lists[index].extend_from_slice(element.as_bytes());
            let length = client.append(name(index * WRITERS + writer), element.as_bytes())?;
            assert_eq!(length, lists[index].len(), "list {index} of writer {writer}");
        }
        Ok(())
    }

    fn name(list: usize) -> String {
        format!("key_{list}")
    }

    /// Moves a hundred slots from one node to another, again and again.
    fn reshard(cluster: &Cluster, over: &AtomicBool, rounds: &AtomicU64) {
        let mut rng = Rng::with_seed(4);
        let nodes = cluster.node_ids();
        while !over.load(Ordering::Relaxed) {
            let source = nodes[rng.usize(..nodes.len())];
            let target = nodes[rng.usize(..nodes.len())];
            let owned: Vec<Slot> = cluster.slot_map().slots_of(source).iter().collect();
            if source == target || owned.len() < SLOTS_A_MOVE {
                continue;
            }
            let first = rng.usize(..=owned.len() - SLOTS_A_MOVE);
            let slots: SlotSet = owned[first..first + SLOTS_A_MOVE].iter().copied().collect();
            let kind = KINDS[rng.usize(..KINDS.len())];
            let moves = Reshard::of(cluster).by(kind).move_slots(&slots, source, target);
            let report = moves.and_then(Reshard::run).expect("nothing is in the way");
            assert_eq!(report.slots_moved, SLOTS_A_MOVE);
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn no_append_is_lost_during_a_live_resharding() -> Tested {
        let cluster = Cluster::builder().nodes(5).workers_per_node(1).build()?;
        let mut lists = vec![vec![Vec::new(); LISTS / WRITERS]; WRITERS];
        let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let mover = scope.spawn(|| reshard(&cluster, &over, &rounds));
            let writers: Vec<_> = (lists.iter_mut().enumerate())
                .map(|(writer, lists)| {
                    let client = cluster.client();
                    scope.spawn(move || append(&client, writer, lists))
                })
                .collect();
            let ended = join_all(writers);
            over.store(true, Ordering::Relaxed);
            mover.join().expect("the mover moves");
            ended
        })?;
        let rounds = rounds.into_inner();
        println!("{rounds} rounds of {SLOTS_A_MOVE} slots beside {APPENDS} appends");
        assert!(rounds >= ROUNDS_MIN, "{rounds} rounds");
        let (client, mut used) = (cluster.client(), 0);
        for (writer, lists) in lists.iter().enumerate() {
            for (index, list) in lists.iter().enumerate() {
                let held = client.get(name(index * WRITERS + writer))?;
                assert_eq!(held.as_deref().unwrap_or_default(), list, "list {index}");
                used += usize::from(held.is_some());
            }
        }
        assert_eq!(client.live()?, used, "keys that nobody wrote");
        check_settled(&cluster);
        Ok(())
    }
}

/// What operators do about moves whose drivers died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repair {
    Resume(Resume),
    Fix(Resume),
}

impl Repair {
    const ALL: [Self; 4] = [
        Self::Resume(Resume::Finish),
        Self::Resume(Resume::Abort),
        Self::Fix(Resume::Finish),
        Self::Fix(Resume::Abort),
    ];

    fn run(self, cluster: &Cluster) -> Tested {
        match self {
            Self::Resume(how) => drop(resume(cluster, how)?),
            Self::Fix(how) => {
                let report = cluster.fix_with(FixOptions::new().open_moves(how))?;
                assert!(report.left.is_healthy(), "{report}");
            }
        }
        Ok(())
    }

    /// Whether moves that can still go either way are finished.
    fn finishes(self) -> bool {
        let (Self::Resume(how) | Self::Fix(how)) = self;
        how == Resume::Finish
    }
}

/// How far a move has come when its driver dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    /// The source has its mark; the target imports nothing. Verbs as in Redis make it, and no move
    /// is on record, so that `fix` alone repairs it.
    MigratingOnly,
    /// The target imports; the source has not heard of it.
    ImportingOnly,
    /// Both have their marks, and no key was sent.
    Marked,
    /// Half of the keys were sent.
    Split,
    /// All of them were sent, and the target has not flipped.
    Sent,
    /// The target owns the slot; the source's mark is left, and no claim has reached it.
    NotClosed,
}

impl Half {
    const ALL: [Self; 5] =
        [Self::ImportingOnly, Self::Marked, Self::Split, Self::Sent, Self::NotClosed];

    /// Every half-open state, and what can be done about each.
    fn all_with_repairs() -> impl Iterator<Item = (Self, Repair)> {
        let by_hand =
            [Resume::Finish, Resume::Abort].map(|how| (Self::MigratingOnly, Repair::Fix(how)));
        let halves = Self::ALL.into_iter();
        halves.flat_map(|half| Repair::ALL.map(|how| (half, how))).chain(by_hand)
    }

    /// Moves a slot as far as that.
    fn reach(self, cluster: &Cluster, planned: PlannedMove) -> Tested {
        let PlannedMove { slot, source, target } = planned;
        let [from, to] = [source, target].map(|id| cluster.node(id).expect("a node"));
        if self == Self::MigratingOnly {
            from.as_redis().set_slot(slot, SetSlot::Migrating { target })?;
            self.check(&from, &to, slot);
            return Ok(());
        }
        let id = to.set_slot(slot, SetSlot::Importing { source })?.ok_or("an id")?;
        if self == Self::ImportingOnly {
            return Ok(());
        }
        from.set_slot(slot, SetSlot::Migrating { target })?;
        let keys = from.count_keys_in_slot(slot)?;
        let sent = match self {
            Self::MigratingOnly | Self::ImportingOnly | Self::Marked => 0,
            Self::Split => keys / 2,
            Self::Sent | Self::NotClosed => keys,
        };
        if sent > 0 {
            assert_eq!(from.migrate_batch(slot, id, sent)?.moved, sent);
        }
        if self == Self::NotClosed {
            cluster.bus().hold();
            to.set_slot(slot, SetSlot::Node { owner: target })?;
            while cluster.bus().discard(0) {}
            cluster.bus().release();
        }
        self.check(&from, &to, slot);
        Ok(())
    }

    #[track_caller]
    fn check(self, from: &Node, to: &Node, slot: Slot) {
        let open = |node: &Node| node.slot_state(slot).expect("no token is held").is_open();
        assert_eq!(open(from), self != Self::ImportingOnly, "{self:?}");
        let is_source_alone = matches!(self, Self::MigratingOnly | Self::NotClosed);
        assert_eq!(open(to), !is_source_alone, "{self:?}");
    }

    /// Who owns the slot once such a move has been closed.
    fn owner_after(self, how: Repair, planned: PlannedMove) -> NodeId {
        let finished = match self {
            Self::MigratingOnly => false,
            Self::NotClosed => true,
            Self::ImportingOnly | Self::Marked | Self::Split | Self::Sent => how.finishes(),
        };
        if finished { planned.target } else { planned.source }
    }
}

mod half_migrated_slot {
    //! `20-half-migrated-slot`: "Half init migration in 'migrating' is fixable", "Half init
    //! migration in 'importing' is fixable", "Init migration and move key", "Half-finish
    //! migration", "Half-finish importing".

    use super::*;

    const KEYS: usize = 20;

    /// Of slot 609, as in the original.
    fn names() -> Vec<String> {
        (0..KEYS).map(|number| format!("{{aga}}:{number}")).collect()
    }

    fn half_moved(half: Half) -> Result<(Cluster, PlannedMove), Box<dyn Error>> {
        let cluster = Cluster::builder().nodes(3).workers_per_node(1).build()?;
        let client = cluster.client();
        for name in names() {
            client.set(&name, name.as_bytes())?;
        }
        let slot = Slot::of("aga");
        let source = cluster.slot_map().owner(slot).ok_or("an owner")?;
        let mut others = cluster.node_ids().into_iter().filter(|&id| id != source);
        let target = others.next().ok_or("another node")?;
        let planned = PlannedMove { slot, source, target };
        half.reach(&cluster, planned)?;
        Ok((cluster, planned))
    }

    /// Reads every key by itself, which moves none, with a map that is as old as can be.
    #[track_caller]
    fn check_readable(client: &Client, what: Half) {
        for name in names() {
            let read = client.get(&name).expect("a read is served");
            assert_eq!(read.as_deref(), Some(name.as_bytes()), "{what:?}");
        }
    }

    #[test]
    fn a_key_is_readable_and_the_slot_repairable_from_every_half_open_state() -> Tested {
        for (half, how) in Half::all_with_repairs() {
            let (cluster, planned) = half_moved(half)?;
            let client = cluster.client();
            check_readable(&client, half);
            how.run(&cluster)?;
            check_readable(&client, half);
            check_settled(&cluster);
            let owner = half.owner_after(how, planned);
            assert_eq!(cluster.slot_map().owner(planned.slot), Some(owner), "{half:?} {how:?}");
        }
        Ok(())
    }

    #[test]
    fn a_half_moved_slot_takes_writes_and_calls_on_several_keys_and_loses_none() -> Tested {
        // As in Redis, a key that a lone source lacks is answered by nobody.
        let is_answered = |(half, _): &(Half, Repair)| *half != Half::MigratingOnly;
        for (half, how) in Half::all_with_repairs().filter(is_answered) {
            let (cluster, _) = half_moved(half)?;
            let client = cluster.client();
            client.mset([("{aga}:0", &b"a"[..]), ("{aga}:new", b"b")])?;
            client.set("{aga}:newer", b"c")?;
            assert!(client.remove("{aga}:1")?);
            let names = ["{aga}:0", "{aga}:1", "{aga}:new", "{aga}:newer", "{aga}:2"];
            let expected = [Some(&b"a"[..]), None, Some(b"b"), Some(b"c"), Some(b"{aga}:2")];
            let check = |when: &str| {
                let found = client.mget(&names).expect("keys are pulled together");
                let found: Vec<_> = found.iter().map(|found| found.as_deref()).collect();
                assert_eq!(found, expected, "{half:?} {how:?} {when}");
            };
            check("while it is open");
            how.run(&cluster)?;
            check("after the repair");
            assert_eq!(client.live()?, KEYS + 1);
            check_settled(&cluster);
        }
        Ok(())
    }
}

mod many_slot_migration {
    //! `21-many-slot-migration`: "Init migration of many slots", "Fix cluster", "Keys are
    //! accessible".

    use super::*;

    const NODES: usize = 10;
    const KEYS: usize = 40_000;
    const OPEN_SLOTS: usize = 1_000;

    #[track_caller]
    fn check_accessible(client: &Client) {
        for number in 0..KEYS {
            let name = number.to_string();
            let read = client.get(&name).expect("a read is served");
            assert_eq!(read.as_deref(), Some(name.as_bytes()));
        }
    }

    #[test]
    fn every_key_is_reachable_while_a_thousand_slots_are_open_and_after_the_repair() -> Tested {
        let cluster = Cluster::builder().nodes(NODES).workers_per_node(1).build()?;
        let client = cluster.client();
        for number in 0..KEYS {
            let name = number.to_string();
            client.set(&name, name.as_bytes())?;
        }
        let map = cluster.slot_map();
        for source in cluster.node_ids() {
            let target = NodeId::new((source.index() + 1) % NODES).ok_or("a node")?;
            let slots = map.slots_of(source);
            for (index, slot) in slots.iter().take(OPEN_SLOTS / NODES).enumerate() {
                let half = Half::ALL[index % Half::ALL.len()];
                half.reach(&cluster, PlannedMove { slot, source, target })?;
            }
        }
        let open = cluster.moves().iter().filter(|record| !record.phase.is_ended()).count();
        assert_eq!(open, OPEN_SLOTS);
        check_accessible(&client);
        check_accessible(&client.with_own_map());
        let report = cluster.fix()?;
        let repaired = report.repaired.len() as u64 + report.omitted;
        assert!(report.left.is_healthy() && repaired >= OPEN_SLOTS as u64, "{report}");
        check_accessible(&client);
        assert_eq!(client.live()?, KEYS);
        check_settled(&cluster);
        Ok(())
    }
}

mod slots_on_a_walk {
    //! The walk of ten slots over five nodes, while they are read and written.

    use super::*;

    const NODES: usize = 5;
    const SLOTS: usize = 10;
    const KEYS_PER_SLOT: usize = 20;
    const WRITERS: usize = 2;

    /// How many writes the walk by each kind of move takes at least, and how many rounds at most.
    const WRITES_MIN: u64 = 20_000;
    const ROUNDS_MAX: usize = 10_000;

    fn tags() -> Vec<String> {
        // The first ten tags that have slots of their own, and the same owner at the start.
        let first_node = |tag: &String| Slot::of(tag).index() < Slot::all().count() / NODES;
        (0..).map(|number| format!("{{walk{number}}}")).filter(first_node).take(SLOTS).collect()
    }

    struct Walk {
        cluster: Cluster,
        tags: Vec<String>,
        over: AtomicBool,
        writes: AtomicU64,
        reads: AtomicU64,
    }

    impl Walk {
        fn names_of(&self, writer: usize) -> Vec<String> {
            let numbers = (0..KEYS_PER_SLOT).filter(|number| number % WRITERS == writer);
            let names = |number| self.tags.iter().map(move |tag| format!("{tag}:{number}"));
            numbers.flat_map(names).collect()
        }

        /// Writes the numbers 1, 2, 3, ... to each of its keys, and reads what it wrote.
        fn write(&self, writer: usize) -> Result<(), slotkeep::Error> {
            let (client, names) = (self.cluster.client(), self.names_of(writer));
            let mut version: i64 = 0;
            while !self.over.load(Ordering::Relaxed) {
                version += 1;
                for name in &names {
                    assert_eq!(client.incr(name, 1)?, version, "{name}");
                    let read = client.get(name)?.map(|read| number(&read));
                    assert_eq!(read, Some(version), "{name}");
                    self.writes.fetch_add(1, Ordering::Relaxed);
                }
            }
            for name in &names {
                assert_eq!(client.get(name)?.map(|read| number(&read)), Some(version), "{name}");
            }
            Ok(())
        }

        /// Reads keys of others: no number is ever seen after a greater one.
        fn read(&self) -> Result<(), slotkeep::Error> {
            let client = self.cluster.client();
            let names: Vec<String> = (0..WRITERS).flat_map(|one| self.names_of(one)).collect();
            let mut seen = vec![0; names.len()];
            while !self.over.load(Ordering::Relaxed) {
                for (name, seen) in names.iter().zip(&mut seen) {
                    let read = client.get(name)?.map_or(0, |read| number(&read));
                    assert!(read >= *seen, "{name}: {read} after {seen}");
                    *seen = read;
                    self.reads.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        }

        /// Takes the ten slots from node to node, once round.
        fn once_round(&self, slots: &SlotSet, kind: MoveKind) -> Tested {
            let nodes = self.cluster.node_ids();
            for (&source, &target) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
                let moves = Reshard::of(&self.cluster).by(kind).batch_keys(2);
                let moved = moves.move_slots(slots, source, target)?.run()?.slots_moved;
                if moved != SLOTS {
                    return Err(format!("{moved} slots moved from {source} to {target}").into());
                }
            }
            Ok(())
        }

        /// Walks until there were enough writes meanwhile, or a thread has failed.
        fn go(&self, slots: &SlotSet, kind: MoveKind, is_broken: impl Fn() -> bool) -> Tested {
            let goal = self.writes.load(Ordering::Relaxed) + WRITES_MIN;
            for round in 1..=ROUNDS_MAX {
                self.once_round(slots, kind)?;
                if is_broken() || self.writes.load(Ordering::Relaxed) >= goal {
                    println!("{kind:?}: {round} rounds");
                    return Ok(());
                }
            }
            Err(format!("{kind:?}: too few writes in {ROUNDS_MAX} rounds").into())
        }
    }

    fn number(value: &[u8]) -> i64 {
        str::from_utf8(value).ok().and_then(|text| text.parse().ok()).expect("a number")
    }

    #[test]
    fn ten_slots_walk_over_five_nodes_under_continuous_reads_and_writes() -> Tested {
        let cluster = Cluster::builder().nodes(NODES).workers_per_node(1).build()?;
        let (over, count) = (AtomicBool::new(false), AtomicU64::new);
        let walk = Walk { cluster, tags: tags(), over, writes: count(0), reads: count(0) };
        let slots: SlotSet = walk.tags.iter().map(Slot::of).collect();
        assert_eq!(slots.len(), SLOTS);
        thread::scope(|scope| {
            let reader = scope.spawn(|| walk.read());
            let writers = (0..WRITERS).map(|writer| {
                let walk = &walk;
                scope.spawn(move || walk.write(writer))
            });
            let threads: Vec<_> = writers.chain([reader]).collect();
            let is_broken = || threads.iter().any(thread::ScopedJoinHandle::is_finished);
            let mut kinds = KINDS.into_iter();
            let walked = kinds.try_for_each(|kind| walk.go(&slots, kind, is_broken));
            walk.over.store(true, Ordering::Relaxed);
            join_all(threads).and(walked)
        })?;
        let (writes, reads) = (walk.writes.into_inner(), walk.reads.into_inner());
        println!("{writes} writes, {reads} reads, {} redirects", walk.cluster.redirect_count());
        assert!(writes >= 2 * WRITES_MIN && reads > 0, "{writes} writes, {reads} reads");
        check_settled(&walk.cluster);
        Ok(())
    }
}
