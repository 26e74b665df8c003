//! Goals 16 and 17: what the search for braces costs, and what a key at the edge of a page costs.

use slotkeep::Slot;
use slotkeep::crc16::Tier;

use crate::measure::Plan;
use crate::report::Bound::AtMost;
use crate::report::Goal;
use crate::report::Line;
use crate::slot::keys::Run;
use crate::slot::pages::Island;
use crate::slot::places::contest;
use crate::slot::places::laid;
use crate::slot::work::calls;
use crate::slot::work::repeated;

/// Goal 16: the checksum of the tag against the checksum, where there is no brace.
pub fn brace_check(plan: Plan) -> Vec<Line> {
    let tier = Tier::active();
    let goals = [("16a", 16), ("16b", 36)];
    let line = |(id, len)| {
        let rounds = contest(plan, || {
            let keys = laid(laid(Run::of(len)).views());
            vec![
                calls("crc16_of_tag", keys, move |key| tier.crc16_of_tag(key)),
                calls("crc16", keys, move |key| tier.crc16(key)),
            ]
        });
        let goal = Goal::free(id, format!("crc16_of_tag of {len} B, no brace"));
        goal.demand(AtMost(1.2)).judge(rounds.of(0), rounds.name(1), rounds.of(1))
    };
    goals.map(line).into()
}

/// Goal 17: a key that begins or ends where an unreadable page does.
pub fn pages(plan: Plan) -> Vec<Line> {
    vec![
        worst_edge(plan, ("17a", "start"), |bytes, len| &bytes[..len]),
        worst_edge(plan, ("17b", "end"), |bytes, len| &bytes[bytes.len() - len..]),
    ]
}

/// The length that pays most for its place.
fn worst_edge(
    plan: Plan,
    (id, place): (&'static str, &str),
    edge: fn(&[u8], usize) -> &[u8],
) -> Line {
    let lines = [1, 7, 16, 24, 36, 48, 64].map(|len| {
        let rounds = contest(plan, || {
            let bytes = laid(Island::new().expect("the system maps a few pages")).bytes();
            let middle = &bytes[bytes.len() / 2 + 2048..][..len];
            vec![
                repeated("edge", edge(bytes, len), |key| Slot::of(key).number()),
                repeated("mid-page", middle, |key| Slot::of(key).number()),
            ]
        });
        let text = format!("slot at the {place} of a page, worst: {len} B");
        let goal = Goal::free(id, text).demand(AtMost(1.5));
        goal.judge(rounds.of(0), rounds.name(1), rounds.of(1))
    });
    Line::worst(lines.into())
}
