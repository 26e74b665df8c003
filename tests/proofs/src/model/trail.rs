//! What a run did: a hash of every line, and the last lines as text.

use std::collections::VecDeque;

/// How many lines a failure shows.
const LINES_KEPT: usize = 60;

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[derive(Debug)]
pub(super) struct Trail {
    hash: u64,
    step: u32,
    lines: VecDeque<String>,
}

impl Default for Trail {
    fn default() -> Self {
        Self { hash: FNV_BASIS, step: 0, lines: VecDeque::new() }
    }
}

impl Trail {
    pub(super) fn begin_step(&mut self) {
        self.step += 1;
    }

    pub(super) fn note(&mut self, what: &str) {
        for &byte in what.as_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if self.lines.len() == LINES_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{}: {what}", self.step));
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn into_last_steps(self) -> (u32, Vec<String>) {
        (self.step, self.lines.into())
    }
}
