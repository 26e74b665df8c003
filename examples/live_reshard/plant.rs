//! Planted faults: each breaks the run by means of the public API, behind the ledger's back, and
//! has to be found under its own name.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use slotkeep::{Cluster, Compute, MigrateOptions, SetSlot};

use crate::ledger::Ledger;
use crate::load::Load;
use crate::script::Write;

/// Which count is not to be 0 at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Plant {
    /// A key is removed after the traffic.
    Lost,
    /// An older value is written back while the traffic runs, and read.
    Stale,
    /// A key is copied to a second node.
    Duplicated,
    /// A closure holds a key longer than the watchdog allows, while a reader waits for it.
    Unanswered,
}

/// How long a planted closure holds its key if nobody notices.
const HELD_MAX: Duration = Duration::from_secs(5);

impl Plant {
    /// How long a call may take: the planted closure is not to hold the run up for seconds.
    pub fn patience(plant: Option<Self>) -> Duration {
        match plant {
            Some(Self::Unanswered) => Duration::from_millis(250),
            Some(Self::Lost | Self::Stale | Self::Duplicated) | None => Duration::from_secs(5),
        }
    }

    /// What is planted after the traffic, before everything is verified.
    ///
    /// # Errors
    /// What the engine refused.
    pub fn after_traffic(self, cluster: &Cluster, ledger: &Ledger) -> Result<(), slotkeep::Error> {
        let mut due = ledger.keys.names().filter(|&(key, _)| ledger.is_due(key));
        let Some((_, name)) = due.next() else {
            eprintln!("no key is there: nothing to plant");
            return Ok(());
        };
        match self {
            Self::Lost => cluster.client().remove(name).map(drop),
            Self::Duplicated => copy_to_second_node(cluster, name),
            Self::Stale | Self::Unanswered => Ok(()),
        }
    }
}

fn copy_to_second_node(cluster: &Cluster, name: &[u8]) -> Result<(), slotkeep::Error> {
    let at = cluster.client().owner_of(name)?;
    let (owners, others): (Vec<_>, Vec<_>) =
        cluster.nodes().into_iter().partition(|node| node.id() == at.node);
    let (Some(owner), Some(other)) = (owners.first(), others.first()) else { return Ok(()) };
    other.set_slot(at.slot, SetSlot::Importing { source: owner.id() })?;
    owner.copy_keys(&[name], other.id(), MigrateOptions::default())?;
    Ok(())
}

impl Load<'_> {
    /// Writes the version before the acknowledged one back, reads it, and sets it right again, so
    /// that it is not lost in the end.
    pub fn plant_stale(&mut self) {
        let (key, ledger) = (0, self.ledger);
        let script = ledger.script(key);
        let is_set = |version| matches!(script.write(version), Write::Set(_));
        // Three plain values in a row: the older, the acknowledged, and the one that mends it.
        while !(0..3).all(|ahead| is_set(ledger.floor(key) + ahead)) {
            self.write(key);
        }
        self.write(key);
        let older = script.content(ledger.floor(key) - 1).unwrap_or_default();
        if self.run.cluster.client().set(ledger.keys.name(key), &older).is_ok() {
            self.read(key);
        }
        self.write(key);
    }

    /// Holds a key under a closure until the watchdog has noticed that this thread waits for it.
    pub fn plant_unanswered(&mut self) {
        let key = 0;
        let (ledger, client, clock) = (self.ledger, self.client.clone(), &self.run.clock);
        let ends = clock.uptime() + HELD_MAX;
        thread::scope(|scope| {
            let (held, is_held) = mpsc::channel();
            let hold = move || {
                client.compute(ledger.keys.name(key), move |_| {
                    // The reader is gone only if it has panicked.
                    held.send(()).ok();
                    while ledger.findings.counts()[3] == 0 && clock.uptime() < ends {
                        thread::park_timeout(Duration::from_millis(10));
                    }
                    Compute::Keep
                })
            };
            let holder = thread::Builder::new().name("holder".to_owned()).spawn_scoped(scope, hold);
            if holder.is_ok() && is_held.recv_timeout(HELD_MAX).is_ok() {
                self.read(key);
            }
        });
    }
}
