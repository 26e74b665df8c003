//! The search: breadth first, so that the first violation has the shortest trace.

use std::fmt;

use ahash::RandomState;
use hashbrown::HashTable;

use super::action::Action;
use super::kind::Kind;
use super::pack::Packed;
use super::setup::Setup;
use super::symmetry::Symmetry;
use super::violation::Violation;
use super::world::World;

/// What a search has found.
#[derive(Debug)]
pub struct Report {
    /// How many states there are, those that differ by names counted once.
    pub states: usize,
    /// How often something happened that changed the state, or a call was made, by kind.
    pub fired: Vec<(Kind, u64)>,
    /// How often a step was refused, by kind.
    pub refused: Vec<(Kind, u64)>,
    /// The most hops of a call with movers stopped.
    pub hops: u8,
    /// The first violation, and how it came about.
    pub violation: Option<Trace>,
}

/// A violation with what led to it.
#[derive(Debug)]
pub struct Trace {
    violation: Violation,
    steps: Vec<Action>,
}

impl Trace {
    /// What is wrong.
    pub fn what(&self) -> String {
        self.violation.to_string()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {}. {step}", number + 1)?;
        }
        write!(f, "  => {}", self.violation)
    }
}

/// Searches everything that can happen in a setup, or until the first violation.
pub fn search(setup: &Setup) -> Report {
    let mut search = Search::new(setup);
    let violation = search.run().err().map(|found| search.trace(found));
    let by_kind = |counts: &Counts| {
        let happening = Kind::ALL.into_iter().filter(|&kind| setup.kinds.has(kind));
        happening.map(|kind| (kind, counts[kind as usize])).collect()
    };
    Report {
        states: search.states.len(),
        fired: by_kind(&search.fired),
        refused: by_kind(&search.refused),
        hops: search.hops,
        violation,
    }
}

/// A violation after one more step from a state that was reached, or in the first state.
struct Found {
    violation: Violation,
    from: usize,
    last: Option<Action>,
}

/// One count for each kind.
type Counts = [u64; Kind::ALL.len()];

struct Search<'s> {
    setup: &'s Setup,
    symmetry: Symmetry,
    /// Every state, in the order in which it was reached, with the one that it was reached from.
    states: Vec<(Packed, u32)>,
    /// Where each state is in `states`.
    places: HashTable<u32>,
    hasher: RandomState,
    fired: Counts,
    refused: Counts,
    hops: u8,
}

impl<'s> Search<'s> {
    fn new(setup: &'s Setup) -> Self {
        Self {
            setup,
            symmetry: Symmetry::of(setup),
            states: Vec::new(),
            places: HashTable::new(),
            hasher: RandomState::with_seeds(1, 2, 3, 4),
            fired: [0; Kind::ALL.len()],
            refused: [0; Kind::ALL.len()],
            hops: 0,
        }
    }

    fn first(&self) -> World {
        if self.setup.has_unowned_slots() {
            World::unowned(usize::from(self.setup.nodes))
        } else {
            World::owned_by_first(usize::from(self.setup.nodes))
        }
    }

    fn run(&mut self) -> Result<(), Found> {
        self.reach(&self.first(), 0, None)?;
        let mut actions = Vec::new();
        let mut next = 0;
        while let Some(&(packed, _)) = self.states.get(next) {
            let world = World::unpacked(packed, usize::from(self.setup.nodes));
            Action::candidates(&world, self.setup, &mut actions);
            for &action in &actions {
                self.follow(&world, next, action)?;
            }
            next += 1;
        }
        Ok(())
    }

    fn follow(&mut self, world: &World, from: usize, action: Action) -> Result<(), Found> {
        let mut after = *world;
        let done = action.apply(&mut after, self.setup).map_err(|violation| Found {
            violation,
            from,
            last: Some(action),
        })?;
        let kind = action.kind() as usize;
        if !done {
            self.refused[kind] += 1;
            return Ok(());
        }
        let changed = after != *world;
        self.fired[kind] += u64::from(changed || action.is_call());
        if changed { self.reach(&after, from, Some(action)) } else { Ok(()) }
    }

    /// Notes a state, and holds it to the rules, if it is new.
    fn reach(&mut self, world: &World, from: usize, last: Option<Action>) -> Result<(), Found> {
        let packed = self.symmetry.canonical(*world);
        let hash = self.hasher.hash_one(packed);
        let states = &self.states;
        if self.places.find(hash, |&place| states[place as usize].0 == packed).is_some() {
            return Ok(());
        }
        let place = u32::try_from(states.len()).expect("a model has fewer than 2^32 states");
        let hasher = &self.hasher;
        self.places.insert_unique(hash, place, |&place| hasher.hash_one(states[place as usize].0));
        let back = u32::try_from(from).expect("it has a place");
        self.states.push((packed, back));
        let hops = world.check(self.setup).map_err(|violation| Found { violation, from, last })?;
        self.hops = self.hops.max(hops);
        Ok(())
    }

    /// The steps to a violation: those whose outcome differs by names only from the states on the
    /// way, so that names stay the same through the whole trace.
    fn trace(&self, Found { violation, from, last }: Found) -> Trace {
        let mut way = Vec::new();
        let mut place = from;
        while place != 0 {
            way.push(self.states[place].0);
            place = self.states[place].1 as usize;
        }
        let mut world = self.first();
        let mut steps = Vec::new();
        for goal in way.into_iter().rev() {
            let (action, after) = self.step_to(&world, |after| {
                after.is_ok_and(|after| self.symmetry.canonical(after) == goal)
            });
            steps.push(action);
            world = after;
        }
        let kind = std::mem::discriminant(&violation);
        let named = |after: Result<World, Violation>| {
            let found = after.and_then(|after| after.check(self.setup)).err();
            found.filter(|found| std::mem::discriminant(found) == kind)
        };
        let mut violation = violation;
        if last.is_some() {
            let (action, _) = self.step_to(&world, |after| {
                named(after).inspect(|&named| violation = named).is_some()
            });
            steps.push(action);
        }
        Trace { violation, steps }
    }

    /// The action after which `is_meant` holds, and the state that it leads to.
    fn step_to(
        &self,
        world: &World,
        mut is_meant: impl FnMut(Result<World, Violation>) -> bool,
    ) -> (Action, World) {
        let mut actions = Vec::new();
        Action::candidates(world, self.setup, &mut actions);
        for action in actions {
            let mut after = *world;
            let applied = action.apply(&mut after, self.setup);
            if is_meant(applied.map(|_| after)) {
                return (action, after);
            }
        }
        unreachable!("a step that was found is found again")
    }
}
