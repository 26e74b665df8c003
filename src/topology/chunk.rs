//! `Chunk`: words of neighbouring slots, which take room only once one of them has changed.

use crate::slot::SLOT_COUNT;
use crate::sync::Arc;
use crate::sync::AtomicU64;
use crate::sync::OnceLock;
use crate::sync::Ordering;

/// How many chunks a view has.
pub(crate) const CHUNKS: usize = 128;

/// How many words a chunk has.
pub(crate) const CHUNK_WORDS: usize = SLOT_COUNT as usize / CHUNKS;

/// The words of 128 neighbouring slots, each an atomic that several threads read and change.
///
/// As long as no word has changed, the chunk has what its words began as, which nobody changes:
/// one word for all in 32 bytes, or words that it shares with its copies. The first change gives
/// it words of its own, a KiB, and from then on only these count. A reader that does not find them
/// yet reads what they begin as: it came before their first change.
pub(crate) struct Chunk {
    began: Began,
    /// Given once. Of two threads that both want to, one makes them, and both change those.
    changing: OnceLock<Box<Changing>>,
}

/// Words that change.
struct Changing {
    words: [AtomicU64; CHUNK_WORDS],
    /// How many changes there were: raised after each.
    changes: AtomicU64,
}

/// What the words of a chunk are before the first of them changes.
enum Began {
    /// All the same.
    Same(u64),
    /// Each its own.
    Each(Arc<[u64; CHUNK_WORDS]>),
}

/// Where the words of a chunk were to be read at some instant. What is read there stays true of
/// that instant or is newer.
pub(crate) enum Look<'a> {
    Same(u64),
    Each(&'a [u64; CHUNK_WORDS]),
    Changing(&'a [AtomicU64; CHUNK_WORDS]),
}

impl Look<'_> {
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        match self {
            Self::Same(word) => *word,
            Self::Each(words) => words[at % CHUNK_WORDS],
            // Acquire pairs with the AcqRel of whoever changed the word.
            Self::Changing(words) => words[at % CHUNK_WORDS].load(Ordering::Acquire),
        }
    }
}

impl Chunk {
    /// A chunk of these words.
    pub(crate) fn of(words: &[u64; CHUNK_WORDS]) -> Self {
        let began = if words.iter().all(|&word| word == words[0]) {
            Began::Same(words[0])
        } else {
            Began::Each(Arc::new(*words))
        };
        Self { began, changing: OnceLock::new() }
    }

    /// A chunk of the same words, each as it is when it is read. What has never changed is shared.
    pub(crate) fn copy(&self) -> Self {
        let began = match (self.look(), &self.began) {
            (Look::Same(word), _) => Began::Same(word),
            (Look::Each(_), Began::Each(words)) => Began::Each(Arc::clone(words)),
            (look, _) => return Self::of(&std::array::from_fn(|at| look.word(at))),
        };
        Self { began, changing: OnceLock::new() }
    }

    /// Where the words are to be read now.
    ///
    /// Who is ordered after a change of a word finds the words, because they were given before it.
    #[inline]
    pub(crate) fn look(&self) -> Look<'_> {
        match (self.changing.get(), &self.began) {
            (Some(changing), _) => Look::Changing(&changing.words),
            (None, Began::Same(word)) => Look::Same(*word),
            (None, Began::Each(words)) => Look::Each(words),
        }
    }

    /// One word.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.look().word(at)
    }

    /// Raises a word to `news` if that is greater; returns what it was.
    pub(crate) fn raise(&self, at: usize, news: u64) -> u64 {
        let known = self.word(at);
        if known >= news {
            // That needs no words, and a load costs less than a locked write.
            return known;
        }
        let changing = self.changing();
        // AcqRel pairs with the Acquire of `Look::word`.
        let old = changing.words[at].fetch_max(news, Ordering::AcqRel);
        if old < news {
            changing.count();
        }
        old
    }

    /// Replaces the word `known` by `news` unless it is another one by now.
    pub(crate) fn replace(&self, at: usize, known: u64, news: u64) -> bool {
        let changing = self.changing();
        let (done, order) = (Ordering::AcqRel, Ordering::Acquire);
        // AcqRel pairs with the Acquire of `Look::word`.
        let done = changing.words[at].compare_exchange(known, news, done, order).is_ok();
        if done {
            changing.count();
        }
        done
    }

    fn changing(&self) -> &Changing {
        self.changing.get_or_init(|| {
            let look = self.look();
            let words = std::array::from_fn(|at| AtomicU64::new(look.word(at)));
            Box::new(Changing { words, changes: AtomicU64::new(0) })
        })
    }

    /// How many changes there were. Who reads words afterwards reads them with these changes, and
    /// as long as the count stays, no other change has been counted.
    pub(crate) fn changes(&self) -> u64 {
        // Acquire pairs with the Release of `Changing::count`.
        self.changing.get().map_or(0, |changing| changing.changes.load(Ordering::Acquire))
    }

    /// Whether both began as the same and neither has changed: a look that costs no word.
    pub(crate) fn is_as_untouched_as(&self, other: &Self) -> bool {
        match (self.look(), other.look()) {
            (Look::Same(mine), Look::Same(theirs)) => mine == theirs,
            (Look::Each(mine), Look::Each(theirs)) => std::ptr::eq(mine, theirs),
            (Look::Same(_) | Look::Each(_) | Look::Changing(_), _) => false,
        }
    }

    /// Whether the chunk has words of its own.
    #[cfg(test)]
    pub(crate) fn has_changed(&self) -> bool {
        self.changing.get().is_some()
    }
}

impl Changing {
    fn count(&self) {
        // Release pairs with the Acquire of `Chunk::changes`.
        self.changes.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_words_with_its_first_change_and_shares_what_it_was_before() {
        let each = std::array::from_fn(|at| at as u64);
        for began in [[7; CHUNK_WORDS], each] {
            let chunk = Chunk::of(&began);
            let copy = chunk.copy();
            assert!(chunk.is_as_untouched_as(&copy));
            assert_eq!((chunk.raise(5, 2), chunk.changes()), (began[5], 0), "no news");
            assert_eq!((chunk.raise(5, 9), chunk.changes()), (began[5], 1));
            assert!(chunk.has_changed() && !copy.has_changed());
            assert!(!chunk.is_as_untouched_as(&copy) && !copy.is_as_untouched_as(&chunk));
            for (at, before) in began.into_iter().enumerate() {
                assert_eq!(copy.word(at), before);
                let now = if at == 5 { 9 } else { before };
                assert_eq!((chunk.word(at), chunk.copy().word(at)), (now, now));
            }
        }
    }

    #[test]
    fn words_that_have_become_the_same_are_copied_as_one() {
        let chunk = Chunk::of(&[3; CHUNK_WORDS]);
        for at in 0..CHUNK_WORDS {
            assert!(!chunk.replace(at, 2, 4) && chunk.replace(at, 3, 4));
        }
        assert_eq!(chunk.changes(), CHUNK_WORDS as u64);
        assert!(chunk.copy().is_as_untouched_as(&Chunk::of(&[4; CHUNK_WORDS])));
    }

    #[test]
    fn an_unchanged_chunk_is_half_a_cache_line() {
        assert_eq!(size_of::<Chunk>(), 32);
    }
}
