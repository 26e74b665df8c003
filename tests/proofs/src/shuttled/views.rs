//! Race: claims of one slot arrive at one view from several threads.

use shuttle::thread;

use crate::slot::SLOT_COUNT;
use crate::slot::Slot;
use crate::sync::Arc;
use crate::sync::AtomicU64;
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::topology::Epoch;
use crate::topology::NodeId;
use crate::topology::SlotOwner;
use crate::topology::View;

const SLOT: Slot = Slot::MIN;

/// What nodes do with their view of a slot.
trait Known: Send + Sync + 'static {
    fn get(&self) -> SlotOwner;
    fn raise(&self, news: SlotOwner) -> SlotOwner;
    fn replace(&self, known: SlotOwner, news: SlotOwner) -> bool;
    /// Whether the count says that the slot is covered.
    fn is_covered(&self) -> bool;
}

/// Every other slot has an owner, so that the one in the race decides.
struct AllButOne(View);

impl Known for AllButOne {
    fn get(&self) -> SlotOwner {
        self.0.get(SLOT)
    }

    fn raise(&self, news: SlotOwner) -> SlotOwner {
        self.0.raise(SLOT, news)
    }

    fn replace(&self, known: SlotOwner, news: SlotOwner) -> bool {
        self.0.replace(SLOT, known, news)
    }

    fn is_covered(&self) -> bool {
        self.0.is_full()
    }
}

/// The greatest epoch stays, a reader never sees a smaller one after it, and the count is exact.
pub fn claims_race_each_other() {
    let began = |slot| if slot == SLOT { claim(None, 0) } else { claim(Some(3), 1) };
    let view = View::from_fn(began);
    the_greatest_epoch_wins(AllButOne(view));
}

/// The copy without a bug.
pub fn a_sound_copy() {
    the_greatest_epoch_wins(Planted::new(Bug::None));
}

/// Planted: a claim compares in one step and writes in the next one.
pub fn a_claim_in_two_steps() {
    the_greatest_epoch_wins(Planted::new(Bug::TwoSteps));
}

/// Planted: the count goes by what was known before, not by what was replaced.
pub fn a_count_by_an_earlier_look() {
    the_greatest_epoch_wins(Planted::new(Bug::CountsByEarlierLook));
}

fn claim(node: Option<usize>, epoch: u64) -> SlotOwner {
    SlotOwner::new(node.and_then(NodeId::new), Epoch::new(epoch))
}

fn the_greatest_epoch_wins(view: impl Known) {
    let view = Arc::new(view);
    // Nobody owns it at epochs 2 and 4; whoever gives up a slot claims that too.
    let claims = [[claim(Some(1), 1), claim(None, 4)], [claim(None, 2), claim(Some(0), 3)]];
    let raisers = claims.map(|claims| {
        let view = Arc::clone(&view);
        thread::spawn(move || {
            for news in claims {
                let before = view.raise(news);
                let after = view.get();
                assert!(after.epoch >= news.epoch.max(before.epoch), "a view went back");
            }
        })
    });
    let replacer = {
        let view = Arc::clone(&view);
        thread::spawn(move || {
            let known = view.get();
            let news = claim(Some(2), known.epoch.get() + 10);
            view.replace(known, news).then_some(news)
        })
    };
    for raiser in raisers {
        raiser.join().expect("raisers end");
    }
    let replaced = replacer.join().expect("the replacer ends");
    let end = view.get();
    assert_eq!(end, replaced.unwrap_or(claims[0][1]), "the greatest epoch stays");
    assert_eq!(view.is_covered(), end.owner.is_some(), "the count is exact");
    assert_eq!(SLOT_COUNT, 256, "the model has small views");
}

#[derive(PartialEq)]
enum Bug {
    None,
    TwoSteps,
    CountsByEarlierLook,
}

/// A view of one slot with a bug.
struct Planted {
    epoch: AtomicU64,
    claims: Mutex<Vec<SlotOwner>>,
    covered: AtomicU64,
    bug: Bug,
}

impl Planted {
    fn new(bug: Bug) -> Self {
        let claims = Mutex::new(vec![SlotOwner::default()]);
        Self { epoch: AtomicU64::new(0), claims, covered: AtomicU64::new(0), bug }
    }

    fn claim_of(&self, epoch: u64) -> SlotOwner {
        let claims = self.claims.lock();
        let known = claims.iter().find(|claim| claim.epoch.get() == epoch);
        *known.expect("who writes an epoch has written its claim")
    }

    fn count(&self, old: SlotOwner, new: SlotOwner) {
        let (old, new) = (u64::from(old.owner.is_some()), u64::from(new.owner.is_some()));
        self.covered.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
    }
}

impl Known for Planted {
    fn get(&self) -> SlotOwner {
        self.claim_of(self.epoch.load(Ordering::SeqCst))
    }

    fn raise(&self, news: SlotOwner) -> SlotOwner {
        self.claims.lock().push(news);
        let looked = self.get();
        let epoch = news.epoch.get();
        let old = if self.bug == Bug::TwoSteps {
            if looked.epoch < news.epoch {
                self.epoch.store(epoch, Ordering::SeqCst);
            }
            looked.epoch.get()
        } else {
            self.epoch.fetch_max(epoch, Ordering::SeqCst)
        };
        let replaced = self.claim_of(old);
        if old < epoch {
            let counted = if self.bug == Bug::CountsByEarlierLook { looked } else { replaced };
            self.count(counted, news);
        }
        replaced
    }

    fn replace(&self, known: SlotOwner, news: SlotOwner) -> bool {
        self.claims.lock().push(news);
        let (old, new) = (known.epoch.get(), news.epoch.get());
        let order = Ordering::SeqCst;
        let done = self.epoch.compare_exchange(old, new, order, order).is_ok();
        if done {
            self.count(known, news);
        }
        done
    }

    fn is_covered(&self) -> bool {
        self.covered.load(Ordering::Relaxed) == 1
    }
}
