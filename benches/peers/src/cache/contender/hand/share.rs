//! The window's share of the room, which what comes back decides.

/// The share to begin with, the least and the most.
const FIRST: f64 = 0.05;
const LEAST: f64 = 0.01;
const MOST: f64 = 0.6;

/// How far chance alone moves the share while as many keys come back as there are entries.
const WALK: f64 = 1.0 / 32.0;

/// The share, from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    part: f64,
    step: f64,
}

impl Share {
    /// The share to begin with, in a room for so many entries.
    #[expect(clippy::cast_precision_loss, reason = "a guess")]
    pub fn new(entries: usize) -> Self {
        Self { part: FIRST, step: WALK / (entries as f64).sqrt() }
    }

    /// A key came back that the window has just lost.
    pub fn grow(&mut self) {
        self.part = (self.part + self.step).min(MOST);
    }

    /// A key came back that main has just lost.
    pub fn shrink(&mut self) {
        self.part = (self.part - self.step).max(LEAST);
    }

    /// Whether a window of this weight has more than its share of the room.
    #[expect(clippy::cast_precision_loss, reason = "weights below 2^52")]
    pub fn is_exceeded(self, window: u64, room: u64) -> bool {
        window as f64 > self.part * room as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_goes_to_its_ends_and_no_further() {
        let mut share = Share::new(100);
        assert_eq!([5, 6].map(|window| share.is_exceeded(window, 100)), [false, true]);
        (0..1000).for_each(|_| share.grow());
        assert_eq!([60, 61].map(|window| share.is_exceeded(window, 100)), [false, true]);
        (0..1000).for_each(|_| share.shrink());
        assert_eq!([1, 2].map(|window| share.is_exceeded(window, 100)), [false, true]);
    }
}
