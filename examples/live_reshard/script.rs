//! The life of a key, written down beforehand: what each version of it is, and the call that makes
//! it. So a reader knows from the bytes alone which version it sees, and whether they are whole.

/// What a key is used for.
#[derive(Clone, Copy)]
enum Kind {
    /// Overwritten with values of several sizes; removed and written anew every 8 versions.
    Record,
    /// Counted up by one.
    Counter,
    /// Appended to; removed every 16 versions.
    Log,
}

/// The call that makes a version out of the one before.
pub enum Write {
    Set(Vec<u8>),
    Remove,
    Increment,
    Append(Vec<u8>),
}

const RECORD_LIFE: u64 = 8;
const LOG_LIFE: u64 = 16;
/// A version and a checksum.
const LOG_LINE_BYTES: usize = 16;

/// The life of one key. Version 0 is its absence at the start.
#[derive(Clone, Copy)]
pub struct Script<'k> {
    key: &'k [u8],
    kind: Kind,
    writer: u64,
}

impl<'k> Script<'k> {
    pub fn new(index: u32, key: &'k [u8], writer: usize) -> Self {
        let kind = match index % 4 {
            0 | 1 => Kind::Record,
            2 => Kind::Counter,
            _ => Kind::Log,
        };
        Self { key, kind, writer: writer as u64 }
    }

    /// The call that makes this version.
    pub fn write(&self, version: u64) -> Write {
        match (self.kind, self.content(version)) {
            (_, None) => Write::Remove,
            (Kind::Record, Some(value)) => Write::Set(value),
            (Kind::Counter, Some(_)) => Write::Increment,
            (Kind::Log, Some(_)) => Write::Append(self.line(version)),
        }
    }

    /// The value that this version is; nothing when the key is absent.
    pub fn content(&self, version: u64) -> Option<Vec<u8>> {
        let life = self.life();
        if version == 0 || life.is_some_and(|life| version.is_multiple_of(life)) {
            return None;
        }
        Some(match self.kind {
            Kind::Record => self.record(version),
            Kind::Counter => version.to_string().into_bytes(),
            Kind::Log => {
                let first = version - version % LOG_LIFE + 1;
                (first..=version).flat_map(|version| self.line(version)).collect()
            }
        })
    }

    /// The version that these bytes are, if they are one.
    pub fn version_of(&self, value: &[u8]) -> Option<u64> {
        let version = match self.kind {
            Kind::Record => number_at(value, 0)?,
            Kind::Counter => std::str::from_utf8(value).ok()?.parse().ok()?,
            Kind::Log => number_at(value, value.len().checked_sub(LOG_LINE_BYTES)?)?,
        };
        (self.content(version).as_deref() == Some(value)).then_some(version)
    }

    /// What these bytes are, in words.
    pub fn describe(&self, value: Option<&[u8]>) -> String {
        match value.map(|value| self.version_of(value)) {
            None => "nothing".to_owned(),
            Some(None) => "damaged bytes".to_owned(),
            Some(Some(version)) => format!("version {version}"),
        }
    }

    /// The first version from this one on in which the key is absent, if there is one.
    pub fn absent_from(&self, version: u64) -> Option<u64> {
        match self.life() {
            Some(life) => Some(version.next_multiple_of(life)),
            None => (version == 0).then_some(0),
        }
    }

    /// After how many versions the key is removed, if ever.
    fn life(&self) -> Option<u64> {
        match self.kind {
            Kind::Record => Some(RECORD_LIFE),
            Kind::Counter => None,
            Kind::Log => Some(LOG_LIFE),
        }
    }

    /// Version, writer, checksum, and up to four words of padding.
    fn record(&self, version: u64) -> Vec<u8> {
        let check = self.checksum(version).to_le_bytes();
        let mut value = [version.to_le_bytes(), self.writer.to_le_bytes(), check].concat();
        (0..version % 5).for_each(|_| value.extend(check));
        value
    }

    fn line(&self, version: u64) -> Vec<u8> {
        [version.to_le_bytes(), self.checksum(version).to_le_bytes()].concat()
    }

    /// FNV-1a over key, writer and version: a value under another key does not pass.
    fn checksum(&self, version: u64) -> u64 {
        let words = [self.writer.to_le_bytes(), version.to_le_bytes()];
        let bytes = self.key.iter().chain(words.as_flattened());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

fn number_at(value: &[u8], start: usize) -> Option<u64> {
    let bytes = value.get(start..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}
