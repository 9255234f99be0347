//! Byte strings as bit strings: the first bit is the highest of the first byte.
//!
//! ```text
//!   bit     0 1 2 3 4 5 6 7   8 9 ...
//!         | first byte      | second byte
//! ```
//! A field is an integer of up to 64 bits at any bit offset, its highest bit first. It spans at most nine bytes,
//! so reading or writing one is a shift of one 128-bit word.
//!
//! Invariant 1: `count_ones_avx2` runs only on a processor that has AVX2 and POPCNT.

/// Most bytes that a field of 64 bits spans.
const FIELD_BYTES_MAX: usize = 9;

/// The number of bits set in `bytes`.
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= 64 && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: invariant 1, as was just checked.
        return unsafe { count_ones_avx2(bytes) };
    }
    count_ones_plain(bytes)
}

#[inline(always)]
fn count_ones_plain(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// The same code, compiled for processors that count the bits of a whole vector at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_ones_avx2(bytes: &[u8]) -> u64 {
    count_ones_plain(bytes)
}

/// The number of bits set from bit `first` to bit `last`, both included; both must lie within `bytes`.
pub fn count_ones_between(bytes: &[u8], first: u64, last: u64) -> u64 {
    assert!(first <= last && last / 8 < bytes.len() as u64, "a range of bits lies within its bytes");
    let (first_byte, last_byte) = ((first / 8) as usize, (last / 8) as usize);
    let before = bytes[first_byte] & !mask_from(first);
    let after = bytes[last_byte] & !mask_until(last);
    count_ones(&bytes[first_byte..=last_byte])
        - u64::from(before.count_ones())
        - u64::from(after.count_ones())
}

/// The position of the first bit equal to `wanted` from bit `first` to bit `last`, both included and within `bytes`.
pub fn position_between(bytes: &[u8], wanted: bool, first: u64, last: u64) -> Option<u64> {
    assert!(first <= last && last / 8 < bytes.len() as u64, "a range of bits lies within its bytes");
    let flip = if wanted { 0 } else { 0xff };
    let (first_byte, last_byte) = ((first / 8) as usize, (last / 8) as usize);
    let found =
        |index: usize, byte: u8| (byte != 0).then(|| index as u64 * 8 + u64::from(byte.leading_zeros()));
    let edge = |index: usize| {
        let mut byte = bytes[index] ^ flip;
        if index == first_byte {
            byte &= mask_from(first);
        }
        if index == last_byte {
            byte &= mask_until(last);
        }
        found(index, byte)
    };
    if let Some(position) = edge(first_byte) {
        return Some(position);
    }
    if first_byte == last_byte {
        return None;
    }
    let inner = &bytes[first_byte + 1..last_byte];
    let unwanted = !flip;
    if let Some(skipped) = first_other_byte(inner, !unwanted) {
        let index = first_byte + 1 + skipped;
        return found(index, bytes[index] ^ flip);
    }
    edge(last_byte)
}

/// The index of the first byte that is not `byte`, which is all zeros or all ones.
fn first_other_byte(bytes: &[u8], byte: u8) -> Option<usize> {
    const BLOCK: usize = 64;
    let word = u64::from_ne_bytes([byte; 8]);
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let same = |block: &[u8; BLOCK]| {
        let (words, _) = block.as_chunks::<8>();
        words.iter().fold(0, |other, w| other | (u64::from_ne_bytes(*w) ^ word)) == 0
    };
    let skipped = blocks.iter().take_while(|block| same(block)).count() * BLOCK;
    bytes[skipped..].iter().position(|&other| other != byte).map(|at| skipped + at)
}

/// Ones for the bits of `bit`'s byte from `bit` on.
fn mask_from(bit: u64) -> u8 {
    0xff >> (bit % 8)
}

/// Ones for the bits of `bit`'s byte up to `bit`.
fn mask_until(bit: u64) -> u8 {
    0xff << (7 - bit % 8)
}

/// The field of `width` bits (1 to 64) at `offset`; bits beyond the end read as zeros.
pub fn read_field(bytes: &[u8], offset: u64, width: u32) -> u64 {
    let word = load(bytes, offset / 8);
    let below = FIELD_BYTES_MAX as u32 * 8 - (offset % 8) as u32 - width;
    (word >> below) as u64 & field_mask(width)
}

/// Writes the lowest `width` bits (1 to 64) of `value` at `offset`, which must end within `bytes`.
pub fn write_field(bytes: &mut [u8], offset: u64, width: u32, value: u64) {
    assert!(
        (offset + u64::from(width)).div_ceil(8) <= bytes.len() as u64,
        "a field is written within its bytes"
    );
    let below = FIELD_BYTES_MAX as u32 * 8 - (offset % 8) as u32 - width;
    let mask = u128::from(field_mask(width)) << below;
    let word = load(bytes, offset / 8) & !mask | u128::from(value & field_mask(width)) << below;
    let start = (offset / 8) as usize;
    let len = FIELD_BYTES_MAX.min(bytes.len() - start);
    let word = word.to_be_bytes();
    bytes[start..start + len].copy_from_slice(&word[16 - FIELD_BYTES_MAX..][..len]);
}

/// Nine bytes from `start` on in the lowest bits, zeros for those past the end.
fn load(bytes: &[u8], start: u64) -> u128 {
    let there = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
    let len = FIELD_BYTES_MAX.min(there.len());
    let mut word = [0; 16];
    word[16 - FIELD_BYTES_MAX..][..len].copy_from_slice(&there[..len]);
    u128::from_be_bytes(word)
}

fn field_mask(width: u32) -> u64 {
    assert!((1..=64).contains(&width), "a field has 1 to 64 bits");
    u64::MAX >> (64 - width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn bit(bytes: &[u8], at: u64) -> bool {
        bytes[(at / 8) as usize] >> (7 - at % 8) & 1 == 1
    }

    fn random_bytes(random: &mut Random) -> Vec<u8> {
        let len = 1 + random.below(300) as usize;
        // Long stretches of one byte, so that searches can skip.
        let filler = [0, 0xff, 0x55][random.below(3) as usize];
        let mut bytes = vec![filler; len];
        for _ in 0..random.below(4) {
            let at = random.below(len as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        bytes
    }

    #[test]
    fn counts_and_positions_are_those_of_single_bits() {
        let seed = 7;
        let mut random = Random::new(seed);
        for round in 0..2000 {
            let bytes = random_bytes(&mut random);
            let bits = bytes.len() as u64 * 8;
            let (a, b) = (random.below(bits), random.below(bits));
            let (first, last) = (a.min(b), a.max(b));
            let ones = (first..=last).filter(|&at| bit(&bytes, at)).count() as u64;
            assert_eq!(count_ones_between(&bytes, first, last), ones, "seed {seed}, round {round}");
            for wanted in [false, true] {
                let position = (first..=last).find(|&at| bit(&bytes, at) == wanted);
                let seen = position_between(&bytes, wanted, first, last);
                assert_eq!(seen, position, "seed {seed}, round {round}, wanted {wanted}");
            }
            assert_eq!(count_ones(&bytes), count_ones_plain(&bytes));
        }
    }

    #[test]
    fn fields_are_read_as_written_and_leave_the_rest() {
        let seed = 8;
        let mut random = Random::new(seed);
        for round in 0..5000 {
            let mut bytes = random_bytes(&mut random);
            let bits = bytes.len() as u64 * 8;
            let width = 1 + random.below(64.min(bits)) as u32;
            let offset = random.below(bits - u64::from(width) + 1);
            let before = bytes.clone();
            let value = random.next_u64() & field_mask(width);
            write_field(&mut bytes, offset, width, value);
            assert_eq!(read_field(&bytes, offset, width), value, "seed {seed}, round {round}");
            for at in (0..bits).filter(|at| !(offset..offset + u64::from(width)).contains(at)) {
                assert_eq!(bit(&bytes, at), bit(&before, at), "seed {seed}, round {round}, bit {at}");
            }
        }
    }

    #[test]
    fn a_field_past_the_end_reads_as_zeros() {
        assert_eq!(read_field(&[0xff], 4, 8), 0xf0);
        assert_eq!(read_field(&[0xff], 8, 64), 0);
        assert_eq!(read_field(&[], u64::MAX - 64, 64), 0);
    }
}
