//! The house rules that no compiler knows, read off the sources: floors, purity, size and words.

use std::fs;
use std::path::Path;

/// The floors, from the ground up. A module imports from floors below its own, and from itself.
const FLOORS: [&[&str]; 12] = [
    &["limits"],
    &["sync", "testing"],
    &["crc16", "slab", "time"],
    &["slot"],
    &["evict"],
    &["topology", "shard"],
    &["migration", "command"],
    &["worker"],
    &["node"],
    &["error"],
    &["cluster"],
    &["cache", "resp", "reshard"],
];

/// Where no thread, lock or clock is named.
const PURE: [&str; 5] =
    ["src/slot/", "src/topology/", "src/migration/", "src/command/", "src/reshard/plan.rs"];

/// What lies in a pure folder and may synchronise all the same.
const NOT_PURE: [&str; 2] = ["src/topology/publish.rs", "src/topology/gate.rs"];

/// The one door to locks, atomics and threads.
const DOOR: &str = "src/sync.rs";

/// Where `unsafe` may stand.
const UNSAFE: [&str; 19] = [
    "src/crc16/batch.rs",
    "src/crc16/clmul.rs",
    "src/crc16/wide.rs",
    "src/shard/counted.rs",
    "src/shard/entry.rs",
    "src/shard/header.rs",
    "src/shard/prefetch.rs",
    "src/shard/value.rs",
    "src/slab/chunk.rs",
    "src/slab/list.rs",
    "src/slab/mod.rs",
    "src/slab/model.rs",
    "src/slab/pool.rs",
    "src/slab/run.rs",
    "src/slab/span.rs",
    "src/slab/tables.rs",
    "src/sync.rs",
    "src/worker/scoped.rs",
    "tests/proofs/tests/page_edges.rs",
];

/// Leftovers, and tests that do not run, cannot say what failed, or wait for time to pass.
/// In two halves, so that this file does not hold what it looks for.
const LEFTOVERS: [&str; 7] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!"),
    concat!("#[ig", "nore"),
    concat!("#[should_", "panic"),
    concat!("thread::", "sleep"),
];

const LINES_MAX: usize = 600;
const COLUMNS_MAX: usize = 100;

/// A rule: the path of a file, relative to the package, and its text; one line for each violation.
type Rule = fn(&str, &str) -> Vec<String>;

fn floor_plan(path: &str, text: &str) -> Vec<String> {
    let Some(module) = module_of(path) else {
        return Vec::new();
    };
    let Some(floor) = floor_of(module) else {
        return vec![format!("{path}:1: module `{module}` has no floor")];
    };
    let mut found = Vec::new();
    for (line, code) in numbered(&code_of(text)) {
        for name in after_each(code, "crate::") {
            // What is not a name is a group or a glob: another rule.
            if name.is_empty() || name == module {
                continue;
            }
            match floor_of(name) {
                Some(below) if below < floor => {}
                Some(_) => found.push(format!("{path}:{line}: `{module}` imports `{name}`")),
                None => found.push(format!("{path}:{line}: `crate::{name}` is no module")),
            }
        }
    }
    found
}

fn pure_modules(path: &str, text: &str) -> Vec<String> {
    let pure = PURE.iter().any(|prefix| path.starts_with(prefix)) && !NOT_PURE.contains(&path);
    if !pure {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (line, code) in numbered(&code_of(text)) {
        let words = ["std::thread", "Instant", "SystemTime::now", "parking_lot"];
        found.extend(words.iter().filter(|word| has_word(code, word)).map(|word| (line, *word)));
        found.extend(code.contains("Mutex").then_some((line, "Mutex")));
    }
    found.into_iter().map(|(line, word)| format!("{path}:{line}: names `{word}`")).collect()
}

fn one_door_to_sync(path: &str, text: &str) -> Vec<String> {
    if path == DOOR || !path.starts_with("src/") {
        return Vec::new();
    }
    let code = code_of(text);
    let mut found = Vec::new();
    for (line, code) in numbered(&code) {
        for word in ["std::sync", "core::sync", "alloc::sync"] {
            if has_word(code, word) {
                found.push(format!("{path}:{line}: names `{word}`"));
            }
        }
        for word in ["parking_lot", "crossbeam", "loom", "shuttle"] {
            if starts_word(code, word) {
                found.push(format!("{path}:{line}: names `{word}`"));
            }
        }
    }
    // A group may name the same thing in pieces.
    for (start, _) in code.match_indices("std::{") {
        let group = code[start..].split(';').next().unwrap_or_default();
        if has_word(group, "sync") {
            found.push(format!("{path}:{}: names `std::sync`", line_of(&code, start)));
        }
    }
    found
}

fn one_module_a_use(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (line, code) in numbered(&code_of(text)) {
        if ["crate::{", "crate::*"].iter().any(|group| code.contains(group)) {
            found.push(format!("{path}:{line}: more than one module in a `use`"));
        }
    }
    found
}

fn caption(path: &str, text: &str) -> Vec<String> {
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//! ").is_some_and(|words| !words.trim().is_empty()) {
        return Vec::new();
    }
    vec![format!("{path}:1: the first line is no `//!` caption")]
}

fn line_count(path: &str, text: &str) -> Vec<String> {
    let count = text.lines().count();
    if count <= LINES_MAX {
        return Vec::new();
    }
    vec![format!("{path}:{count}: more than {LINES_MAX} lines")]
}

fn columns(path: &str, text: &str) -> Vec<String> {
    numbered(text)
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX)
        .map(|(line, _)| format!("{path}:{line}: more than {COLUMNS_MAX} columns"))
        .collect()
}

fn ascii(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with("src/") {
        return Vec::new();
    }
    numbered(text)
        .filter(|(_, line)| !line.is_ascii())
        .map(|(line, _)| format!("{path}:{line}: not ASCII"))
        .collect()
}

fn unsafe_files(path: &str, text: &str) -> Vec<String> {
    // The rivals and the fuzz targets are workspaces of their own, with lints of their own.
    let foreign = path.starts_with("benches/peers/") || path.starts_with("fuzz/");
    if foreign || UNSAFE.contains(&path) {
        return Vec::new();
    }
    numbered(&code_of(text))
        .filter(|(_, code)| has_word(code, "unsafe"))
        .map(|(line, _)| format!("{path}:{line}: `unsafe` outside of the listed files"))
        .collect()
}

fn no_grandparents(path: &str, text: &str) -> Vec<String> {
    numbered(&code_of(text))
        .filter(|(_, code)| code.contains("super::super"))
        .map(|(line, _)| format!("{path}:{line}: `super::super`"))
        .collect()
}

fn no_leftovers(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (line, words) in numbered(text) {
        for leftover in LEFTOVERS {
            // A word that ends in a letter may be part of a longer one.
            if has_word(words, leftover) {
                found.push(format!("{path}:{line}: `{leftover}`"));
            }
        }
    }
    found
}

/// Whether ARCHITECTURE.md names the file, or, for a `mod.rs`, its folder.
fn named_in(architecture: &str, path: &str) -> bool {
    let Some(path) = path.strip_prefix("src/") else {
        return true;
    };
    let named = |name: &str| {
        architecture.match_indices(name).any(|(start, _)| {
            let before = &architecture[..start];
            before.ends_with("src/") || !before.ends_with(|c: char| is_word(c) || c == '/')
        })
    };
    named(path) || path.strip_suffix("mod.rs").is_some_and(named)
}

/// The module that a file belongs to: `slot` for `src/slot/tag.rs`. The root belongs to none.
fn module_of(path: &str) -> Option<&str> {
    let path = path.strip_prefix("src/").filter(|&path| path != "lib.rs")?;
    path.split(['/', '.']).next()
}

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `text` holds `needle` where no longer word begins before it.
fn starts_word(text: &str, needle: &str) -> bool {
    text.match_indices(needle).any(|(start, _)| !text[..start].ends_with(is_word))
}

/// Whether `text` holds `needle` as whole words.
fn has_word(text: &str, needle: &str) -> bool {
    text.match_indices(needle).any(|(start, _)| {
        let rest = &text[start + needle.len()..];
        let open_end = needle.ends_with(is_word) && rest.starts_with(is_word);
        !text[..start].ends_with(is_word) && !open_end
    })
}

/// The name after each `prefix` that begins a path; empty where no name follows.
fn after_each<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(prefix).filter(|(start, _)| !text[..*start].ends_with(is_word)).map(
        move |(start, _)| {
            let rest = &text[start + prefix.len()..];
            rest.split(|c| !is_word(c)).next().unwrap_or_default()
        },
    )
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

/// The code of `text`, each line in its place: comments, strings and characters become blanks.
fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hidden = hidden_len(&bytes[at..], code.ends_with(is_word));
        for &byte in &bytes[at..at + hidden] {
            code.push(if byte == b'\n' { '\n' } else { ' ' });
        }
        at += hidden;
        if hidden == 0 {
            // The bytes of a letter outside of ASCII count as letters.
            code.push(if bytes[at].is_ascii() { char::from(bytes[at]) } else { 'x' });
            at += 1;
        }
    }
    code
}

/// How many bytes of `rest` are a comment or a literal; zero where code begins.
fn hidden_len(rest: &[u8], inside_word: bool) -> usize {
    match rest {
        [b'/', b'/', ..] => find(rest, b"\n").unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_len(rest),
        [b'b', b'r', raw @ ..] if !inside_word => match raw_string_len(raw) {
            0 => 0,
            len => len + 2,
        },
        [b'r', raw @ ..] if !inside_word => match raw_string_len(raw) {
            0 => 0,
            len => len + 1,
        },
        [b'"', ..] => quoted_len(rest, b'"'),
        [b'\'', b'\\', ..] => quoted_len(rest, b'\''),
        [b'\'', _, b'\'', ..] => 3,
        // A character outside of ASCII; a lifetime's name is taken for code.
        [b'\'', 0x80..=0xFF, ..] => quoted_len(rest, b'\''),
        _ => 0,
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// The length of a nested comment.
fn block_comment_len(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_u32);
    while at < rest.len() {
        let step = match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a raw string whose `r` was read; zero when it is something else.
fn raw_string_len(rest: &[u8]) -> usize {
    let hashes = rest.iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return 0;
    }
    let body = hashes + 1;
    let end = [b"\"", "#".repeat(hashes).as_bytes()].concat();
    find(&rest[body..], &end).map_or(rest.len(), |len| body + len + end.len())
}

/// The length of a literal that begins and ends with `quote`.
fn quoted_len(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    rest.len().min(at + 1)
}

/// Every Rust file of the package: path, relative and with slashes, and text.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["src", "tests", "examples", "benches", "fuzz"] {
        collect(folder, &mut found);
    }
    assert!(found.iter().any(|(path, _)| path == "src/lib.rs"), "no sources found");
    found.sort();
    found
}

fn collect(folder: &str, found: &mut Vec<(String, String)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(entries) = fs::read_dir(root.join(folder)) else {
        return;
    };
    for entry in entries {
        let entry = entry.expect("a readable folder");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            if name != "target" {
                collect(&path, found);
            }
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            found.push((path, fs::read_to_string(entry.path()).expect("a text in UTF-8")));
        }
    }
}

/// Holds every file against `rule` and lists all violations.
#[track_caller]
fn check(rule: Rule) {
    let found: Vec<_> = sources().iter().flat_map(|(path, text)| rule(path, text)).collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn modules_import_only_from_floors_below_their_own() {
    check(floor_plan);
}

#[test]
fn pure_modules_name_no_thread_lock_or_clock() {
    check(pure_modules);
}

#[test]
fn only_sync_names_the_libraries_of_locks_and_threads() {
    check(one_door_to_sync);
}

#[test]
fn a_use_names_one_module() {
    check(one_module_a_use);
}

#[test]
fn every_file_has_a_caption() {
    check(caption);
}

#[test]
fn no_file_is_too_long() {
    check(line_count);
}

#[test]
fn no_line_is_too_long() {
    check(columns);
}

#[test]
fn the_library_is_written_in_ascii() {
    check(ascii);
}

#[test]
fn unsafe_stands_only_in_the_listed_files() {
    check(unsafe_files);
}

#[test]
fn no_path_climbs_two_modules() {
    check(no_grandparents);
}

#[test]
fn nothing_is_left_over_and_every_test_runs() {
    check(no_leftovers);
}

#[test]
fn the_architecture_names_every_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    let missing: Vec<_> =
        sources().into_iter().map(|(path, _)| path).filter(|path| !named_in(&text, path)).collect();
    assert!(missing.is_empty(), "not named in ARCHITECTURE.md:\n{}", missing.join("\n"));
}

/// Plants `text` at `path` and expects violations at exactly these lines.
#[track_caller]
fn plant(rule: Rule, path: &str, text: &str, lines: &[usize]) {
    let found = rule(path, text);
    let expected: Vec<_> = lines.iter().map(|line| format!("{path}:{line}: ")).collect();
    let seen = found.len() == expected.len()
        && found.iter().zip(&expected).all(|(found, prefix)| found.starts_with(prefix));
    assert!(seen, "planted in {path}:\n{text}\nfound: {found:#?}");
}

#[test]
fn a_planted_import_from_above_is_seen() {
    plant(floor_plan, "src/slot/tag.rs", "use crate::crc16::crc16;\nuse crate::slot::Slot;", &[]);
    plant(floor_plan, "src/slot/tag.rs", "\nuse crate::topology::SlotMap;", &[2]);
    plant(floor_plan, "src/limits.rs", "use crate::sync::Arc;", &[1]);
    plant(floor_plan, "src/migration/route.rs", "fn f(x: &crate::command::Get) {}", &[1]);
    plant(floor_plan, "src/command/mod.rs", "use crate::migration::Route;", &[1]);
    plant(floor_plan, "src/topology/mod.rs", "use crate::shard::Shard;", &[1]);
    plant(floor_plan, "src/shard/mod.rs", "use crate::topology::SlotMap;", &[1]);
    plant(floor_plan, "src/node/mod.rs", "use crate::Slot;", &[1]);
    plant(floor_plan, "src/extra.rs", "", &[1]);
    plant(floor_plan, "src/lib.rs", "pub use crate::cluster::Cluster;", &[]);
    plant(floor_plan, "src/resp/mod.rs", "use crate::cluster::Cluster;", &[]);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::worker::Worker;\n}";
    plant(floor_plan, "src/shard/mod.rs", tests, &[3]);
    let words = "// crate::node::Node\n/* crate::node */ const A: &str = \"crate::node\";";
    plant(floor_plan, "src/shard/mod.rs", words, &[]);
}

#[test]
fn a_planted_thread_lock_or_clock_is_seen() {
    let text =
        "use std::thread;\nlet now = Instant::now();\nstruct A(RawMutex);\nfn f(_: Instants) {}";
    plant(pure_modules, "src/slot/set.rs", text, &[1, 2, 3]);
    plant(pure_modules, "src/reshard/plan.rs", "let now = SystemTime::now();", &[1]);
    plant(pure_modules, "src/migration/mod.rs", "use parking_lot::Once;", &[1]);
    plant(pure_modules, "src/reshard/run.rs", text, &[]);
    plant(pure_modules, "src/topology/gate.rs", text, &[]);
    plant(pure_modules, "src/topology/publish.rs", text, &[]);
    plant(pure_modules, "src/slot/set.rs", "// A Mutex, an Instant.", &[]);
}

#[test]
fn a_planted_second_door_to_sync_is_seen() {
    let text = "use std::sync::Arc;\nuse parking_lot::Mutex;\nuse crossbeam_utils::CachePadded;\n\
                use loom::thread;\n#[cfg(shuttle)]\nuse core::sync::atomic::AtomicBool;";
    plant(one_door_to_sync, "src/node/mod.rs", text, &[1, 2, 3, 4, 5, 6]);
    plant(one_door_to_sync, "src/node/mod.rs", "\nuse std::{\n    fmt,\n    sync::Arc,\n};", &[2]);
    plant(one_door_to_sync, "src/node/mod.rs", "use std::{fmt, io};\nuse crate::sync::Arc;", &[]);
    plant(one_door_to_sync, "src/node/mod.rs", "fn bloom() {}", &[]);
    plant(one_door_to_sync, "src/sync.rs", text, &[]);
    plant(one_door_to_sync, "tests/stress.rs", text, &[]);
}

#[test]
fn a_planted_group_of_modules_is_seen() {
    plant(one_module_a_use, "src/node/mod.rs", "use crate::{shard, worker};", &[1]);
    plant(one_module_a_use, "src/node/mod.rs", "\npub use crate::*;", &[2]);
    plant(one_module_a_use, "src/node/mod.rs", "use crate::shard::{Header, Shard};", &[]);
}

#[test]
fn a_planted_file_without_caption_is_seen() {
    for text in ["", "use core::fmt;\n", "//!\n", "// A comment.\n", "\n//! Too late.\n"] {
        plant(caption, "src/slot/set.rs", text, &[1]);
    }
    plant(caption, "src/slot/set.rs", "//! Sets of slots.\n", &[]);
}

#[test]
fn a_planted_long_file_or_line_is_seen() {
    plant(line_count, "src/lib.rs", &"\n".repeat(600), &[]);
    plant(line_count, "src/lib.rs", &"\n".repeat(601), &[601]);
    let text = format!("{}\n{}\n", "a".repeat(100), "a".repeat(101));
    plant(columns, "src/lib.rs", &text, &[2]);
}

#[test]
fn a_planted_letter_outside_of_ascii_is_seen() {
    plant(ascii, "src/lib.rs", "//! Plain.\n//! \u{201c}Quoted\u{201d}.", &[2]);
    plant(ascii, "tests/slots.rs", "//! \u{201c}Quoted\u{201d}.", &[]);
}

#[test]
fn a_planted_unsafe_block_is_seen() {
    let text = "#![expect(unsafe_code)]\n// unsafe\nlet a = \"unsafe\";\nlet b = unsafe { f() };";
    plant(unsafe_files, "src/shard/mod.rs", text, &[4]);
    plant(unsafe_files, "tests/stress.rs", text, &[4]);
    plant(unsafe_files, "src/shard/entry.rs", text, &[]);
    plant(unsafe_files, "benches/peers/src/main.rs", text, &[]);
}

#[test]
fn a_planted_climb_is_seen() {
    plant(no_grandparents, "src/shard/stats.rs", "use super::Shard;\nuse super::super::a;", &[2]);
}

#[test]
fn every_planted_leftover_is_seen() {
    for leftover in LEFTOVERS {
        plant(no_leftovers, "tests/slots.rs", &format!("fine\n// {leftover}: later"), &[2]);
    }
    plant(no_leftovers, "src/lib.rs", &format!("let {}S_MAX = 1;", LEFTOVERS[0]), &[]);
}

#[test]
fn a_file_that_the_architecture_forgets_is_seen() {
    let text = "- `slot/`: slots.\n- `slot/tag.rs` and `src/sync.rs`; `my_time.rs`, `a/limits.rs`.";
    for named in ["src/slot/mod.rs", "src/slot/tag.rs", "src/sync.rs", "tests/slots.rs"] {
        assert!(named_in(text, named), "{named}");
    }
    for forgotten in ["src/slot/set.rs", "src/time.rs", "src/limits.rs", "src/node/mod.rs"] {
        assert!(!named_in(text, forgotten), "{forgotten}");
    }
}

#[test]
fn comments_and_literals_are_no_code() {
    let cases = [
        ("a // b", "a     "),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("a \"b\\\"c\" d", "a        d"),
        ("r\"b\" br#\"c\"d\"# e", "               e"),
        ("'\"' 'a' '\\'' x", "             x"),
        ("fn f<'a>(b: &'a str) {}", "fn f<'a>(b: &'a str) {}"),
        ("r#type for\"a\"", "r#type for   "),
        ("\"a\nb\" c", "  \n   c"),
    ];
    for (text, code) in cases {
        assert_eq!(code_of(text), code, "{text}");
    }
}
