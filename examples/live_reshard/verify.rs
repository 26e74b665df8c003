//! After the traffic: every acknowledged write is there, and every key is on one node.

use crate::Run;
use crate::ledger::Ledger;

/// Reads every key, then walks every node.
pub fn verify(run: &Run, caller: usize) {
    let mark = run.watchdog.mark(caller);
    let client = run.cluster.client();
    let ledger = &run.ledger;
    let mut expected = Vec::with_capacity(ledger.keys.len());
    for (key, name) in ledger.keys.names() {
        mark.begin(run.clock.uptime());
        let answer = client.get(name);
        mark.end();
        match answer {
            Ok(value) => {
                check(ledger, key, value.as_deref());
                expected.push(u32::from(value.is_some()));
            }
            Err(error) => {
                ledger.findings.unanswered(|| format!("verifying: {error}"));
                expected.push(1);
            }
        }
    }
    if let Err(error) = walk(run, &expected) {
        ledger.findings.unanswered(|| format!("walking the nodes: {error}"));
    }
}

/// Every write was acknowledged, so that one version is right, or, after an error, one of two.
fn check(ledger: &Ledger, key: u32, value: Option<&[u8]>) {
    let floor = ledger.floor(key);
    if ledger.version(key, floor, value).is_some() {
        return;
    }
    ledger.findings.lost(|| {
        let name = ledger.keys.name(key).escape_ascii();
        let found = ledger.script(key).describe(value);
        format!("key {name}: found {found} instead of version {floor}")
    });
}

/// Counts the copies of each key on all nodes: one for each key that a client reads, else none.
fn walk(run: &Run, expected: &[u32]) -> Result<(), slotkeep::Error> {
    let (keys, findings) = (&run.ledger.keys, &run.ledger.findings);
    let mut copies = vec![0_u32; keys.len()];
    for node in run.cluster.nodes() {
        for (slot, count) in node.stored_slots()? {
            for name in node.keys_in_slot(slot, count)? {
                match keys.index_of(&name) {
                    Some(key) => copies[key as usize] += 1,
                    None => findings.duplicated(|| {
                        format!("{} has {}, which nobody wrote", node.id(), name.escape_ascii())
                    }),
                }
            }
        }
    }
    for ((key, name), (&copies, &expected)) in keys.names().zip(copies.iter().zip(expected)) {
        for _ in expected..copies {
            findings.duplicated(|| format!("key {key}, {}, once more", name.escape_ascii()));
        }
        if copies < expected {
            findings.lost(|| format!("key {key}, {}, is on no node", name.escape_ascii()));
        }
    }
    Ok(())
}
