//! Calls of several keys that a move splits.

use std::time::Duration;

use slotkeep::{Answer, Error};

use crate::setup::{Moving, traced, watched};

/// redis/redis#9526: what several keys of a moving slot answer, by where they are.
#[test]
fn keys_that_are_all_on_one_side_are_served_there() {
    let moving = Moving::new(6, 3);
    let (here, moved) = (moving.names_on(&moving.source), moving.names_on(&moving.target));
    let (values, asked, _) = traced(&moving.client, |client| client.mget(&here));
    assert!(values.unwrap().iter().all(Option::is_some));
    assert_eq!(asked, [0], "all here");
    let (values, asked, hops) = traced(&moving.client, |client| client.mget(&moved));
    assert!(values.unwrap().iter().all(Option::is_some));
    assert_eq!(asked, [0, 1], "all gone");
    assert!(matches!(hops[0].answer, Answer::Ask { .. }));
    let twice = ["{b}:absent", "{b}:absent"];
    let (values, asked, _) = traced(&moving.client, |client| client.mget(&twice));
    assert!(values.unwrap().iter().all(Option::is_none));
    assert_eq!(asked, [0, 1], "one key twice is one key");
}

/// redis/ioredis#204, #264, redisson/redisson#612: TRYAGAIN was fatal, or led to a refresh.
#[test]
fn split_keys_are_tried_again_a_few_times_and_touch_no_map() {
    let moving = Moving::new(2, 1);
    let before = moving.client.slot_map();
    let split = Error::TryAgain { slot: moving.slot };
    let mut runs = 0;
    assert_eq!(moving.client.mget(&moving.names).map(drop), Err(split));
    let tried = moving.cluster.counters().try_agains;
    assert_eq!(tried, u64::from(slotkeep::limits::TRY_AGAIN_RETRIES) + 1);
    let done = moving.client.transaction(&moving.names, |_| -> Result<(), ()> {
        runs += 1;
        Ok(())
    });
    assert_eq!((done, runs), (Err(split), 0));
    let entries = moving.names.iter().map(|name| (name, &b"new"[..]));
    assert_eq!(moving.client.mset(entries), Err(split));
    assert_eq!(moving.client.slot_map(), before);
    moving.check_all_visible();
}

/// The same reports: a client that waits gets its answer when the move ends.
#[test]
fn a_client_that_waits_is_served_when_the_move_ends() {
    watched(|| {
        let moving = Moving::new(2, 1);
        std::thread::scope(|scope| {
            let waiting = moving.client.waiting(Duration::from_secs(3600));
            let names = &moving.names;
            let call = scope.spawn(move || waiting.mget(names));
            while moving.cluster.counters().try_agains == 0 {
                std::thread::yield_now();
            }
            moving.finish();
            let values = call.join().expect("no panic").unwrap();
            assert!(values.iter().all(Option::is_some));
        });
    });
}
