//! Three nodes in one process: write a value, read it, ask who owns it.
#![expect(clippy::panic_in_result_fn, reason = "an example asserts what it prints")]

use slotkeep::Cluster;

fn main() -> Result<(), slotkeep::Error> {
    let cluster = Cluster::builder().nodes(3).build()?;
    let client = cluster.client();
    client.set("user:1000", b"Ada")?;
    let name = client.get("user:1000")?;
    assert_eq!(name.as_deref(), Some(&b"Ada"[..]));
    let owner = client.owner_of("user:1000")?;
    println!("user:1000 is Ada, in slot {} of {}", owner.slot, owner.node);
    Ok(())
}
