//! Serve, pull, MOVED, ASK, TRYAGAIN, CROSSSLOT or CLUSTERDOWN, from facts alone.

use crate::migration::MoveId;
use crate::migration::SlotState;
use crate::topology::NodeId;

/// The slots that a request's keys hash to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// No key anywhere.
    NoKeys,
    /// All keys in one slot.
    OneSlot,
    /// Keys in different slots.
    ManySlots,
}

/// What a request is to the router.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Reads only.
    Read,
    /// May write.
    Write,
    /// MIGRATE, which an open slot lets pass.
    Migrate,
    /// Sharded publish or subscribe; its channels hash like keys but are never present.
    ShardedPubSub,
}

/// The owner of the slot, as this node sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// Nobody.
    None,
    /// This node.
    Me,
    /// Another node.
    Other(NodeId),
}

/// Whether this node's cluster state is ok, and what may pass while it is not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClusterHealth {
    /// Every request is routed.
    Ok,
    /// The cluster is down.
    Down {
        /// Reads pass all the same (`cluster-allow-reads-when-down`).
        reads_allowed: bool,
        /// Sharded pub/sub passes (`cluster-allow-pubsubshard-when-down`).
        pubsub_allowed: bool,
    },
}

/// How many of a request's keys are here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Presence {
    /// Key arguments that are absent here; a logically expired key is absent.
    pub missing: usize,
    /// Key arguments that are present here.
    pub present: usize,
    /// Whether at least two keys differ in a byte.
    pub multi: bool,
}

/// What becomes of a request with several keys, not all of which are on the side of a move that it
/// asks.
///
/// The first one is named after all in which its answers differ from those of Redis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Semantics {
    /// The keys are pulled to the target of the move, and the request is served there.
    #[default]
    Pull,
    /// As in Redis: TRYAGAIN or ASK, until the move has gone on.
    Redis,
}

/// Everything the decision depends on, but for the presence of keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, as the specification has them"
)]
pub struct Facts {
    /// This node.
    pub node: NodeId,
    /// What becomes of keys that a move splits.
    pub semantics: Semantics,
    /// The slots of the request's keys.
    pub request: Request,
    /// What the request is.
    pub kind: Kind,
    /// The owner of the slot in this node's view.
    pub owner: Owner,
    /// This node's cluster state.
    pub health: ClusterHealth,
    /// This node's mark on the slot.
    pub state: SlotState,
    /// The request carries ASKING for the move that is open here.
    pub asking: bool,
    /// This node is a replica of the slot's owner.
    pub replica_of_owner: bool,
    /// The connection accepts reads from a replica (READONLY).
    pub readonly: bool,
    /// Keys of the slot are being trimmed after an atomic move.
    pub trimming: bool,
}

/// Why the cluster does not serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Down {
    /// The slot has no owner.
    SlotNotServed,
    /// The cluster is down.
    Cluster,
    /// The cluster is down and the request may write.
    ReadOnly,
}

/// Where a request belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Route {
    /// Run it here.
    Serve,
    /// Run it here, once the keys that are missing were pulled back from the target of a move that
    /// is being aborted.
    PullBack {
        /// The target of the aborted move.
        target: NodeId,
        /// The move.
        id: MoveId,
    },
    /// Run it on the target of the move, once the keys that are at the source were pulled there.
    Pull {
        /// The source of the move.
        source: NodeId,
        /// The target of the move.
        target: NodeId,
        /// The move.
        id: MoveId,
    },
    /// Ask the target of the move once, with ASKING.
    Ask {
        /// The target of the move.
        target: NodeId,
        /// The move, which ASKING has to name.
        id: MoveId,
    },
    /// The slot belongs to another node.
    Moved {
        /// The owner.
        owner: NodeId,
    },
    /// The keys are split between the two sides of a move.
    TryAgain,
    /// The slot is being trimmed.
    Trimming,
    /// The keys hash to different slots.
    CrossSlot,
    /// The cluster does not serve the request.
    ClusterDown(Down),
}

/// Decides where a request belongs: the first row that applies.
///
/// | row | when | outcome |
/// |---|---|---|
/// | 1 | no key | serve |
/// | 2 | keys in different slots | CROSSSLOT |
/// | 3 | the slot has no owner | CLUSTERDOWN, not served |
/// | 4-6 | the cluster is down and the request may not pass | CLUSTERDOWN |
/// | 7 | an open slot, and MIGRATE | serve |
/// | 8 | as in Redis; migrating, some keys here and some not | TRYAGAIN |
/// | own | migrating, several keys, some not here | pull |
/// | 9 | migrating, no key here | ASK |
/// | 10 | as in Redis; importing, ASKING, several keys, some not here | TRYAGAIN |
/// | own | importing, ASKING, several keys, some not here | pull |
/// | 11 | importing, ASKING | serve |
/// | 12 | a replica of the owner, READONLY, and no write | serve |
/// | 13 | mine, a write, and the slot is being trimmed | TRYAGAIN |
/// | 14 | mine | serve |
/// | 15 | otherwise | MOVED |
///
/// Rows 8 and 10 are those of [`Semantics::Redis`], and the two that pull of [`Semantics::Pull`].
/// Of our own is one row more, before 8: a source that aborts a move pulls back what is missing.
/// `presence` is asked at most once, and only when the slot is open here.
pub fn route(facts: &Facts, presence: impl FnOnce() -> Presence) -> Route {
    match facts.request {
        Request::NoKeys => return Route::Serve,
        Request::ManySlots => return Route::CrossSlot,
        Request::OneSlot => {}
    }
    if facts.owner == Owner::None {
        return Route::ClusterDown(Down::SlotNotServed);
    }
    if let Some(down) = refused_while_down(facts) {
        return Route::ClusterDown(down);
    }
    if let Some(outcome) = route_open_slot(facts, presence) {
        return outcome;
    }
    route_closed_slot(facts)
}

fn refused_while_down(facts: &Facts) -> Option<Down> {
    let ClusterHealth::Down { reads_allowed, pubsub_allowed } = facts.health else {
        return None;
    };
    match facts.kind {
        Kind::ShardedPubSub => (!pubsub_allowed).then_some(Down::Cluster),
        _ if !reads_allowed => Some(Down::Cluster),
        Kind::Read => None,
        Kind::Write | Kind::Migrate => Some(Down::ReadOnly),
    }
}

/// Rows 7 to 11, and our own.
fn route_open_slot(facts: &Facts, presence: impl FnOnce() -> Presence) -> Option<Route> {
    let mine = facts.owner == Owner::Me;
    let pulls = facts.semantics == Semantics::Pull;
    match facts.state {
        SlotState::Migrating { target, id } if mine => match facts.kind {
            Kind::Migrate => Some(Route::Serve),
            Kind::ShardedPubSub => None,
            Kind::Read | Kind::Write => match presence() {
                Presence { missing: 0, .. } => None,
                Presence { multi: true, .. } if pulls => {
                    Some(Route::Pull { source: facts.node, target, id })
                }
                Presence { present: 0, .. } => Some(Route::Ask { target, id }),
                Presence { .. } => Some(Route::TryAgain),
            },
        },
        SlotState::Aborting { target, id } if mine => match facts.kind {
            Kind::Migrate => Some(Route::Serve),
            Kind::ShardedPubSub => None,
            Kind::Read | Kind::Write => {
                (presence().missing > 0).then_some(Route::PullBack { target, id })
            }
        },
        SlotState::Importing { source, id } => match facts.kind {
            Kind::Migrate => Some(Route::Serve),
            _ if !facts.asking => None,
            Kind::ShardedPubSub => Some(Route::Serve),
            Kind::Read | Kind::Write => Some(match presence() {
                Presence { missing: 0, .. } | Presence { multi: false, .. } => Route::Serve,
                Presence { .. } if pulls => Route::Pull { source, target: facts.node, id },
                Presence { .. } => Route::TryAgain,
            }),
        },
        SlotState::Stable
        | SlotState::Migrating { .. }
        | SlotState::Aborting { .. }
        | SlotState::Retired { .. }
        | SlotState::Reserved { .. } => None,
    }
}

/// Rows 12 to 15.
fn route_closed_slot(facts: &Facts) -> Route {
    let writes = matches!(facts.kind, Kind::Write | Kind::Migrate);
    let reads_replica = facts.readonly || facts.kind == Kind::ShardedPubSub;
    if facts.replica_of_owner && !writes && reads_replica {
        return Route::Serve;
    }
    match facts.owner {
        Owner::Me if writes && facts.trimming => Route::Trimming,
        Owner::Me => Route::Serve,
        Owner::Other(owner) => Route::Moved { owner },
        Owner::None => Route::ClusterDown(Down::SlotNotServed),
    }
}
