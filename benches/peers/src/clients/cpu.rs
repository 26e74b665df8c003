//! The processor time of a thread, which does not run while others have the core.
#![expect(unsafe_code, reason = "only the system knows when a thread ran")]

use std::time::Duration;

/// What the calling thread has used up.
///
/// # Panics
/// The system has no such clock: Linux and macOS have.
pub fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of the right type, which lives until the call returns.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0, "a clock of the thread's processor time");
    let seconds = u64::try_from(time.tv_sec).expect("time goes forward");
    let nanos = u32::try_from(time.tv_nsec).expect("below a second");
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn work_uses_up_time() {
        let before = used();
        while used() == before {
            black_box((0..1000).sum::<u64>());
        }
        assert!(used() > before);
    }
}
