//! Who owns which slot: node ids, epochs, a node's view, the map that clients read, move gates.

mod chunk;
mod epoch;
mod followed;
mod gate;
mod map;
mod node_id;
mod planned;
mod view;

pub use epoch::Epoch;
pub use map::SlotMap;
pub use node_id::NodeId;
pub use planned::PlannedMove;
pub use view::SlotOwner;

pub(crate) use followed::Followed;
pub(crate) use gate::{Gate, GatePass};
pub(crate) use view::{SlotBits, View};
