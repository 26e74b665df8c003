//! The program: which traces are played, those of a folder first.

use std::error::Error;
use std::path::Path;
use std::path::PathBuf;

use crate::cache::generate;
use crate::cache::generate::Scale;
use crate::cache::reader;
use crate::cache::trace::Trace;

/// The traces that are played.
#[derive(Debug)]
pub struct Program {
    /// The folder and the names of its traces, or why there is none.
    folder: Result<(PathBuf, Vec<String>), String>,
    generated: Vec<&'static str>,
}

impl Program {
    /// All traces of a folder, if it is there, and all generated ones; of these only the ones that
    /// `asked_for` names, if it names any.
    ///
    /// # Errors
    /// The folder cannot be listed, or no trace has such a name.
    pub fn of(folder: Option<&Path>, asked_for: &[String]) -> Result<Self, Box<dyn Error>> {
        let is_asked_for = |name: &str| asked_for.is_empty() || asked_for.iter().any(|n| n == name);
        let folder = match folder {
            None => Err("skipped, `--traces` names no folder".to_owned()),
            Some(path) if !path.exists() => Err(format!("skipped, no {}", path.display())),
            Some(path) => Ok((path.to_owned(), reader::names(path)?)),
        };
        let mut program = Self { folder, generated: generate::names().collect() };
        if let Some(unknown) = asked_for.iter().find(|name| !program.has(name)) {
            return Err(format!("no trace is called {unknown}").into());
        }
        program.generated.retain(|name| is_asked_for(name));
        if let Ok((_, names)) = &mut program.folder {
            names.retain(|name| is_asked_for(name));
        }
        Ok(program)
    }

    /// What is played and what is not, as text.
    pub fn told(&self) -> String {
        let recorded = match &self.folder {
            Ok((path, names)) => format!("{} of {}", names.len(), path.display()),
            Err(reason) => reason.clone(),
        };
        format!("recorded: {recorded}; generated: {}", self.generated.len())
    }

    /// The traces, each read or generated when its turn comes; of one from a file `limit` accesses
    /// at most.
    pub fn traces(
        &self,
        scale: Scale,
        limit: usize,
    ) -> impl Iterator<Item = Result<Trace, Box<dyn Error>>> {
        let recorded = self.folder.iter().flat_map(move |(path, names)| {
            names.iter().map(move |name| Ok(reader::trace(path, name, limit)?))
        });
        let generated = self.generated.iter().map(move |name| {
            generate::trace(name, scale).ok_or_else(|| format!("no trace is called {name}").into())
        });
        recorded.chain(generated)
    }

    fn has(&self, name: &str) -> bool {
        let recorded = self.folder.iter().any(|(_, names)| names.iter().any(|n| n == name));
        recorded || self.generated.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_folder_the_generated_traces_are_played_and_the_others_are_told() {
        for folder in [None, Some(Path::new("/no/such/folder"))] {
            let program = Program::of(folder, &[]).expect("generated traces");
            assert!(program.told().starts_with("recorded: skipped, "), "{}", program.told());
            let names: Vec<_> = program
                .traces(Scale::QUICK, 1)
                .map(|trace| trace.expect("generated").name().to_owned())
                .collect();
            assert!(names.iter().eq(generate::names()), "{names:?}");
        }
    }

    #[test]
    fn only_what_is_asked_for_is_played_and_it_must_be_known() {
        let program = Program::of(None, &["drift".to_owned()]).expect("a known name");
        assert_eq!(program.traces(Scale::QUICK, 1).count(), 1);
        let error = Program::of(None, &["web".to_owned()]).expect_err("an unknown name");
        assert_eq!(error.to_string(), "no trace is called web");
    }
}
