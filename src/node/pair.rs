//! Both tokens of one slot: the one place where a thread waits for a token while it holds one.

use crate::node::Member;
use crate::shard::Hold;
use crate::shard::Value;
use crate::slot::Slot;

/// The tokens of two nodes for one slot.
pub(crate) type Holds<'a, V> = (Hold<'a, V>, Hold<'a, V>);

/// Takes the tokens of two nodes for one slot, in node order, and returns them as they were asked.
///
/// # Panics
/// When both are the same node; callers refuse that before.
pub(crate) fn lock_pair<'a, V: Value + ?Sized>(
    one: &'a Member<V>,
    other: &'a Member<V>,
    slot: Slot,
) -> Holds<'a, V> {
    assert!(one.id != other.id, "a pair needs two nodes");
    if one.id < other.id {
        let first = one.headers.get(slot).lock();
        (first, other.headers.get(slot).lock())
    } else {
        let first = other.headers.get(slot).lock();
        (one.headers.get(slot).lock(), first)
    }
}

/// [`lock_pair`] that does not wait: nothing when one of the tokens is taken.
pub(crate) fn try_lock_pair<'a, V: Value + ?Sized>(
    one: &'a Member<V>,
    other: &'a Member<V>,
    slot: Slot,
) -> Option<Holds<'a, V>> {
    let first = one.headers.get(slot).try_lock()?;
    Some((first, other.headers.get(slot).try_lock()?))
}
