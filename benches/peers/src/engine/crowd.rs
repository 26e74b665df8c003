//! Goal E8: how everybody fares with one client, four and eight; nothing is demanded.

use crate::clients::Way;
use crate::clients::contest;
use crate::engine::lab::Lab;
use crate::engine::table::RATES;
use crate::engine::table::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::report::Entry;

/// How many clients there are; two are measured elsewhere.
const CROWDS: [usize; 3] = [1, 4, 8];

/// A table for each crowd.
pub fn entries(lab: &Lab) -> Vec<Entry> {
    CROWDS.iter().map(|&clients| crowd(lab, clients)).collect()
}

fn crowd(lab: &Lab, clients: usize) -> Entry {
    let scripts = lab.scripts(clients, Picks::Uniform, Mix::writes(5));
    let contestants = lab.maps().contestants(&scripts, Way::Ready);
    let results = contest(lab.pace, clients, false, &contestants);
    let plural = if clients == 1 { "" } else { "s" };
    table("E8", format!("95/5, uniform, {clients} client{plural}"), &results, &RATES)
}
