//! Goals 1 to 4: from realistic keys to slots, against the clients that do it today.

use slotkeep::SLOT_COUNT;
use slotkeep::Slot;
use slotkeep::crc16::Tier;

use crate::measure::Plan;
use crate::report::Bound::AtLeast;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::keys::KeySet;
use crate::slot::keys::Kind;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::rivals;
use crate::slot::work::Pace;
use crate::slot::work::Pace::Chained;
use crate::slot::work::Pace::Overlapping;

/// What is asked of both clients; Redis's own way is a line without a demand.
struct Asked {
    ids: [&'static str; 3],
    measure: &'static str,
    demand: Option<f64>,
    aim: f64,
}

/// Goal 1: keys of all kinds, calls that may overlap.
///
/// Which key has a tag is a branch. Over many passes in the same order the processor learns it, as
/// it learns the branches of the rivals. The lines without a demand show the first passes.
pub fn mixed(plan: Plan) -> Vec<Line> {
    let (ids, measure) = (["1a", "1b", "1c"], "slot, mixed keys");
    let learned = Asked { ids, measure, demand: Some(10.0), aim: 15.0 };
    let (ids, measure) = (["1d", "1e", "1f"], "slot, mixed keys, order not learned");
    let fresh = Asked { ids, measure, demand: None, aim: 10.0 };
    let mut lines = against_clients(plan.for_orders(), Kind::Mixed, Overlapping, &learned);
    lines.extend(against_clients(plan, Kind::Mixed, Overlapping, &fresh));
    lines
}

/// Goal 2: keys without a tag.
pub fn without_tag(plan: Plan) -> Vec<Line> {
    let (demand, aim) = (Some(20.0), 30.0);
    let uuids = Asked { ids: ["2a", "2b", "2c"], measure: "slot, UUIDs of 36 B", demand, aim };
    let sessions =
        Asked { ids: ["2d", "2e", "2f"], measure: "slot, sessions of 40 B", demand, aim };
    let mut lines = against_clients(plan, Kind::Uuid, Overlapping, &uuids);
    lines.extend(against_clients(plan, Kind::Session, Overlapping, &sessions));
    lines
}

/// Goal 3: keys with a tag, in throughput and in latency.
///
/// Both are demanded, and that one function has both is an aim: what `Slot::of` does has to have
/// the throughput, and some tier, asked for by name, the latency.
pub fn with_tag(plan: Plan) -> Vec<Line> {
    let (ids, measure) = (["3a", "3b", "3c"], "slot, tagged keys");
    let overlapping = Asked { ids, measure, demand: Some(1.8), aim: 3.0 };
    let (ids, measure) = (["3d", "3e", "3f"], "slot latency, tagged keys");
    let chained = Asked { ids, measure, demand: None, aim: 1.8 };
    let mut lines = against_clients(plan, Kind::Tag, Overlapping, &overlapping);
    lines.extend(against_clients(plan, Kind::Tag, Chained, &chained));
    lines.extend(tag_latency_of_tiers(plan));
    lines
}

/// The latency of tagged keys by the tier that is best at it, against each client.
fn tag_latency_of_tiers(plan: Plan) -> [Line; 2] {
    let clients = [rivals::REDIS_RS, rivals::FRED];
    let rounds = contest(plan, || {
        let keys = laid(laid(KeySet::of(Kind::Tag)).views());
        let tiers = Tier::available().map(|tier| {
            let slot = move |key: &[u8]| tier.crc16_of_tag(key) & (SLOT_COUNT - 1);
            Chained.over(tier.name(), keys, slot)
        });
        clients.map(|one| Chained.over(one.name, keys, one.of)).into_iter().chain(tiers).collect()
    });
    let best = rounds.best_after(clients.len());
    [(0, "3g"), (1, "3h")].map(|(client, id)| {
        let measure = format!("slot latency, tagged keys, tier {}", rounds.name(best));
        let goal = Goal::free(id, measure).demand(AtLeast(1.8)).aim(AtLeast(2.0));
        goal.judge(rounds.of(best), rounds.name(client), rounds.of(client))
    })
}

/// Goal 4: keys without a tag, each call waiting for the one before.
pub fn latency(plan: Plan) -> Vec<Line> {
    let asked = Asked {
        ids: ["4a", "4b", "4c"],
        measure: "slot latency, UUIDs",
        demand: Some(6.0),
        aim: 8.0,
    };
    against_clients(plan, Kind::Uuid, Chained, &asked)
}

/// One contest of ours, redis-rs, fred and Redis; a line for each of the others.
fn against_clients(plan: Plan, kind: Kind, pace: Pace, asked: &Asked) -> Vec<Line> {
    let others = [rivals::REDIS_RS, rivals::FRED, rivals::REDIS];
    let rounds = contest(plan, || {
        let keys = laid(laid(KeySet::of(kind)).views());
        let mut contestants = vec![pace.over("ours", keys, |key| Slot::of(key).number())];
        contestants.extend(others.map(|other| pace.over(other.name, keys, other.of)));
        contestants
    });
    let line = |(other, id): (usize, &'static str)| {
        let mut goal = Goal::free(id, asked.measure);
        if other < others.len() {
            goal.demand = asked.demand.map(AtLeast);
            goal.aim = Some(AtLeast(asked.aim));
        }
        goal.judge(rounds.of(0), rounds.name(other), rounds.of(other))
    };
    (1..).zip(asked.ids).map(line).collect()
}
