//! Goal E13: what `Ownership::Strict` costs, where every operation hops to a worker and back.
//!
//! Over a tenth of the keys: a hop takes longer than any miss.

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
use crate::stores::Store;
use crate::stores::fill_many;

const CLIENTS: usize = 2;

/// One table.
pub fn entries(lab: &Lab) -> Vec<Entry> {
    let keys = lab.keys / 10;
    let steps: Vec<_> = (0..keys).map(Step::fill).collect();
    let [lent, strict] = [Ours::<[u8]>::new(), Ours::strict()];
    fill_many(&lent.client(), &steps);
    fill_many(&strict.client(), &steps);
    let scripts = lab.grouped_over(keys, CLIENTS, Picks::Uniform, Mix::writes(5));
    let contestants = [
        singles(names::OURS, &lent, &scripts, Way::Ready),
        singles("ours, strict", &strict, &scripts, Way::Ready),
        batches("ours, strict, by 8", &strict, &scripts, 8),
        batches("ours, strict, by 32", &strict, &scripts, 32),
    ];
    let results = contest(lab.pace, CLIENTS, false, &contestants);
    vec![table("E13", "95/5, uniform, strict ownership", &results, &RATES)]
}
