//! Redirects, slots that nobody serves, keys of different slots.

use slotkeep::{Answer, Cluster, Compute, Error, Semantics, SetSlot, Slot, SlotRange};

use crate::setup::{Moving, id, open, redirect_count, slot, three_nodes, traced};

/// redis/jedis#716, antirez/redis-rb-cluster#1: ASK was taken for news about the owner.
#[test]
fn after_an_ask_the_next_call_starts_at_the_source_again() {
    let moving = Moving::new(10, 5);
    let before = moving.client.slot_map();
    for (moved, kept) in moving.names_on(&moving.target).iter().zip(moving.names_on(&moving.source))
    {
        let (value, asked, _) = traced(&moving.client, |client| client.get(moved));
        assert_eq!(value.unwrap().as_deref(), Some(moved.as_bytes()));
        assert_eq!(asked, [0, 1]);
        let (value, asked, _) = traced(&moving.client, |client| client.get(&kept));
        assert_eq!(value.unwrap().as_deref(), Some(kept.as_bytes()));
        assert_eq!(asked, [0]);
    }
    assert_eq!(moving.client.slot_map(), before);
}

/// RedisLabs/redis-cluster-proxy#52: ASK led to a refresh, the same map, and the same ASK.
#[test]
fn a_key_that_has_moved_costs_one_ask_however_often_it_is_read() {
    let moving = Moving::new(3, 3);
    for round in 0..50 {
        let name = &moving.names[round % 3];
        let (value, asked, hops) = traced(&moving.client, |client| client.get(name));
        assert!(value.unwrap().is_some());
        assert_eq!(asked, [0, 1], "round {round}");
        assert_eq!(hops[1].asking, Some(moving.id));
    }
    assert_eq!(moving.cluster.redirect_count(), 50);
}

/// redis/redis#3203, #6757: one ASKING was assumed to cover a whole pipeline.
/// redis/lettuce#321, antirez/redis-rb-cluster#4: ASK surfaced as an error of a batch.
#[test]
fn as_in_redis_a_batch_over_a_moving_slot_is_followed_key_by_key() {
    let moving = Moving::new(20, 10);
    let mut names = moving.names.clone();
    names.extend((0..20).map(|number| format!("elsewhere:{number}")));
    let as_redis = moving.client.with_semantics(Semantics::Redis);
    let (set, _, _) = traced(&as_redis, |client| {
        client.set_many(names.iter().map(|name| (name, name.as_bytes())))
    });
    set.unwrap();
    let (values, _, hops) = traced(&as_redis, |client| client.get_many(&names));
    for (name, value) in names.iter().zip(values.unwrap()) {
        assert_eq!(value.as_deref(), Some(name.as_bytes()));
    }
    let at_target = hops.iter().filter(|hop| hop.slot == moving.slot && hop.node == id(1));
    for hop in at_target.clone() {
        assert_eq!(hop.asking, Some(moving.id), "each has an ASKING of its own");
        assert_eq!(hop.answer, Answer::Served);
    }
    assert!(at_target.count() > 0);
    assert_eq!(as_redis.remove_many(&names), Ok(40));
    assert_eq!(moving.client.len(), Ok(0));
}

/// The same reports: our batches need no ASKING, since the keys of a moving slot stay together.
#[test]
fn a_batch_over_a_moving_slot_pulls_its_keys_together() {
    let moving = Moving::new(20, 10);
    let mut names = moving.names.clone();
    names.extend((0..20).map(|number| format!("elsewhere:{number}")));
    let entries = names.iter().map(|name| (name, name.as_bytes()));
    let (set, _, hops) = traced(&moving.client, |client| client.set_many(entries));
    set.unwrap();
    let (source, target) = (moving.source.id(), moving.target.id());
    let of_slot: Vec<_> = hops.iter().filter(|hop| hop.slot == moving.slot).collect();
    let answers: Vec<_> = of_slot.iter().map(|hop| (hop.node, hop.answer)).collect();
    assert_eq!(answers, [(source, Answer::Pull { source, target }), (target, Answer::Served)]);
    let values = moving.client.get_many(&names).unwrap();
    for (name, value) in names.iter().zip(values) {
        assert_eq!(value.as_deref(), Some(name.as_bytes()));
    }
    assert_eq!(moving.names_on(&moving.source).len(), 0);
    assert_eq!(moving.client.remove_many(&names), Ok(40));
    assert_eq!(moving.client.len(), Ok(0));
}

/// redis/go-redis#3909, redis/rueidis#704: after a redirect a transaction ran in pieces.
#[test]
fn a_transaction_is_redirected_whole_and_runs_once() {
    let moving = Moving::new(3, 3);
    let mut runs = 0;
    let (done, asked, _) = traced(&moving.client, |client| {
        client.transaction(&moving.names, |keys| {
            runs += 1;
            moving.names.iter().try_for_each(|name| keys.set(name, b"new"))
        })
    });
    assert_eq!(done.unwrap(), Ok(()));
    assert_eq!((runs, asked), (1, vec![0, 1]));
    for name in &moving.names {
        assert_eq!(moving.client.get(name).unwrap().as_deref(), Some(&b"new"[..]));
    }
}

/// redis/ioredis#2135, #1766, redis-rs/redis-rs#413: a call went in circles without an end, and
/// without saying where.
#[test]
fn a_call_with_a_stale_map_is_bounded_and_the_error_of_a_circle_names_everything() {
    let cluster = Cluster::builder().nodes(8).workers_per_node(1).build().unwrap();
    let stale = cluster.client();
    let nodes = cluster.nodes();
    for pair in nodes.windows(2) {
        open(&pair[0], &pair[1], Slot::MIN);
        let owner = SetSlot::Node { owner: pair[1].id() };
        pair[1].set_slot(Slot::MIN, owner).unwrap();
    }
    let (done, asked, hops) = traced(&stale, |client| client.set("la2", b"v"));
    done.unwrap();
    assert_eq!(asked.last(), Some(&7));
    assert_eq!(redirect_count(&hops), 1, "the first node knows where the slot is by now");
    let circle = Error::TooManyRedirects { slot: slot(7), from: id(1), to: id(2), redirects: 17 };
    assert_eq!(circle.to_string(), "17 redirects for slot 7, the last from node 1 to node 2");
}

/// redis/redis#4075: the second key of a call was not looked at.
#[test]
fn keys_of_two_slots_are_refused_before_any_node_is_asked() {
    let empty = Cluster::builder().unassigned().build().unwrap();
    for (cluster, keys) in [
        (three_nodes(), ["b", "f"]),
        (three_nodes(), ["b", "{a}"]),
        (Cluster::builder().build().unwrap(), ["la2", "gue"]),
        (empty, ["la2", "gue"]),
    ] {
        let client = cluster.client();
        let entries = || keys.map(|key| (key, &b"v"[..]));
        let ((), asked, _) = traced(&client, |client| {
            assert_eq!(client.mget(&keys).map(drop), Err(Error::CrossSlot));
            assert_eq!(client.mset(entries()), Err(Error::CrossSlot));
            assert_eq!(client.remove_all(&keys), Err(Error::CrossSlot));
            let never = client.transaction(&keys, |_| -> Result<(), ()> { panic!("it ran") });
            assert_eq!(never, Err(Error::CrossSlot));
        });
        assert!(asked.is_empty(), "{asked:?}");
    }
    let text = "CROSSSLOT Keys in request don't hash to the same slot";
    assert_eq!(Error::CrossSlot.redis_text(), text);
}

/// Two of three ranges have an owner.
fn two_of_three_ranges() -> Cluster {
    let builder = Cluster::builder().nodes(3).workers_per_node(1).unassigned();
    let cluster = builder.build().unwrap();
    for (node, text) in cluster.nodes().iter().zip(["0-5460", "5461-10922"]) {
        node.add_slot_ranges(&[text.parse::<SlotRange>().unwrap()]).unwrap();
    }
    cluster
}

/// redis/redis#3044, redis/redis-py#1845, redis/rueidis#55: missing slots made clients refuse the
/// healthy ones, or panic.
#[test]
fn slots_without_owner_harm_no_others_unless_full_coverage_is_wanted() {
    let cluster = two_of_three_ranges();
    let client = cluster.client();
    let text = |key: &str| client.get(key).unwrap_err().redis_text();
    for key in ["b", "{42}"] {
        assert_eq!(text(key), "CLUSTERDOWN The cluster is down", "{key}");
    }
    assert_eq!(text("{a}"), "CLUSTERDOWN Hash slot not served");
    cluster.nodes().iter().for_each(|node| node.set_full_coverage(false));
    for key in ["b", "{42}"] {
        client.set(key, b"v").unwrap();
        assert!(client.get(key).unwrap().is_some());
    }
    assert_eq!(text("{a}"), "CLUSTERDOWN Hash slot not served");
}

/// The same reports: nothing that a client can be asked panics over a slot without an owner.
#[test]
fn every_question_about_a_slot_without_owner_has_an_answer() {
    for cluster in [
        two_of_three_ranges(),
        Cluster::builder().nodes(2).workers_per_node(1).unassigned().build().unwrap(),
    ] {
        let client = cluster.client();
        assert_eq!(client.owner_of("{a}").unwrap().slot, Slot::of("{a}"));
        let explained = client.explain("{a}").unwrap();
        assert_eq!((explained.owner, explained.nodes.len()), (None, 0));
        assert!(explained.to_string().contains("owner: nobody"));
        assert!(client.entries_of_slot(Slot::of("{a}")).unwrap().is_empty());
        assert_eq!(client.len(), Ok(0));
        assert_eq!(client.iter().count(), 0);
        assert_eq!(client.clear(), Ok(0));
        let served = |done: Result<(), Error>| matches!(done, Err(Error::ClusterDown { .. }));
        assert!(served(client.get_many(&["{a}", "b"]).map(drop)));
        assert!(served(client.mset([("{a}", &b"v"[..])])));
        assert!(served(client.incr("{a}", 1).map(drop)));
        assert!(served(client.compute("{a}", |_| Compute::Remove).map(drop)));
        assert!(served(client.with_own_map().remove("{a}").map(drop)));
    }
}
