use super::shape::{MET_MIN, SHAPES_MAX, USERS_MIN};
use super::*;
use crate::model::{random_text, scaled, with_seeds};
use crate::random::Random;

fn texts(record: &RecordView<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let text = |value: Value<'_>| value.text(&mut TextBuffer::default()).to_vec();
    record.iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn record_of(names: &[&str], shapes: &mut Shapes) -> Record {
    let mut record = Record::default();
    names.iter().for_each(|name| _ = record.set(name.as_bytes(), b"value", false, shapes));
    record.settle(shapes);
    record
}

/// Names of a few families, among them lists that many records share.
fn random_name(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => random_text(random).into_iter().take(60).collect(),
        1 => random.below(40).to_string().into_bytes(),
        2 => b"face"[..random.below(5) as usize].to_vec(),
        _ => [&b"name"[..], b"mail", b"city", b"plan", b"created", b""][random.below(6) as usize].to_vec(),
    }
}

/// A record in an entry, as its owner keeps it: bytes only.
struct Stored {
    bytes: Vec<u8>,
    model: Vec<(Vec<u8>, Vec<u8>)>,
}

fn change(stored: &mut Stored, taken_out: &mut Record, shapes: &mut Shapes, random: &mut Random) {
    taken_out.assign_embedded(&stored.bytes, shapes);
    for _ in 0..=random.below(4) {
        let name = random_name(random);
        let at = stored.model.iter().position(|(other, _)| *other == name);
        assert_eq!(taken_out.view().get(&name).is_some(), at.is_some());
        if random.below(3) == 0 {
            assert_eq!(taken_out.remove(&name, shapes), at.is_some());
            at.map(|at| stored.model.remove(at));
            continue;
        }
        let value: Vec<u8> = random_text(random).into_iter().take(random.below(70) as usize).collect();
        if !taken_out.fits(&name, &value) {
            continue;
        }
        let is_new = at.is_none() && random.below(2) == 0;
        assert_eq!(taken_out.set(&name, &value, is_new, shapes), at.is_none());
        match at {
            Some(at) => stored.model[at].1 = value,
            None => stored.model.push((name, value)),
        }
    }
    taken_out.check();
    taken_out.settle(shapes);
    taken_out.check();
    assert_eq!(texts(&taken_out.view()), stored.model);
    match taken_out.embedded() {
        Some(bytes) => stored.bytes = bytes.to_vec(),
        None => *stored = Stored { bytes: vec![FIRST_BYTE], model: Vec::new() },
    }
}

#[test]
fn records_hold_what_a_list_of_pairs_holds_with_and_without_shapes() {
    with_seeds(0..scaled(8).max(2), |random| {
        let (mut shapes, mut taken_out, mut shaped) = (Shapes::default(), Record::default(), 0);
        let mut all: Vec<Stored> =
            (0..60).map(|_| Stored { bytes: vec![FIRST_BYTE], model: Vec::new() }).collect();
        for step in 0..scaled(20_000) {
            let at = random.index(all.len());
            change(&mut all[at], &mut taken_out, &mut shapes, random);
            shaped += usize::from(taken_out.view().shape().is_some());
            if step % 997 == 0 {
                shapes.begin_walk();
                for stored in &mut all {
                    if shapes.note_met(&stored.bytes) {
                        let mut record = Record::of_embedded(&stored.bytes, &shapes);
                        record.settle(&mut shapes);
                        match record.embedded() {
                            Some(bytes) => stored.bytes = bytes.to_vec(),
                            None => *stored = Stored { bytes: vec![FIRST_BYTE], model: Vec::new() },
                        }
                    }
                }
                shapes.end_walk();
                shapes.check();
                for stored in &all {
                    assert_eq!(texts(&RecordView::of_embedded(&stored.bytes, &shapes)), stored.model);
                }
            }
        }
        assert!(cfg!(miri) || shaped > 0, "no list became a shape");
    });
}

#[test]
fn the_sixteenth_record_with_a_list_is_shaped_and_all_later_ones() {
    let mut shapes = Shapes::default();
    for met in 1..40 {
        let record = record_of(&["name", "mail", "added"], &mut shapes);
        assert_eq!(record.view().shape().is_some(), met >= MET_MIN.into(), "{met}");
    }
    assert_eq!(shapes.len(), 1);
    // 3 bytes of head, and three values of 6.
    assert_eq!(record_of(&["name", "mail", "added"], &mut shapes).embedded().map(<[u8]>::len), Some(21));
    let record = record_of(&["name", "mail", "added"], &mut shapes);
    assert_eq!(texts(&record.view())[2], (b"added".to_vec(), b"value".to_vec()));
}

#[test]
fn names_that_are_data_make_no_shapes() {
    let mut shapes = Shapes::default();
    for _ in 0..1000 {
        record_of(&["1002", "17"], &mut shapes);
        record_of(&["0f8fad5b-d9cb-469f-a165-70867728950e"], &mut shapes);
    }
    with_seeds(0..1, |random| {
        for _ in 0..scaled(50_000) {
            let name = format!("sku{}", random.below(1_000_000));
            record_of(&[&name, "count"], &mut shapes);
        }
    });
    assert_eq!(shapes.len(), 0);
}

#[test]
fn a_field_more_or_less_leads_to_the_shape_of_that_list() {
    let mut shapes = Shapes::default();
    for _ in 0..MET_MIN {
        record_of(&["name", "mail"], &mut shapes);
        record_of(&["name", "mail", "city"], &mut shapes);
    }
    let mut record = record_of(&["name", "mail"], &mut shapes);
    assert!(record.view().shape().is_some_and(|shape| shape.len() == 2));
    record.set(b"city", b"Ulm", false, &shapes);
    assert!(record.view().shape().is_some_and(|shape| shape.len() == 3));
    assert!(record.remove(b"city", &shapes));
    assert!(record.view().shape().is_some_and(|shape| shape.len() == 2));
    record.set(b"street", b"", false, &shapes);
    assert!(record.view().shape().is_none());
    record.check();
}

#[test]
fn shapes_of_few_users_are_dissolved_and_make_room() {
    let mut shapes = Shapes::default();
    let name = |number: usize| format!("field-{number}");
    for number in 0..SHAPES_MAX + 100 {
        for _ in 0..MET_MIN {
            record_of(&[&name(number)], &mut shapes);
        }
    }
    assert_eq!(shapes.len(), SHAPES_MAX);
    let kept: Vec<Record> = (0..USERS_MIN).map(|_| record_of(&[&name(3)], &mut shapes)).collect();
    let mut few = record_of(&[&name(4)], &mut shapes);
    for walk in 0..2 {
        shapes.begin_walk();
        let mut dissolves = false;
        for record in kept.iter().chain([&few]) {
            dissolves |= shapes.note_met(record.embedded().unwrap());
        }
        assert_eq!(dissolves, walk == 1);
        if dissolves {
            few.settle(&mut shapes);
        }
        shapes.end_walk();
        shapes.check();
    }
    assert!(few.view().shape().is_none());
    assert_eq!(texts(&few.view()), [(name(4).into_bytes(), b"value".to_vec())]);
    shapes.begin_walk();
    kept.iter().for_each(|record| _ = shapes.note_met(record.embedded().unwrap()));
    shapes.end_walk();
    assert_eq!(shapes.len(), 1);
}

#[test]
fn a_full_table_is_emptied_by_the_walk_that_refused_lists_make_due() {
    let mut shapes = Shapes::default();
    let fill = |shapes: &mut Shapes, from: usize, to: usize| {
        for number in from..to {
            (0..MET_MIN).for_each(|_| _ = record_of(&[&format!("field-{number}")], shapes));
        }
    };
    fill(&mut shapes, 0, SHAPES_MAX);
    shapes.begin_walk();
    assert!(!shapes.is_walk_due());
    fill(&mut shapes, SHAPES_MAX, 2 * SHAPES_MAX);
    assert!(shapes.is_walk_due() && shapes.len() == SHAPES_MAX);
    shapes.begin_walk();
    shapes.end_walk();
    assert!(shapes.is_empty());
    fill(&mut shapes, 0, 1);
    assert!(shapes.len() == 1 && !shapes.is_walk_due());
    shapes.request_walk();
    assert!(shapes.is_walk_due());
}

#[test]
fn records_of_the_most_fields_are_whole() {
    let mut shapes = Shapes::default();
    let names: Vec<String> = (0..FIELDS_MAX).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for _ in 0..2 * MET_MIN {
        let mut record = Record::default();
        names.iter().for_each(|name| assert!(record.set(name.as_bytes(), b"1", false, &shapes)));
        assert!(!record.fits(b"n", b"1") && record.fits(b"n62", b"2"));
        record.settle(&mut shapes);
        record.check();
        assert_eq!(record.len(), FIELDS_MAX);
    }
    assert_eq!(shapes.len(), 1);
}
