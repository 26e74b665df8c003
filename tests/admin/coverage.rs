//! The state of the cluster: full coverage, and reads while it is down.

use slotkeep::{Cluster, ClusterState, Error, Node, Slot};

use crate::setup::{KEY, OTHER, assigned, slots, two, unassigned};

/// The first of two nodes loses slot 0; what each node says to a call afterwards.
fn uncovered() -> (Cluster, Vec<Node>) {
    let (cluster, nodes) = assigned(2);
    cluster.client().set(KEY, b"v").unwrap();
    nodes[0].del_slots(&slots([0])).unwrap();
    (cluster, nodes)
}

const DOWN: &str = "CLUSTERDOWN The cluster is down";
const NOT_SERVED: &str = "CLUSTERDOWN Hash slot not served";
const READ_ONLY: &str = "CLUSTERDOWN The cluster is down and only accepts read commands";

#[track_caller]
fn check_down<T>(done: Result<T, impl Into<Error>>, text: &str) {
    match done.map_err(Into::into) {
        Ok(_) => panic!("served, though {text}"),
        Err(error) => assert_eq!(error.redis_text(), text),
    }
}

#[test]
fn one_slot_without_owner_takes_the_cluster_down_until_it_has_one() {
    let (cluster, nodes) = uncovered();
    let client = cluster.client();
    for node in &nodes {
        assert_eq!(node.cluster_state(), ClusterState::Fail, "{}", node.id());
    }
    check_down(client.get(KEY), DOWN);
    check_down(client.set(KEY, b"w"), DOWN);
    check_down(client.get("{a}"), DOWN);
    check_down(client.get("la2"), NOT_SERVED);
    nodes[1].add_slots(&slots([0])).unwrap();
    assert_eq!(nodes[0].cluster_state(), ClusterState::Ok);
    assert_eq!(client.get(KEY).unwrap().as_deref(), Some(&b"v"[..]));
    assert!(client.get("la2").unwrap().is_none());
}

#[test]
fn without_full_coverage_what_is_owned_is_served() {
    let (cluster, nodes) = uncovered();
    let client = cluster.client();
    for node in &nodes {
        node.set_full_coverage(false);
    }
    assert_eq!(nodes[0].cluster_state(), ClusterState::Ok);
    assert!(client.get(KEY).unwrap().is_some());
    client.set("{a}", b"v").unwrap();
    check_down(client.get("la2"), NOT_SERVED);
    check_down(client.set("la2", b"v"), NOT_SERVED);
    nodes[0].set_full_coverage(true);
    check_down(client.get(KEY), DOWN);
    assert!(client.get("{a}").unwrap().is_some(), "the switch is each node's own");
}

#[test]
fn reads_pass_a_node_that_is_down_if_they_may() {
    let (cluster, nodes) = uncovered();
    let client = cluster.client();
    for node in &nodes {
        node.set_reads_when_down(true);
    }
    assert!(client.get(KEY).unwrap().is_some());
    assert_eq!(client.mget(&[KEY, OTHER]).unwrap().len(), 2);
    check_down(client.set(KEY, b"w"), READ_ONLY);
    check_down(client.remove(KEY), READ_ONLY);
    check_down(client.get("la2"), NOT_SERVED);
    assert_eq!(client.get(KEY).unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_refused_write_says_that_the_cluster_is_down() {
    let (cluster, _nodes) = uncovered();
    let refused = cluster.client().set(KEY, b"mine").unwrap_err();
    assert_eq!(refused.error.redis_text(), DOWN);
}

#[test]
fn an_empty_cluster_serves_no_slot_and_says_so() {
    let (cluster, _nodes) = unassigned(3);
    let client = cluster.client();
    check_down(client.get(KEY), NOT_SERVED);
    check_down(client.set(KEY, b"v"), NOT_SERVED);
    check_down(client.mget(&[KEY, OTHER]), NOT_SERVED);
    assert_eq!(client.len(), Ok(0));
    cluster.node(two()).unwrap().add_slots(&[Slot::of(KEY)]).unwrap();
    client.set(KEY, b"v").unwrap();
}
