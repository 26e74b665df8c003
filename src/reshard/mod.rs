//! Moves slots between nodes while they serve: plans, drivers, resharding.
//!
//! Built on public items only: whatever this does, users can do.

mod drive;
mod driver;
mod handover;
mod plan;
mod resume;
mod run;

pub use crate::topology::PlannedMove;
pub use drive::{Move, MoveStep};
pub use handover::Handover;
pub use plan::{PlanError, plan_drain, plan_join, plan_moves};
pub use resume::{Resume, resume};
pub use run::{MoveKind, Progress, Report, Reshard, ReshardError};
