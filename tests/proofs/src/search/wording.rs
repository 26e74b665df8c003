//! The wordings of rules that do not hold: each replaces one rule of the engine by an earlier one.

/// Which rule is replaced, if any. The numbers are rows, as in the tests of `tests/protocol`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wording {
    /// The engine's own rules, and nothing else.
    Sound,
    /// 1: a node has one epoch for all of its slots, and its claims to any slot carry it.
    OneEpochForANode,
    /// 1b: the same, for a node whose slot has flipped away and that has not heard of it.
    OneEpochForASource,
    /// 2: IMPORTING overwrites a mark.
    ImportingOverwrites,
    /// 2b: MIGRATING overwrites a mark.
    MigratingOverwrites,
    /// 2c: a handover goes out from under a mark, and leaves it.
    HandoverFromAMark,
    /// 2d: a handover comes in over a mark, and leaves it.
    HandoverOntoAMark,
    /// 3: NODE on the target wants an empty source, and no pair.
    FlipOfALoneImporter,
    /// 4: STABLE after the flip clears the source's mark and nothing else.
    StableAfterTheFlip,
    /// 4: an abort after the flip turns both marks round.
    AbortAfterTheFlip,
    /// 5: a pull does not look at the marks under both tokens.
    PullWithoutCheck,
    /// 6: STABLE clears the peer's mark, whatever its id.
    StableClearsThePeer,
    /// 7: NODE on any node makes the named one the owner there.
    NodeDeposes,
    /// 8: an abort marks the source first, and the target in another hold.
    AbortOfTheSourceFirst,
    /// 8: an abort marks the target first, and the source in another hold.
    AbortOfTheTargetFirst,
    /// 9: a batch sends expired entries too.
    BatchSendsTheDead,
    /// 10: ASKING is honoured by the importing mark alone.
    AskingWithoutId,
    /// 11: a client takes the map of any node after its second MOVED.
    MapOfAnyNode,
    /// 12: ADDSLOTS looks at its own node only.
    AddWithoutTheWord,
    /// 13: a claim clears the importing mark.
    ClaimClearsTheMark,
    /// 14: MIGRATING does not look at the target.
    MigratingToAnybody,
    /// 15: a call reads the clock before it has the token.
    ClockBeforeTheToken,
    /// 16: a node that hears a stale claim deletes its keys.
    StaleClaimDeletes,
    /// 17: a batch copies in one hold and removes in another.
    BatchInTwoHolds,
    /// 18: verbs do not look at the gate.
    NoGate,
}
