//! LZF, the compression of long strings in DUMP and RDB, and of the middle of packed lists.
//!
//! ```text
//!  000lllll <l+1 bytes>              literal run of 1..=32 bytes
//!  lllooooo oooooooo                 copy of l+2 = 3..=8 bytes from o+1 = 1..=8,192 bytes back
//!  111ooooo llllllll oooooooo        copy of l+9 = 9..=264 bytes
//! ```
//!
//! [`Compressor`] produces the bytes that the reference produces with a cleared table (its own table starts with arbitrary
//! stack contents). Source: Marc Lehmann, LibLZF, the "very fast" variant with 2^16 slots. Decompression does not trust its
//! input.
//!
//! Invariants:
//! 1. [`Input`] is read below its length.
//! 2. [`Output`] is written below its length: room is checked before each byte. An open run keeps a byte free in front of it
//!    for its length; `literals` is below `at`.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#lzf).

use std::fmt;

const LITERALS_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const COPY_MAX: usize = 264;
/// Most output bytes per input byte: three bytes give 264.
const EXPANSION_MAX: usize = COPY_MAX / 3;

/// The bytes are not a compressor's output, or not for this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("compressed bytes are corrupt")
    }
}

impl std::error::Error for Corrupt {}

/// The last position of three bytes. Its result is either more than [`DISTANCE_MAX`] or the distance to a position of the
/// same input that is not its first: the first is never stored, as in the reference.
trait Recent {
    /// Stores `position`, above 0, for the three bytes in the low 24 bits of `hash`; returns the distance to their previous
    /// position.
    fn replace(&mut self, hash: u32, position: usize) -> usize;
}

#[inline(always)]
fn slot<const LOG: u32>(hash: u32) -> usize {
    ((hash >> (24 - LOG)).wrapping_sub(hash.wrapping_mul(5)) & ((1 << LOG) - 1)) as usize
}

/// A compressor with a table that is reused for the next input: it is cleared by advancing a base, not by writing.
pub struct Compressor {
    slots: Box<[u32; 1 << COMPRESSOR_LOG]>,
    /// Slots hold `base + position`. Positions of an earlier input are further away than a copy reaches.
    base: u32,
    /// The base of the next input.
    next_base: u32,
}

const COMPRESSOR_LOG: u32 = 16;
/// Distance of the positions of two inputs, and of the first input from empty slots.
const GAP: u32 = DISTANCE_MAX as u32;

impl Compressor {
    /// Creates a compressor with an empty table.
    pub fn new() -> Self {
        let slots = vec![0; 1 << COMPRESSOR_LOG].into_boxed_slice();
        Compressor { slots: slots.try_into().expect("the slice has this length"), base: GAP, next_base: GAP }
    }

    /// Compresses into `output` and returns the length, or none if the result would not fit. Inputs of 4 GiB less 16 KiB
    /// and more are not compressed.
    pub fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        let step = u32::try_from(input.len()).ok()?.checked_add(GAP)?;
        self.base = self.next_base;
        self.next_base = match self.base.checked_add(step) {
            Some(next) => next,
            None => {
                let next = GAP.checked_add(step)?;
                self.slots.fill(0);
                self.base = GAP;
                next
            }
        };
        compress(input, output, self)
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Compressor::new()
    }
}

impl Recent for Compressor {
    #[inline(always)]
    fn replace(&mut self, hash: u32, position: usize) -> usize {
        let now = self.base + position as u32;
        let before = std::mem::replace(&mut self.slots[slot::<COMPRESSOR_LOG>(hash)], now);
        (now - before) as usize
    }
}

const SMALL_LOG: u32 = 12;

struct SmallTable([u16; 1 << SMALL_LOG]);

impl Recent for SmallTable {
    #[inline(always)]
    fn replace(&mut self, hash: u32, position: usize) -> usize {
        match std::mem::replace(&mut self.0[slot::<SMALL_LOG>(hash)], position as u16) {
            0 => usize::MAX,
            before => position - usize::from(before),
        }
    }
}

/// Compresses up to 64 KiB with a small table on the stack, slightly less tightly than [`Compressor`].
pub fn compress_small(input: &[u8], output: &mut [u8]) -> Option<usize> {
    if input.len() > 1 << 16 {
        return None;
    }
    compress(input, output, &mut SmallTable([0; 1 << SMALL_LOG]))
}

/// The input, read without bounds checks: the caller guarantees the length.
#[derive(Clone, Copy)]
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    /// # Safety
    /// `at` is below the length.
    #[inline(always)]
    unsafe fn byte(self, at: usize) -> u8 {
        debug_assert!(at < self.0.len());
        // SAFETY: invariant 1, guaranteed by the caller.
        unsafe { *self.0.get_unchecked(at) }
    }

    /// The bytes from `at` on.
    ///
    /// # Safety
    /// `at + N` is at most the length.
    #[inline(always)]
    unsafe fn array<const N: usize>(self, at: usize) -> [u8; N] {
        debug_assert!(at + N <= self.0.len());
        // SAFETY: invariant 1, guaranteed by the caller; bytes need no alignment.
        unsafe { self.0.as_ptr().add(at).cast::<[u8; N]>().read_unaligned() }
    }

    /// The two bytes before `at`, as the beginning of a hash.
    ///
    /// # Safety
    /// `at` is at least 2 and at most the length.
    #[inline(always)]
    unsafe fn two_before(self, at: usize) -> u32 {
        // SAFETY: invariant 1, guaranteed by the caller.
        u32::from(u16::from_be_bytes(unsafe { self.array(at - 2) }))
    }
}

/// The growing output.
struct Output<'a> {
    bytes: &'a mut [u8],
    at: usize,
    literals: usize,
}

impl Output<'_> {
    /// # Safety
    /// `at` is below the length.
    #[inline(always)]
    unsafe fn put(&mut self, at: usize, byte: u8) {
        debug_assert!(at < self.bytes.len());
        // SAFETY: invariant 2, guaranteed by the caller.
        unsafe { *self.bytes.get_unchecked_mut(at) = byte }
    }

    /// Writes the length of the open run, unless the run is empty; then its length byte is reused for the next byte.
    ///
    /// # Safety
    /// `at` is at most the length.
    #[inline(always)]
    unsafe fn end_run(&mut self) {
        // SAFETY: invariant 2 and the caller's guarantee: the length byte is before the run, which ends before `at`.
        unsafe { self.put(self.at - self.literals - 1, (self.literals as u8).wrapping_sub(1)) };
        self.at -= usize::from(self.literals == 0);
    }

    #[inline(always)]
    fn start_run(&mut self) {
        self.literals = 0;
        self.at += 1;
    }

    /// # Safety
    /// There is room for a byte.
    #[inline(always)]
    unsafe fn literal(&mut self, byte: u8) {
        // SAFETY: invariant 2, guaranteed by the caller; behind the byte `at` is at most the length.
        unsafe {
            self.put(self.at, byte);
            self.at += 1;
            self.literals += 1;
            if self.literals == LITERALS_MAX {
                self.end_run();
                self.start_run();
            }
        }
    }

    /// Writes a copy of `len` bytes, at least 3, from `distance` back.
    ///
    /// # Safety
    /// There is room for four bytes behind the output so far.
    #[inline(always)]
    unsafe fn copy(&mut self, len: usize, distance: usize) {
        let (back, rest) = (distance - 1, len - 2);
        let high = (back >> 8) as u8;
        // SAFETY: invariant 2, guaranteed by the caller: at most three bytes.
        unsafe {
            self.end_run();
            if rest < 7 {
                self.put(self.at, high | (rest as u8) << 5);
            } else {
                self.put(self.at, high | 7 << 5);
                self.put(self.at + 1, (rest - 7) as u8);
                self.at += 1;
            }
            self.put(self.at + 1, back as u8);
        }
        self.at += 2;
        self.start_run();
    }
}

#[inline(always)]
fn compress(input: &[u8], output: &mut [u8], recent: &mut impl Recent) -> Option<usize> {
    if input.is_empty() || output.is_empty() {
        return None;
    }
    let out_len = output.len();
    let mut out = Output { bytes: output, at: 1, literals: 0 };
    let bytes = Input(input);
    let searched = input.len().saturating_sub(2);
    let (mut at, mut hash) = (0, 0);
    if searched > 0 {
        if out_len < 2 {
            return None;
        }
        // SAFETY: invariants 1 and 2: there are three bytes, and room for one behind the length of its run.
        unsafe {
            out.literal(bytes.byte(0));
            hash = bytes.two_before(3);
        }
        at = 1;
    }
    while at < searched {
        // SAFETY: invariants 1 and 2: `at + 2` is below the length, as is any position before. A distance of
        // up to DISTANCE_MAX is to a position above 0, so there are four bytes from there to `at + 2`. Room
        // is checked before each byte of output.
        unsafe {
            hash = (hash << 8) | u32::from(bytes.byte(at + 2));
            let distance = recent.replace(hash, at);
            let is_found = distance <= DISTANCE_MAX
                && u32::from_be_bytes(bytes.array(at - distance)) ^ (hash << 8) < 1 << 8;
            if !is_found {
                if out.at >= out_len {
                    return None;
                }
                out.literal(bytes.byte(at));
                at += 1;
                continue;
            }
            if out.at - usize::from(out.literals == 0) + 4 >= out_len {
                return None;
            }
            let len = match_len(bytes, at - distance, at);
            out.copy(len, distance);
            at += len;
            if at >= searched {
                break;
            }
            // The last two positions inside the copy are stored too.
            hash = bytes.two_before(at);
            for inside in [at - 2, at - 1] {
                hash = (hash << 8) | u32::from(bytes.byte(inside + 2));
                recent.replace(hash, inside);
            }
        }
    }
    if out.at + 3 > out_len {
        return None;
    }
    // SAFETY: invariant 2: at most two bytes are left, and with the length of another run they take three.
    unsafe {
        for &byte in &input[at..] {
            out.literal(byte);
        }
        out.end_run();
    }
    Some(out.at)
}

/// The number of equal bytes at `before` and `at`, of which three are known to be equal. The two limits are the
/// reference's: near the end it stops two bytes early, unless its unrolled loop has already passed that point.
///
/// # Safety
/// `before` is below `at`, and there are three bytes from `at` on.
#[inline(always)]
unsafe fn match_len(input: Input<'_>, before: usize, at: usize) -> usize {
    let limit = (input.0.len() - at - 2).min(COPY_MAX);
    // SAFETY: invariant 1: called only for bytes within `limit + 2`, or within the first three.
    let differ = |i: usize| unsafe { input.byte(before + i) != input.byte(at + i) };
    // SAFETY: invariant 1: called only for eight bytes that end within `limit + 2`.
    let words = |i: usize| unsafe {
        u64::from_le_bytes(input.array(before + i)) ^ u64::from_le_bytes(input.array(at + i))
    };
    if limit <= 16 {
        return (3..limit.max(3)).find(|&i| differ(i)).unwrap_or(limit.max(3));
    }
    for i in 3..SHORT {
        if differ(i) {
            return i;
        }
    }
    let (mut i, end) = (SHORT, limit.max(SHORT));
    while i + 8 <= end {
        let difference = words(i);
        if difference != 0 {
            return i + (difference.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    (i..end).find(|&i| differ(i)).unwrap_or(end)
}

/// Number of bytes compared one by one: the processor predicts where they differ, and continues meanwhile.
const SHORT: usize = 19;

/// Decompresses bytes that must give exactly `len` bytes, replacing the contents of `output` and keeping its allocation;
/// after an error the contents are arbitrary. A length that the input cannot produce is rejected before anything is
/// allocated.
pub fn decompress_into(input: &[u8], len: usize, output: &mut Vec<u8>) -> Result<(), Corrupt> {
    output.clear();
    if len > input.len().saturating_mul(EXPANSION_MAX) {
        return Err(Corrupt);
    }
    output.reserve_exact(len);
    let (mut rest, mut at) = (input, 0);
    while !rest.is_empty() {
        output.resize(len.min(output.len() + ZEROED_AT_ONCE), 0);
        let is_last = output.len() == len;
        let enough = if is_last { usize::MAX } else { output.len() - COPY_MAX - STEP };
        (rest, at) = expand(rest, output, at, enough)?;
    }
    if at == len { Ok(()) } else { Err(Corrupt) }
}

/// Decompresses from `at` on until the output exceeds `enough` or the input ends; returns the rest of the input, and where
/// its output begins.
#[inline]
fn expand<'a>(
    mut rest: &'a [u8],
    output: &mut [u8],
    mut at: usize,
    enough: usize,
) -> Result<(&'a [u8], usize), Corrupt> {
    while let Some((&control, after)) = rest.split_first()
        && at <= enough
    {
        rest = after;
        let room = &mut output[at..];
        if control < 32 {
            let count = control as usize + 1;
            if count > rest.len() || count > room.len() {
                return Err(Corrupt);
            }
            copy_literals(rest, room, count);
            (rest, at) = (&rest[count..], at + count);
            continue;
        }
        let mut count = (control >> 5) as usize + 2;
        if count == 9 {
            let (&more, after) = rest.split_first().ok_or(Corrupt)?;
            rest = after;
            count += more as usize;
        }
        let (&low, after) = rest.split_first().ok_or(Corrupt)?;
        rest = after;
        let back = (((control & 0x1F) as usize) << 8 | low as usize) + 1;
        if back > at || count > room.len() {
            return Err(Corrupt);
        }
        copy_back(output, at, back, count);
        at += count;
    }
    Ok((rest, at))
}

/// Copies the first `count` bytes, at most 32; bytes behind them that are not written yet may change.
#[inline]
fn copy_literals(from: &[u8], to: &mut [u8], count: usize) {
    match (from.first_chunk(), to.first_chunk_mut()) {
        (Some(from), Some(to)) => {
            let (from, to): (&[u8; LITERALS_MAX], &mut [u8; LITERALS_MAX]) = (from, to);
            *to = *from;
        }
        _ => to[..count].copy_from_slice(&from[..count]),
    }
}

/// Number of bytes copied at a time.
const STEP: usize = 16;

/// Zeros written ahead of the decompressed bytes: they are still in the nearest cache when they are overwritten. Zeroing
/// the whole output at once took a sixth of the time of a megabyte's RESTORE.
const ZEROED_AT_ONCE: usize = 16 * 1024;

/// Copies `count` bytes to `at` from `back` before it, repeating the copied bytes if `count` exceeds `back`. As in
/// [`copy_literals`], the bytes behind them may change.
#[inline]
fn copy_back(output: &mut [u8], at: usize, back: usize, count: usize) {
    if back == 1 {
        let byte = output[at - 1];
        return output[at..at + count].fill(byte);
    }
    if at + count + STEP <= output.len() {
        let mut done = 0;
        if back >= STEP {
            while done < count {
                let step: [u8; STEP] =
                    *output[at - back + done..].first_chunk().expect("the output is longer");
                output[at + done..at + done + STEP].copy_from_slice(&step);
                done += STEP;
            }
            return;
        }
        // A short repeated pattern: as many repetitions as fit into a step.
        let step = repeated(output[at - back..].first_chunk().expect("the output is longer"), back);
        let period = STEP - STEP % back;
        while done < count {
            output[at + done..at + done + STEP].copy_from_slice(&step);
            done += period;
        }
        return;
    }
    // Copied bytes are source bytes of the next step: fewer and fewer steps for a short repeated pattern.
    let (from, mut done) = (at - back, 0);
    while done < count {
        let step = (back + done).min(count - done);
        output.copy_within(from..from + step, at + done);
        done += step;
    }
}

/// The first `len` bytes repeated, 1 to [`STEP`]` - 1` of them.
#[inline]
fn repeated(bytes: &[u8; STEP], len: usize) -> [u8; STEP] {
    let mut step = u128::from_le_bytes(*bytes) & ((1 << (8 * len)) - 1);
    let mut filled = len;
    while filled < STEP {
        step |= step << (8 * filled);
        filled *= 2;
    }
    step.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{scaled, with_seeds};
    use crate::random::Random;

    fn decompress(input: &[u8], len: usize) -> Result<Vec<u8>, Corrupt> {
        let mut output = Vec::new();
        decompress_into(input, len, &mut output)?;
        Ok(output)
    }

    fn sample(random: &mut Random, len: usize) -> Vec<u8> {
        let few = random.below(2) == 0;
        let letters = 1 + random.below(if few { 4 } else { 256 });
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            if bytes.len() > 8 && random.below(4) == 0 {
                let from = random.below(bytes.len() as u64) as usize;
                for i in 0..1 + random.below(400) as usize {
                    bytes.push(bytes[from + i]);
                }
            }
            bytes.push(random.below(letters) as u8);
        }
        bytes.truncate(len);
        bytes
    }

    /// `reference.bin`: inputs, output sizes, and the output of the reference's compressor when built with a cleared table;
    /// each as three u16 lengths (input, room, output; 0 = does not fit), then bytes.
    #[test]
    fn output_is_that_of_the_reference() {
        let mut rest: &[u8] = include_bytes!("lzf/reference.bin");
        let mut compressor = Compressor::new();
        let mut cases = 0;
        while let Some((lengths, after)) = rest.split_at_checked(6) {
            let length = |i: usize| u16::from_le_bytes([lengths[i], lengths[i + 1]]) as usize;
            let (input, after) = after.split_at(length(0));
            let (expected, after) = after.split_at(length(4));
            let mut output = vec![0; length(2)];
            let len = compressor.compress(input, &mut output).unwrap_or(0);
            assert_eq!(&output[..len], expected);
            (rest, cases) = (after, cases + 1);
        }
        assert_eq!(cases, 60);
    }

    #[test]
    fn other_readers_understand_the_output() {
        let mut compressor = Compressor::new();
        with_seeds(0..4, |random| {
            for _ in 0..scaled(500) {
                let long = random.below(10) == 0;
                let len = random.below(if long { 70_000 } else { 600 }) as usize;
                let input = sample(random, len);
                let mut output = vec![0; input.len() * 2 + 64];
                let Some(len) = compressor.compress(&input, &mut output) else { continue };
                assert_eq!(decompress(&output[..len], input.len()), Ok(input.clone()));
                assert_eq!(::lzf::decompress(&output[..len], input.len()), Ok(input.clone()));
                if let Ok(theirs) = ::lzf::compress(&input) {
                    assert_eq!(decompress(&theirs, input.len()), Ok(input));
                }
            }
        });
    }

    #[test]
    fn small_tables_round_trip_and_never_overrun() {
        with_seeds(0..4, |random| {
            for _ in 0..scaled(500) {
                let len = random.below(9_000) as usize;
                let input = sample(random, len);
                let room = random.below(input.len() as u64 + 20) as usize;
                let mut output = vec![0; room];
                if let Some(len) = compress_small(&input, &mut output) {
                    assert_eq!(decompress(&output[..len], input.len()), Ok(input));
                }
            }
        });
    }

    #[test]
    fn tiny_inputs_and_outputs() {
        for len in 0..12 {
            for room in 0..20 {
                let input = vec![b'a'; len];
                let mut output = vec![0; room];
                if let Some(used) = Compressor::new().compress(&input, &mut output) {
                    assert_eq!(decompress(&output[..used], len), Ok(input));
                }
            }
        }
    }

    #[test]
    fn patterns_of_each_length_come_back_whatever_is_zeroed_at_once() {
        let mut compressor = Compressor::new();
        for pattern in 1..=40 {
            for len in [ZEROED_AT_ONCE, ZEROED_AT_ONCE + COPY_MAX, 2 * ZEROED_AT_ONCE, 100_000] {
                for len in len - 2..=len + 2 {
                    let input: Vec<u8> = (0..len).map(|i| (i % pattern * 7) as u8).collect();
                    let mut packed = vec![0; len];
                    let packed_len = compressor.compress(&input, &mut packed).expect("a pattern compresses");
                    let packed = &packed[..packed_len];
                    assert!(decompress(packed, len) == Ok(input), "{pattern} over {len}");
                    assert_eq!(decompress(packed, len - 1), Err(Corrupt));
                    assert_eq!(decompress(packed, len + 1), Err(Corrupt));
                }
            }
        }
    }

    #[test]
    fn every_truncation_and_wrong_length_is_refused() {
        let input: Vec<u8> = (0..3000u32).flat_map(|i| (i % 97).to_string().into_bytes()).collect();
        let mut output = vec![0; input.len()];
        let len = Compressor::new().compress(&input, &mut output).unwrap();
        for cut in 0..len {
            assert_eq!(decompress(&output[..cut], input.len()), Err(Corrupt));
        }
        assert_eq!(decompress(&output[..len], input.len() - 1), Err(Corrupt));
        assert_eq!(decompress(&output[..len], input.len() + 1), Err(Corrupt));
        assert_eq!(decompress(&output[..len], usize::MAX), Err(Corrupt));
    }

    #[test]
    fn hostile_bytes_never_panic() {
        with_seeds(0..4, |random| {
            for _ in 0..scaled(20_000) {
                let len = random.below(30) as usize;
                let input: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                let _ = decompress(&input, random.below(2_000) as usize);
            }
        });
    }
}
