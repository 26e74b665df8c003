//! Byte values that grow: incr and append. Both keep the deadline.

use std::slice;

use crate::command::Access;
use crate::command::CommandError;
use crate::command::Operation;
use crate::command::check_value_bytes;
use crate::shard::Context;
use crate::shard::Entry;
use crate::shard::Garbage;
use crate::shard::Kept;
use crate::shard::Key;
use crate::shard::Shard;

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

    fn each_write<'o>(
        &'o self,
        shard: &Shard<[u8]>,
        context: &Context<'_, [u8]>,
        mut each: impl FnMut(Key<'o>, u64),
    ) {
        if let Ok(sum) = self.sum(shard.peek(&self.key, context.now)) {
            each(self.key, weight_of(shard, &self.key, sum.to_string().as_bytes(), context));
        }
    }

    fn run(self, shard: &mut Shard<[u8]>, context: &mut Context<'_, [u8]>) -> Self::Output {
        let sum = self.sum(shard.get(&self.key, context).as_deref());
        let sum = sum.inspect_err(|_| shard.tally().others += 1)?;
        write_bytes(shard, &self.key, sum.to_string().as_bytes(), context);
        Ok(sum)
    }
}

impl Incr<'_> {
    /// The number that is to be there.
    fn sum(&self, present: Option<&Entry<[u8]>>) -> Result<i64, CommandError> {
        let number = present.map_or(Ok(0), |entry| parse_number(entry.value()))?;
        number.checked_add(self.by).ok_or(CommandError::Overflow)
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

    fn each_write<'o>(
        &'o self,
        shard: &Shard<[u8]>,
        context: &Context<'_, [u8]>,
        mut each: impl FnMut(Key<'o>, u64),
    ) {
        let joined = self.joined(shard.peek(&self.key, context.now));
        if let Ok(joined) = joined {
            each(self.key, weight_of(shard, &self.key, &joined, context));
        }
    }

    fn run(self, shard: &mut Shard<[u8]>, context: &mut Context<'_, [u8]>) -> Self::Output {
        let joined = self.joined(shard.get(&self.key, context).as_deref());
        let joined = joined.inspect_err(|_| shard.tally().others += 1)?;
        write_bytes(shard, &self.key, &joined, context);
        Ok(joined.len())
    }
}

impl Append<'_, '_> {
    /// The bytes that are to be there.
    fn joined(&self, present: Option<&Entry<[u8]>>) -> Result<Vec<u8>, CommandError> {
        let present = present.map_or(&[][..], |entry| entry.value());
        check_value_bytes(present.len() + self.suffix.len())?;
        Ok([present, self.suffix].concat())
    }
}

/// How a key is kept that gets these bytes: as long as it was.
fn kept(
    present: Option<&Entry<[u8]>>,
    key: &Key<'_>,
    bytes: &[u8],
    context: &Context<'_, [u8]>,
) -> Kept {
    match present {
        Some(entry) => entry.kept(context.now).weighing(context.weight(key, bytes)),
        None => context.kept(key, bytes),
    }
}

/// What the entry of a key will weigh with these bytes.
fn weight_of(shard: &Shard<[u8]>, key: &Key<'_>, bytes: &[u8], context: &Context<'_, [u8]>) -> u64 {
    let kept = kept(shard.peek(key, context.now), key, bytes, context);
    Entry::<[u8]>::weight_of(key.bytes, bytes.len(), kept)
}

/// Writes over an entry or makes one, and keeps it as long as it was.
fn write_bytes(
    shard: &mut Shard<[u8]>,
    key: &Key<'_>,
    bytes: &[u8],
    context: &mut Context<'_, [u8]>,
) {
    let kept = kept(shard.get(key, context).as_deref(), key, bytes, context);
    if shard.overwrite(key, bytes, kept, context).is_ok() {
        return;
    }
    let replaced = shard.write(Entry::new(key.bytes, bytes, kept), key.hash, context);
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
