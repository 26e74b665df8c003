//! `explain`: where a key belongs, what each side says, and where the key is.

use std::fmt;

use crate::cluster::Client;
use crate::error::Error;
use crate::migration::SlotState;
use crate::shard::Value;
use crate::slot::Slot;
use crate::slot::hash_tag;
use crate::topology::Epoch;
use crate::topology::NodeId;

/// One node that has to do with a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyAt {
    /// The node.
    pub node: NodeId,
    /// The node's mark on the slot.
    pub state: SlotState,
    /// Whether the node owns the slot in its own view.
    pub owns: bool,
    /// Whether the key is here and live.
    pub present: bool,
    /// The worker that owns the slot's shard here.
    pub worker: String,
}

/// Everything about one key at one moment, node by node; prints as a few lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The key.
    pub key: Box<[u8]>,
    /// The bytes that are hashed: the hash tag, or the whole key.
    pub hashed: Box<[u8]>,
    /// The slot.
    pub slot: Slot,
    /// The node that this client would ask first.
    pub first: NodeId,
    /// The owner and its epoch; nobody owns an unassigned slot.
    pub owner: Option<(NodeId, Epoch)>,
    /// The nodes that own the slot, have it open or have the key, by id.
    pub nodes: Vec<KeyAt>,
}

impl<V: Value + ?Sized> Client<V> {
    /// Tells where a key belongs and where it is. Looks at each node that owns the slot, has it
    /// open or has had keys of it, under its token; changes nothing.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::Closed`], [`Error::Reentrant`].
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation, Error> {
        let key = self.key(key.as_ref())?;
        self.roster.expect_open()?;
        let look = |member: &crate::node::Member<V>| {
            let looked = member.peek(key.slot, |body| {
                let present = body.peek(&key, &self.roster.now()).is_some();
                (body.owned, crate::node::state_of(body), present)
            });
            let (owns, state, present) = looked;
            let worker = member.worker(key.slot).name().to_owned();
            KeyAt { node: member.id, state, owns, present, worker }
        };
        let nodes = self.roster.members().map(look);
        let involved = |at: &KeyAt| at.owns || at.present || at.state.is_open();
        let truth = self.roster.truth.get(key.slot);
        Ok(Explanation {
            key: key.bytes.into(),
            hashed: hash_tag(key.bytes).into(),
            slot: key.slot,
            first: self.first_node(key.slot),
            owner: truth.owner.map(|owner| (owner, truth.epoch)),
            nodes: nodes.filter(involved).collect(),
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, hashed) = (self.key.escape_ascii(), self.hashed.escape_ascii());
        writeln!(f, "key \"{key}\" hashes \"{hashed}\" to slot {}", self.slot)?;
        match self.owner {
            Some((owner, epoch)) => writeln!(f, "owner: {owner}, since epoch {epoch}")?,
            None => writeln!(f, "owner: nobody")?,
        }
        writeln!(f, "first asked: {}", self.first)?;
        for at in &self.nodes {
            let there = if at.present { "has the key" } else { "does not have the key" };
            let state = match at.state {
                SlotState::Stable => "stable".to_owned(),
                SlotState::Migrating { target, id } => {
                    format!("migrating to {target}, move {id}, with what is pulled there")
                }
                SlotState::Importing { source, id } => {
                    format!("importing from {source}, move {id}, and pulling from there")
                }
                SlotState::Aborting { target, id } => {
                    format!("taking keys back from {target}, move {id}")
                }
                SlotState::Retired { source, id } => {
                    format!("giving keys back to {source}, move {id}")
                }
                SlotState::Reserved { id } => format!("reserved, move {id}"),
            };
            writeln!(f, "{} ({}): {state}, {there}", at.node, at.worker)?;
        }
        Ok(())
    }
}
