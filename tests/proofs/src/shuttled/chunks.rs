//! Race: two words of one chunk change for the first time while somebody reads them.

use shuttle::thread;

use crate::sync::Arc;
use crate::sync::AtomicU64;
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::topology::Chunk;

/// What the two words are before they change.
const BEGAN: [u64; 2] = [5, 5];

/// What views do with a chunk.
trait Words: Send + Sync + 'static {
    fn word(&self, at: usize) -> u64;
    fn raise(&self, at: usize, news: u64);
}

impl Words for Chunk {
    fn word(&self, at: usize) -> u64 {
        self.word(at)
    }

    fn raise(&self, at: usize, news: u64) {
        Chunk::raise(self, at, news);
    }
}

/// No change is lost, no word is seen that nobody wrote, and none goes back.
pub fn first_changes_race_each_other() {
    nothing_is_lost(Chunk::of(&BEGAN));
}

/// The copy without a bug.
pub fn a_sound_copy() {
    nothing_is_lost(Planted::new(Bug::None));
}

/// Planted: of two threads that both make words, the later one puts its own in their place.
pub fn words_that_are_given_twice() {
    nothing_is_lost(Planted::new(Bug::GivenTwice));
}

/// Planted: the words are given before they are what the chunk began as.
pub fn words_that_are_given_empty() {
    nothing_is_lost(Planted::new(Bug::GivenEmpty));
}

fn nothing_is_lost(chunk: impl Words) {
    let chunk = Arc::new(chunk);
    let raisers = [0, 1].map(|at| {
        let chunk = Arc::clone(&chunk);
        thread::spawn(move || {
            for news in [6, 7] {
                chunk.raise(at, news);
                assert_eq!(chunk.word(at), news, "nobody else changes this word");
            }
        })
    });
    let reader = {
        let chunk = Arc::clone(&chunk);
        thread::spawn(move || {
            let mut seen = BEGAN;
            for at in [0, 1, 0, 1] {
                let word = chunk.word(at);
                assert!((seen[at]..=7).contains(&word), "a word went back");
                seen[at] = word;
            }
        })
    };
    for raiser in raisers {
        raiser.join().expect("raisers end");
    }
    reader.join().expect("the reader ends");
    assert_eq!([0, 1].map(|at| chunk.word(at)), [7, 7], "a change is lost");
}

#[derive(PartialEq)]
enum Bug {
    None,
    GivenTwice,
    GivenEmpty,
}

/// A chunk of two words with a bug.
struct Planted {
    words: Mutex<Option<Arc<[AtomicU64; 2]>>>,
    bug: Bug,
}

impl Planted {
    fn new(bug: Bug) -> Self {
        Self { words: Mutex::new(None), bug }
    }

    fn given(&self) -> Option<Arc<[AtomicU64; 2]>> {
        self.words.lock().clone()
    }

    fn words(&self) -> Arc<[AtomicU64; 2]> {
        if let Some(words) = self.given() {
            return words;
        }
        let began = if self.bug == Bug::GivenEmpty { [0; 2] } else { BEGAN };
        let made = Arc::new(began.map(AtomicU64::new));
        let mut words = self.words.lock();
        if self.bug == Bug::GivenTwice {
            *words = None;
        }
        let given = Arc::clone(words.get_or_insert(made));
        drop(words);
        if self.bug == Bug::GivenEmpty {
            for (word, began) in given.iter().zip(BEGAN) {
                word.fetch_max(began, Ordering::SeqCst);
            }
        }
        given
    }
}

impl Words for Planted {
    fn word(&self, at: usize) -> u64 {
        self.given().map_or(BEGAN[at], |words| words[at].load(Ordering::SeqCst))
    }

    fn raise(&self, at: usize, news: u64) {
        self.words()[at].fetch_max(news, Ordering::SeqCst);
    }
}
