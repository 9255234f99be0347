//! The checksum of RDB files and DUMP payloads: CRC-64 with Jones' polynomial, reflected, from 0.
//!
//! Short pieces are reckoned here, eight bytes a step; longer ones by the processor's carry-less multiplication, which
//! takes longer to begin.

use crate::convert::low_u8;
use crc_fast::{CrcAlgorithm, Digest};

/// 0xad93d23594c935a9 with its bits reversed.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// Shorter pieces are short.
const LONG_BYTES_MIN: usize = 128;

/// `TABLES[n][b]` is what the byte `b`, followed by `n` zero bytes, adds. 16 KiB: half of a first-level cache.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u64 = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of what `crc` is the checksum of, followed by `bytes`. Of nothing it is 0.
pub fn extend(crc: u64, bytes: &[u8]) -> u64 {
    if bytes.len() < LONG_BYTES_MIN {
        return extend_short(crc, bytes);
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Redis, crc);
    digest.update(bytes);
    digest.finalize()
}

fn extend_short(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        crc = (0..8).fold(0, |sum, at| sum ^ TABLES[7 - at][mixed[at] as usize]);
    }
    rest.iter().fold(crc, |crc, byte| TABLES[0][(low_u8(crc) ^ byte) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value() {
        assert_eq!(extend(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let bytes: Vec<u8> = (0..700u32).map(|n| (n * 7 + n / 5) as u8).collect();
        let bytewise = bytes.iter().fold(0, |crc, &byte| extend(crc, &[byte]));
        assert_eq!(extend_short(0, &bytes), bytewise);
        for cut in 0..bytes.len() {
            assert_eq!(extend(extend(0, &bytes[..cut]), &bytes[cut..]), bytewise);
        }
    }
}
