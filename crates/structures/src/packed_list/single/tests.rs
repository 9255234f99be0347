use super::*;
use crate::model::{random_text, scaled, with_seeds};
use crate::packed_list::Direction;
use crate::random::Random;
use crate::size_class::size_class;
use std::collections::VecDeque;

type Model = VecDeque<Vec<u8>>;

fn texts(view: RecordsView<'_>) -> Model {
    let mut texts = Model::new();
    view.for_each(0, usize::MAX, Direction::Forward, |element| texts.push_back(element.to_vec()));
    texts
}

fn packed_texts(list: &PackedList) -> Model {
    let mut texts = Model::new();
    list.for_each(0, u64::MAX, Direction::Forward, |element| texts.push_back(element.to_vec()));
    texts
}

fn text(random: &mut Random, long: u64) -> Vec<u8> {
    match random.below(12) {
        0 => vec![random.below(256) as u8; random.below(long) as usize],
        1 | 2 => b"again".to_vec(),
        _ => random_text(random),
    }
}

/// Changes that move other elements use the general form, as in the server.
fn change<R>(list: &mut SingleList, fill: i32, work: impl FnOnce(&mut PackedList) -> R) -> Option<R> {
    let mut packed = std::mem::take(list).into_packed(fill, 0);
    packed.check_with_any_limits();
    let result = work(&mut packed);
    packed.check_with_any_limits();
    // A list that does not fit one allocation ends the test.
    *list = SingleList::of_packed(&mut packed)?;
    Some(result)
}

fn step_ends(list: &mut SingleList, model: &mut Model, fill: i32, random: &mut Random) -> Option<()> {
    let (front, text) = (random.below(2) == 0, text(random, 200));
    match random.below(8) {
        0..6 => {
            let memory_bytes = list.memory_bytes();
            if list.push(front, &text, fill) {
                assert_eq!(list.memory_bytes(), memory_bytes);
            } else {
                assert_eq!(texts(list.view()), *model);
                change(
                    list,
                    fill,
                    |list| if front { list.push_front(&text) } else { list.push_back(&text) },
                )?;
            }
            if front { model.push_front(text) } else { model.push_back(text) }
        }
        6 => {
            let popped = if front { model.pop_front() } else { model.pop_back() };
            assert_eq!(list.pop(front, |element| element.to_vec()), popped);
        }
        _ => {
            let (count, mut popped) = (random.below(5), Vec::new());
            let read = |element: Element<'_>| popped.push(element.to_vec());
            list.remove(|list| match front {
                true => list.pop_front_many(count, read),
                false => list.pop_back_many(count, read),
            });
            let pop = |_| if front { model.pop_front() } else { model.pop_back() };
            assert_eq!(popped, (0..count).map_while(pop).collect::<Vec<_>>());
        }
    }
    Some(())
}

fn step(list: &mut SingleList, model: &mut Model, fill: i32, random: &mut Random) -> Option<()> {
    let text = text(random, 2_000);
    let index = random.below(model.len() as u64 + 1) as usize;
    match random.below(40) {
        0..30 => step_ends(list, model, fill, random)?,
        30..34 => {
            let at = if random.below(2) == 0 { index as i64 } else { index as i64 - model.len() as i64 };
            let place = if at < 0 { at + model.len() as i64 } else { at } as usize;
            match list.set(at, &text, fill) {
                None => {
                    assert_eq!(place, model.len());
                    return Some(());
                }
                Some(true) => {}
                Some(false) => {
                    assert_eq!(texts(list.view()), *model);
                    assert!(change(list, fill, |list| list.set(at, &text))?);
                }
            }
            model[place] = text;
        }
        34 | 35 => {
            assert!(change(list, fill, |list| list.insert(index as u64, &text))?);
            model.insert(index, text);
        }
        36 | 37 => {
            let value = model.get(index).cloned().unwrap_or(text);
            let removed = list.remove(|list| list.remove_matching(&value, Direction::Forward, u64::MAX));
            let before = model.len();
            model.retain(|other| *other != value);
            assert_eq!(removed, (before - model.len()) as u64);
        }
        38 => {
            let count = random.below(8);
            list.remove(|list| list.remove_range(index as u64, count));
            model.drain(index..(index + count as usize).min(model.len()));
        }
        _ => {
            let (start, count) = (random.below(4) as usize, model.len().saturating_sub(index / 8));
            list.retain_range(start, count);
            *model = model.iter().skip(start).take(count).cloned().collect();
        }
    }
    Some(())
}

fn compare(list: &SingleList, model: &Model, random: &mut Random) {
    list.check();
    assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(texts(list.view()), *model);
    assert_eq!(size_class(list.memory_bytes()), list.memory_bytes());
    let at = random.below(model.len() as u64 + 1) as usize;
    let get = |index: i64| list.view().get(index, |element| element.to_vec());
    assert_eq!(get(at as i64).as_ref(), model.get(at));
    assert_eq!(get(-(at as i64) - 1).as_ref(), model.iter().rev().nth(at));
    assert_eq!((get(i64::MIN), get(i64::MAX)), (None, None));
    let mut backward = Vec::new();
    list.view().for_each(at, usize::MAX, Direction::Backward, |element| backward.push(element.to_vec()));
    assert!(at == model.len() || backward.iter().eq(model.iter().take(at + 1).rev()));
    // The general list's results for the same elements.
    let copy = list.clone();
    assert_eq!(copy.memory_bytes(), list.memory_bytes());
    let packed = copy.into_packed(-2, 0);
    assert_eq!(packed_texts(&packed), *model);
    let value = model.get(at).cloned().unwrap_or_default();
    for rank in [-2, -1, 1, 2, i64::MIN + 1, i64::MAX] {
        let (count, looked) = (random.below(4), random.below(400));
        let expected = packed.positions(&value, rank, count, looked);
        assert_eq!(list.view().positions(&value, rank, count, looked), expected);
    }
    assert_eq!(list.view().position(&value).map(|at| at as u64), packed.position(&value));
    assert_eq!(list.view().whole_bytes(0, model.len()), packed.whole_nodes_bytes(0, model.len() as u64));
    let (mut own, mut general) = (Vec::new(), Vec::new());
    list.view().write_listpack(&mut own);
    packed.write_listpack(&mut general);
    assert_eq!(own, general);
    list.prefetch();
    list.prefetch_end(random.below(2) == 0);
}

#[test]
fn random_operations_match_a_deque() {
    let (mut restarts, mut outgrown) = (0, 0);
    let (seeds, steps) = if cfg!(miri) { (3, 150) } else { (16, scaled(1_500)) };
    with_seeds(0..seeds, |random| {
        let fill = [-1, -2, -2, -5, 40, 128, 1000][random.below(7) as usize];
        let (mut list, mut model) = (SingleList::default(), Model::new());
        for _ in 0..steps {
            if step(&mut list, &mut model, fill, random).is_none() {
                outgrown += 1;
                (list, model) = (SingleList::default(), Model::new());
            }
            compare(&list, &model, random);
            restarts += usize::from(list.len() > 2 * 32);
        }
    });
    assert!(
        cfg!(miri) || restarts > 1_000 && outgrown > 10,
        "{restarts} of three blocks, {outgrown} outgrew it"
    );
}

#[test]
fn a_queue_stays_in_its_buffer_whichever_way_it_moves() {
    for front in [true, false] {
        let mut list = SingleList::default();
        change(&mut list, -2, |list| {
            (0..100).for_each(|number| list.push_back(format!("e{number:09}").as_bytes()))
        })
        .unwrap();
        for number in 0..if cfg!(miri) { 60 } else { 10_000 } {
            let text = format!("e{number:09}");
            if !list.push(front, text.as_bytes(), -2) {
                change(&mut list, -2, |list| match front {
                    true => list.push_front(text.as_bytes()),
                    false => list.push_back(text.as_bytes()),
                })
                .unwrap();
            }
            assert!(list.pop(!front, |_| ()).is_some());
            list.check();
            assert!(list.len() == 100 && list.memory_bytes() <= 1_536, "{}", list.memory_bytes());
        }
    }
}

#[test]
fn a_list_has_one_allocation_of_the_least_class() {
    // Header, and a restart point for every 32 elements of 11 bytes.
    for (elements, bytes) in [(33, 384), (40, 512), (45, 512), (46, 640), (57, 640), (58, 768), (100, 1280)] {
        let mut list = SingleList::default();
        for number in 0..elements {
            let text = format!("e{number:09}");
            if !list.push(false, text.as_bytes(), -2) {
                change(&mut list, -2, |list| list.push_back(text.as_bytes())).unwrap();
            }
        }
        list.check();
        assert_eq!(list.memory_bytes(), bytes, "{elements}");
    }
}

#[test]
fn what_fills_its_buffer_or_a_large_one_stays_in_general_form() {
    let of = |texts: &[Vec<u8>], fill| {
        let mut packed = PackedList::new(fill, 0);
        texts.iter().for_each(|text| packed.push_back(text));
        (SingleList::of_packed(&mut packed), packed)
    };
    // A head of two bytes, a restart point, and a header of eight bytes.
    for (len, is_single) in [(500, true), (501, false), (508, false), (509, true)] {
        let (single, packed) = of(&[vec![b'x'; len]], -2);
        assert_eq!((single.is_some(), packed.is_empty()), (is_single, is_single), "{len}");
        if let Some(list) = single {
            list.check();
            assert_eq!(list.memory_bytes(), if len < 509 { 512 } else { 640 });
        }
    }
    assert!(of(&[vec![b'x'; 8_000]], -3).0.is_some());
    assert!(of(&[vec![b'x'; 8_200]], -3).0.is_none(), "a large buffer");
    assert!(of(&[vec![b'x'; 9_000]], -2).0.is_none(), "a large element");
    assert!(of(&[b"1".to_vec(), b"2".to_vec()], 1).0.is_none(), "two nodes");
    let (empty, _) = of(&[], -2);
    empty.as_ref().unwrap().check();
    let mut empty = empty.unwrap();
    assert!(empty.is_empty() && !empty.push(true, b"1", -2) && empty.set(0, b"1", -2).is_none());
    assert!(empty.pop(true, |_| ()).is_none() && empty.memory_bytes() == 0);
    empty.retain_range(0, 1);
    assert_eq!(empty.remove(|list| list.remove_range(0, 1)), 0);
}
