//! The parts of a topology that several threads change: the engine's own files.

#[path = "../../../../src/topology/chunk.rs"]
mod chunk;
#[path = "../../../../src/topology/epoch.rs"]
mod epoch;
#[path = "../../../../src/topology/gate.rs"]
mod gate;
#[expect(dead_code, reason = "the models use a part of it")]
#[path = "../../../../src/topology/node_id.rs"]
mod node_id;
#[expect(dead_code, reason = "the models use a part of it")]
#[path = "../../../../src/topology/view.rs"]
mod view;

pub(crate) use chunk::Chunk;
pub(crate) use epoch::Epoch;
pub(crate) use gate::Gate;
pub(crate) use node_id::NodeId;
pub(crate) use view::SlotBits;
pub(crate) use view::SlotOwner;
pub(crate) use view::View;
