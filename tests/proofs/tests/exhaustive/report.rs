//! What the tests of the searches share: how a report is printed and judged.

use std::io;
use std::io::Write;

use slotkeep_proofs::search::Setup;
use slotkeep_proofs::search::Wording;
use slotkeep_proofs::search::search;

/// A search that finds nothing, and in which everything happens that can; how many states it has.
#[track_caller]
pub fn check_sound(setup: &Setup) -> usize {
    let report = search(setup);
    let counts = |counts: &[_]| {
        let words = counts.iter().map(|(kind, count)| format!("{kind:?} {count}"));
        words.collect::<Vec<_>>().join(", ")
    };
    // Printed past the harness, which keeps what passing tests print to itself.
    let printed = write!(
        io::stdout().lock(),
        "model: {} states, {}, at most {} hops\n  happened: {}\n  refused: {}\n",
        report.states,
        setup.name,
        report.hops,
        counts(&report.fired),
        counts(&report.refused)
    );
    printed.expect("standard output takes text");
    if let Some(trace) = &report.violation {
        panic!("{}\n{trace}", setup.name);
    }
    let never: Vec<_> = report.fired.iter().filter(|(_, count)| *count == 0).collect();
    assert!(never.is_empty(), "{}: never happened: {never:?}", setup.name);
    report.states
}

/// Whether the long form is wanted, as `.ci/deep` does.
pub fn is_deep() -> bool {
    std::env::var_os("SEARCH_DEEP").is_some()
}

/// A search that finds what an earlier wording broke.
#[track_caller]
pub fn check_caught(setup: &Setup, wording: Wording, what: &str) {
    let report = search(&Setup { wording, ..*setup });
    let trace = report.violation.expect("the search finds what the wording breaks");
    println!("{wording:?}, {} states, {}:\n{trace}", report.states, setup.name);
    assert!(trace.what().contains(what), "{wording:?} breaks something else");
}
