use super::*;
use crate::listpack::Listpack;
use crate::model::{random_text, scaled, with_seeds};
use crate::random::Random;
use std::collections::VecDeque;

type Model = VecDeque<Vec<u8>>;

fn texts(list: &SmallList) -> Model {
    let mut texts = Model::new();
    list.view().for_each(0, usize::MAX, Direction::Forward, |element| texts.push_back(element.to_vec()));
    texts
}

fn text(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0 => vec![random.below(256) as u8; random.below(1_100) as usize],
        1..8 => b"again".to_vec(),
        _ => random_text(random),
    }
}

/// Bytes of a record of this text, by the table in `listpack/encoding.rs`.
fn record_bytes(text: &[u8]) -> usize {
    Encoded::new(text).size()
}

fn fits(model: &Model, added: &[Vec<u8>], fill: i32) -> bool {
    let all = || model.iter().chain(added);
    let entries_max = if fill < 0 { 32 } else { fill.clamp(1, 32) as usize };
    all().count() <= entries_max && all().map(|text| record_bytes(text)).sum::<usize>() + 3 <= 1024
}

fn step_ends(list: &mut SmallList, model: &mut Model, fill: i32, random: &mut Random) {
    let text = text(random);
    let front = random.below(2) == 0;
    match random.below(7) {
        0..4 => {
            let fitted = fits(model, std::slice::from_ref(&text), fill);
            assert_eq!(list.push(front, &text, fill), fitted);
            match (fitted, front) {
                (false, _) => {}
                (true, true) => model.push_front(text),
                (true, false) => model.push_back(text),
            }
        }
        4 => {
            let added: Vec<_> = (0..random.below(5)).map(|_| random_text(random)).collect();
            let fitted = fits(model, &added, fill);
            assert!(fitted || !added.is_empty());
            assert_eq!(
                list.push_all(front, added.iter().map(Vec::as_slice), fill),
                fitted || added.is_empty()
            );
            for text in added.into_iter().filter(|_| fitted) {
                if front { model.push_front(text) } else { model.push_back(text) }
            }
        }
        5 => {
            let popped = if front { model.pop_front() } else { model.pop_back() };
            assert_eq!(list.pop(front, |element| element.to_vec()), popped);
        }
        _ => {
            let (count, mut popped) = (random.below(4) as usize, Vec::new());
            list.pop_many(front, count, |element| popped.push(element.to_vec()));
            let pop = |model: &mut Model| if front { model.pop_front() } else { model.pop_back() };
            let expected: Vec<_> = (0..count).map_while(|_| pop(model)).collect();
            assert_eq!(popped, expected);
        }
    }
}

fn step(list: &mut SmallList, model: &mut Model, fill: i32, random: &mut Random) {
    let text = text(random);
    let index = random.below(model.len() as u64 + 1) as usize;
    let front = random.below(2) == 0;
    match random.below(12) {
        0..7 => step_ends(list, model, fill, random),
        7 => {
            let at = if front { index as i64 } else { index as i64 - model.len() as i64 };
            let place = if at < 0 { (at + model.len() as i64) as usize } else { index };
            let Some(old) = model.get(place).filter(|_| at < model.len() as i64) else {
                return assert_eq!(list.set(model.len() as i64, &text, fill), None);
            };
            let grown = record_bytes(&text).saturating_sub(record_bytes(old));
            let fitted = fits(model, &[], fill) && list.used_bytes() + 3 + grown <= 1024;
            assert_eq!(list.set(at, &text, fill), Some(fitted));
            if fitted {
                model[place] = text;
            }
        }
        8 => {
            let pivot = model.get(index).cloned().unwrap_or(b"none".to_vec());
            let found = model.iter().position(|other| *other == pivot);
            let fitted = fits(model, std::slice::from_ref(&text), fill);
            assert_eq!(list.insert(front, &pivot, &text, fill), found.map(|_| fitted));
            if let Some(at) = found.filter(|_| fitted) {
                model.insert(at + usize::from(!front), text);
            }
        }
        9 => {
            let count = random.below(4) as usize;
            let removed = list.remove_range(index, count);
            assert_eq!(removed, count.min(model.len() - index));
            model.drain(index..index + removed);
        }
        10 if model.len() > 8 => {
            let count = random.below(6) as usize + 1;
            list.retain_range(index, count);
            *model = model.iter().skip(index).take(count).cloned().collect();
        }
        _ => {
            let value = model.get(index).cloned().unwrap_or(text);
            remove_matching(list, model, &value, front, random.below(4));
        }
    }
}

fn remove_matching(list: &mut SmallList, model: &mut Model, value: &[u8], front: bool, count: u64) {
    let direction = if front { Direction::Forward } else { Direction::Backward };
    let mut matching: Vec<_> = (0..model.len()).filter(|&index| model[index] == value).collect();
    if !front {
        matching.reverse();
    }
    matching.truncate(count as usize);
    assert_eq!(list.remove_matching(value, direction, count), matching.len() as u64);
    let mut index = 0;
    model.retain(|_| {
        index += 1;
        !matching.contains(&(index - 1))
    });
}

fn compare(list: &SmallList, model: &Model, random: &mut Random) {
    list.check();
    assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(texts(list), *model);
    if let Some(embedded) = list.embedded() {
        assert_eq!(SmallList::from_embedded(embedded).buffer(), list.buffer());
    }
    let from = random.below(model.len() as u64 + 1);
    let mut backward = Vec::new();
    list.view()
        .for_each(from as usize, usize::MAX, Direction::Backward, |element| backward.push(element.to_vec()));
    let expected = model.iter().take(from as usize + 1).rev();
    assert!(from as usize == model.len() || backward.iter().eq(expected));
    let get = |index: i64| list.view().get(index, |element| element.to_vec());
    assert_eq!(get(from as i64).as_ref(), model.get(from as usize));
    assert_eq!(get(-(from as i64) - 1).as_ref(), model.iter().rev().nth(from as usize));
    assert_eq!((get(i64::MIN), get(i64::MAX)), (None, None));
    // The general list's results for the same elements.
    let packed = PackedList::of_small(list, -2, 0);
    packed.check();
    assert_eq!(packed.len(), model.len() as u64);
    let value = model.get(from as usize).cloned().unwrap_or_default();
    for rank in [-2, -1, 1, 2, i64::MIN + 1, i64::MAX] {
        let (count, looked) = (random.below(4), random.below(40));
        let expected = packed.positions(&value, rank, count, looked);
        assert_eq!(list.view().positions(&value, rank, count, looked), expected);
    }
    let (mut own, mut general) = (Vec::new(), Vec::new());
    list.view().write_listpack(&mut own);
    packed.write_listpack(&mut general);
    assert_eq!(own, general);
    let mut again = SmallList::default();
    assert!(again.append_listpack(Listpack::validated(&own).unwrap(), -2));
    assert_eq!(texts(&again), *model);
    let small = SmallList::of_packed(&packed, 1).unwrap();
    small.check();
    assert_eq!(small.buffer(), list.buffer());
    list.prefetch();
    list.prefetch_rest();
}

#[test]
fn random_operations_match_a_deque() {
    with_seeds(0..12, |random| {
        let fill = [-1, -2, -5, 0, 1, 4, 31, 32, 33][random.below(9) as usize];
        let (mut list, mut model) = (SmallList::default(), Model::new());
        for _ in 0..scaled(1_500) {
            step(&mut list, &mut model, fill, random);
            compare(&list, &model, random);
        }
    });
}

#[test]
fn the_last_byte_and_the_last_element_that_fit() {
    // Two bytes of head before a text of 64 bytes or more.
    for (bytes, fitted) in [(1018, true), (1019, true), (1020, false)] {
        let mut list = SmallList::default();
        assert_eq!(list.push(true, &vec![b'x'; bytes], -2), fitted);
        list.check();
        assert_eq!(list.fits(1, bytes, -2), bytes <= 1016);
    }
    for fill in [-5, -1, 32, 33, 100] {
        let mut list = SmallList::default();
        assert!((0..32).all(|_| list.push(false, b"", fill)));
        assert!(!list.push(false, b"", fill) && !list.push_all(true, [&b"1"[..]].into_iter(), fill));
        assert!(list.fits(0, 0, fill) && !list.fits(1, 0, fill) && !list.fits(usize::MAX, usize::MAX, fill));
        list.check();
        assert_eq!(list.len(), 32);
    }
    let mut list = SmallList::default();
    assert!(list.push(false, b"1", 0) && !list.push(false, b"2", 0) && !list.push(true, b"2", 1));
}

#[test]
fn packed_lists_become_small_where_they_fit() {
    let packed = |texts: &[&[u8]], fill| {
        let mut list = PackedList::new(fill, 0);
        texts.iter().for_each(|text| list.push_back(text));
        list
    };
    let is_small = |list: &PackedList, divisor| SmallList::of_packed(list, divisor).is_some();
    assert!(is_small(&packed(&[], -2), 1));
    assert!(
        is_small(&packed(&[b"1".as_slice(); 32], -2), 1) && !is_small(&packed(&[b"1".as_slice(); 33], -2), 1)
    );
    assert!(
        is_small(&packed(&[b"1".as_slice(); 16], -2), 2) && !is_small(&packed(&[b"1".as_slice(); 17], -2), 2)
    );
    assert!(is_small(&packed(&[&[b'x'; 507]], -2), 2) && !is_small(&packed(&[&[b'x'; 508]], -2), 2));
    assert!(!is_small(&packed(&[b"1", b"2"], 1), 1), "two nodes");
    assert!(!is_small(&packed(&[&[b'x'; 9000]], -2), 1), "a large element");
    // Nodes written before the limit was lowered stay as they are.
    let mut lowered = packed(&[b"1".as_slice(); 20], -2);
    lowered.set_fill(19);
    assert!(!is_small(&lowered, 1));
}

#[test]
fn a_list_is_taken_out_as_it_was_embedded_up_to_the_limit() {
    // A byte for the count and two of head before a text of 64 bytes or more.
    let texts = |len: usize| vec![b"12345".to_vec(), vec![b'x'; len]];
    for (len, is_embedded) in [(64, true), (121, true), (122, true), (123, false), (1000, false)] {
        let mut list = SmallList::default();
        assert!(list.push_all(false, texts(len).iter().map(Vec::as_slice), -2));
        let embedded = list.embedded().map(<[u8]>::to_vec);
        assert_eq!(embedded.as_ref().map(Vec::len), is_embedded.then_some(1 + 3 + 2 + len), "{len}");
        let Some(embedded) = embedded else { continue };
        let view = RecordsView::of_embedded(&embedded);
        assert_eq!((view.len(), view.used_bytes()), (2, 5 + len));
        let mut again = SmallList::from_embedded(&embedded);
        again.check();
        assert_eq!(again.buffer(), list.buffer());
        assert!(again.push(true, b"more", -2));
        again.check();
    }
    assert_eq!(SmallList::default().embedded(), None);
}

#[test]
fn any_list_becomes_one_that_was_embedded() {
    // The last text has a head of one byte up to 63 of them, and of two from then on.
    let list_of = |texts: &[&[u8]]| {
        let mut list = SmallList::default();
        assert!(list.push_all(false, texts.iter().copied(), -2));
        list
    };
    let long = [b'x'; 1000];
    let lengths = [0, 1, 2, 3, 4, 5, 63, 64, 121, 122, 123, 150, 151, 152, 153, 154, 155, 156, 1000];
    for (before, after) in lengths.iter().flat_map(|&a| lengths.iter().map(move |&b| (a, b))) {
        let other = list_of(&[b"1", &long[..after]]);
        let Some(embedded) = other.embedded() else { continue };
        for mut list in [SmallList::default(), list_of(&[&long[..before]]), list_of(&[b"2", &long[..before]])]
        {
            list.assign_embedded(embedded);
            list.check();
            assert_eq!((list.buffer(), list.memory_bytes()), (other.buffer(), 160), "{before} {after}");
            list.assign_embedded(&[1, 0x80]);
            list.check();
            assert_eq!(texts(&list), [b""]);
            list.assign_embedded(embedded);
            assert!(list.push(true, b"first", -2) && list.pop(false, |_| ()).is_some());
            list.check();
            assert_eq!(texts(&list), [&b"first"[..], b"1"]);
        }
    }
}

#[test]
fn one_that_could_be_embedded_grows_without_another_allocation() {
    let mut list = SmallList::default();
    assert_eq!(list.memory_bytes(), 0);
    for number in 0..14 {
        assert!(list.push(false, format!("e{number:09}").as_bytes(), -2));
        assert_eq!(list.memory_bytes(), 160);
    }
    assert!(list.embedded().is_none());
    assert!(list.push(false, b"e", -2));
    assert_eq!(list.memory_bytes(), 160);
    assert!(list.push(false, b"e", -2));
    assert_eq!(list.memory_bytes(), 192);
    while list.pop(true, |_| ()).is_some() {
        list.check();
    }
    assert_eq!(list.memory_bytes(), 0);
}
