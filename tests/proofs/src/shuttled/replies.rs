//! Race: a worker answers, or drops the job, while its caller begins to wait.

use shuttle::thread;

use crate::sync::Arc;
use crate::sync::Condvar;
use crate::sync::Mutex;

use super::worker::oneshot::oneshot;

/// Answers, or is dropped without an answer.
type Answer = Box<dyn FnOnce(Option<u64>) + Send>;
/// Waits for one of both.
type Wait = Box<dyn FnOnce() -> Option<u64> + Send>;

/// A reply is never lost, and a dropped sender is always heard.
pub fn an_answer_races_the_wait() {
    answered_or_dropped(|| {
        let (sender, receiver) = oneshot();
        let answer = move |value| match value {
            Some(value) => sender.send(value),
            None => drop(sender),
        };
        (Box::new(answer), Box::new(move || receiver.wait()))
    });
}

/// The copy without a bug.
pub fn a_sound_copy() {
    answered_or_dropped(|| planted(true, false));
}

/// Planted: the receiver looks in one hold and waits in the next one.
pub fn a_wait_that_does_not_look_again() {
    answered_or_dropped(|| planted(true, true));
}

/// Planted: the sender wakes the receiver before it says that it is gone.
pub fn a_wake_up_before_the_news() {
    answered_or_dropped(|| planted(false, false));
}

/// Two callers at once: one is answered, one is not.
fn answered_or_dropped(pair: fn() -> (Answer, Wait)) {
    let callers = [Some(7), None].map(|value| {
        let (answer, wait) = pair();
        let worker = thread::spawn(move || answer(value));
        let caller = thread::spawn(wait);
        (value, worker, caller)
    });
    for (value, worker, caller) in callers {
        worker.join().expect("the worker ends");
        assert_eq!(caller.join().expect("the caller ends"), value);
    }
}

/// What is known of the answer: nothing, or what the sender said.
type Known = (Mutex<Option<Option<u64>>>, Condvar);

fn planted(news_first: bool, looks_in_another_hold: bool) -> (Answer, Wait) {
    let sender: Arc<Known> = Arc::new((Mutex::new(None), Condvar::new()));
    let receiver = Arc::clone(&sender);
    let answer = move |value| {
        let (known, ready) = &*sender;
        if !news_first {
            ready.notify_one();
        }
        *known.lock() = Some(value);
        if news_first {
            ready.notify_one();
        }
    };
    let wait = move || {
        let (known, ready) = &*receiver;
        let mut guard = known.lock();
        if looks_in_another_hold && guard.is_none() {
            drop(guard);
            guard = known.lock();
            ready.wait(&mut guard);
        }
        while guard.is_none() {
            ready.wait(&mut guard);
        }
        guard.take().flatten()
    };
    (Box::new(answer), Box::new(wait))
}
