//! One reply: a sender that answers once, or says by being dropped that no answer comes.

use crate::sync::Arc;
use crate::sync::Condvar;
use crate::sync::Mutex;

struct Slot<R> {
    reply: Mutex<Reply<R>>,
    ready: Condvar,
}

enum Reply<R> {
    Pending,
    Sent(R),
    /// The sender is gone, or the reply was taken.
    Gone,
}

/// Answers once.
pub(crate) struct Sender<R>(Arc<Slot<R>>);

/// Waits for the answer.
pub(crate) struct Receiver<R>(Arc<Slot<R>>);

/// A pair of a sender and its receiver.
pub(crate) fn oneshot<R>() -> (Sender<R>, Receiver<R>) {
    let slot = Arc::new(Slot { reply: Mutex::new(Reply::Pending), ready: Condvar::new() });
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

impl<R> Sender<R> {
    /// Answers.
    pub(crate) fn send(self, reply: R) {
        *self.0.reply.lock() = Reply::Sent(reply);
        // Dropping the sender wakes the receiver.
    }
}

impl<R> Drop for Sender<R> {
    fn drop(&mut self) {
        let mut reply = self.0.reply.lock();
        if matches!(*reply, Reply::Pending) {
            *reply = Reply::Gone;
        }
        drop(reply);
        self.0.ready.notify_one();
    }
}

impl<R> Receiver<R> {
    /// Waits for the answer; nothing when the sender was dropped without one.
    pub(crate) fn wait(self) -> Option<R> {
        let mut reply = self.0.reply.lock();
        while matches!(*reply, Reply::Pending) {
            self.0.ready.wait(&mut reply);
        }
        match std::mem::replace(&mut *reply, Reply::Gone) {
            Reply::Sent(answer) => Some(answer),
            Reply::Pending | Reply::Gone => None,
        }
    }
}
