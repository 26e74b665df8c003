//! Traces from files: gzip, one access a line, the key and perhaps the entry's weight in bytes.

use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use flate2::read::MultiGzDecoder;
use thiserror::Error;

use crate::cache::trace::Recorder;
use crate::cache::trace::Trace;

/// How the names of such files end.
const SUFFIX: &str = ".keys.gz";

/// More accesses than this are not read: their numbers have to fit into memory.
const ACCESSES_MAX: usize = 1 << 26;

/// What a line may have at most, its end included.
const LINE_BYTES_MAX: u64 = 4096;

/// Why a file is no trace.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The folder cannot be listed.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be read up to its end.
    #[error("{}, line {line}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line that was being read, from 1.
        line: usize,
        /// What the system or the decoder says.
        source: io::Error,
    },
    /// A line is no access.
    #[error("{}, line {line}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        fault: Fault,
    },
    /// There is no access at all.
    #[error("{}: no accesses", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It has no key.
    #[error("no key")]
    NoKey,
    /// It is not text.
    #[error("not UTF-8")]
    NoText,
    /// What follows the key is no weight.
    #[error("the weight is no number from 0 to 2^40")]
    NoWeight,
    /// Something follows the weight.
    #[error("more than a key and a weight")]
    TooMuch,
    /// It is longer than lines may be.
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// The file has more lines than are read.
    #[error("more than {ACCESSES_MAX} accesses")]
    TooMany,
}

/// The heaviest entry: sums over all accesses stay far below what 64 bits hold.
const WEIGHT_MAX: u64 = 1 << 40;

/// The names of the traces in a folder, in their order.
///
/// # Errors
/// The folder cannot be listed.
pub fn names(folder: &Path) -> Result<Vec<String>, ReadError> {
    let failed = |source| ReadError::Folder { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The trace of a name in a folder, read as a stream; `limit` accesses at most.
///
/// # Errors
/// The file cannot be read, or is no trace.
pub fn trace(folder: &Path, name: &str, limit: usize) -> Result<Trace, ReadError> {
    let path = folder.join(format!("{name}{SUFFIX}"));
    let file = File::open(&path);
    let file = file.map_err(|source| ReadError::File { path: path.clone(), line: 1, source })?;
    read(Recorder::new(name), &path, BufReader::new(MultiGzDecoder::new(file)), limit)
}

fn read(
    mut recorder: Recorder,
    path: &Path,
    mut text: impl BufRead,
    limit: usize,
) -> Result<Trace, ReadError> {
    let mut bytes = Vec::new();
    while recorder.len() < limit {
        let line = recorder.len() + 1;
        bytes.clear();
        let failed = |source| ReadError::File { path: path.to_owned(), line, source };
        if text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
            break;
        }
        let wrong = |fault| ReadError::Line { path: path.to_owned(), line, fault };
        match parse(&bytes, line).map_err(wrong)? {
            (key, Some(weight)) => recorder.weighted_access(key, weight),
            (key, None) => recorder.access(key),
        }
    }
    if recorder.len() == 0 {
        return Err(ReadError::Empty { path: path.to_owned() });
    }
    Ok(recorder.finish())
}

/// The key of a line, and its weight where it has one.
fn parse(bytes: &[u8], line: usize) -> Result<(&str, Option<u64>), Fault> {
    if line > ACCESSES_MAX {
        return Err(Fault::TooMany);
    }
    if bytes.len() as u64 == LINE_BYTES_MAX && bytes.last() != Some(&b'\n') {
        return Err(Fault::TooLong);
    }
    let text = str::from_utf8(bytes).map_err(|_| Fault::NoText)?;
    let mut words = text.split_ascii_whitespace();
    let key = words.next().ok_or(Fault::NoKey)?;
    let weight = words.next().map(|word| {
        let weight = word.parse().ok().filter(|&weight| weight <= WEIGHT_MAX);
        weight.ok_or(Fault::NoWeight)
    });
    let weight = weight.transpose()?;
    if words.next().is_some() { Err(Fault::TooMuch) } else { Ok((key, weight)) }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::io::Write;
    use std::process;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn zipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    /// What is read from a folder with one trace of these bytes.
    #[expect(clippy::panic_in_result_fn, reason = "what the test itself needs must work")]
    fn read_file(test: &str, bytes: &[u8], limit: usize) -> Result<Trace, ReadError> {
        let path = env::temp_dir().join(format!("peers-traces-{test}-{}", process::id()));
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("a.keys.gz"), bytes).expect("a file");
        fs::write(path.join("README.md"), "no trace").expect("a file");
        let names = names(&path).expect("a folder");
        let trace = trace(&path, "a", limit);
        fs::remove_dir_all(&path).expect("the folder goes");
        assert_eq!(names, ["a"]);
        trace
    }

    #[track_caller]
    fn check_fault(text: &[u8], line: usize, fault: Fault) {
        match read(Recorder::new("a"), Path::new("a file"), text, usize::MAX) {
            Err(error @ ReadError::Line { .. }) => {
                assert_eq!(error.to_string(), format!("a file, line {line}: {fault}"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_folder_gives_its_traces_by_name_and_nothing_else() {
        let trace = read_file("good", &zipped(b"x 5\ny 6\nx 5"), usize::MAX).expect("a trace");
        assert_eq!((trace.name(), trace.len(), trace.distinct()), ("a", 3, 2));
        assert!(trace.is_weighted());
        assert!(trace.accesses().map(|access| access.weight).eq([5, 6, 5]));
    }

    #[test]
    fn no_more_accesses_are_read_than_asked_for() {
        let trace = read_file("limit", &zipped(b"x\ny\nz\n"), 2).expect("a trace");
        assert_eq!((trace.len(), trace.is_weighted()), (2, false));
    }

    #[test]
    fn a_bad_line_is_told_by_its_number() {
        check_fault(b"a\n\nb\n", 2, Fault::NoKey);
        check_fault(b"a\nb\n\xFF\n", 3, Fault::NoText);
        check_fault(b"a -1\n", 1, Fault::NoWeight);
        check_fault(b"a 5\nb 18446744073709551616\n", 2, Fault::NoWeight);
        check_fault(b"a 1099511627777\n", 1, Fault::NoWeight);
        check_fault(b"a 5 6\n", 1, Fault::TooMuch);
        check_fault(&[b'a'; 5000], 1, Fault::TooLong);
    }

    #[test]
    fn a_file_that_is_cut_or_empty_is_no_trace() {
        let mut cut = zipped("abc\n".repeat(1000).as_bytes());
        cut.truncate(cut.len() - 9);
        let error = read_file("cut", &cut, usize::MAX).expect_err("the end is missing");
        assert!(matches!(error, ReadError::File { line: 2.., .. }), "{error}");
        let error = read_file("plain", b"abc\n", usize::MAX).expect_err("not zipped");
        assert!(matches!(error, ReadError::File { line: 1, .. }), "{error}");
        let error = read_file("empty", &zipped(b""), usize::MAX).expect_err("no accesses");
        assert!(matches!(error, ReadError::Empty { .. }), "{error}");
    }
}
