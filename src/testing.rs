//! What only tests turn on: faults planted on purpose, which the checks have to catch.

/// A fault that a test plants into one cluster, to see that its checks would catch it. One that
/// takes code of its own is there with the feature only, as that code is.
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "the feature exports it"))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// An importing node serves requests that carry no ASKING.
    NoAskingCheck,
    /// ASKING is honoured whatever move it names.
    AskWithoutId,
    /// A migration batch copies keys and leaves them at the source.
    #[cfg(feature = "testing")]
    CopyWithoutDelete,
    /// The slot's state is read in an earlier hold than the one that runs the operation.
    StateOutsideToken,
    /// The clock is read before the token is taken.
    NowBeforeToken,
    /// A pull moves keys whatever the marks say under both tokens.
    PullWithoutCheck,
    /// A handover does not look whether the target holds keys, and lets go of them.
    HandoverOverKeys,
    /// A handover leaves the source's header and view as they were.
    HandoverOneSide,
    /// An eviction takes the entry out, gives the token back, and puts it over what was written
    /// meanwhile.
    #[cfg(feature = "testing")]
    EvictionInTwoHolds,
}

/// The faults that are planted into one cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    #[cfg(feature = "testing")]
    planted: Option<Fault>,
}

impl Faults {
    /// Plants one fault.
    #[cfg(feature = "testing")]
    pub(crate) fn plant(fault: Fault) -> Self {
        Self { planted: Some(fault) }
    }

    /// Whether no fault was planted.
    pub(crate) fn is_empty(self) -> bool {
        #[cfg(feature = "testing")]
        return self.planted.is_none();
        #[cfg(not(feature = "testing"))]
        return {
            let _ = self;
            true
        };
    }

    /// Whether this fault was planted; never, and at no cost, without the feature.
    #[inline]
    pub(crate) fn has(self, fault: Fault) -> bool {
        #[cfg(feature = "testing")]
        return self.planted == Some(fault);
        #[cfg(not(feature = "testing"))]
        return {
            let _ = (self, fault);
            false
        };
    }
}
