//! What handles keep of entries that are gone is told apart.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use slotkeep::reshard::Reshard;
use slotkeep::{Cache, Cluster, Error, Handle, Policy, pinned_bytes};

/// A head, a key of five bytes and a value of 100.
const ENTRY_BYTES: usize = 24 + 5 + 100;

type Tested = Result<(), Box<dyn std::error::Error>>;

/// What an entry takes that a handle keeps.
fn entry_bytes(handle: &Handle<[u8]>) -> usize {
    24 + Handle::key(handle).len() + handle.len()
}

/// The count is one for the whole process: a test that looks at it is alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock();
    assert_eq!(pinned_bytes(), 0);
    alone
}

/// What is pinned by handles to `key:0` when its entry has gone in some way.
#[track_caller]
fn check(goes: impl FnOnce(Cache<[u8]>) -> Option<Cache<[u8]>>) {
    let _alone = alone();
    let cache = Cache::<[u8]>::builder().capacity(2).policy(Policy::AllKeysRandom).build();
    let cache = cache.expect("a thread for its worker");
    cache.insert("key:0", &[7; 100]).expect("room for it");
    let handle = cache.get("key:0").expect("a call").expect("it is there");
    let other = handle.clone();
    assert_eq!(pinned_bytes(), 0, "what is in the cache is not pinned");
    let left = goes(cache);
    assert_eq!(pinned_bytes(), ENTRY_BYTES);
    drop(handle);
    assert_eq!((pinned_bytes(), &*other), (ENTRY_BYTES, &[7; 100][..]));
    drop(other);
    assert_eq!(pinned_bytes(), 0);
    drop(left);
    assert_eq!(pinned_bytes(), 0);
}

#[test]
fn what_was_removed_replaced_evicted_or_cleared_is_pinned_once_until_the_last_handle_goes() {
    check(|cache| {
        drop(cache.remove("key:0").expect("a call"));
        Some(cache)
    });
    check(|cache| {
        cache.insert("key:0", b"another").expect("room for it");
        Some(cache)
    });
    check(|cache| {
        for number in 1..100 {
            cache.insert(format!("key:{number}"), b"v").expect("room is made");
        }
        assert!(!cache.contains_key("key:0").expect("a call"));
        Some(cache)
    });
    check(|cache| {
        cache.clear().expect("a call");
        Some(cache)
    });
    check(|cache| {
        drop(cache);
        None
    });
}

#[test]
fn what_moves_or_expires_later_is_not_pinned() -> Tested {
    let _alone = alone();
    let cluster = Cluster::builder().nodes(2).build()?;
    let client = cluster.client();
    let keys: Vec<String> = (0..1_000).map(|number| format!("key:{number}")).collect();
    keys.iter().try_for_each(|key| client.set(key, b"value"))?;
    let handles: Vec<_> = keys.iter().map(|key| client.get(key)).collect::<Result<_, Error>>()?;
    let target = cluster.add_node()?;
    Reshard::of(&cluster).join(target.id())?.run()?;
    client.expire(&keys[0], Duration::from_secs(60))?;
    assert_eq!(pinned_bytes(), 0);
    drop((client, cluster, target));
    assert_eq!(pinned_bytes(), handles.iter().flatten().map(entry_bytes).sum::<usize>());
    drop(handles);
    assert_eq!(pinned_bytes(), 0);
    Ok(())
}

#[test]
fn nothing_stays_pinned_however_writers_and_readers_meet() {
    let _alone = alone();
    let cache = Cache::<[u8]>::new(8);
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let cache = &cache;
            scope.spawn(move || {
                let mut kept = Vec::new();
                for round in 0..20_000_u32 {
                    let key = [u8::try_from(round * 7 % 16).expect("below 16")];
                    if round % 4 == u32::from(thread) {
                        cache.insert(key, &[thread; 48]).expect("room is made");
                    } else {
                        kept.extend(cache.get(key).expect("a call"));
                    }
                    if kept.len() == 5 {
                        kept.clear();
                    }
                }
            });
        }
    });
    assert_eq!(pinned_bytes(), 0);
}
