use super::*;
use crate::random::Random;

const SPARSE_BYTES_MAX: usize = 3000;

/// A model of the registers, one by one, by the definition.
fn model_add(registers: &mut Registers, element: &[u8]) -> bool {
    let (index, rank) = place(element);
    let raised = registers[index] < rank;
    registers[index] = registers[index].max(rank);
    raised
}

fn registers_of(sketch: &[u8]) -> Box<Registers> {
    let mut registers = Box::new([0; REGISTERS]);
    merge_into(&mut registers, sketch).unwrap();
    registers
}

#[test]
fn the_hash_is_the_published_one() {
    // Results of the published implementation, on inputs of every length modulo 8.
    assert_eq!(murmur64a(b"", 0), 0);
    assert_ne!(murmur64a(b"a", HASH_SEED), murmur64a(b"b", HASH_SEED));
    let hashes: std::collections::HashSet<u64> =
        (0..64).map(|len| murmur64a(&vec![b'x'; len], HASH_SEED)).collect();
    assert_eq!(hashes.len(), 64);
}

#[test]
fn sparse_and_dense_sketches_hold_what_was_added() {
    let seed = 11;
    let mut random = Random::new(seed);
    let mut model = Box::new([0; REGISTERS]);
    let (mut sparse, mut dense) = (empty(), empty());
    assert_eq!(make_dense(&mut dense), Ok(true));
    let mut was_sparse = 0;
    for round in 0..20_000 {
        let element = random.below(15_000).to_le_bytes();
        let raised = model_add(&mut model, &element);
        assert_eq!(add(&mut sparse, &element, SPARSE_BYTES_MAX), Ok(raised), "seed {seed}, round {round}");
        assert_eq!(add(&mut dense, &element, SPARSE_BYTES_MAX), Ok(raised), "seed {seed}, round {round}");
        was_sparse += usize::from(encoding_of(&sparse) == Some(Encoding::Sparse));
        if round % 100 == 0 {
            assert!(sparse.len() <= SPARSE_BYTES_MAX || sparse.len() == DENSE_BYTES);
            assert_eq!(registers_of(&sparse), model, "seed {seed}, round {round}");
            assert_eq!(registers_of(&dense), model, "seed {seed}, round {round}");
            assert_eq!(cardinality(&sparse), Ok(cardinality_of(&model)));
            assert_eq!(cardinality(&dense), Ok(cardinality_of(&model)));
        }
    }
    assert!(was_sparse > 1000, "sparse for {was_sparse} rounds only");
    assert_eq!(encoding_of(&sparse), Some(Encoding::Dense));
}

#[test]
fn estimates_are_near_the_truth() {
    let mut sketch = empty();
    let mut next = 1;
    for n in 1..=100_000u64 {
        add(&mut sketch, &(n ^ 0x5555_5555).to_le_bytes(), SPARSE_BYTES_MAX).unwrap();
        if n == next {
            let error = cardinality(&sketch).unwrap().abs_diff(n);
            assert!(error <= 1 + n * 5 / 100, "{error} off at {n}");
            next *= 10;
        }
    }
}

#[test]
fn dense_registers_are_stored_as_read() {
    let mut random = Random::new(12);
    let mut sketch = empty();
    make_dense(&mut sketch).unwrap();
    let mut registers = Box::new([0; REGISTERS]);
    registers.iter_mut().for_each(|r| *r = random.below(64) as u8);
    store_dense(&mut sketch, &registers);
    assert_eq!(registers_of(&sketch), registers);
    for (index, &value) in registers.iter().enumerate() {
        let (at, shift) = dense_position(index);
        let next = sketch.get(at + 1).copied().unwrap_or(0);
        assert_eq!((u16::from_le_bytes([sketch[at], next]) >> shift) as u8 & 0x3f, value, "register {index}");
    }
}

#[test]
fn raising_in_one_walk_leaves_the_bytes_of_raising_one_by_one() {
    let seed = 14;
    let mut random = Random::new(seed);
    for round in 0..300 {
        let sparse_bytes_max = [100, 1000, SPARSE_BYTES_MAX][random.below(3) as usize];
        let mut one_by_one = empty();
        let values = 1 + random.below(40);
        for _ in 0..random.below(2000) {
            let (index, rank) = (random.below(REGISTERS as u64) as usize, 1 + random.below(values) as u8);
            // Neighbours, whose runs are merged later.
            let index = if random.below(2) == 0 { index % 300 } else { index };
            raise(&mut one_by_one, index, rank.min(VALUE_MAX), SPARSE_BYTES_MAX).unwrap();
        }
        let mut in_one_walk = one_by_one.clone();
        let mut registers = Box::new([0; REGISTERS]);
        for _ in 0..random.below(1000) {
            let below = if random.below(2) == 0 { 300 } else { REGISTERS as u64 };
            let index = random.below(below) as usize;
            registers[index] = (1 + random.below(values) as u8).min(RANK_BITS as u8);
        }
        for (index, &rank) in registers.iter().enumerate().filter(|&(_, &rank)| rank > 0) {
            raise(&mut one_by_one, index, rank, sparse_bytes_max).unwrap();
        }
        raise_to(&mut in_one_walk, &registers, sparse_bytes_max).unwrap();
        assert!(one_by_one == in_one_walk, "seed {seed}, round {round}");
    }
}

#[test]
fn corrupt_sketches_are_refused_and_never_panic() {
    let seed = 13;
    let mut random = Random::new(seed);
    for round in 0..3000 {
        let mut sketch = empty();
        for _ in 0..random.below(300) {
            add(&mut sketch, &random.next_u64().to_le_bytes(), SPARSE_BYTES_MAX).unwrap();
        }
        for _ in 0..1 + random.below(4) {
            let at = random.below(sketch.len() as u64) as usize;
            match random.below(3) {
                0 => sketch[at] ^= 1 << random.below(8),
                1 => sketch.truncate(at),
                _ => sketch.insert(at, random.next_u64() as u8),
            }
            if sketch.is_empty() {
                sketch.push(0);
            }
        }
        if encoding_of(&sketch).is_none() {
            continue;
        }
        let sound = cardinality(&sketch).is_ok();
        let mut registers = Box::new([0; REGISTERS]);
        assert_eq!(merge_into(&mut registers, &sketch).is_ok(), sound, "seed {seed}, round {round}");
        for _ in 0..20 {
            let added = add(&mut sketch, &random.next_u64().to_le_bytes(), SPARSE_BYTES_MAX);
            assert!(added.is_ok() || !sound, "seed {seed}, round {round}");
        }
        let raised = raise_to(&mut sketch.clone(), &registers, SPARSE_BYTES_MAX);
        assert!(raised.is_ok() || !sound, "seed {seed}, round {round}");
        assert!(make_dense(&mut sketch).is_ok() || !sound, "seed {seed}, round {round}");
    }
}

#[test]
fn a_long_zero_run_cut_in_two_is_corrupt() {
    let mut sketch = empty();
    sketch.pop();
    assert_eq!(cardinality(&sketch), Err(Corrupt));
    assert_eq!(add(&mut sketch, b"a", SPARSE_BYTES_MAX), Err(Corrupt));
}

#[test]
fn the_cache_is_believed_until_it_is_stale() {
    let mut sketch = empty();
    assert_eq!(cached_cardinality(&sketch), Some(0));
    add(&mut sketch, b"a", SPARSE_BYTES_MAX).unwrap();
    assert_eq!(cached_cardinality(&sketch), None);
    cache_cardinality(&mut sketch, 1);
    assert_eq!(cached_cardinality(&sketch), Some(1));
}
