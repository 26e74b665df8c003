//! Moves slots between nodes while they serve: plans, drivers, resharding.
//!
//! Built on public items, but for a few that count retries, tell copies from keys, and pause.

mod check;
mod control;
mod diagnose;
mod drive;
mod driver;
mod fix;
#[cfg(test)]
mod half_done;
mod handover;
mod pace;
mod plan;
mod resume;
mod run;

use control::wait_out;

pub use crate::topology::PlannedMove;
pub use check::CheckReport;
pub use control::MoveControl;
pub use diagnose::Finding;
pub use drive::{Move, MoveStep};
pub use fix::{Fix, FixOptions, FixReport, FixStep, Repair, Uncovered};
pub use handover::Handover;
pub use pace::{Pace, PaceError};
pub use plan::{PlanError, plan_drain, plan_join, plan_moves};
pub use resume::{Resume, resume};
pub use run::{MoveKind, Progress, Report, Reshard, ReshardError};
