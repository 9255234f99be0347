use super::*;
use crate::model::{random_text, scaled, with_seeds};
use crate::random::Random;

/// Fields in order, each with its value and expiry.
type Model = Vec<(Vec<u8>, Vec<u8>, Option<i64>)>;

fn all(list: &ExpiringList) -> Model {
    list.iter().map(|(field, value, expiry_ms)| (field.to_vec(), value.to_vec(), expiry_ms)).collect()
}

fn expiry(random: &mut Random) -> Expiry {
    match random.below(4) {
        0 => Expiry::Keep,
        1 => Expiry::Clear,
        _ => Expiry::AtMs(time(random)),
    }
}

/// Few different times, so that several fields expire at once; the extreme values are among them.
fn time(random: &mut Random) -> i64 {
    match random.below(12) {
        0 => i64::MAX,
        1 => -5,
        n => [0, 1, 100, 1 << 40, 1_700_000_000_000][n as usize % 5],
    }
}

fn step(list: &mut ExpiringList, model: &mut Model, random: &mut Random) {
    let field = match random.below(3) {
        0 => random.below(20).to_string().into_bytes(),
        _ => model.get(random.below(12) as usize).map_or(b"f".to_vec(), |(field, ..)| field.clone()),
    };
    let place = model.iter().position(|(other, ..)| *other == field);
    match random.below(8) {
        0..4 => {
            let (value, expiry) = (random_text(random), expiry(random));
            let insertion = if place.is_some() { Insertion::Replaced } else { Insertion::Added };
            assert_eq!(list.insert(&field, &value, expiry), insertion);
            let place = place.unwrap_or_else(|| {
                model.push((field, Vec::new(), None));
                model.len() - 1
            });
            model[place].1 = value;
            match expiry {
                Expiry::Keep => {}
                Expiry::Clear => model[place].2 = None,
                Expiry::AtMs(at_ms) => model[place].2 = Some(at_ms.max(0)),
            }
        }
        4 => {
            let expiry_ms = (random.below(3) > 0).then(|| time(random));
            list.set_expiry(&field, expiry_ms);
            if let Some(place) = place {
                model[place].2 = expiry_ms.map(|at_ms| at_ms.max(0));
            }
        }
        5 => {
            let (now_ms, limit) = (time(random), random.below(4) as usize);
            let mut removed = Vec::new();
            let count = list.remove_expired(now_ms, limit, &mut |field| removed.push(field.to_vec()));
            let gone = |expiry_ms: Option<i64>| expiry_ms.is_some_and(|at_ms| at_ms < now_ms);
            let expired = model.iter().filter(|&&(.., expiry_ms)| gone(expiry_ms)).count();
            assert_eq!((count, removed.len()), (expired.min(limit), expired.min(limit)));
            model.retain(|(field, _, expiry_ms)| {
                assert!(gone(*expiry_ms) || !removed.contains(field));
                !removed.contains(field)
            });
        }
        _ => {
            assert_eq!(list.remove(&field), place.is_some());
            place.map(|place| model.remove(place));
        }
    }
}

#[test]
fn random_operations_match_a_vector() {
    with_seeds(0..12, |random| {
        let pairs: Listpack = [b"a", b"1", b"7", b"9"].iter().map(|text| Element::Bytes(*text)).collect();
        let mut list = ExpiringList::new(&pairs);
        let mut model: Model =
            vec![(b"a".to_vec(), b"1".to_vec(), None), (b"7".to_vec(), b"9".to_vec(), None)];
        for _ in 0..scaled(2_000) {
            step(&mut list, &mut model, random);
            list.check();
            assert_eq!((list.len(), list.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(all(&list), model);
            assert_eq!(list.earliest_ms(), model.iter().filter_map(|&(.., expiry_ms)| expiry_ms).min());
            let place = random.below(model.len() as u64 + 1) as usize;
            let found = list.at(place).map(|(field, value, at_ms)| (field.to_vec(), value.to_vec(), at_ms));
            assert_eq!(found.as_ref(), model.get(place));
            if let Some((field, value, expiry_ms)) = found {
                assert_eq!(list.expiry(&field), expiry_ms);
                assert_eq!(list.get(&field), Some((Element::Bytes(&value), expiry_ms)));
            }
            assert_eq!(list.get(b"a field that is not there"), None);
        }
    });
}

#[test]
fn three_fields_take_their_listpack_and_two_times() {
    let pairs: Listpack = ["field0", "v000000000", "field1", "v000000000", "field2", "v000000000"]
        .iter()
        .map(|text| Element::Bytes(text.as_bytes()))
        .collect();
    let mut list = ExpiringList::new(&pairs);
    assert_eq!(list.used_bytes(), pairs.total_bytes() + 4 * 2);
    list.set_expiry(b"field1", Some(1_700_000_000_000));
    assert_eq!(list.used_bytes(), pairs.total_bytes() + 2 * 2 + 2 * 10);
    list.set_expiry(b"field1", None);
    assert_eq!((list.used_bytes(), list.earliest_ms()), (pairs.total_bytes() + 4 * 2, None));
}
