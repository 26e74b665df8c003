//! Calls on byte values that grow: incr and append.

use crate::cluster::Client;
use crate::command::Append;
use crate::command::Incr;
use crate::error::Error;

impl Client<[u8]> {
    /// Adds to a decimal number and returns the sum; a key that is not there counts as 0. Keeps the
    /// deadline.
    ///
    /// # Errors
    /// [`Error::NotAnInteger`] when the value is not a decimal number of 64 bits;
    /// [`Error::Overflow`]; see [`Error`].
    pub fn incr(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error> {
        let key = self.key(key.as_ref())?;
        Ok(self.call(key.slot, Incr { key, by })??)
    }

    /// Appends bytes and returns the new length; a key that is not there counts as empty. Keeps the
    /// deadline.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`]; see [`Error`].
    pub fn append(&self, key: impl AsRef<[u8]>, suffix: &[u8]) -> Result<usize, Error> {
        let key = self.key(key.as_ref())?;
        Ok(self.call(key.slot, Append { key, suffix })??)
    }
}
