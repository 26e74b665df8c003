//! The parts of a worker that are written by hand: the engine's own files.

#[path = "../../../../src/worker/alarm.rs"]
pub(crate) mod alarm;

#[expect(dead_code, reason = "the models do not count wake-ups")]
#[path = "../../../../src/worker/mailbox.rs"]
pub(crate) mod mailbox;

#[path = "../../../../src/worker/oneshot.rs"]
pub(crate) mod oneshot;
