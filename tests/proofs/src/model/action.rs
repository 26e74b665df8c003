//! `Action`: everything that a step of a run can be.

use fastrand::Rng;

/// What a step does. The number is how often it comes, relative to the others.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $weight:literal,)*) => {
        /// What a step of a run can be.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each name says it all")]
        pub enum Action { $($name,)* }

        impl Action {
            /// Every action.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            const WEIGHTS: &[u32] = &[$($weight,)*];
        }
    };
}

actions! {
    BeginCall = 60,
    StepCall = 160,
    DropCall = 2,
    WholeCall = 20,
    ReadSlot = 4,
    CountAll = 4,
    ClearSlot = 1,
    DropHandle = 6,
    Importing = 6,
    Migrating = 10,
    Stable = 4,
    Reopen = 6,
    NodeVerb = 10,
    MigrateBatch = 16,
    MigrateKeys = 10,
    AbortStep = 8,
    AddSlots = 6,
    DelSlots = 4,
    BumpEpoch = 1,
    AddNode = 1,
    NewDriver = 6,
    StepDriver = 80,
    DropDriver = 3,
    TakeOver = 5,
    AbortDriver = 4,
    HandOver = 6,
    NewSet = 6,
    StepSet = 24,
    DropSet = 2,
    TakeOverSet = 3,
    AbortSet = 1,
    HoldBus = 2,
    ReleaseBus = 1,
    DeliverMessage = 12,
    DiscardMessage = 3,
    Advance = 12,
    Sweep = 10,
}

/// How often each action comes in one run: every seed shifts the weights, so that some runs are
/// mostly calls, some mostly operators, and some have a bus that never delivers.
#[derive(Debug)]
pub(super) struct Mix {
    /// Up to where the dice choose each action.
    bounds: Vec<u32>,
}

impl Mix {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let chase = rng.u8(0..4) == 0;
        let mut sum = 0;
        let bounds = Action::ALL.iter().zip(Action::WEIGHTS).map(|(&action, &weight)| {
            // Nothing is ever left out for a whole run.
            let usual = 1 + weight * [0, 1, 2, 2, 3, 4][rng.usize(0..6)];
            // The slots move on before a call has caught up with them, until it enters a gate.
            let calls = matches!(action, Action::BeginCall | Action::StepCall);
            sum += match (chase, action == Action::StepDriver) {
                (true, true) => 400,
                (true, false) if calls => 6,
                (true | false, _) => usual,
            };
            sum
        });
        Self { bounds: bounds.collect() }
    }

    pub(super) fn pick(&self, rng: &mut Rng) -> Action {
        let sum = self.bounds.last().copied().unwrap_or(1);
        let dice = rng.u32(0..sum);
        Action::ALL[self.bounds.partition_point(|&bound| bound <= dice)]
    }
}
