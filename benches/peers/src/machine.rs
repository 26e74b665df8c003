//! Where the figures come from: the processor, the core that runs them, the rivals' versions.

use std::fs;

use core_affinity::CoreId;
use serde_json::Value;
use serde_json::json;

use crate::random::SEED;

/// The locked versions are those that were compiled.
const LOCK: &str = include_str!("../Cargo.lock");

/// The processor's name, as the system tells it.
pub fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    named(&text, "model name").unwrap_or("unknown").to_owned()
}

/// Prints where figures of many threads come from.
pub fn print(packages: &[&str]) {
    println!("processor  {}, {} cores, load {}", processor(), core_count(), load());
    println!("versions   {}", versions(packages).join(", "));
}

/// The same for a file.
pub fn to_json(packages: &[&str]) -> Value {
    json!({
        "processor": processor(),
        "cores": core_count(),
        "load": load(),
        "versions": versions(packages),
        "seed": SEED,
    })
}

/// Binds this thread to the last core, which has the least to do with interrupts; returns which.
pub fn pin() -> Option<usize> {
    bind(core_affinity::get_core_ids()?.last())
}

/// Binds this thread to a core apart from that of [`pin`], where there are two; returns which.
pub fn pin_apart() -> Option<usize> {
    bind(core_affinity::get_core_ids()?.iter().rev().take(2).next_back())
}

/// Binds this thread to a core: that of its number, counted around; returns which.
pub fn pin_client(number: usize) -> Option<usize> {
    let cores = core_affinity::get_core_ids()?;
    bind(cores.get(number % cores.len().max(1)))
}

/// How many cores this process may use.
pub fn core_count() -> usize {
    core_affinity::get_core_ids().map_or(1, |cores| cores.len())
}

/// How many threads of the whole machine wanted to run, over the last minute.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Threads that are started by a bound thread are bound as it is.
fn bind(core: Option<&CoreId>) -> Option<usize> {
    let core = *core?;
    core_affinity::set_for_current(core).then_some(core.id)
}

/// Each package with its locked version.
pub fn versions(packages: &[&str]) -> Vec<String> {
    let version = |name: &&str| format!("{name} {}", locked(LOCK, name).unwrap_or("?"));
    packages.iter().map(version).collect()
}

/// The value after `name` and a colon.
fn named<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The version of a package in the text of a `Cargo.lock`.
fn locked<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_package_and_not_of_one_with_a_longer_name() {
        let lock =
            "name = \"crc-any\"\nversion = \"3.1.0\"\n\nname = \"crc\"\nversion = \"3.4.0\"\n";
        assert_eq!(locked(lock, "crc"), Some("3.4.0"));
        assert_eq!(locked(lock, "crc16"), None);
    }

    #[test]
    fn every_rival_is_locked() {
        for version in versions(&["crc", "crc16", "crc-any", "crc-fast", "redis-protocol"]) {
            assert!(!version.ends_with('?'), "{version}");
        }
    }

    #[test]
    fn the_processor_is_read_from_its_line() {
        let text = "processor\t: 0\nmodel name\t: Some Make 9\nmodel name\t: Another\n";
        assert_eq!(named(text, "model name"), Some("Some Make 9"));
        assert_eq!(named(text, "model"), None);
    }
}
