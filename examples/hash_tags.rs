//! Hash tags: keys that are used together share a slot, because only what is in braces is hashed.
#![expect(clippy::panic_in_result_fn, reason = "an example asserts what it prints")]

use slotkeep::{Cluster, Error, Slot, hash_tag};

/// Prints which bytes of a key are hashed and which slot they give.
fn show(cluster: &Cluster, key: &str) -> Result<Slot, Error> {
    let owner = cluster.client().owner_of(key)?;
    let hashed = hash_tag(key.as_bytes()).escape_ascii().to_string();
    println!("{key:<22} hashes {hashed:<20} to slot {} of {}", owner.slot, owner.node);
    Ok(owner.slot)
}

fn main() -> Result<(), Error> {
    let cluster = Cluster::builder().nodes(3).build()?;
    let client = cluster.client();

    println!("an exam's paper and roster, with the exam as their tag:");
    let tagged = ["{exam:ECON-201}:paper", "{exam:ECON-201}:roster"];
    for key in tagged {
        assert_eq!(show(&cluster, key)?.number(), 2567);
    }
    client.mset([(tagged[0], &b"ten questions"[..]), (tagged[1], b"Ada, Grace")])?;
    let both = client.mget(&tagged)?;
    assert_eq!(both[1].as_deref(), Some(&b"Ada, Grace"[..]));
    println!("mset and mget take both keys at one instant\n");

    println!("the same keys without a tag:");
    let plain = ["exam:ECON-201:paper", "exam:ECON-201:roster"];
    assert_eq!(show(&cluster, plain[0])?.number(), 2234);
    assert_eq!(show(&cluster, plain[1])?.number(), 5214);
    let [paper, roster] = plain.map(|key| client.owner_of(key).map(|owner| owner.node));
    assert_eq!(paper?, roster?);
    let refused = client.mset(plain.map(|key| (key, &b"new"[..])));
    assert_eq!(refused, Err(Error::CrossSlot));
    println!("one node, two slots, and mset answers:\n{}", Error::CrossSlot.redis_text());
    assert_eq!(client.mget(&plain).err(), Some(Error::CrossSlot));

    client.set_many(plain.map(|key| (key, &b"new"[..])))?;
    assert!(client.get_many(&plain)?.iter().all(|value| value.as_deref() == Some(b"new")));
    println!("set_many and get_many take keys of any slots, at one instant slot by slot only");
    Ok(())
}
