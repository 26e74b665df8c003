//! A setup: how large a model is, and what can happen in it.

use crate::migration::Semantics;

use super::kind::Kind;
use super::kind::Kinds;
use super::wording::Wording;

/// The gate, in a setup that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// How many verbs may have looked before a call went in.
    pub late_verbs: u8,
    /// The most redirects of a call that are no violation yet; at most 14. Asking the same node
    /// again counts.
    pub redirects_max: u8,
}

/// How large a model is, and what can happen in it.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub name: &'static str,
    /// From 2 to 4.
    pub nodes: u8,
    /// 1 or 2.
    pub clients: usize,
    /// How many messages the bus holds: up to 2. With none, a claim arrives when it is sent.
    pub messages: usize,
    /// How often a call that is made after the movers have stopped may be sent on.
    pub hops_max: u8,
    /// What can happen.
    pub kinds: Kinds,
    /// Whether calls on one key name either key, or only the first.
    pub either_key: bool,
    pub gate: Option<Gate>,
    /// What clients want of keys that a move splits.
    pub semantics: Semantics,
    pub wording: Wording,
}

impl Setup {
    /// The plain setup: the first node owns the slot.
    pub const fn new(name: &'static str, nodes: u8, kinds: Kinds) -> Self {
        Self {
            name,
            nodes,
            clients: 1,
            messages: 0,
            hops_max: nodes,
            kinds,
            either_key: true,
            gate: None,
            semantics: Semantics::Pull,
            wording: Wording::Sound,
        }
    }

    /// ADDSLOTS begins without an owner, and a client without a map asks the first node, so that
    /// nodes are not alike.
    pub(crate) fn has_unowned_slots(&self) -> bool {
        self.kinds.has(Kind::Add)
    }
}
