//! The portable kernel: sixteen slices of 256 entries, taken from the tables of the `crc` crate.

use crc::CRC_16_XMODEM;
use crc::Crc;
use crc::Table;

/// Slice `n` maps a byte to the checksum of that byte followed by `n` zero bytes.
/// A static, so that its 8 KiB exist once and not at every use.
static XMODEM: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

/// The checksum of `bytes`, in steps of 16, then at most one step each of 8 and 4, then by bytes.
///
/// Keys are short: the steps of 8 and 4 spare a key of 15 bytes eight dependent lookups.
pub(super) const fn checksum(bytes: &[u8]) -> u16 {
    let mut crc = 0;
    let mut rest = bytes;
    while let Some((block, tail)) = rest.split_first_chunk::<16>() {
        crc = step(crc, block);
        rest = tail;
    }
    if let Some((block, tail)) = rest.split_first_chunk::<8>() {
        crc = step(crc, block);
        rest = tail;
    }
    if let Some((block, tail)) = rest.split_first_chunk::<4>() {
        crc = step(crc, block);
        rest = tail;
    }
    let first = &XMODEM.table()[0];
    while let Some((&byte, tail)) = rest.split_first() {
        let [high, low] = crc.to_be_bytes();
        crc = first[(high ^ byte) as usize] ^ ((low as u16) << 8);
        rest = tail;
    }
    crc
}

/// The checksum `crc` of what came before, continued over a block of 2 to 16 bytes.
///
/// The two bytes of `crc` meet the first two of the block; from there on no lookup waits for
/// another one.
#[inline]
const fn step<const N: usize>(crc: u16, block: &[u8; N]) -> u16 {
    const { assert!(N >= 2 && N <= 16) };
    let slices = XMODEM.table();
    let [high, low] = crc.to_be_bytes();
    let mut sum =
        slices[N - 1][(block[0] ^ high) as usize] ^ slices[N - 2][(block[1] ^ low) as usize];
    let mut index = 2;
    while index < N {
        sum ^= slices[N - 1 - index][block[index] as usize];
        index += 1;
    }
    sum
}
