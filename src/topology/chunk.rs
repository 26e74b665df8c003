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
    /// Given once. Of two threads that both make them, one gives its own, and both change those.
    words: OnceLock<Box<[AtomicU64; CHUNK_WORDS]>>,
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
        Self { began, words: OnceLock::new() }
    }

    /// A chunk of the same words, each as it is when it is read. What has never changed is shared.
    pub(crate) fn copy(&self) -> Self {
        let began = match (self.look(), &self.began) {
            (Look::Same(word), _) => Began::Same(word),
            (Look::Each(_), Began::Each(words)) => Began::Each(Arc::clone(words)),
            (look, _) => return Self::of(&std::array::from_fn(|at| look.word(at))),
        };
        Self { began, words: OnceLock::new() }
    }

    /// Where the words are to be read now.
    ///
    /// Who is ordered after a change of a word finds the words, because they were given before it.
    #[inline]
    pub(crate) fn look(&self) -> Look<'_> {
        match (self.words.get(), &self.began) {
            (Some(words), _) => Look::Changing(words),
            (None, Began::Same(word)) => Look::Same(*word),
            (None, Began::Each(words)) => Look::Each(words),
        }
    }

    /// One word.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.look().word(at)
    }

    /// The words, to change one of them.
    pub(crate) fn words(&self) -> &[AtomicU64; CHUNK_WORDS] {
        self.words.get_or_init(|| {
            let look = self.look();
            Box::new(std::array::from_fn(|at| AtomicU64::new(look.word(at))))
        })
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
        self.words.get().is_some()
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
            chunk.words()[5].store(9, Ordering::Release);
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
        for word in chunk.words() {
            word.store(4, Ordering::Release);
        }
        assert!(chunk.copy().is_as_untouched_as(&Chunk::of(&[4; CHUNK_WORDS])));
    }

    #[test]
    fn an_unchanged_chunk_is_half_a_cache_line() {
        assert_eq!(size_of::<Chunk>(), 32);
    }
}
