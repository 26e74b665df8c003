//! A caller's closure on another thread, without `'static`: the caller waits until it is gone.
#![expect(unsafe_code, reason = "the lifetime of a closure is erased while its caller waits")]

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::panic::resume_unwind;
use std::thread;

use crate::worker::oneshot::Sender;
use crate::worker::oneshot::oneshot;

/// A closure that waits in a mailbox.
pub(crate) struct Job(Box<dyn FnOnce() + Send>);

impl Job {
    /// Runs it.
    pub(crate) fn run(self) {
        (self.0)();
    }
}

/// A closure and the sender of its result, dropped in this order: when the caller hears that no
/// result comes, the closure is gone.
struct Task<F, R> {
    closure: F,
    sender: Sender<thread::Result<R>>,
}

/// Hands `closure` to `submit` as a job, and waits until it has run or was dropped; nothing in the
/// second case. A panic in the closure goes on in the caller.
pub(crate) fn run_scoped<F, R, E>(
    submit: impl FnOnce(Job) -> Result<(), E>,
    closure: F,
) -> Result<Option<R>, E>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let (sender, receiver) = oneshot();
    let task = Task { closure, sender };
    let boxed: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
        // The whole task is captured, not its fields one by one, for the order of dropping.
        let task = task;
        let result = catch_unwind(AssertUnwindSafe(task.closure));
        task.sender.send(result);
    });
    // SAFETY: only the lifetime changes. This function does not return or unwind before the
    // receiver has heard of the task's end: `submit` either keeps the job or drops it, both of
    // which end in the sender's `send` or `drop`, and by then the closure has run or was dropped.
    // What the sender still touches afterwards is its own counted slot, which the receiver has
    // emptied.
    let erased = unsafe {
        std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Box<dyn FnOnce() + Send + 'static>>(
            boxed,
        )
    };
    let submitted = catch_unwind(AssertUnwindSafe(|| submit(Job(erased))));
    let result = receiver.wait();
    match (submitted, result) {
        (Err(panic), _) | (Ok(Ok(())), Some(Err(panic))) => resume_unwind(panic),
        (Ok(Err(error)), _) => Err(error),
        (Ok(Ok(())), Some(Ok(value))) => Ok(Some(value)),
        (Ok(Ok(())), None) => Ok(None),
    }
}
