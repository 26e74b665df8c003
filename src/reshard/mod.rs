//! Moves slots between nodes while they serve: plans, drivers of single moves, resharding.
//!
//! Built on public items only: whatever this does, users can do.

mod drive;
mod plan;
mod run;

pub use crate::topology::PlannedMove;
pub use drive::{Move, MoveStep};
pub use plan::{PlanError, plan_drain, plan_join, plan_moves};
pub use run::{Progress, Report, Reshard, ReshardError, Resume, resume};
