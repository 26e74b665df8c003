//! `route` agrees with the written table, `data/routing.txt`, on every combination of facts.

use std::cell::Cell;

use slotkeep::migration::{
    ClusterHealth, Down, Facts, Kind, Owner, Presence, Request, Route, Semantics, route,
};
use slotkeep::{MoveId, NodeId, SlotState};

const TABLE: &str = include_str!("data/routing.txt");

/// The columns between the row's number and its outcome, and the words of each.
const COLUMNS: [(&str, &[&str]); 12] = [
    ("slots", &["none", "one", "many"]),
    ("kind", &["read", "write", "migrate", "pubsub"]),
    ("health", &["ok", "nothing", "reads", "pubsub", "both"]),
    ("owner", &["nobody", "me", "other"]),
    ("state", &["stable", "migrating", "importing", "aborting", "retired", "reserved"]),
    ("here", &["none", "some", "all"]),
    ("keys", &["same", "different"]),
    ("asking", &["no", "yes"]),
    ("replica", &["no", "yes"]),
    ("readonly", &["no", "yes"]),
    ("trimming", &["no", "yes"]),
    ("as", &["pull", "redis"]),
];

/// The cell `*`. No column has eight words, so no list of words makes this set.
const ANY: u8 = u8::MAX;

/// The move that is open in every state but stable.
const MOVE: MoveId = MoveId::new(77);

/// For each column a set of words, one bit a word.
type Cells = [u8; COLUMNS.len()];

/// One row of the table.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    line: usize,
    cells: Cells,
    outcome: Route,
}

/// One combination of everything that a decision may depend on.
#[derive(Clone, Copy, Debug)]
struct Combination {
    facts: Facts,
    presence: Presence,
    /// The same in the words of the table: one word for each column.
    words: Cells,
}

#[test]
fn every_combination_is_routed_by_its_first_row() {
    let (rows, all) = (table(), combinations());
    if let Some(disagreement) = disagreement(&rows, &all) {
        panic!("{disagreement}");
    }
    println!("routing: {} combinations, {} rows", all.len(), rows.len());
}

#[test]
fn every_word_of_every_column_is_tried() {
    let mut tried = Cells::default();
    for combination in combinations() {
        add(&mut tried, &combination.words);
    }
    for ((column, words), tried) in COLUMNS.iter().zip(tried) {
        assert_eq!(tried.count_ones() as usize, words.len(), "column {column}: {words:?}");
    }
}

#[test]
fn every_row_and_every_word_in_it_decides_a_combination() {
    let rows = table();
    for (row, combinations) in rows.iter().zip(decided_by(&rows)) {
        assert!(!combinations.is_empty(), "decides nothing: {row:?}");
        let mut decided = Cells::default();
        for combination in &combinations {
            add(&mut decided, &combination.words);
        }
        for ((column, words), (cell, decided)) in COLUMNS.iter().zip(row.cells.iter().zip(decided))
        {
            let idle = cell & !decided;
            assert!(
                *cell == ANY || idle == 0,
                "line {}: some of {words:?} in column {column} decides nothing: {idle:#b}",
                row.line,
            );
        }
    }
    for (word, outcome) in outcomes() {
        assert!(rows.iter().any(|row| row.outcome == outcome), "no row ends in {word}");
    }
}

#[test]
fn presence_is_asked_at_most_once_and_only_of_an_open_slot() {
    for Combination { facts, presence, .. } in combinations() {
        let asked = Cell::new(0);
        route(&facts, || {
            asked.set(asked.get() + 1);
            presence
        });
        let has_keys = matches!(facts.kind, Kind::Read | Kind::Write);
        let may_ask = facts.request == Request::OneSlot && facts.state.is_open() && has_keys;
        assert!(asked.get() <= u32::from(may_ask), "asked {} times: {facts:?}", asked.get());
    }
}

#[test]
fn a_retired_or_reserved_importer_is_routed_as_if_it_did_not_import() {
    for Combination { facts, presence, .. } in combinations() {
        if matches!(facts.state, SlotState::Retired { .. } | SlotState::Reserved { .. }) {
            let idle = Facts { state: SlotState::Stable, ..facts };
            let outcome = route(&facts, || panic!("presence is asked: {facts:?}"));
            assert_eq!(outcome, route(&idle, || presence), "{facts:?}");
        }
    }
}

#[test]
fn every_wrong_outcome_is_noticed() {
    let rows = table();
    for (index, decided) in decided_by(&rows).iter().enumerate() {
        for (word, outcome) in outcomes() {
            let mut changed = rows.clone();
            changed[index].outcome = outcome;
            let noticed = disagreement(&changed, decided).is_some();
            let is_wrong = outcome != rows[index].outcome;
            assert_eq!(noticed, is_wrong, "row {} with {word}", rows[index].name);
        }
    }
}

#[test]
fn every_missing_row_is_noticed() {
    let rows = table();
    for (index, decided) in decided_by(&rows).iter().enumerate() {
        let mut changed = rows.clone();
        let row = changed.remove(index);
        assert!(disagreement(&changed, decided).is_some(), "without {row:?}");
    }
}

/// A swap matters where the second row applies to what the first decides, with another outcome.
#[test]
fn every_swap_of_adjacent_rows_that_matters_is_noticed() {
    let rows = table();
    let mut noticed = Vec::new();
    for (index, decided) in decided_by(&rows).iter().enumerate().take(rows.len() - 1) {
        let (first, second) = (&rows[index], &rows[index + 1]);
        let matters =
            first.outcome != second.outcome && decided.iter().any(|it| second.applies(it));
        let mut changed = rows.clone();
        changed.swap(index, index + 1);
        let is_noticed = disagreement(&changed, decided).is_some();
        assert_eq!(is_noticed, matters, "rows {} and {}", first.name, second.name);
        if is_noticed {
            noticed.push(format!("{}-{}", first.name, second.name));
        }
    }
    assert_eq!(noticed, ["2-3", "3-4", "6-7", "own-9", "own-11", "13-14", "14-15"]);
}

#[test]
fn the_unchanged_table_can_be_read() {
    let rows = read_table(TABLE).unwrap();
    let mut names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    names.dedup();
    let expected = "1 2 3 4 5 6 7 own 8 own 9 10 own 11 12 13 14 15";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn a_word_that_no_column_knows_is_refused_with_its_line() {
    for column in 0..COLUMNS.len() {
        check_refused(|cells| cells[1 + column] = "sideways");
        check_refused(|cells| cells[1 + column] = "");
        check_refused(|cells| cells[1 + column] = "*|yes");
    }
    check_refused(|cells| *cells.last_mut().unwrap() = "perhaps");
    check_refused(|cells| *cells.last_mut().unwrap() = "*");
}

#[test]
fn a_missing_or_additional_column_is_refused_with_its_line() {
    for column in 0..COLUMNS.len() + 2 {
        check_refused(|cells| {
            cells.remove(column);
        });
        check_refused(|cells| cells.insert(column, "*"));
    }
    assert!(read_table("# nothing but a comment\n").is_err());
}

/// Spoils each line of the table that is no comment, one at a time, and wants that line refused.
#[track_caller]
fn check_refused(spoil: impl Fn(&mut Vec<&str>)) {
    for (index, line) in TABLE.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
        let mut cells = line.split_whitespace().collect();
        spoil(&mut cells);
        let spoiled = cells.join(" ");
        let mut lines: Vec<_> = TABLE.lines().collect();
        lines[index] = &spoiled;
        let refused = read_table(&lines.join("\n")).unwrap_err();
        let place = format!("line {}: ", index + 1);
        assert!(refused.starts_with(&place), "{refused:?} does not name {place:?} {spoiled}");
    }
}

impl Row {
    fn applies(&self, combination: &Combination) -> bool {
        self.cells.iter().zip(combination.words).all(|(cell, word)| cell & word != 0)
    }
}

/// The first combination on which `route` and the rows differ, in words.
fn disagreement(rows: &[Row], all: &[Combination]) -> Option<String> {
    all.iter().find_map(|combination| {
        let Combination { facts, presence, .. } = combination;
        let outcome = route(facts, || *presence);
        let Some(index) = first_match(rows, combination) else {
            return Some(format!("no row decides {facts:?} with {presence:?}"));
        };
        let Row { name, line, outcome: expected, .. } = &rows[index];
        (outcome != *expected).then(|| {
            format!(
                "row {name}, line {line}, says {expected:?}, but route says {outcome:?} \
                 to {facts:?} with {presence:?}"
            )
        })
    })
}

/// For each row the combinations that it decides; a change of that row alone shows in no other.
fn decided_by(rows: &[Row]) -> Vec<Vec<Combination>> {
    let mut decided = vec![Vec::new(); rows.len()];
    for combination in combinations() {
        let index = first_match(rows, &combination);
        decided[index.expect("some row decides")].push(combination);
    }
    decided
}

fn first_match(rows: &[Row], combination: &Combination) -> Option<usize> {
    rows.iter().position(|row| row.applies(combination))
}

fn add(set: &mut Cells, words: &Cells) {
    for (set, word) in set.iter_mut().zip(words) {
        *set |= word;
    }
}

#[track_caller]
fn table() -> Vec<Row> {
    read_table(TABLE).unwrap_or_else(|refused| panic!("data/routing.txt, {refused}"))
}

/// The rows of a table: a line with the columns, then one line a row.
fn read_table(text: &str) -> Result<Vec<Row>, String> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !is_comment(line));
    let (number, columns) = lines.next().ok_or("no line names the columns")?;
    let expected = ["row"].into_iter().chain(COLUMNS.map(|(column, _)| column)).chain(["outcome"]);
    if !columns.split_whitespace().eq(expected) {
        return Err(format!("line {number}: these are not the columns: {columns}"));
    }
    lines
        .map(|(number, line)| {
            read_row(number, line).map_err(|refused| format!("line {number}: {refused}"))
        })
        .collect()
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

fn read_row(line: usize, text: &str) -> Result<Row, String> {
    let fields: Vec<_> = text.split_whitespace().collect();
    let [name, words @ .., last] = fields.as_slice() else {
        return Err("a row needs a number and an outcome".into());
    };
    if words.len() != COLUMNS.len() {
        return Err(format!("{} columns instead of {}", words.len(), COLUMNS.len()));
    }
    let mut cells = Cells::default();
    for (column, (cell, words)) in cells.iter_mut().zip(words).enumerate() {
        *cell = read_cell(column, words)?;
    }
    let outcome =
        outcomes().into_iter().find_map(|(word, outcome)| (word == *last).then_some(outcome));
    let outcome = outcome.ok_or_else(|| format!("no outcome is named {last:?}"))?;
    Ok(Row { name: (*name).into(), line, cells, outcome })
}

fn read_cell(column: usize, cell: &str) -> Result<u8, String> {
    if cell == "*" {
        return Ok(ANY);
    }
    cell.split('|').try_fold(0, |set, word| Ok(set | bit(column, word)?))
}

fn bit(column: usize, word: &str) -> Result<u8, String> {
    let (name, words) = COLUMNS[column];
    let index = words.iter().position(|known| *known == word);
    index.map(|index| 1 << index).ok_or_else(|| format!("column {name} has no word {word:?}"))
}

/// The outcomes by their words, with the nodes and the move of the combinations.
fn outcomes() -> [(&'static str, Route); 12] {
    [
        ("serve", Route::Serve),
        ("pull-back", Route::PullBack { target: peer(), id: MOVE }),
        ("pull-out", Route::Pull { source: me(), target: peer(), id: MOVE }),
        ("pull-in", Route::Pull { source: peer(), target: me(), id: MOVE }),
        ("ask", Route::Ask { target: peer(), id: MOVE }),
        ("moved", Route::Moved { owner: other_owner() }),
        ("try-again", Route::TryAgain),
        ("trimming", Route::Trimming),
        ("crossslot", Route::CrossSlot),
        ("not-served", Route::ClusterDown(Down::SlotNotServed)),
        ("cluster-down", Route::ClusterDown(Down::Cluster)),
        ("read-only", Route::ClusterDown(Down::ReadOnly)),
    ]
}

/// The node that is asked.
fn me() -> NodeId {
    NodeId::new(2).unwrap()
}

/// The other node of the move that is open here.
fn peer() -> NodeId {
    NodeId::new(3).unwrap()
}

/// The owner, where it is neither this node nor the peer, so that the two cannot be confused.
fn other_owner() -> NodeId {
    NodeId::new(5).unwrap()
}

/// The product of all values of all facts.
fn combinations() -> Vec<Combination> {
    let health = [(false, false), (true, false), (false, true), (true, true)].map(
        |(reads_allowed, pubsub_allowed)| ClusterHealth::Down { reads_allowed, pubsub_allowed },
    );
    let (target, source, id) = (peer(), peer(), MOVE);
    let states = [
        SlotState::Stable,
        SlotState::Migrating { target, id },
        SlotState::Importing { source, id },
        SlotState::Aborting { target, id },
        SlotState::Retired { source, id },
        SlotState::Reserved { id },
    ];
    let mut all = vec![Combination {
        facts: Facts {
            node: me(),
            semantics: Semantics::Pull,
            request: Request::NoKeys,
            kind: Kind::Read,
            owner: Owner::None,
            health: ClusterHealth::Ok,
            state: SlotState::Stable,
            asking: false,
            replica_of_owner: false,
            readonly: false,
            trimming: false,
        },
        presence: Presence::default(),
        words: Cells::default(),
    }];
    let requests = [Request::NoKeys, Request::OneSlot, Request::ManySlots];
    vary(&mut all, &requests, |it, request| it.facts.request = request);
    let kinds = [Kind::Read, Kind::Write, Kind::Migrate, Kind::ShardedPubSub];
    vary(&mut all, &kinds, |it, kind| it.facts.kind = kind);
    let owners = [Owner::None, Owner::Me, Owner::Other(other_owner())];
    vary(&mut all, &owners, |it, owner| it.facts.owner = owner);
    vary(&mut all, &[&[ClusterHealth::Ok], &health[..]].concat(), |it, health| {
        it.facts.health = health;
    });
    vary(&mut all, &states, |it, state| it.facts.state = state);
    vary(&mut all, &[false, true], |it, asking| it.facts.asking = asking);
    vary(&mut all, &[false, true], |it, replica| it.facts.replica_of_owner = replica);
    vary(&mut all, &[false, true], |it, readonly| it.facts.readonly = readonly);
    vary(&mut all, &[false, true], |it, trimming| it.facts.trimming = trimming);
    let semantics = [Semantics::Pull, Semantics::Redis];
    vary(&mut all, &semantics, |it, semantics| it.facts.semantics = semantics);
    vary(&mut all, &presences(), |it, presence| it.presence = presence);
    for combination in &mut all {
        combination.words = words(&combination.facts, combination.presence);
    }
    all
}

/// Multiplies the combinations by the values of one fact.
fn vary<T: Copy>(all: &mut Vec<Combination>, values: &[T], set: impl Fn(&mut Combination, T)) {
    let mut product = Vec::with_capacity(all.len() * values.len());
    for combination in all.iter() {
        for value in values {
            let mut combination = *combination;
            set(&mut combination, *value);
            product.push(combination);
        }
    }
    *all = product;
}

/// Every presence that a request with one to three key arguments can have.
fn presences() -> Vec<Presence> {
    let keys = [0_u8, 1, 2];
    let mut lists: Vec<_> = keys.iter().map(|key| vec![*key]).collect();
    for shorter in 0..keys.len() + keys.len().pow(2) {
        for key in keys {
            lists.push([lists[shorter].as_slice(), &[key]].concat());
        }
    }
    let mut found = Vec::new();
    for list in lists {
        for here in 0..1_u8 << keys.len() {
            let present = list.iter().filter(|key| here >> **key & 1 == 1).count();
            let multi = list.iter().any(|key| *key != list[0]);
            let presence = Presence { missing: list.len() - present, present, multi };
            if !found.contains(&presence) {
                found.push(presence);
            }
        }
    }
    found
}

/// The words of the table for a combination; a new variant of a fact needs its word here.
fn words(facts: &Facts, presence: Presence) -> Cells {
    let yes_or_no = |fact: bool| if fact { "yes" } else { "no" };
    let words = [
        match facts.request {
            Request::NoKeys => "none",
            Request::OneSlot => "one",
            Request::ManySlots => "many",
        },
        match facts.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Migrate => "migrate",
            Kind::ShardedPubSub => "pubsub",
        },
        match facts.health {
            ClusterHealth::Ok => "ok",
            ClusterHealth::Down { reads_allowed: false, pubsub_allowed: false } => "nothing",
            ClusterHealth::Down { reads_allowed: true, pubsub_allowed: false } => "reads",
            ClusterHealth::Down { reads_allowed: false, pubsub_allowed: true } => "pubsub",
            ClusterHealth::Down { reads_allowed: true, pubsub_allowed: true } => "both",
        },
        match facts.owner {
            Owner::None => "nobody",
            Owner::Me => "me",
            Owner::Other(_) => "other",
        },
        state_word(facts.state),
        match presence {
            Presence { present: 0, .. } => "none",
            Presence { missing: 0, .. } => "all",
            Presence { .. } => "some",
        },
        if presence.multi { "different" } else { "same" },
        yes_or_no(facts.asking),
        yes_or_no(facts.replica_of_owner),
        yes_or_no(facts.readonly),
        yes_or_no(facts.trimming),
        match facts.semantics {
            Semantics::Pull => "pull",
            Semantics::Redis => "redis",
        },
    ];
    std::array::from_fn(|column| bit(column, words[column]).unwrap())
}

fn state_word(state: SlotState) -> &'static str {
    match state {
        SlotState::Stable => "stable",
        SlotState::Migrating { .. } => "migrating",
        SlotState::Importing { .. } => "importing",
        SlotState::Aborting { .. } => "aborting",
        SlotState::Retired { .. } => "retired",
        SlotState::Reserved { .. } => "reserved",
        _ => panic!("a state without a word: {state:?}"),
    }
}
