//! Calls of several keys that a move splits.

use std::time::Duration;

use slotkeep::{Answer, Asking, Client, Compute, Error, Redirect, Semantics};

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
    let pull = Answer::Pull { source: moving.source.id(), target: moving.target.id() };
    assert_eq!(hops[0].answer, pull, "what is there already has no way to go");
    let (values, asked, hops) = traced(&as_redis(&moving), |client| client.mget(&moved));
    assert!(values.unwrap().iter().all(Option::is_some));
    assert_eq!(asked, [0, 1], "all gone, as in Redis");
    assert!(matches!(hops[0].answer, Answer::Ask { .. }));
    let twice = ["{b}:absent", "{b}:absent"];
    let (values, asked, _) = traced(&moving.client, |client| client.mget(&twice));
    assert!(values.unwrap().iter().all(Option::is_none));
    assert_eq!(asked, [0, 1], "one key twice is one key");
}

/// The same reports: TRYAGAIN left the caller with nothing to do but wait. Nobody has to.
#[test]
fn split_keys_are_pulled_together_and_served() {
    for verb in ["mget", "mset", "transaction", "remove_all"] {
        let moving = Moving::new(4, 2);
        let before = moving.client.slot_map();
        let (answer, asked, hops) = traced(&moving.client, |client| match verb {
            "mget" => client.mget(&moving.names).map(drop),
            "mset" => client.mset(moving.names.iter().map(|name| (name, name.as_bytes()))),
            "transaction" => client
                .transaction(&moving.names, |all| {
                    let found =
                        moving.names.iter().filter(|name| all.contains_key(name) == Ok(true));
                    assert_eq!(found.count(), 4);
                    Ok::<_, ()>(())
                })
                .map(drop),
            _ => client.remove_all(&moving.names).map(|count| assert_eq!(count, 4)),
        });
        assert_eq!(answer, Ok(()), "{verb}");
        assert_eq!(asked, [0, 1], "{verb}: {hops:?}");
        assert_eq!(moving.names_on(&moving.source).len(), 0, "{verb}: a pull leaves nothing");
        let record = moving.cluster.move_record(moving.id).expect("an open move");
        assert_eq!(record.keys_moved, 4, "{verb}: pulled keys count");
        let counters = moving.cluster.counters();
        assert_eq!((counters.pulls, counters.try_agains, counters.redirects), (1, 0, 0), "{verb}");
        assert_eq!(moving.client.slot_map(), before, "a pull teaches no map");
        if verb != "remove_all" {
            moving.check_all_visible();
        }
    }
}

/// The side that is asked makes no difference: with ASKING the target pulls the keys as well.
#[test]
fn the_target_pulls_what_it_is_asked_for_and_has_not() {
    let moving = Moving::new(4, 2);
    let at_target = moving.client.at(moving.target.id(), Asking::Move(moving.id)).unwrap();
    let (found, asked, hops) = traced(&at_target, |client| client.mget(&moving.names));
    assert!(found.unwrap().iter().all(Option::is_some));
    assert_eq!(asked, [1, 1], "{hops:?}");
    assert_eq!(moving.names_on(&moving.source).len(), 0);
    moving.check_all_visible();
    // Without ASKING it is none of its business.
    let unasked = moving.client.at(moving.target.id(), Asking::No).unwrap();
    let moved = Redirect::Moved { slot: moving.slot, owner: moving.source.id() };
    assert_eq!(unasked.mget(&moving.names).map(drop), Err(Error::Redirected(moved)));
}

/// A pull needs both tokens; who does not wait gets none of them.
#[test]
fn a_client_that_does_not_wait_is_told_that_a_token_of_a_pull_is_taken() {
    let moving = Moving::new(4, 2);
    for side in [&moving.source, &moving.target] {
        let held = moving.names_on(side)[0].clone();
        let pull = || moving.client.trying().mget(&moving.names).map(drop);
        let other = || std::thread::scope(|scope| scope.spawn(pull).join().expect("no panic"));
        let told = moving.client.compute(&held, |_| {
            assert_eq!(other(), Err(Error::Busy));
            Compute::Keep
        });
        assert!(told.is_ok());
    }
    assert_eq!(moving.names_on(&moving.source).len(), 2, "nothing was pulled");
    assert_eq!(moving.client.trying().mget(&moving.names).map(|found| found.len()), Ok(4));
}

/// A closure that runs on pulled keys holds up the target only.
#[test]
fn the_source_goes_on_while_a_closure_runs_on_pulled_keys() {
    let moving = Moving::new(4, 2);
    let (here, moved) = (moving.names_on(&moving.source), moving.names_on(&moving.target));
    let get = || moving.client.trying().get(&here[1]).map(|found| found.is_some());
    let other = || std::thread::scope(|scope| scope.spawn(get).join().expect("no panic"));
    let done = moving.client.transaction(&[&here[0], &moved[0]], |both| {
        assert_eq!(other(), Ok(true));
        both.set(&here[0], here[0].as_bytes())
    });
    assert_eq!(done, Ok(Ok(())));
    moving.check_all_visible();
}

/// redis/ioredis#204, #264, redisson/redisson#612: TRYAGAIN was fatal, or led to a refresh.
#[test]
fn as_in_redis_split_keys_are_tried_again_a_few_times_and_touch_no_map() {
    let moving = Moving::new(2, 1);
    let client = as_redis(&moving);
    let before = client.slot_map();
    let split = Error::TryAgain { slot: moving.slot };
    let mut runs = 0;
    assert_eq!(client.mget(&moving.names).map(drop), Err(split));
    let tried = moving.cluster.counters().try_agains;
    assert_eq!(tried, u64::from(slotkeep::limits::TRY_AGAIN_RETRIES) + 1);
    let done = client.transaction(&moving.names, |_| -> Result<(), ()> {
        runs += 1;
        Ok(())
    });
    assert_eq!((done, runs), (Err(split), 0));
    let entries = moving.names.iter().map(|name| (name, &b"new"[..]));
    assert_eq!(client.mset(entries), Err(split));
    assert_eq!(client.slot_map(), before);
    moving.check_all_visible();
}

/// The same reports: a client that waits gets its answer when the move ends.
#[test]
fn as_in_redis_a_client_that_waits_is_served_when_the_move_ends() {
    watched(|| {
        let moving = Moving::new(2, 1);
        std::thread::scope(|scope| {
            let waiting = as_redis(&moving).waiting(Duration::from_secs(3600));
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

/// Batches are pipelines then: key by key, with no TRYAGAIN.
#[test]
fn as_in_redis_a_batch_over_split_keys_goes_key_by_key() {
    let moving = Moving::new(4, 2);
    let client = as_redis(&moving);
    let (found, asked, hops) = traced(&client, |client| client.get_many(&moving.names));
    assert!(found.unwrap().iter().all(Option::is_some));
    assert_eq!(asked.len(), 6, "two of four keys are asked for twice: {hops:?}");
    client.set_many(moving.names.iter().map(|name| (name, name.as_bytes()))).unwrap();
    moving.check_all_visible();
    assert_eq!(client.remove_many(&moving.names), Ok(4));
    assert_eq!(moving.cluster.counters().pulls, 0);
}

fn as_redis(moving: &Moving) -> Client {
    moving.client.with_semantics(Semantics::Redis)
}
