//! CRC-16/XMODEM, the checksum that turns a key into a slot.
//!
//! | parameter | value |
//! |---|---|
//! | width, polynomial | 16, 0x1021 (x^16 + x^12 + x^5 + 1) |
//! | initial value, final xor | 0, 0 |
//! | reflected | neither input nor output |
//! | check value of `123456789` | 0x31C3 |
//!
//! With a zero start, leading zero bytes do not change the checksum, and neither does a run of
//! 65534 equal bytes from its start: 32767 is the order of the polynomial.
//!
//! # Tiers
//!
//! The checksum has several kernels, a [`Tier`] each, which agree bit for bit:
//!
//! | tier | needs | is |
//! |---|---|---|
//! | `portable` | nothing | no `unsafe` and no SIMD: registers, tables, xor |
//! | `clmul` | PCLMULQDQ, SSSE3 | carry-less products of 16 bytes |
//! | `wide` | AVX-512 F, BW, VL and VBMI, VPCLMULQDQ, GFNI, BMI1, BMI2 | one masked load of a key |
//!
//! The best tier that the processor can run is chosen at the first use. The environment variable
//! `SLOTKEEP_TIER` names another one, for support; a name that is unknown, or a tier that the
//! processor cannot run, is passed over. On other architectures than x86-64 there is only
//! `portable`.

#[cfg(target_arch = "x86_64")]
mod batch;
#[cfg(target_arch = "x86_64")]
mod clmul;
#[cfg(target_arch = "x86_64")]
mod constants;
#[cfg(target_arch = "x86_64")]
mod long;
mod portable;
mod swar;
mod table;
pub(crate) mod tag;
mod tier;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use tier::Tier;
pub use tier::TierError;
pub use tier::Tiers;

/// The checksum of `bytes`, by the active [`Tier`].
///
/// It never allocates. [`crc16_const`] is the same for const contexts.
///
/// # Examples
///
/// ```
/// use slotkeep::crc16::crc16;
///
/// assert_eq!(crc16(b"123456789"), 0x31C3);
/// ```
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    Tier::active().crc16(bytes)
}

/// The checksum of `bytes`, also in const contexts.
///
/// At run time [`crc16`] is faster: this is the portable kernel without its path for long input.
///
/// # Examples
///
/// ```
/// use slotkeep::crc16::crc16_const;
///
/// const CHECK: u16 = crc16_const(b"123456789");
/// assert_eq!(CHECK, 0x31C3);
/// ```
#[inline]
pub const fn crc16_const(bytes: &[u8]) -> u16 {
    if bytes.len() <= 8 { swar::checksum(bytes) } else { table::checksum(bytes) }
}
