use super::*;
use crate::model::{random_text, scaled, with_seeds};

fn texts(listpack: &Listpack) -> Vec<Vec<u8>> {
    listpack.iter().map(|element| element.to_vec()).collect()
}

#[test]
fn bytes_are_those_of_the_reference() {
    // Made by DUMP of a list in Valkey 9.1: RPUSH l 1 -1 4095 70000 hello "" -5000000000 8000000.
    let mut listpack = Listpack::new();
    for text in ["1", "-1", "4095", "70000", "hello", "", "-5000000000", "8000000"] {
        listpack.push_back(text.as_bytes());
    }
    let expected = [
        &[44, 0, 0, 0, 8, 0][..],
        &[1, 1],
        &[0xDF, 0xFF, 2],
        &[0xCF, 0xFF, 2],
        &[0xF2, 0x70, 0x11, 0x01, 4],
        &[0x85, b'h', b'e', b'l', b'l', b'o', 6],
        &[0x80, 1],
        &[0xF4, 0x00, 0x0E, 0xFA, 0xD5, 0xFE, 0xFF, 0xFF, 0xFF, 9],
        &[0xF2, 0x00, 0x12, 0x7A, 4],
        &[0xFF],
    ]
    .concat();
    assert_eq!(listpack.as_bytes(), expected);
    listpack.check();
}

#[test]
fn every_width_reads_back_both_ways() {
    let mut edges = vec![0i64, 127, 128, -1, 4095, 4096, -4096, -4097];
    for bits in [15, 23, 31, 63] {
        let half = 1i128 << bits;
        edges.extend([half - 1, -half, half, -half - 1].iter().filter_map(|&v| i64::try_from(v).ok()));
    }
    let mut listpack = Listpack::new();
    let mut expected = Vec::new();
    for &edge in &edges {
        listpack.push_back_integer(edge);
        expected.push(edge.to_string().into_bytes());
    }
    for len in [0, 1, 63, 64, 125, 126, 127, 4095, 4096, 16380, 16384, 70_000, 2_097_145, 2_097_152] {
        if cfg!(miri) && len > 20_000 {
            continue;
        }
        let text = vec![b'a'; len];
        listpack.push_back(&text);
        expected.push(text);
    }
    listpack.check();
    assert_eq!(texts(&listpack), expected);
    let mut backward: Vec<_> = listpack.iter().rev().map(|element| element.to_vec()).collect();
    backward.reverse();
    assert_eq!(backward, expected);
    assert_eq!(Listpack::validate(listpack.as_bytes()).map(|l| texts(&l)), Ok(expected));
}

fn random_step(listpack: &mut Listpack, model: &mut Vec<Vec<u8>>, random: &mut crate::random::Random) {
    let text = random_text(random);
    let index = random.below(model.len() as u64 + 1) as usize;
    let inside = index < model.len();
    match random.below(13) {
        0 | 1 => {
            listpack.push_back(&text);
            model.push(text);
        }
        2 => {
            listpack.push_front(&text);
            model.insert(0, text);
        }
        3 if inside => {
            let at = listpack.at(index as i64).unwrap();
            let at = listpack.insert_before(at, &text);
            assert!(listpack.get(at) == *text);
            model.insert(index, text);
        }
        4 if inside => {
            let at = listpack.at(index as i64 - model.len() as i64).unwrap();
            let at = listpack.insert_after(at, &text);
            assert!(listpack.get(at) == *text);
            model.insert(index + 1, text);
        }
        5 if inside => {
            let at = listpack.at(index as i64).unwrap();
            listpack.replace(at, &text);
            model[index] = text;
        }
        6 if inside => {
            let at = listpack.at(index as i64).unwrap();
            let next = listpack.remove(at);
            model.remove(index);
            assert_eq!(next.map(|at| listpack.get(at).to_vec()).as_ref(), model.get(index));
        }
        7 if random.below(4) == 0 => {
            let count = random.below(8) as usize;
            let removed = listpack.remove_range(index as i64, count);
            let end = (index + count).min(model.len());
            assert_eq!(removed, end - index);
            model.drain(index..end);
        }
        8 => {
            let skip = random.below(3) as usize;
            let needle = if inside { model[index].clone() } else { text };
            let found = listpack.first().and_then(|first| listpack.find_counted(first, &needle, skip));
            let expected = model.iter().step_by(skip + 1).position(|other| *other == needle);
            let expected = expected.map(|nth| (nth, listpack.at((nth * (skip + 1)) as i64).unwrap()));
            assert_eq!(found, expected);
        }
        12 => {
            let (integer, at) = (random.next_u64() as i64 >> random.below(64), listpack.at(index as i64));
            listpack.insert_pair(at, [Element::Bytes(&text), Element::Integer(integer)]);
            model.splice(index..index, [text, integer.to_string().into_bytes()]);
        }
        9 => {
            let added: Vec<_> = (0..random.below(4)).map(|_| random_text(random)).collect();
            listpack.append(added.iter().map(|text| Element::Bytes(text)));
            model.extend(added);
        }
        10 if random.below(10) == 0 => {
            let other = listpack.clone();
            let own = std::mem::take(listpack);
            *listpack = Listpack::merge(own, &other);
            model.extend_from_within(..);
        }
        _ if model.len() > 60 => {
            listpack.remove_range(-40, 40);
            model.truncate(model.len() - 40);
        }
        _ => {}
    }
}

#[test]
fn random_operations_match_a_vector() {
    with_seeds(0..8, |random| {
        let (mut listpack, mut model) = (Listpack::new(), Vec::new());
        for _ in 0..scaled(3_000) {
            random_step(&mut listpack, &mut model, random);
            listpack.check();
            assert_eq!(listpack.len(), model.len());
            assert_eq!(listpack.is_empty(), model.is_empty());
            assert_eq!(texts(&listpack), model);
            assert!(listpack.at(model.len() as i64).is_none());
            assert!(listpack.at(-(model.len() as i64) - 1).is_none());
        }
    });
}

#[test]
fn a_count_beyond_the_header_is_walked() {
    if cfg!(miri) {
        return;
    }
    let mut listpack: Listpack = (0..65_534).map(|_| Element::Integer(1)).collect();
    assert_eq!(listpack.as_bytes()[4..6], [0xFE, 0xFF]);
    listpack.push_back(b"2");
    assert_eq!(listpack.as_bytes()[4..6], [0xFF, 0xFF]);
    assert_eq!(listpack.len(), 65_535);
    listpack.push_back(b"3");
    assert_eq!(listpack.len(), 65_536);
    assert!(listpack.get(listpack.at(65_535).unwrap()) == Element::Integer(3));
    assert!(listpack.get(listpack.at(-2).unwrap()) == Element::Integer(2));
    assert!(listpack.at(65_536).is_none());
    assert_eq!(listpack.remove_range(10, 100_000), 65_526);
    assert_eq!(listpack.len(), 10);
    listpack.check();
}

#[test]
fn every_truncation_is_refused() {
    let mut listpack = Listpack::new();
    for text in ["1", "-70000", "hello", "5000000000", &"x".repeat(200), &"y".repeat(5000)] {
        listpack.push_back(text.as_bytes());
    }
    let bytes = listpack.as_bytes();
    for len in 0..bytes.len() {
        assert!(Listpack::validate(&bytes[..len]).is_err());
        // Again with a header that agrees with the shorter length.
        let mut shorter = bytes[..len].to_vec();
        if len >= 4 {
            shorter[..4].copy_from_slice(&(len as u32).to_le_bytes());
            assert!(Listpack::validate(&shorter).is_err());
        }
    }
}

#[test]
fn hostile_bytes_never_panic() {
    with_seeds(0..4, |random| {
        let mut listpack = Listpack::new();
        for _ in 0..12 {
            listpack.push_back(&random_text(random));
        }
        let mut accepted = 0;
        for _ in 0..scaled(20_000) {
            let mut bytes = listpack.as_bytes().to_vec();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            if let Ok(valid) = Listpack::validate(&bytes) {
                accepted += 1;
                valid.check();
                assert_eq!(valid.iter().count(), valid.iter().rev().count());
                assert_eq!(valid.iter().count(), valid.len());
            }
        }
        assert!(accepted > 0, "a changed byte inside a string is still a listpack");
    });
}

#[test]
fn random_bytes_never_panic() {
    with_seeds(0..4, |random| {
        for _ in 0..scaled(5_000) {
            let len = random.below(40) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            if len >= 7 {
                bytes[..4].copy_from_slice(&(len as u32).to_le_bytes());
                bytes[4..6].copy_from_slice(&[0xFF, 0xFF]);
                bytes[len - 1] = END;
            }
            if let Ok(valid) = Listpack::validate(&bytes) {
                valid.check();
                let _ = (valid.len(), valid.last(), valid.at(-1), valid.iter().rev().count());
            }
        }
    });
}

#[test]
fn texts_that_look_alike_stay_apart() {
    let mut listpack = Listpack::new();
    for text in ["1", "01", "1.0", "+1", " 1", "-0"] {
        listpack.push_back(text.as_bytes());
    }
    let first = listpack.first().unwrap();
    for (i, text) in ["1", "01", "1.0", "+1", " 1", "-0"].iter().enumerate() {
        assert_eq!(listpack.find(first, text.as_bytes(), 0), listpack.at(i as i64));
    }
    assert_eq!(listpack.find(first, b"2", 0), None);
}

#[test]
fn what_is_built_at_once_is_what_is_appended() {
    with_seeds(0..50, |random| {
        let (mut builder, mut appended) = (Builder::with_room(8), Listpack::new());
        for _ in 0..random.below(200) {
            let text = random_text(random);
            assert!(builder.fits(text.len(), 1));
            match decimal::parse(&text) {
                Some(value) => builder.push(Element::Integer(value)),
                None => builder.push(Element::Bytes(&text)),
            }
            appended.push_back(&text);
        }
        let built = builder.finish();
        built.check();
        assert_eq!(built.as_bytes(), appended.as_bytes());
    });
}

#[test]
fn retaining_keeps_what_is_kept_in_order() {
    with_seeds(0..50, |random| {
        let mut listpack = Listpack::new();
        let model: Vec<Vec<u8>> = (0..random.below(100)).map(|_| random_text(random)).collect();
        model.iter().for_each(|text| listpack.push_back(text));
        let share = random.below(5);
        let fate: Vec<bool> = model.iter().map(|_| random.below(4) < share).collect();
        let mut asked = Vec::new();
        listpack.retain(|element| {
            asked.push(element.to_vec());
            fate[asked.len() - 1]
        });
        listpack.check();
        assert_eq!(asked, model);
        let kept = model.into_iter().zip(&fate).filter(|(_, keep)| **keep).map(|(text, _)| text);
        assert_eq!(texts(&listpack), kept.collect::<Vec<_>>());
    });
}

/// Returns whether the bytes are a listpack, checking each element by the functions that know every encoding.
fn is_well_formed(bytes: &[u8]) -> bool {
    let (Some((&END, entries)), Some(header)) = (bytes.split_last(), bytes.first_chunk::<6>()) else {
        return false;
    };
    let (mut at, mut count) = (HEADER_BYTES, 0);
    while at < entries.len() {
        let Some(size) = encoding::checked_element_size(entries, at) else { return false };
        let (backlen, len) = backlen(size);
        if !entries[at + size..].starts_with(&backlen[..len]) {
            return false;
        }
        (at, count) = (at + size + len, count + 1);
    }
    let counted = u16::from_le_bytes([header[4], header[5]]);
    at == entries.len()
        && u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize == bytes.len()
        && (counted == u16::MAX || counted == count)
}

#[test]
fn what_is_validated_is_what_is_well_formed() {
    with_seeds(0..8, |random| {
        for _ in 0..scaled(2000) {
            let mut listpack = Listpack::new();
            for _ in 0..random.below(6) {
                match random.below(3) {
                    0 => listpack.push_back_integer(random.next_u64() as i64 >> random.below(64)),
                    1 => listpack.push_back(&vec![
                        b'x';
                        [62, 63, 64, 65, 125, 126, 127, 4095, 4096]
                            [random.below(9) as usize]
                    ]),
                    _ => listpack.push_back(&vec![b'x'; random.below(20) as usize]),
                }
            }
            let mut bytes = listpack.as_bytes().to_vec();
            for _ in 0..random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] =
                    if random.below(2) == 0 { random.next_u64() as u8 } else { bytes[at].wrapping_add(1) };
            }
            assert_eq!(Listpack::validated(&bytes).is_ok(), is_well_formed(&bytes), "{bytes:x?}");
        }
    });
}

#[test]
fn a_walk_over_what_is_left_meets_what_others_meet() {
    let widths = [0, 7, 12, 13, 15, 16, 23, 24, 31, 32, 62, 63];
    let integers = widths.iter().flat_map(|&bits| {
        let power = 1_i64 << bits;
        [power.wrapping_sub(1), power, power.wrapping_neg(), power.wrapping_neg().wrapping_sub(1)]
    });
    let texts = [0, 1, 63, 64, 126, 127, 128, 4095, 4096, 16384].map(|len| vec![b'x'; len]);
    let mut listpack = Listpack::new();
    for value in integers {
        listpack.push_back_integer(value);
        listpack.push_back(&texts[value.unsigned_abs() as usize % texts.len()]);
    }
    let mut elements = listpack.iter();
    loop {
        let (rest, expected) = (elements.rest(), elements.next());
        let (mut read, mut passed) = (rest, rest);
        assert_eq!(read.next_integer(), expected.and_then(|element| element.as_integer()));
        assert_eq!(passed.pass_over(1).is_some(), expected.is_some());
        let mut behind = listpack.iter();
        behind.go_to(&passed);
        assert_eq!(behind.next_position(), elements.next_position());
        let left = elements.clone().count();
        assert!(passed.pass_over(left).is_some() && passed.next_integer().is_none());
        assert!(passed.pass_over(1).is_none());
        if expected.is_none() {
            break;
        }
        // Whatever the element was, the iterator has passed it.
        behind.go_to(&read);
        assert_eq!(behind.next_position(), elements.next_position());
    }
}
