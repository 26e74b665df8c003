//! Goals E9 to E11: removes, values of changing size, and deadlines; nothing is demanded.

use std::sync::Arc;

use crate::clients::Way;
use crate::clients::contest;
use crate::clients::singles;
use crate::engine::lab::Lab;
use crate::engine::lab::names;
use crate::engine::table::RATES;
use crate::engine::table::table;
use crate::load::Mix;
use crate::load::Picks;
use crate::load::Sizes;
use crate::load::Step;
use crate::report::Entry;
use crate::stores::Moka;
use crate::stores::Ours;
use crate::stores::fill;

const CLIENTS: usize = 2;

/// Of a hundred steps five remove a key and write it again. Reads by the other client may miss it
/// in between.
pub fn removes(lab: &Lab) -> Vec<Entry> {
    let mix = Mix { renews: 5, ..Mix::READS };
    let scripts = lab.scripts(CLIENTS, Picks::Uniform, mix);
    let results = contest(lab.pace, CLIENTS, true, &lab.maps().contestants(&scripts, Way::Ready));
    vec![table("E9", "90 reads, 5 removes, 5 inserts, uniform", &results, &RATES)]
}

/// Written values are rarely as long as those that they replace, so none is overwritten in place.
pub fn sizes(lab: &Lab) -> Vec<Entry> {
    let changing = Mix { sizes: Sizes::Changing, ..Mix::writes(50) };
    let scripts = lab.scripts(CLIENTS, Picks::Uniform, changing);
    let results = contest(lab.pace, CLIENTS, false, &lab.maps().contestants(&scripts, Way::Ready));
    vec![table("E10", "50/50, uniform, changing sizes", &results, &RATES)]
}

/// Every entry has a deadline, an hour away: ours and moka can.
pub fn deadlines(lab: &Lab) -> Vec<Entry> {
    let ours = Ours::<[u8]>::expiring();
    let moka = Moka::<Arc<[u8]>>::expiring(lab.keys as usize);
    fill(&ours, (0..lab.keys).map(Step::fill));
    fill(&moka, (0..lab.keys).map(Step::fill));
    let scripts = lab.scripts(CLIENTS, Picks::Uniform, Mix::writes(20));
    let contestants = [
        singles("ours, no deadlines", &lab.maps().ours, &scripts, Way::Ready),
        singles(names::OURS, &ours, &scripts, Way::Ready),
        singles(names::MOKA, &moka, &scripts, Way::Ready),
    ];
    let results = contest(lab.pace, CLIENTS, false, &contestants);
    vec![table("E11", "80/20, uniform, with deadlines", &results, &RATES)]
}
