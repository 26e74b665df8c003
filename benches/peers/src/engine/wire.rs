//! Goal E14: a redis-server on the loopback interface, call by call and in pipelines.

use crate::clients::Way;
use crate::clients::batches;
use crate::clients::contest;
use crate::clients::singles;
use crate::engine::lab::Lab;
use crate::engine::lab::names;
use crate::engine::table::RATES;
use crate::engine::table::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::load::Step;
use crate::report::Entry;
use crate::stores::Ours;
use crate::stores::Redis;
use crate::stores::Server;
use crate::stores::Store;
use crate::stores::fill_many;

const CLIENTS: usize = 2;

/// One table, if there is a server. It tells no processor time: a client that waits has none.
pub fn entries(lab: &Lab) -> Vec<Entry> {
    let server = match Server::start() {
        Ok(server) => server,
        Err(error) => return vec![skip(format!("redis-server does not start: {error}"))],
    };
    let version = match server.version() {
        Ok(version) => version,
        Err(error) => return vec![skip(format!("redis-server does not answer: {error}"))],
    };
    let keys = lab.keys / 10;
    let steps: Vec<_> = (0..keys).map(Step::fill).collect();
    let (ours, redis) = (Ours::<[u8]>::new(), Redis(&server));
    fill_many(&ours.client(), &steps);
    fill_many(&redis.client(), &steps);
    let scripts = lab.grouped_over(keys, CLIENTS, Picks::Uniform, Mix::writes(5));
    let contestants = [
        singles(names::OURS, &ours, &scripts, Way::Ready),
        batches("ours, by 32", &ours, &scripts, 32),
        singles("Redis", &redis, &scripts, Way::Ready),
        batches("Redis, pipelines of 32", &redis, &scripts, 32),
    ];
    let results = contest(lab.pace, CLIENTS, false, &contestants);
    let title = format!("95/5, uniform, Redis {version} on loopback");
    vec![table("E14", title, &results, &RATES[..1])]
}

fn skip(reason: String) -> Entry {
    Entry::Skip { id: "E14", reason }
}
