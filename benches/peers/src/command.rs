//! What the commands have in common: their flags, and how goals become lines, a file and a verdict.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::measure::Plan;
use crate::report;
use crate::report::Entry;

/// What every command is asked for.
#[derive(Debug, Args)]
pub struct Flags {
    /// Exit with 1 if a goal is SHORT. One that is timed, not weighed, is timed once more when it
    /// comes out SHORT, and its line counts only if it is SHORT then as well.
    #[arg(long)]
    check: bool,
    /// Fewer and shorter rounds, and sweeps over fewer lengths: enough to warn.
    #[arg(long)]
    quick: bool,
    /// Write everything to this file as JSON too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure only these goals, by number: `--goal 3,13b`.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    goal: Vec<String>,
}

impl Flags {
    /// How long and how often to measure.
    pub fn plan(&self) -> Plan {
        if self.quick { Plan::QUICK } else { Plan::FULL }
    }

    /// Measures the goals that are asked for, each by its number, and prints what comes out;
    /// `machine` says where the figures come from.
    ///
    /// # Errors
    /// No goal has such a number, or the file cannot be written.
    pub fn measure(
        &self,
        machine: &Value,
        goals: impl IntoIterator<Item = (&'static str, impl FnOnce() -> Vec<Entry>)>,
    ) -> Result<ExitCode, Box<dyn Error>> {
        let entries = self.entries(goals)?;
        self.close(machine, &entries)
    }

    /// The first half of [`measure`](Self::measure): what comes out of the goals.
    ///
    /// # Errors
    /// No goal has such a number.
    pub fn entries(
        &self,
        goals: impl IntoIterator<Item = (&'static str, impl FnOnce() -> Vec<Entry>)>,
    ) -> Result<Vec<Entry>, Box<dyn Error>> {
        println!("{}", report::heading());
        let mut entries = Vec::new();
        for (_, measure) in goals.into_iter().filter(|(id, _)| self.asks_for(id)) {
            for entry in measure() {
                println!("{entry}");
                entries.push(entry);
            }
        }
        if entries.is_empty() { Err("no goal has such a number".into()) } else { Ok(entries) }
    }

    /// The second half: the file, the count of what is SHORT, and the exit code.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn close(&self, machine: &Value, entries: &[Entry]) -> Result<ExitCode, Box<dyn Error>> {
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&report::to_json(machine, entries))?;
            fs::write(path, text + "\n")?;
        }
        let short = entries.iter().filter(|entry| entry.is_short()).count();
        let lines = entries.iter().filter(|entry| !matches!(entry, Entry::Table(_))).count();
        let again = entries.iter().filter(|entry| entry.was_short()).count();
        println!("{short} SHORT of {lines} lines, {again} of them measured twice");
        let failed = self.check && short > 0;
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Whether a goal is asked for, by its number.
    pub fn asks_for(&self, id: &str) -> bool {
        self.goal.is_empty() || self.goal.iter().any(|goal| goal == id)
    }
}
