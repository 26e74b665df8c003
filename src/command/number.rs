//! Byte values that grow: incr and append. Both keep the deadline.

use std::slice;

use crate::command::Access;
use crate::command::CommandError;
use crate::command::Operation;
use crate::command::check_value_bytes;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Key;
use crate::shard::Shard;
use crate::time::NEVER;

/// Adds to a decimal number; an absent key counts as 0.
pub(crate) struct Incr<'k> {
    pub(crate) key: Key<'k>,
    pub(crate) by: i64,
}

impl Operation<[u8]> for Incr<'_> {
    type Output = Result<i64, CommandError>;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<[u8]>, context: &mut Context<'_, [u8]>) -> Self::Output {
        let present = shard.get(&self.key, context);
        let number = present.as_deref().map_or(Ok(0), |entry| parse_number(entry.value()))?;
        let sum = number.checked_add(self.by).ok_or(CommandError::Overflow)?;
        write_bytes(shard, &self.key, sum.to_string().as_bytes(), context);
        Ok(sum)
    }
}

/// Redis's rule: an optional minus sign and digits without a leading zero, nothing else.
fn parse_number(bytes: &[u8]) -> Result<i64, CommandError> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let canonical = match digits {
        [b'0'] => bytes.len() == 1,
        [first, ..] => first.is_ascii_digit() && *first != b'0',
        [] => false,
    };
    let text = if canonical { str::from_utf8(bytes).ok() } else { None };
    text.and_then(|text| text.parse().ok()).ok_or(CommandError::NotAnInteger)
}

/// Appends bytes; an absent key counts as empty.
pub(crate) struct Append<'k, 'v> {
    pub(crate) key: Key<'k>,
    pub(crate) suffix: &'v [u8],
}

impl Operation<[u8]> for Append<'_, '_> {
    /// The new length, in bytes.
    type Output = Result<usize, CommandError>;
    const ACCESS: Access = Access::Write;

    fn keys(&self) -> &[Key<'_>] {
        slice::from_ref(&self.key)
    }

    fn run(self, shard: &mut Shard<[u8]>, context: &mut Context<'_, [u8]>) -> Self::Output {
        let present = shard.get(&self.key, context);
        let present = present.map_or(&[][..], |entry| entry.value());
        let len = present.len() + self.suffix.len();
        check_value_bytes(len)?;
        let joined = [present, self.suffix].concat();
        write_bytes(shard, &self.key, &joined, context);
        Ok(len)
    }
}

/// Writes over an entry or makes one, and keeps the deadline.
fn write_bytes(
    shard: &mut Shard<[u8]>,
    key: &Key<'_>,
    bytes: &[u8],
    context: &mut Context<'_, [u8]>,
) {
    let (deadline, access) = match shard.get(key, context) {
        Some(entry) => {
            entry.touch();
            if entry.try_overwrite(bytes).is_ok() {
                return;
            }
            (entry.deadline(), entry.access())
        }
        None => (NEVER, 0),
    };
    let entry = Entry::new(key.bytes, bytes, deadline);
    entry.set_access(access);
    let replaced = shard.insert(entry, key.hash, context.hasher);
    context.dropped.extend(replaced.map(Garbage::Entry));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_redis_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
            ("a", None),
        ] {
            assert_eq!(parse_number(text.as_bytes()).ok(), number, "{text:?}");
        }
        assert_eq!(parse_number(b"\xff"), Err(CommandError::NotAnInteger));
    }
}
