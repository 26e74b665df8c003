//! The example `live_reshard` finds nothing wrong with the engine, and finds each planted fault.
#![expect(clippy::panic_in_result_fn, reason = "tests assert, and use `?` for what must not fail")]

use std::env;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

type Tested = Result<(), Box<dyn Error>>;

/// How long a run may take: it ends by itself long before, even if the engine hangs.
const WATCHDOG: Duration = Duration::from_secs(120);

const CLEAN: &str = "lost 0 stale 0 duplicated 0 unanswered 0";

/// When the newest file of a folder was written.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let times = entries.filter_map(|entry| {
        let path = entry.path();
        if path.is_dir() { newest(&path) } else { entry.metadata().ok()?.modified().ok() }
    });
    times.max()
}

/// The example beside this test, which `cargo test` builds; where it is missing or older than its
/// sources (`cargo test --test live_reshard` builds no examples), one that is built here.
fn example() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let name = format!("live_reshard{}", env::consts::EXE_SUFFIX);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = ["src", "examples/live_reshard"].map(|folder| newest(&root.join(folder)));
        let deps = env::current_exe().expect("this test has a path");
        let beside = deps.ancestors().nth(2).expect("a target folder").join("examples").join(&name);
        let built = fs::metadata(&beside).and_then(|file| file.modified()).ok();
        if built.is_some() && sources.iter().all(|&source| source <= built) {
            return beside;
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live_reshard");
        // Flags for this test's own target do not fit the tools of a build for the host.
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", "live_reshard", "--target-dir"])
            .arg(&target)
            .current_dir(root)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the example does not build");
        target.join("debug/examples").join(name)
    })
}

/// Runs the example with these arguments, separated by blanks, and `input` on stdin.
fn run(arguments: &str, input: &str) -> Result<Output, Box<dyn Error>> {
    let mut child = Command::new(example())
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("a stdin")?;
    // A run that refuses its arguments does not read.
    stdin.write_all(input.as_bytes()).ok();
    drop(stdin);
    let stdout = collect(child.stdout.take())?;
    let stderr = collect(child.stderr.take())?;
    let (stdout, stderr) = (answer(&stdout, &mut child)?, answer(&stderr, &mut child)?);
    Ok(Output { status: child.wait()?, stdout, stderr })
}

/// Reads a pipe to its end, on a thread of its own.
fn collect(
    pipe: Option<impl Read + Send + 'static>,
) -> Result<mpsc::Receiver<Vec<u8>>, Box<dyn Error>> {
    let mut pipe = pipe.ok_or("a pipe")?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("pipe".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        // What could be read is held against what has to be there.
        pipe.read_to_end(&mut bytes).ok();
        sender.send(bytes).ok();
    })?;
    Ok(receiver)
}

fn answer(pipe: &mpsc::Receiver<Vec<u8>>, child: &mut Child) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(pipe.recv_timeout(WATCHDOG).inspect_err(|_| {
        child.kill().ok();
    })?)
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn line_before_last(output: &Output) -> String {
    lines(output).into_iter().rev().nth(1).expect("a line before the last")
}

/// The four counts of the last line, by name.
fn counts(output: &Output) -> Vec<(String, u64)> {
    let lines = lines(output);
    let words: Vec<&str> = lines.last().map(|last| last.split(' ').collect()).unwrap_or_default();
    words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().expect("a count"))).collect()
}

/// The number of a field of an object without nesting.
fn field(json: &str, name: &str) -> Option<u64> {
    let inside = json.strip_prefix('{')?.strip_suffix('}')?;
    let mut fields = inside.split(',').map(|field| field.split_once(':'));
    let quoted = format!("\"{name}\"");
    fields.find_map(|field| field.filter(|(found, _)| *found == quoted))?.1.parse().ok()
}

#[track_caller]
fn check_clean(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines(output).last().map(String::as_str), Some(CLEAN), "{stderr}");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}

/// A run with a planted fault: the count of that name is not 0, and the others are.
#[track_caller]
fn check_plant(plant: &str) {
    let arguments = format!("--seconds 2 --count 3000 --plant {plant}");
    let output = run(&arguments, "").expect("the example runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let counts = counts(&output);
    assert_eq!(counts.len(), 4, "{stderr}");
    for (name, count) in &counts {
        assert_eq!(*count > 0, name == plant, "{name} {count}\n{stderr}");
    }
    assert_eq!(output.status.code(), Some(1), "{stderr}");
}

#[track_caller]
fn check_refused(arguments: &str, input: &str) {
    let output = run(arguments, input).expect("the example runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {stderr}");
    assert!(stderr.contains("error: "), "{arguments}: {stderr}");
    assert!(!stderr.contains("panicked"), "{arguments}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments}: something was run");
}

#[test]
fn nothing_goes_wrong_while_a_node_joins() -> Tested {
    let output = run("--seconds 2 --count 3000", "")?;
    check_clean(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first = stderr.lines().next();
    assert_eq!(first, Some("3 nodes, 4 client threads, 2 s"), "the run says what it is at once");
    assert!(lines(&output).iter().any(|line| line.starts_with("join        4096 slots with ")));
    let columns = |line: &String| line.split_whitespace().eq(["handover", "classic"]);
    assert!(lines(&output).iter().any(columns), "both ways stand side by side");
    Ok(())
}

/// A run in one way, or in both, as JSON.
fn run_by(way: &str) -> Result<String, Box<dyn Error>> {
    let output = run(&format!("--seconds 2 --count 3000 --move {way} --json"), "")?;
    check_clean(&output);
    Ok(line_before_last(&output))
}

#[test]
fn handovers_send_clients_on_by_moved_alone() -> Tested {
    let json = run_by("handover")?;
    assert_eq!(field(&json, "handover_asks"), Some(0), "{json}");
    assert_eq!(field(&json, "handover_try_agains"), Some(0), "{json}");
    assert!(field(&json, "handover_moved").is_some_and(|moved| moved > 0), "{json}");
    assert_eq!(field(&json, "classic_asks"), None, "{json}");
    Ok(())
}

#[test]
fn classic_moves_send_clients_on_by_ask_too() -> Tested {
    let json = run_by("classic")?;
    assert!(field(&json, "classic_asks").is_some_and(|asks| asks > 0), "{json}");
    assert!(field(&json, "classic_moved").is_some_and(|moved| moved > 0), "{json}");
    assert_eq!(field(&json, "handover_asks"), None, "{json}");
    Ok(())
}

#[test]
fn each_way_has_its_part_of_the_time_and_finishes_its_last_round() -> Tested {
    let json = run_by("both")?;
    for way in ["handover", "classic"] {
        let number = |name| field(&json, &format!("{way}_{name}")).ok_or(format!("no {name}"));
        assert!(number("ms")? >= 1000, "{way}: {json}");
        let slots = number("slots_moved")?;
        assert!(slots >= 4096 && slots.is_multiple_of(4096), "{way}: {json}");
        assert!(number("slot_worst_ns")? >= number("slot_mean_ns")?, "{way}: {json}");
        assert!(number("slowest_call_us")? * 1000 + 1000 >= number("p999_ns")? * 16 / 17, "{json}");
        assert!(number("operations")? > 0 && number("keys_moved")? > 0, "{way}: {json}");
    }
    assert_eq!(field(&json, "handover_asks"), Some(0), "{json}");
    Ok(())
}

#[test]
fn one_of_a_thing_is_singular() -> Tested {
    let output = run("--seconds 1 --nodes 1 --count 1", "")?;
    check_clean(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut progress = stderr.lines();
    assert_eq!(progress.next(), Some("1 node, 4 client threads, 1 s"));
    assert_eq!(progress.next(), Some("1 key is there; node 1 joins"));
    let lines = lines(&output);
    assert!(lines[0].starts_with("1 key, 1 node and one that joins, "), "{}", lines[0]);
    Ok(())
}

#[test]
fn a_lost_key_is_found() {
    check_plant("lost");
}

#[test]
fn a_stale_read_is_found() {
    check_plant("stale");
}

#[test]
fn a_duplicated_key_is_found() {
    check_plant("duplicated");
}

#[test]
fn an_unanswered_call_is_found() {
    check_plant("unanswered");
}

#[test]
fn keys_come_from_stdin_and_count_once() -> Tested {
    let mut keys: Vec<String> = (0..500).map(|number| format!("key:{number} {number}")).collect();
    keys.extend(["key:3", "", "  key:4\t17", "key:500"].map(str::to_owned));
    let input = keys.join("\n");
    let output = run("--seconds 1 --keys - --json", &input)?;
    check_clean(&output);
    let json = line_before_last(&output);
    assert_eq!(field(&json, "keys"), Some(501), "{json}");
    Ok(())
}

#[test]
fn keys_come_from_a_file() -> Tested {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live_reshard.keys");
    fs::write(&path, "one\ntwo\n")?;
    let arguments = format!("--seconds 1 --nodes 1 --keys {} --json", path.display());
    let output = run(&arguments, "")?;
    check_clean(&output);
    let json = line_before_last(&output);
    assert_eq!(field(&json, "keys"), Some(2), "{json}");
    assert_eq!(field(&json, "join_slots"), Some(8192), "one of two nodes has half the slots");
    Ok(())
}

#[test]
fn the_line_before_the_last_is_json() -> Tested {
    let output = run("--seconds 2 --count 3000 --nodes 2 --json", "")?;
    check_clean(&output);
    let json = line_before_last(&output);
    let number = |name: &str| field(&json, name).ok_or_else(|| format!("no {name} in {json}"));
    assert_eq!((number("keys")?, number("nodes")?), (3000, 2));
    assert_eq!(number("join_slots")?, 5461, "a third of the slots");
    assert!(number("slots_moved")? >= number("join_slots")?);
    assert!(number("keys_moved")? >= number("join_keys")? && number("join_keys")? > 0);
    assert!(number("elapsed_ms")? >= 2000);
    assert!(number("reads_checked")? > 0 && number("operations_per_second")? > 0);
    let calls = ["get", "get_many", "mget", "set", "set_many", "mset", "remove", "incr", "append"];
    let sum: u64 = calls.iter().map(|call| number(call)).sum::<Result<u64, _>>()?;
    assert_eq!(sum, number("operations")?);
    for name in ["join_ms", "mover_waits", "redirects", "try_agains", "slowest_call_us"] {
        number(name)?;
    }
    for name in ["lost", "stale", "duplicated", "unanswered"] {
        assert_eq!(number(name)?, 0, "{name}");
    }
    Ok(())
}

#[test]
fn bad_options_are_refused_before_anything_runs() {
    check_refused("--seconds 0", "");
    check_refused("--seconds soon", "");
    check_refused("--count 0", "");
    check_refused("--count 99999999", "");
    check_refused("--nodes 0", "");
    check_refused("--nodes 257", "");
    check_refused("--plant nothing", "");
    check_refused("--move sideways", "");
    check_refused("--keys - --count 5", "key\n");
    check_refused("--keys /no/such/file", "");
    check_refused("--keys -", "\n \n");
    check_refused("--keys -", &"k".repeat(65_536));
    check_refused("--unknown", "");
}
