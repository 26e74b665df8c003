//! Shutdown from inside a closure under a token: it cannot wait for a worker that waits for that
//! token.

use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use slotkeep::{Client, Cluster, Compute};

type Tested = Result<(), Box<dyn Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_secs(20);

/// How often the closure gives way, so that the worker comes to wait for the token.
const YIELDS: u32 = 10_000;

/// Runs on the shard's worker: says that it runs, and asks for the key whose token is taken.
fn ask_on_worker(client: &Client, key: &str, running: &mpsc::Sender<()>) -> Tested {
    let asked = client.run_on_owner(key, || {
        running.send(())?;
        // Whether it is served or the cluster is closed by then is not the question here.
        drop(client.get(key));
        Ok(())
    });
    asked.unwrap_or(Ok(()))
}

fn shut_down_under_a_token(key: &str) -> Tested {
    let cluster = Cluster::builder().workers_per_node(1).build()?;
    let client = cluster.client();
    let (taken, takes) = mpsc::channel();
    let (running, runs) = mpsc::channel();
    thread::scope(|scope| {
        let (client, cluster) = (&client, &cluster);
        let asker = scope.spawn(move || {
            takes.recv_timeout(PATIENCE)?;
            ask_on_worker(client, key, &running)
        });
        client.compute(key, move |_| {
            taken.send(()).expect("the asker waits");
            runs.recv_timeout(PATIENCE).expect("the worker runs the asker's closure");
            (0..YIELDS).for_each(|_| thread::yield_now());
            cluster.shutdown();
            Compute::Keep
        })?;
        asker.join().unwrap_or_else(|_| Err("the asker panicked".into()))
    })?;
    match client.get(key) {
        Err(slotkeep::Error::Closed) => Ok(()),
        answer => Err(format!("the cluster is closed, but answers {answer:?}").into()),
    }
}

#[test]
fn shutdown_under_a_token_waits_for_nobody() -> Tested {
    let (done, ended) = mpsc::channel();
    thread::Builder::new().spawn(move || done.send(shut_down_under_a_token("k")))?;
    ended.recv_timeout(PATIENCE).map_err(|_| "shutdown waits for a worker that waits for it")?
}
