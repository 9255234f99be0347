//! HyperLogLog: the number of different elements, to within 0.81 %, in at most 12 KB. The sketch is a plain string
//! in a format that clients may read, store and write back, so its contents are not trusted.
//!
//! ```text
//!   0      4    5      8              16
//!   | HYLL | e  | 0 0 0 | cardinality | registers ...
//! ```
//! `e` is 0 for dense registers and 1 for sparse ones. The cardinality is the last one computed, little endian; its
//! highest bit is set if it is stale. There are 16384 registers; an element's hash selects one with its lowest 14
//! bits, and the register keeps the longest run of zeros (and the one that ends it) seen in the bits above.
//!
//! Dense: register `i` is the six bits from bit `6 i` on, counted from the lowest bit of the first byte.
//! Sparse: a sequence of runs of equal registers that covers all of them:
//! ```text
//!   00llllll            l + 1 registers of 0
//!   01llllll llllllll   l + 1 registers of 0
//!   1vvvvvll            l + 1 registers of v + 1
//! ```
//! Invariants of a valid sketch: (1) a dense one has exactly 12304 bytes; (2) the lengths of a sparse one's runs sum
//! up to 16384. [`encoding_of`] checks the header and the length; functions that iterate over sparse runs check (2)
//! and return [`Corrupt`] if it does not hold.
//!
//! The estimator is Ertl's (arXiv:1702.01284), which needs only the registers' histogram. Dense registers are
//! widened to bytes before they are counted or merged: `dense.rs`.

mod dense;

use dense::Packed;

/// Number of registers of a sketch.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Length of the header.
pub const HEADER_BYTES: usize = 16;
/// Length of a dense sketch.
pub const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
const INDEX_BITS: u32 = 14;
/// Bits of the hash that are searched for zeros.
const RANK_BITS: u32 = 64 - INDEX_BITS;
const HASH_SEED: u64 = 0xadc8_3b19;
const MAGIC: &[u8; 4] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const ENCODING_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
/// Bit in the last byte of the cardinality.
const STALE_BIT: u8 = 0x80;

const ZERO_LEN_MAX: usize = 64;
const VALUE_MAX: u8 = 32;
const VALUE_LEN_MAX: usize = 4;
/// Most bytes that replace a run when a register in it is raised: two long runs of zeros and a value.
const SPLIT_BYTES_MAX: usize = 5;
/// Opcodes examined for a merge after a change, starting with the one before it.
const MERGE_SCAN: usize = 5;

/// The encoding of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Six bits for each of the 16384 registers: 12288 bytes behind the header.
    Dense,
    /// Runs of equal registers, one or two bytes each.
    Sparse,
}

/// The runs of a sparse sketch do not cover its registers exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// One byte for each register, for sketches under construction.
pub type Registers = [u8; REGISTERS];

/// The encoding of the sketch, or `None` if the string is not a sketch.
pub fn encoding_of(sketch: &[u8]) -> Option<Encoding> {
    let header: &[u8; HEADER_BYTES] = sketch.first_chunk()?;
    match header[ENCODING_AT] {
        _ if header[..4] != *MAGIC => None,
        DENSE => (sketch.len() == DENSE_BYTES).then_some(Encoding::Dense),
        SPARSE => Some(Encoding::Sparse),
        _ => None,
    }
}

fn encoding(sketch: &[u8]) -> Encoding {
    encoding_of(sketch).expect("callers have checked that it is a sketch")
}

/// Creates a sketch without elements.
pub fn empty() -> Vec<u8> {
    let mut sketch = vec![0; HEADER_BYTES];
    sketch[..4].copy_from_slice(MAGIC);
    sketch[ENCODING_AT] = SPARSE;
    let mut opcodes = Opcodes::default();
    opcodes.push_zeros(REGISTERS);
    sketch.extend_from_slice(opcodes.as_bytes());
    sketch
}

/// The last computed cardinality, unless the sketch has changed since.
pub fn cached_cardinality(sketch: &[u8]) -> Option<u64> {
    let cached = sketch[CARDINALITY_AT..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    (cached >> 63 == 0).then_some(cached)
}

/// Stores the cardinality in the header.
pub fn cache_cardinality(sketch: &mut [u8], cardinality: u64) {
    sketch[CARDINALITY_AT..][..8].copy_from_slice(&cardinality.to_le_bytes());
}

/// Marks the stored cardinality as stale.
pub fn mark_stale(sketch: &mut [u8]) {
    sketch[CARDINALITY_AT + 7] |= STALE_BIT;
}

/// Adds an element; returns whether a register changed. A sparse sketch that would outgrow `sparse_bytes_max`
/// becomes dense.
pub fn add(sketch: &mut Vec<u8>, element: &[u8], sparse_bytes_max: usize) -> Result<bool, Corrupt> {
    let (index, rank) = place(element);
    raise(sketch, index, rank, sparse_bytes_max)
}

/// Raises a register to `rank` if it is below; returns whether it was. Marks a sparse sketch that changed as stale.
fn raise(sketch: &mut Vec<u8>, index: usize, rank: u8, sparse_bytes_max: usize) -> Result<bool, Corrupt> {
    match encoding(sketch) {
        Encoding::Dense => Ok(raise_dense(sketch, index, rank)),
        Encoding::Sparse => raise_sparse(sketch, index, rank, sparse_bytes_max),
    }
}

/// The register that an element's hash selects, and the rank of the hash.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, HASH_SEED);
    let index = hash as usize % REGISTERS;
    let above = hash >> INDEX_BITS | 1 << RANK_BITS;
    (index, above.trailing_zeros() as u8 + 1)
}

/// MurmurHash2, 64 bits, variant A.
pub fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> R;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

/// A run of equal registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of its opcode in the sketch.
    at: usize,
    opcode_bytes: usize,
    /// The registers' value.
    pub value: u8,
    /// The number of registers.
    pub len: usize,
}

impl Run {
    /// The run whose opcode is at `at`, if the sketch does not end there.
    fn at(sketch: &[u8], at: usize) -> Option<Run> {
        let opcode = *sketch.get(at)?;
        let low = usize::from(opcode & 0x3f);
        Some(match opcode >> 6 {
            0 => Run { at, opcode_bytes: 1, value: 0, len: low + 1 },
            1 => match sketch.get(at + 1) {
                Some(&second) => {
                    Run { at, opcode_bytes: 2, value: 0, len: (low << 8 | usize::from(second)) + 1 }
                }
                // Truncated: a run longer than any sketch, so that no sum is correct.
                None => Run { at, opcode_bytes: 1, value: 0, len: REGISTERS + 1 },
            },
            _ => {
                Run { at, opcode_bytes: 1, value: (opcode >> 2 & 0x1f) + 1, len: usize::from(opcode & 3) + 1 }
            }
        })
    }

    fn end(&self) -> usize {
        self.at + self.opcode_bytes
    }

    /// Returns whether this is a long run of zeros.
    pub fn is_long_zero(&self) -> bool {
        self.opcode_bytes == 2
    }
}

/// Iterates over the runs of a sparse sketch, unvalidated.
pub fn runs(sketch: &[u8]) -> impl Iterator<Item = Run> {
    let first = Run::at(sketch, HEADER_BYTES);
    std::iter::successors(first, |run| Run::at(sketch, run.end()))
}

/// Visits the runs of a sparse sketch with the index of each one's first register.
fn for_each_run(sketch: &[u8], mut visit: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
    let mut covered = 0;
    for run in runs(sketch) {
        if covered + run.len > REGISTERS {
            return Err(Corrupt);
        }
        visit(covered, run);
        covered += run.len;
    }
    if covered == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

fn raise_sparse(
    sketch: &mut Vec<u8>,
    index: usize,
    rank: u8,
    sparse_bytes_max: usize,
) -> Result<bool, Corrupt> {
    if rank > VALUE_MAX {
        return raise_promoted(sketch, index, rank);
    }
    let (mut first, mut at, mut previous_at) = (0, HEADER_BYTES, HEADER_BYTES);
    let run = loop {
        let run = Run::at(sketch, at).filter(|run| run.len <= REGISTERS).ok_or(Corrupt)?;
        if index < first + run.len {
            break run;
        }
        first += run.len;
        previous_at = at;
        at = run.end();
    };
    raise_in_run(sketch, run, first, previous_at, (index, rank), sparse_bytes_max)
}

/// Raises a register of `run`, whose first register is `first` and which follows the run at `previous_at`.
fn raise_in_run(
    sketch: &mut Vec<u8>,
    run: Run,
    first: usize,
    previous_at: usize,
    (index, rank): (usize, u8),
    sparse_bytes_max: usize,
) -> Result<bool, Corrupt> {
    if run.value >= rank {
        return Ok(false);
    }
    let split = split(run, index - first, rank);
    let grows = split.len > run.opcode_bytes;
    if grows && sketch.len() + split.len - run.opcode_bytes > sparse_bytes_max {
        return raise_promoted(sketch, index, rank);
    }
    replace(sketch, run.at, run.opcode_bytes, split.as_bytes());
    merge_values(sketch, previous_at);
    mark_stale(sketch);
    Ok(true)
}

/// Raises a sketch to `registers`, one by one in their order as [`raise`] does, but in one pass.
pub fn raise_to(sketch: &mut Vec<u8>, registers: &Registers, sparse_bytes_max: usize) -> Result<(), Corrupt> {
    // Offsets of the runs before `at`, and their first registers.
    let mut before: Vec<(usize, usize)> = Vec::new();
    let (mut at, mut first) = (HEADER_BYTES, 0);
    for (index, &rank) in registers.iter().enumerate().filter(|&(_, &rank)| rank > 0) {
        if encoding(sketch) == Encoding::Dense || rank > VALUE_MAX {
            raise(sketch, index, rank, sparse_bytes_max)?;
            continue;
        }
        let run = loop {
            let run = Run::at(sketch, at).filter(|run| run.len <= REGISTERS).ok_or(Corrupt)?;
            if index < first + run.len {
                break run;
            }
            before.push((at, first));
            (at, first) = (run.end(), first + run.len);
        };
        let previous_at = before.last().map_or(HEADER_BYTES, |&(at, _)| at);
        if raise_in_run(sketch, run, first, previous_at, (index, rank), sparse_bytes_max)? {
            // The run may have been merged into the one before it.
            (at, first) = before.pop().unwrap_or((HEADER_BYTES, 0));
        }
    }
    Ok(())
}

/// A few opcodes.
#[derive(Default)]
struct Opcodes {
    bytes: [u8; SPLIT_BYTES_MAX],
    len: usize,
}

impl Opcodes {
    fn push(&mut self, opcode: u8) {
        self.bytes[self.len] = opcode;
        self.len += 1;
    }

    fn push_value(&mut self, value: u8, len: usize) {
        if len > 0 {
            assert!((1..=VALUE_MAX).contains(&value) && len <= VALUE_LEN_MAX, "fits an opcode");
            self.push(0x80 | (value - 1) << 2 | (len - 1) as u8);
        }
    }

    /// Adds runs of zeros; nothing for length 0.
    fn push_zeros(&mut self, len: usize) {
        match len {
            0 => {}
            1..=ZERO_LEN_MAX => self.push((len - 1) as u8),
            _ => {
                self.push(0x40 | ((len - 1) >> 8) as u8);
                self.push((len - 1) as u8);
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The opcodes that replace a run in which one register gets another value.
fn split(run: Run, position: usize, rank: u8) -> Opcodes {
    let after = run.len - position - 1;
    let mut opcodes = Opcodes::default();
    if run.value == 0 {
        opcodes.push_zeros(position);
        opcodes.push_value(rank, 1);
        opcodes.push_zeros(after);
    } else {
        opcodes.push_value(run.value, position);
        opcodes.push_value(rank, 1);
        opcodes.push_value(run.value, after);
    }
    opcodes
}

/// Replaces `old` bytes at `at` by `new`.
fn replace(sketch: &mut Vec<u8>, at: usize, old: usize, new: &[u8]) {
    let (len, behind) = (sketch.len(), at + old);
    if new.len() > old {
        sketch.resize(len + new.len() - old, 0);
    }
    sketch.copy_within(behind..len, at + new.len());
    sketch.truncate(len + new.len() - old);
    sketch[at..at + new.len()].copy_from_slice(new);
}

/// Merges neighbouring runs with the same value, near a change.
fn merge_values(sketch: &mut Vec<u8>, from: usize) {
    let mut at = from;
    for _ in 0..MERGE_SCAN {
        let Some(run) = Run::at(sketch, at) else { break };
        let next = Run::at(sketch, run.end());
        if let Some(next) = next
            && run.value > 0
            && next.value == run.value
            && run.len + next.len <= VALUE_LEN_MAX
        {
            sketch.remove(at);
            sketch[at] = 0x80 | (run.value - 1) << 2 | (run.len + next.len - 1) as u8;
            continue;
        }
        at = run.end();
    }
}

fn raise_promoted(sketch: &mut Vec<u8>, index: usize, rank: u8) -> Result<bool, Corrupt> {
    make_dense(sketch)?;
    let raised = raise_dense(sketch, index, rank);
    Ok(raised)
}

/// Converts a sparse sketch into a dense one; returns whether it was sparse.
pub fn make_dense(sketch: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if encoding(sketch) == Encoding::Dense {
        return Ok(false);
    }
    let mut registers = Box::new([0; REGISTERS]);
    merge_into(&mut registers, sketch)?;
    sketch.truncate(HEADER_BYTES);
    sketch.reserve_exact(DENSE_BYTES - HEADER_BYTES);
    sketch.resize(DENSE_BYTES, 0);
    sketch[ENCODING_AT] = DENSE;
    store_dense(sketch, &registers);
    Ok(true)
}

/// The offset of the register's lowest byte and its shift within the two bytes from there on.
fn dense_position(index: usize) -> (usize, u32) {
    (HEADER_BYTES + index * 6 / 8, (index * 6 % 8) as u32)
}

fn raise_dense(sketch: &mut [u8], index: usize, rank: u8) -> bool {
    let (at, shift) = dense_position(index);
    let next = sketch.get(at + 1).copied().unwrap_or(0);
    let pair = u16::from_le_bytes([sketch[at], next]);
    if (pair >> shift & 0x3f) as u8 >= rank {
        return false;
    }
    let pair = pair & !(0x3f << shift) | u16::from(rank) << shift;
    let [low, high] = pair.to_le_bytes();
    sketch[at] = low;
    if let Some(next) = sketch.get_mut(at + 1) {
        *next = high;
    }
    true
}

/// The registers of a dense sketch.
fn packed(sketch: &[u8]) -> &Packed {
    sketch[HEADER_BYTES..].first_chunk().expect("a dense sketch has all its bytes")
}

/// Writes all registers of a dense sketch.
pub fn store_dense(sketch: &mut [u8], registers: &Registers) {
    let packed = sketch[HEADER_BYTES..].first_chunk_mut().expect("a dense sketch has all its bytes");
    dense::pack(packed, registers);
}

/// Raises each of `registers` to the sketch's.
pub fn merge_into(registers: &mut Registers, sketch: &[u8]) -> Result<(), Corrupt> {
    if encoding(sketch) == Encoding::Sparse {
        return for_each_run(sketch, |first, run| {
            if run.value > 0 {
                registers[first..first + run.len].iter_mut().for_each(|r| *r = (*r).max(run.value));
            }
        });
    }
    dense::raise_to(registers, packed(sketch));
    Ok(())
}

/// The number of registers with each value.
type Histogram = [u32; 64];

/// The estimated number of different elements, ignoring the cached one.
pub fn cardinality(sketch: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram: Histogram = [0; 64];
    if encoding(sketch) == Encoding::Sparse {
        for_each_run(sketch, |_, run| histogram[usize::from(run.value)] += run.len as u32)?;
        return Ok(estimate(&histogram));
    }
    let mut registers = [0; REGISTERS];
    merge_into(&mut registers, sketch)?;
    Ok(cardinality_of(&registers))
}

/// The estimate for registers under construction.
pub fn cardinality_of(registers: &Registers) -> u64 {
    estimate(&dense::count(registers))
}

fn estimate(histogram: &Histogram) -> u64 {
    const HALF_PER_LN_2: f64 = 0.721_347_520_444_481_7;
    let m = REGISTERS as f64;
    let full = histogram[RANK_BITS as usize + 1];
    let mut z = m * tau((m - f64::from(full)) / m);
    for &count in histogram[1..=RANK_BITS as usize].iter().rev() {
        z = (z + f64::from(count)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    let estimate = (HALF_PER_LN_2 * m * m / z).round();
    // The sum is 0 only for registers that no hash can produce.
    if estimate.is_finite() { estimate as u64 } else { 1 << 63 }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests;
