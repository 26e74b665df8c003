//! Tiers: which kernels there are, which of them the processor can run, and which one is used.

use core::fmt;
use core::str::FromStr;

#[cfg(target_arch = "x86_64")]
use super::clmul::Clmul;
use super::portable;
#[cfg(target_arch = "x86_64")]
use super::wide::Wide;
use crate::sync::OnceLock;

/// The variable that names the tier to use.
const VARIABLE: &str = "SLOTKEEP_TIER";

/// The choice of [`Tier::active`].
static ACTIVE: OnceLock<Tier> = OnceLock::new();

/// A kernel of the checksum that this processor can run.
///
/// A tier comes from [`Tier::active`], from [`Tier::available`] or from its name. There is no other
/// way to get one, so a kernel cannot be called where its instructions are missing.
///
/// # Examples
///
/// ```
/// use slotkeep::crc16::Tier;
///
/// for tier in Tier::available() {
///     assert_eq!(tier.crc16(b"123456789"), 0x31C3, "{tier}");
/// }
/// assert_eq!("portable".parse::<Tier>()?.name(), "portable");
/// # Ok::<(), slotkeep::crc16::TierError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tier(Kernel);

/// The kernels; but for the portable one, a value is the proof that the processor can run it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Clmul(Clmul),
    #[cfg(target_arch = "x86_64")]
    Wide(Wide),
}

impl Tier {
    /// The tier that [`crc16`](super::crc16) and slots use.
    ///
    /// It is the last of [`available`](Self::available), or the one that the environment variable
    /// `SLOTKEEP_TIER` names, if it is among them. The choice is made once.
    #[inline]
    pub fn active() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernel) = Wide::chosen() {
            return Self(Kernel::Wide(kernel));
        }
        *ACTIVE.get_or_init(Self::choose)
    }

    /// The tiers that this processor can run, each faster than the one before. The first one is
    /// `portable`.
    pub fn available() -> Tiers {
        Tiers { names: NAMES.iter() }
    }

    /// The name of the tier, as it is printed and parsed.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kernel::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kernel::Clmul(_) => "clmul",
            #[cfg(target_arch = "x86_64")]
            Kernel::Wide(_) => "wide",
        }
    }

    /// The checksum of `bytes`.
    #[inline]
    pub fn crc16(self, bytes: &[u8]) -> u16 {
        #[cfg(target_arch = "x86_64")]
        if let Kernel::Wide(kernel) = self.0 {
            return kernel.checksum(bytes);
        }
        self.narrow_crc16(bytes)
    }

    /// [`Tier::crc16`] of the tiers but the best. Apart, so that the best one is a test and a call.
    #[inline(never)]
    fn narrow_crc16(self, bytes: &[u8]) -> u16 {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kernel::Clmul(kernel) => kernel.checksum(bytes),
            _ => portable::checksum(bytes),
        }
    }

    /// The checksum of the [hash tag](crate::slot::hash_tag) of `key`, whose low 14 bits are the
    /// key's slot.
    #[inline]
    pub fn crc16_of_tag(self, key: &[u8]) -> u16 {
        #[cfg(target_arch = "x86_64")]
        if let Kernel::Wide(kernel) = self.0 {
            return kernel.checksum_of_tag(key);
        }
        self.narrow_crc16_of_tag(key)
    }

    /// [`Tier::crc16_of_tag`] of the tiers but the best.
    #[inline(never)]
    fn narrow_crc16_of_tag(self, key: &[u8]) -> u16 {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kernel::Clmul(kernel) => kernel.checksum_of_tag(key),
            _ => portable::checksum_of_tag(key),
        }
    }

    /// The checksums of the [hash tags](crate::slot::hash_tag) of many keys, in their order.
    ///
    /// # Panics
    ///
    /// When there are not as many `checksums` as `keys`.
    #[inline]
    pub fn crc16_of_tags(self, keys: &[&[u8]], checksums: &mut [u16]) {
        assert_eq!(keys.len(), checksums.len(), "one checksum for each key");
        self.of_tags(keys, checksums, |checksum| checksum);
    }

    /// Puts what `made` makes of the checksums of the hash tags of `keys` into `out`, up to the end
    /// of the shorter slice. A key may be asked for its bytes up to three times.
    #[inline]
    pub(crate) fn of_tags<K: AsRef<[u8]>, T>(
        self,
        keys: &[K],
        out: &mut [T],
        made: impl Fn(u16) -> T,
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Kernel::Wide(kernel) = self.0 {
            return kernel.of_tags(keys, out, made);
        }
        for (key, out) in keys.iter().zip(out) {
            *out = made(self.crc16_of_tag(key.as_ref()));
        }
    }

    /// The tier that the environment names, or else the best one.
    #[cold]
    fn choose() -> Self {
        let named = std::env::var(VARIABLE).ok().and_then(|name| name.parse().ok());
        let tier = named.or_else(|| Self::available().last()).unwrap_or(Self(Kernel::Portable));
        #[cfg(target_arch = "x86_64")]
        if let Kernel::Wide(kernel) = tier.0 {
            kernel.choose();
        }
        tier
    }
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tier").field(&self.name()).finish()
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The names of all tiers, the slowest first, available or not.
const NAMES: [&str; 3] = ["portable", "clmul", "wide"];

impl FromStr for Tier {
    type Err = TierError;

    /// Reads a name as [`Tier::name`] has it.
    ///
    /// # Errors
    ///
    /// [`TierError::Unknown`] when no tier has this name: fix the text.
    /// [`TierError::Unavailable`] when the processor cannot run it: take another one.
    fn from_str(name: &str) -> Result<Self, TierError> {
        let kernel = match name {
            "portable" => Some(Kernel::Portable),
            #[cfg(target_arch = "x86_64")]
            "clmul" => Clmul::new().map(Kernel::Clmul),
            #[cfg(target_arch = "x86_64")]
            "wide" => Wide::new().map(Kernel::Wide),
            #[cfg(not(target_arch = "x86_64"))]
            "clmul" | "wide" => None,
            _ => return Err(TierError::Unknown),
        };
        kernel.map(Self).ok_or(TierError::Unavailable)
    }
}

/// The tiers that this processor can run: what [`Tier::available`] returns.
#[derive(Clone, Debug)]
pub struct Tiers {
    names: core::slice::Iter<'static, &'static str>,
}

impl Iterator for Tiers {
    type Item = Tier;

    fn next(&mut self) -> Option<Tier> {
        self.names.find_map(|name| name.parse().ok())
    }
}

/// Why a name is not a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// No tier has this name.
    #[error("unknown tier")]
    Unknown,

    /// The processor, or the architecture, lacks instructions that the tier needs.
    #[error("this processor cannot run the tier")]
    Unavailable,
}
