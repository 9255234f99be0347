use super::*;
use crate::model::scaled;
use crate::random::Random;

const ROWS: usize = 4;

fn available() -> Vec<Simd> {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut all = vec![Simd::Plain, Simd::detect()];
    #[cfg(target_arch = "x86_64")]
    all.push(Simd::Sse2);
    all.dedup();
    all
}

#[test]
fn every_form_finds_the_same_bytes() {
    let mut random = Random::new(1);
    for round in 0..scaled(3_000) {
        let distinct = 1 + random.below(if round % 2 == 0 { 3 } else { 256 });
        let row: Row = std::array::from_fn(|_| random.below(distinct) as u8);
        let byte = random.below(distinct) as u8;
        let expected = plain::equal(&row, byte);
        assert_eq!(Group::of(&row).matching(byte), BitMask(expected));
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: detected on the line above.
            assert_eq!(unsafe { avx2::equal(&row, byte) }, expected);
        }
    }
}

#[test]
fn a_mask_passes_its_lanes_in_order() {
    let mut random = Random::new(5);
    for _ in 0..scaled(3_000) {
        let row: Row = std::array::from_fn(|_| random.below(2) as u8);
        let lanes: Vec<usize> = (0..LANES).filter(|&lane| row[lane] == 1).collect();
        let mask = Group::of(&row).matching(1);
        assert_eq!(mask.collect::<Vec<_>>(), lanes);
        assert_eq!(mask.lowest(), lanes.first().copied());
        let count = 1 + random.below(2 * LANES as u64) as usize;
        assert!(mask.below(count).eq(lanes.iter().copied().filter(|&lane| lane < count)));
        let both = mask.followed_by(mask).below(count);
        let repeated = lanes.iter().copied().chain(lanes.iter().map(|lane| lane + LANES));
        assert!(both.eq(repeated.filter(|&lane| lane < count)));
    }
    assert_eq!(Group::first_of(&[0; LANES - 1]).map(|group| group.matching(0)), None);
}

#[test]
fn every_form_finds_the_same_tags() {
    let mut random = Random::new(4);
    for _ in 0..scaled(3_000) {
        let slots: Vec<u8> =
            (0..8).flat_map(|_| (random.below(3) << 48 | random.below(1 << 48)).to_ne_bytes()).collect();
        let line = Line(slots.try_into().expect("64 bytes"));
        for tag in [0, 1, 2, u16::MAX] {
            assert_eq!(line.matching(tag), BitMask(plain::equal_tags(&line, tag)));
        }
    }
    let line = Line([0xff; LANES]);
    assert_eq!([line.matching(u16::MAX), line.matching(0x7fff)], [BitMask(0xff), BitMask::<u32>::NONE]);
}

#[test]
fn every_form_counts_the_same_numbers_below() {
    let mut random = Random::new(6);
    for round in 0..scaled(3_000) {
        let mut numbers: [u32; 16] = std::array::from_fn(|_| random.next_u64() as u32 >> (round % 30));
        numbers.sort_unstable();
        let bounds = numbers.iter().flat_map(|&number| [number, number.saturating_add(1)]);
        for least in bounds.chain([0, u32::MAX, random.next_u64() as u32]) {
            assert_eq!(count_below(&numbers, least), plain::count_below(&numbers, least));
        }
    }
}

#[test]
fn numbers_of_a_column_below_others_are_counted() {
    let mut random = Random::new(7);
    for round in 0..scaled(20_000) {
        let (width, count) =
            (round as usize % 9, random.below(if round % 3 == 0 { 40 } else { 400 }) as usize);
        let bits = if width == 0 { 1 } else { 1 + random.below(8 * width as u64) };
        let any = |random: &mut Random| if width == 0 { 0 } else { random.next_u64() >> (64 - bits) };
        let mut numbers: Vec<u64> = (0..count).map(|_| any(&mut random)).collect();
        numbers.sort_unstable();
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()[..width].to_vec()).collect();
        bytes.extend((0..random.below(40)).map(|_| random.next_u64() as u8));
        let near = numbers.get(random.below(count as u64 + 1) as usize).map_or(u64::MAX, |&number| number);
        for least in [[near, any(&mut random)], [near.wrapping_add(1), 0], [u64::MAX, near.wrapping_sub(1)]] {
            let expected = least.map(|least| numbers.partition_point(|&number| number < least));
            for simd in available() {
                let counts = simd.count_below(&Column { bytes: &bytes, width, count }, least);
                assert!(counts.is_none_or(|counts| counts == expected), "{width} {least:?} {numbers:?}");
                let can = width < 8 && count >= 16 && bytes.len() >= count * width + 16;
                assert!(counts.is_none() || can, "{simd:?} read beyond the column");
                #[cfg(target_arch = "x86_64")]
                assert_eq!(counts.is_some(), can && simd == Simd::Avx2);
            }
        }
    }
}

#[test]
fn every_form_sums_alike() {
    let mut random = Random::new(2);
    for round in 0..scaled(1_000) {
        let row: Row = std::array::from_fn(|_| if round == 0 { 255 } else { random.next_u64() as u8 });
        for count in 0..=LANES {
            let expected = plain::sum_first(&row, count);
            assert_eq!(sum(&row, 0, count), expected);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: detected on the line above.
                assert_eq!(unsafe { avx2::sum_first(&row, count) }, expected);
            }
        }
    }
}

#[test]
fn sums_of_any_range_stay_within_the_bytes() {
    let mut random = Random::new(3);
    let bytes: Vec<u8> = (0..if cfg!(miri) { 70 } else { 200 }).map(|_| random.next_u64() as u8).collect();
    for start in 0..bytes.len() {
        for end in (start..=bytes.len()).step_by(3) {
            let expected: usize = bytes[start..end].iter().map(|&byte| usize::from(byte)).sum();
            assert_eq!(sum(&bytes, start, end), expected, "{start}..{end}");
            let ones = bytes[start..end].iter().filter(|&&byte| byte == bytes[0]).count();
            assert_eq!(count_equal(&bytes, start, end, bytes[0]), ones);
        }
    }
}

/// Sorted columns of few distinct bytes, so that ties are common.
fn sorted_rows(random: &mut Random, distinct: u64) -> [Row; ROWS] {
    let mut columns: Vec<[u8; ROWS]> = (0..64)
        .map(|_| std::array::from_fn(|_| (random.below(distinct) * 255 / (distinct - 1)) as u8))
        .collect();
    columns.sort();
    std::array::from_fn(|row| std::array::from_fn(|column| columns[column][row]))
}

#[test]
fn every_version_finds_what_a_linear_search_finds() {
    let mut random = Random::new(11);
    let rounds = if cfg!(miri) { 10 } else { 5_000 };
    for _ in 0..rounds {
        let distinct = 2 + random.below(254);
        let rows = sorted_rows(&mut random, distinct);
        let count = 1 + random.below(64) as usize;
        let live = u64::MAX >> (64 - count);
        let columns: Vec<[u8; ROWS]> =
            (0..count).map(|column| std::array::from_fn(|row| rows[row][column])).collect();
        let feature = match random.below(2) {
            0 => columns[random.below(count as u64) as usize],
            _ => std::array::from_fn(|_| random.next_u64() as u8),
        };
        let from = columns.iter().filter(|&&column| column < feature).count();
        let to = columns.iter().filter(|&&column| column <= feature).count();
        let expected = if from == to { Narrowed::Between(from) } else { Narrowed::Tied { from, to } };
        for simd in available() {
            assert_eq!(simd.narrow(&rows, feature, live), expected, "{simd:?}");
        }
    }
}

#[test]
fn every_version_compares_every_pair_of_bytes() {
    let step = if cfg!(miri) { 51 } else { 1 };
    for row_byte in (0..=255u8).step_by(step) {
        for byte in (0..=255u8).step_by(step) {
            let mut row = [row_byte; 64];
            row[63] = byte;
            let rows = [row; ROWS];
            let one = u64::MAX >> 63;
            let expected = match row_byte.cmp(&byte) {
                std::cmp::Ordering::Less => Narrowed::Between(1),
                std::cmp::Ordering::Equal => Narrowed::Tied { from: 0, to: 1 },
                std::cmp::Ordering::Greater => Narrowed::Between(0),
            };
            for simd in available() {
                assert_eq!(simd.narrow(&rows, [byte; ROWS], one), expected, "{simd:?} {row_byte} {byte}");
            }
        }
    }
}
