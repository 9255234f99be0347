use super::*;
use crate::listpack::Listpack;
use crate::model::{random_text, scaled, with_seeds};
use crate::random::Random;
use std::collections::VecDeque;

type Model = VecDeque<Vec<u8>>;

fn texts(list: &PackedList) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    list.for_each(0, u64::MAX, Direction::Forward, |element| texts.push(element.to_vec()));
    texts
}

fn texts_backward(list: &PackedList, from: u64) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    list.for_each(from, u64::MAX, Direction::Backward, |element| texts.push(element.to_vec()));
    texts
}

fn text(random: &mut Random) -> Vec<u8> {
    match random.below(60) {
        0 => vec![random.below(256) as u8; 4000 + random.below(30_000) as usize],
        1..6 => b"again".to_vec(),
        _ => random_text(random),
    }
}

fn step_ends(list: &mut PackedList, model: &mut Model, random: &mut Random) {
    let text = text(random);
    match random.below(4) {
        0 => {
            list.push_back(&text);
            model.push_back(text);
        }
        1 => {
            list.push_front(&text);
            model.push_front(text);
        }
        2 => assert_eq!(list.pop_front(|element| element.to_vec()), model.pop_front()),
        _ => assert_eq!(list.pop_back(|element| element.to_vec()), model.pop_back()),
    }
}

fn step_middle(list: &mut PackedList, model: &mut Model, random: &mut Random) {
    let text = text(random);
    let index = random.below(model.len() as u64 + 1) as usize;
    match random.below(8) {
        0 | 1 => {
            assert!(list.insert(index as u64, &text));
            model.insert(index, text);
        }
        2 => {
            let from_end = index as i64 - model.len() as i64;
            let done = list.set(if from_end < 0 { from_end } else { index as i64 }, &text);
            assert_eq!(done, index < model.len());
            if done {
                model[index] = text;
            }
        }
        3 => {
            let count = random.below(if index.is_multiple_of(7) { 200 } else { 4 });
            let removed = list.remove_range(index as u64, count);
            assert_eq!(removed, count.min((model.len() - index) as u64));
            model.drain(index..index + removed as usize);
        }
        4 => {
            let value = model.get(index).cloned().unwrap_or(text);
            remove_matching(list, model, &value, random);
        }
        5 => {
            let pivot = model.get(index).cloned().unwrap_or(b"none".to_vec());
            let at = model.iter().position(|other| *other == pivot);
            let after = random.below(2);
            let done =
                if after == 1 { list.insert_after(&pivot, &text) } else { list.insert_before(&pivot, &text) };
            assert_eq!(done, at.is_some());
            if let Some(at) = at {
                model.insert(at + after as usize, text);
            }
        }
        7 if model.len() > 300 => {
            let count = random.below(150);
            let mut popped = Vec::new();
            let (removed, expected): (u64, Vec<_>) = if random.below(2) == 0 {
                let removed = list.pop_front_many(count, |element| popped.push(element.to_vec()));
                (removed, model.drain(..count as usize).collect())
            } else {
                let removed = list.pop_back_many(count, |element| popped.push(element.to_vec()));
                (removed, model.drain(model.len() - count as usize..).rev().collect())
            };
            assert_eq!((removed, popped), (count, expected));
        }
        6 if model.len() > 600 => {
            list.retain_range(100, 300);
            model.truncate(400);
            model.drain(..100);
        }
        _ => {
            let value = model.get(index).cloned().unwrap_or(text);
            positions(list, model, &value, random);
        }
    }
}

fn remove_matching(list: &mut PackedList, model: &mut Model, value: &[u8], random: &mut Random) {
    let count = random.below(5) + 1;
    let backward = random.below(2) == 0;
    let direction = if backward { Direction::Backward } else { Direction::Forward };
    let mut matching: Vec<_> = (0..model.len()).filter(|&i| model[i] == value).collect();
    if !backward {
        matching.reverse();
    }
    let gone = matching.split_off(matching.len().saturating_sub(count as usize));
    assert_eq!(list.remove_matching(value, direction, count), gone.len() as u64);
    let mut index = 0;
    model.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
}

fn positions(list: &PackedList, model: &Model, value: &[u8], random: &mut Random) {
    let rank = random.below(3) as i64 + 1;
    let (count, looked) = (random.below(4) as usize, random.below(model.len() as u64 + 10) as usize);
    let forward = (0..model.len()).take(looked).filter(|&i| model[i] == value);
    let expected: Vec<_> = forward.skip(rank as usize - 1).take(count).map(|i| i as u64).collect();
    assert_eq!(list.positions(value, rank, count as u64, looked as u64), expected);
    let backward = (0..model.len()).rev().take(looked).filter(|&i| model[i] == value);
    let expected: Vec<_> = backward.skip(rank as usize - 1).take(count).map(|i| i as u64).collect();
    assert_eq!(list.positions(value, -rank, count as u64, looked as u64), expected);
}

fn compare(list: &PackedList, model: &Model, random: &mut Random) {
    assert_eq!(list.len(), model.len() as u64);
    assert!(texts(list).iter().eq(model.iter()));
    let from = random.below(model.len() as u64 + 1);
    let expected = model.iter().take(from as usize + 1).rev();
    let backward = texts_backward(list, from);
    assert!(from == list.len() || backward.iter().eq(expected));
    assert_eq!(list.get(from as i64, |element| element.to_vec()).as_ref(), model.get(from as usize));
    let count = random.below(100);
    for direction in [Direction::Forward, Direction::Backward] {
        let (mut walk, mut left) = (list.walk(from, direction), count);
        list.for_each(from, count, direction, |element| {
            assert!(walk.next() == Some(element));
            left -= 1;
        });
        assert!(left == 0 || walk.next().is_none());
    }
    let back = list.get(-(from as i64) - 1, |element| element.to_vec());
    assert_eq!(back.as_ref(), model.iter().rev().nth(from as usize));
}

#[test]
fn random_operations_match_a_deque() {
    with_seeds(0..12, |random| {
        let fill = [-1, -2, -5, 0, 1, 4, 100, 1000][random.below(8) as usize];
        let depth = [0, 0, 1, 2][random.below(4) as usize];
        let (mut list, mut model) = (PackedList::new(fill, depth), Model::new());
        for step in 0..scaled(2_500) {
            if random.below(3) > 0 {
                step_ends(&mut list, &mut model, random);
            } else {
                step_middle(&mut list, &mut model, random);
            }
            if step % 400 < 100 {
                let text = text(random);
                list.push_back(&text);
                model.push_back(text);
            }
            assert!((0..8).take_while(|&fetch| list.prefetch_end(step % 2 == 0, fetch)).count() < 3);
            if step % 8 == 0 {
                list.check();
                compare(&list, &model, random);
            }
        }
    });
}

#[test]
fn short_elements_at_both_ends_of_one_node() {
    with_seeds(0..6, |random| {
        let (mut list, mut model) = (PackedList::new(-2, 0), Model::new());
        let bias = random.below(4);
        for step in 0..scaled(20_000) {
            let text = (step % 1000).to_string().into_bytes();
            match random.below(5) {
                0 => {
                    list.push_front(&text);
                    model.push_front(text);
                }
                1 => {
                    list.push_back(&text);
                    model.push_back(text);
                }
                2 if bias != 2 => assert_eq!(list.pop_front(|e| e.to_vec()), model.pop_front()),
                3 if bias != 3 => assert_eq!(list.pop_back(|e| e.to_vec()), model.pop_back()),
                _ => {}
            }
            if step % 64 == 0 {
                list.check();
            }
        }
        compare(&list, &model, random);
    });
}

#[test]
fn nodes_convert_to_listpacks_and_back() {
    with_seeds(0..4, |random| {
        let mut list = PackedList::new(-1, 1);
        for _ in 0..scaled(800) {
            list.push_back(&text(random));
        }
        let mut bytes = Vec::new();
        for compress_depth in [0, 1] {
            let mut again = PackedList::new([4, -1, -2][random.below(3) as usize], compress_depth);
            for index in 0..list.node_count() {
                match list.node_contents(index, &mut bytes) {
                    NodeContents::Packed(listpack) => {
                        again.append_listpack(listpack).unwrap();
                    }
                    NodeContents::Plain(element) => again.push_back(element),
                }
            }
            again.check();
            assert_eq!(texts(&list), texts(&again));
        }
        list.write_listpack(&mut bytes);
        let mut again = PackedList::new(-2, 0);
        again.append_listpack(&bytes).unwrap();
        assert_eq!(texts(&again), texts(&list));
        let built: Listpack = texts(&list).iter().map(|text| Element::Bytes(text)).collect();
        assert_eq!(built.as_bytes(), bytes);
    });
}

#[test]
fn foreign_listpacks_are_taken_if_they_are_well_formed() {
    const LENGTHS: [usize; 14] = [0, 1, 7, 15, 16, 63, 64, 65, 124, 125, 126, 127, 4095, 4096];
    with_seeds(0..8, |random| {
        for _ in 0..scaled(150) {
            let most = if random.below(4) == 0 { 700 } else { 40 };
            let elements = random.below(most);
            let element = |random: &mut Random| match random.below(3) {
                0 => vec![b'e'; LENGTHS[random.below(LENGTHS.len() as u64) as usize]],
                _ => text(random),
            };
            let mut listpack = Listpack::new();
            (0..elements).for_each(|_| listpack.push_back(&element(random)));
            let mut bytes = listpack.as_bytes().to_vec();
            for _ in 0..random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = if random.below(2) == 0 { random.next_u64() as u8 } else { bytes[at] ^ 1 };
            }
            let mut list = PackedList::new([4, -1, -2, -5][random.below(4) as usize], 0);
            (0..random.below(4)).for_each(|_| list.push_back(&element(random)));
            let mut expected = texts(&list);
            match (list.append_listpack(&bytes), Listpack::validated(&bytes)) {
                (Ok(()), Ok(elements)) => {
                    expected.extend(elements.map(|element| element.to_vec()));
                    assert_eq!(texts(&list), expected);
                }
                (taken, validated) => assert_eq!(taken.err(), validated.err()),
            }
            list.check();
        }
    });
}

#[test]
fn elements_of_foreign_listpacks_are_found_by_value() {
    // 5 written as a 16-bit integer: readable, but not canonical.
    let bytes = [11, 0, 0, 0, 1, 0, 0xF1, 5, 0, 3, 0xFF];
    let listpack = Listpack::validate(&bytes).unwrap();
    let mut list = PackedList::new(-2, 0);
    list.append_listpack(&bytes).unwrap();
    assert_eq!(list.position(b"5"), Some(0));
    assert_eq!(listpack.find(listpack.first().unwrap(), b"5", 0), listpack.first());
}

#[test]
fn a_million_small_elements_take_little_more_than_their_records() {
    if cfg!(miri) {
        return;
    }
    let mut list = PackedList::new(-2, 0);
    for i in 0..1_000_000 {
        list.push_back(format!("e{i:09}").as_bytes());
    }
    let per_element = list.memory_bytes() as f64 / 1e6;
    assert!(per_element < 11.2, "{per_element}");
}

#[test]
fn the_list_may_go_to_another_thread() {
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&PackedList::new(-2, 0));
}

/// Nodes that are full to the last byte, one less and one more, with and without restart points behind the records.
#[test]
fn nodes_full_to_the_last_byte() {
    for (fill, limit) in [(-1, 4096), (-2, 8192), (-3, 16_384), (-4, 32_768), (-5, 65_535)] {
        for way in 0..8 {
            for first in [limit / 2, limit - limit / 9, limit - limit / 30] {
                for beside in -6..=4 {
                    fill_node(fill, first as usize, (limit - first + beside) as usize, way);
                }
            }
        }
    }
}

/// A node of one large element of `first` bytes, with or without a restart point for it and with a gap before it, to
/// which another of `second` bytes is added, heads included.
fn fill_node(fill: i32, first: usize, second: usize, way: usize) {
    let head = |size: usize| {
        if size > 4098 {
            5
        } else if size > 64 {
            2
        } else {
            1
        }
    };
    let large = vec![b'l'; first - head(first)];
    let rest = vec![b'r'; second - head(second)];
    let mut list = PackedList::new(fill, way as u32 >> 1 & 1);
    let mut model = Model::from([large.clone()]);
    list.push_back(&large);
    if way & 1 == 1 {
        // Its restart point is removed, because it is no longer the 32nd.
        list.push_front(b"a");
        assert_eq!(list.remove_range(0, 1), 1);
    }
    if way & 2 == 2 {
        list.push_front(b"a");
        list.push_front(b"b");
        list.push_front(&vec![b'f'; 70_000]);
        list.push_back(&vec![b'b'; 70_000]);
        list.check();
        for _ in 0..3 {
            list.pop_front(|_| ());
        }
        list.pop_back(|_| ());
    }
    if way & 4 == 4 {
        list.push_front(&rest);
        model.push_front(rest);
    } else {
        list.push_back(&rest);
        model.push_back(rest);
    }
    list.check();
    assert!(texts(&list).iter().eq(model.iter()), "{fill} {first} {second} {way}");
    for index in 0..list.node_count() {
        let mut scratch = Vec::new();
        let NodeContents::Packed(listpack) = list.node_contents(index, &mut scratch) else { continue };
        assert!(Listpack::validated(listpack).unwrap().next().is_some());
    }
    list.push_back(b"1");
    list.push_front(b"0");
    assert!(list.set(0, b"00") && list.insert(1, b"w") && list.remove_range(1, 1) == 1);
    list.check();
    assert_eq!(list.len(), 4);
}

#[test]
fn nodes_that_lose_all_elements_go_in_one_pass() {
    with_seeds(0..6, |random| {
        let fill = [1, 2, 5, -1][random.below(4) as usize];
        let depth = random.below(3) as u32;
        let (mut list, mut model) = (PackedList::new(fill, depth), Model::new());
        for _ in 0..scaled(3_000) {
            let text = if random.below(3) == 0 { text(random) } else { b"again".to_vec() };
            list.push_back(&text);
            model.push_back(text);
        }
        list.set_fill([-2, -5][random.below(2) as usize]);
        for direction in [Direction::Forward, Direction::Backward] {
            let count = random.below(model.len() as u64 / 2);
            let present = model.iter().filter(|text| *text == b"again").count() as u64;
            assert_eq!(list.remove_matching(b"again", direction, count), count.min(present));
            let mut passing = if direction == Direction::Forward { 0 } else { present.saturating_sub(count) };
            let mut left = count;
            model.retain(|text| {
                let goes = text == b"again" && passing == 0 && left > 0;
                passing = passing.saturating_sub((text == b"again") as u64);
                left -= goes as u64;
                !goes
            });
            list.check();
            assert!(texts(&list).iter().eq(model.iter()));
        }
        list.remove_matching(b"again", Direction::Forward, u64::MAX);
        model.retain(|text| text != b"again");
        list.check();
        assert!(texts(&list).iter().eq(model.iter()));
    });
}

#[test]
fn an_element_that_a_full_node_has_no_room_for_halves_it() {
    for (fill, depth) in [(-1, 0), (-2, 0), (-2, 1), (4, 0), (-5, 2)] {
        for len in [9, 300, 1_990, 2_040, 3_000, 4_040, 4_090, 8_100, 8_190, 9_000] {
            for within in [0, 1, 149, 150, 299] {
                let mut list = PackedList::new(fill, depth);
                let mut model: Vec<Vec<u8>> =
                    (0..300).map(|i| format!("element {i:06}").into_bytes()).collect();
                model.iter().for_each(|element| list.push_back(element));
                for round in 0..3u8 {
                    let index = (within + 7 * round as usize) % model.len();
                    model[index] = vec![b'a' + round; len];
                    assert!(list.set(index as i64, &model[index]));
                    list.check();
                }
                assert_eq!(texts(&list), model, "fill {fill}, depth {depth}, {len} bytes at {within}");
            }
        }
    }
}
