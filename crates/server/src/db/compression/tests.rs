use super::*;
use crate::config::{Config, SetOrigin};
use crate::db::Turn;
use crate::db::policy::Policies;
use crate::db::{EventClasses, OwnedEntry};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use structures::hash::HashSeed;
use structures::key_table::Value as Stored;
use structures::random::Random;

const NOW_MS: i64 = 1_000_000;

fn set_rules(db: &mut Db, rules: &str) {
    let mut config = Config::default();
    config.set(&[(b"key-policy", rules.as_bytes())], SetOrigin::default()).unwrap();
    db.policies = Policies::of(&config);
    db.follow_policies();
}

fn ruled(rules: &str) -> Db {
    let mut db = Db::new(3, HashSeed::new(1, 2), 3);
    db.begin(Turn::new(0, NOW_MS));
    set_rules(&mut db, rules);
    db
}

fn record(i: usize) -> Vec<u8> {
    let city = ["Berlin", "Paris", "Oslo", "Rome"][i % 4];
    let text = format!(
        "{{\"id\":{i},\"city\":\"{city}\",\"active\":{},\"tags\":[\"blue\",\"green\"],\"score\":{},\"note\":\"{}\"}}",
        i.is_multiple_of(3),
        i * 7919 % 100_003,
        "seen and sent ".repeat(i % 30)
    );
    text.into_bytes()
}

fn other_record(i: usize) -> Vec<u8> {
    let numbers: Vec<String> =
        (0..40).map(|n| format!("<td class=\"n{}\">{}</td>", n % 3, (i * n * 977) % 1009)).collect();
    format!("<table><tr>{}</tr></table>", numbers.concat()).into_bytes()
}

fn put(db: &mut Db, key: &str, text: &[u8]) {
    db.put_string(db.key(key.as_bytes()), text, None);
    settle(db, key.as_bytes());
}

fn settle(db: &mut Db, key: &[u8]) {
    db.changed(EventClasses::STRING, "set", db.key(key));
    db.change_log.flushed(None);
    db.change_log.take();
    db.change_log.audit.forget_unpropagated();
}

fn text_at(db: &mut Db, key: &str) -> Option<Vec<u8>> {
    db.read_string(db.key(key.as_bytes())).unwrap().map(|text| text.to_vec())
}

fn is_compressed(db: &Db, key: &str) -> bool {
    let entry = db.selected_database().get(db.key(key.as_bytes()));
    matches!(entry.expect("the key exists").value(), Stored::Compressed(_))
}

/// Runs cron until `done`, and nothing is under way.
fn turn_until(db: &mut Db, done: impl Fn(&Db) -> bool) {
    let started = Instant::now();
    loop {
        let goes_on = db.step_compression(true);
        if !goes_on && db.compression.training.is_none() && done(db) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "training or the walk does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn has_version(rule: usize, version: u32) -> impl Fn(&Db) -> bool {
    move |db| db.compression_figures(rule).version == version
}

/// A database whose rule `a:*` has a dictionary, and 2,000 values of it.
fn filled() -> Db {
    let mut db = ruled("a:* compress-values yes");
    for i in 0..2000 {
        put(&mut db, &format!("a:{i}"), &record(i));
    }
    turn_until(&mut db, has_version(0, 1));
    db
}

#[test]
fn what_was_put_before_there_was_a_dictionary_is_compressed_by_the_walk_and_reads_the_same() {
    let mut db = filled();
    put(&mut db, "b:1", &record(1));
    put(&mut db, "a:short", &[b'x'; TEXT_LEN_MIN - 1]);
    put(&mut db, "a:long", &[b'x'; TEXT_LEN_MAX + 1]);
    put(&mut db, "a:longest", &[b'x'; TEXT_LEN_MAX]);
    put(&mut db, "a:number", b"123456789");
    db.check();
    let figures = db.compression_figures(0);
    assert_eq!((figures.values, figures.version), (2001, 1));
    assert!(figures.stored_bytes * 3 < figures.plain_bytes && figures.dictionary_bytes > 0, "{figures:?}");
    for i in 0..2000 {
        let key = format!("a:{i}");
        assert!(is_compressed(&db, &key));
        assert_eq!(text_at(&mut db, &key), Some(record(i)));
        let value = db.find(db.key(key.as_bytes())).unwrap();
        assert_eq!(value.encoding_name(), if record(i).len() > 128 { "raw" } else { "embstr" });
        assert_eq!(
            (value.memory_bytes(), value.text().unwrap().len()),
            (value.entry().allocation_bytes(), record(i).len())
        );
    }
    assert!(is_compressed(&db, "a:longest"));
    for key in ["b:1", "a:short", "a:long", "a:number"] {
        assert!(!is_compressed(&db, key), "{key}");
    }
}

#[test]
fn a_large_value_is_known_as_such_though_it_is_compressed() {
    let (mut db, mut random) = (filled(), Random::new(4));
    let mut text: Vec<u8> = (0..8000).map(|_| random.next_u64() as u8).collect();
    text.resize(TEXT_LEN_MAX, b'x');
    put(&mut db, "a:large", &text);
    assert!(is_compressed(&db, "a:large"));
    let found = db.big_keys(10);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].key[..], found[0].elements), (&b"a:large"[..], TEXT_LEN_MAX));
    assert!((8000..10_000).contains(&found[0].bytes), "{} bytes", found[0].bytes);
}

#[test]
fn random_bytes_stay_plain_and_cost_no_dictionary() {
    let mut db = ruled("* compress-values yes");
    let mut random = Random::new(9);
    for i in 0..1000 {
        let bytes: Vec<u8> = (0..500).map(|_| random.next_u64() as u8).collect();
        put(&mut db, &format!("{i}"), &bytes);
    }
    turn_until(&mut db, |db| db.compression.families[0].is_put_off());
    assert_eq!(db.compression_figures(0), CompressionFigures::default());
    assert_eq!(db.dictionaries_bytes(), 0);
    db.check();
}

#[test]
fn a_dictionary_goes_with_its_last_value_and_another_is_trained_when_there_are_values_again() {
    let mut db = filled();
    for i in 0..2000 {
        assert!(db.dictionaries_bytes() > 0);
        let key = format!("a:{i}");
        assert!(db.remove(db.key(key.as_bytes())));
        settle(&mut db, key.as_bytes());
        db.step_compression(true);
    }
    assert_eq!((db.dictionaries_bytes(), db.compression_figures(0).version), (0, 1));
    for i in 0..2000 {
        put(&mut db, &format!("a:{i}"), &record(i));
    }
    turn_until(&mut db, has_version(0, 2));
    assert_eq!(db.compression_figures(0).values, 2000);
    db.check();
    for in_background in [false, true] {
        db.clear(in_background);
        db.forget_cleared();
        db.change_log.flushed(None);
        db.change_log.take();
        db.step_compression(true);
        assert_eq!(db.dictionaries_bytes(), 0);
    }
}

#[test]
fn a_dictionary_that_does_worse_is_replaced_while_values_of_the_old_one_live() {
    let mut db = filled();
    db.begin(Turn::new(0, NOW_MS + 100_000));
    let mut versions_seen = 1;
    for i in 0..20_000 {
        let key = format!("a:new{}", i % 6000);
        put(&mut db, &key, &other_record(i));
        assert_eq!(text_at(&mut db, &key), Some(other_record(i)));
        db.step_compression(i % 7 == 0);
        assert!(db.interned.dictionaries.taken().count() <= 2);
        let version = db.compression_figures(0).version;
        if version > versions_seen {
            versions_seen = version;
            let old = i % 2000;
            assert_eq!(text_at(&mut db, &format!("a:{old}")), Some(record(old)), "of the old dictionary");
            db.check();
        }
        if i > 10_000 && db.compression.training.is_some() {
            turn_until(&mut db, |_| true);
        }
    }
    assert!(versions_seen >= 2, "another dictionary was trained");
    turn_until(&mut db, |_| true);
    assert_eq!(db.interned.dictionaries.taken().count(), 1, "the walk has replaced the old one");
    (0..2000).for_each(|i| assert_eq!(text_at(&mut db, &format!("a:{i}")), Some(record(i))));
    db.check();
}

#[test]
fn values_outlive_their_rule_and_are_plain_when_they_are_put_anew() {
    let mut db = filled();
    set_rules(&mut db, "b:* compress-values yes");
    turn_until(&mut db, |_| true);
    (0..2000).for_each(|i| assert_eq!(text_at(&mut db, &format!("a:{i}")), Some(record(i))));
    assert!(is_compressed(&db, "a:5"));
    for i in 0..2000 {
        assert!(db.dictionaries_bytes() > 0);
        put(&mut db, &format!("a:{i}"), &record(i));
        assert!(!is_compressed(&db, &format!("a:{i}")));
    }
    db.step_compression(true);
    assert_eq!(db.dictionaries_bytes(), 0);
    // The rule exists again, and finds plain values.
    set_rules(&mut db, "b:* compress-values no ; a:* compress-values yes");
    turn_until(&mut db, has_version(1, 1));
    assert_eq!(db.compression_figures(1).values, 2000);
    db.check();
}

#[test]
fn databases_that_take_the_place_of_these_bring_what_they_need() {
    let mut db = filled();
    let mut beside = db.empty_beside();
    for i in 0..500 {
        put(&mut beside, &format!("a:{i}"), &record(i + 1));
    }
    assert_eq!(beside.compression_figures(0).values, 500);
    db.replace_all(beside, true);
    db.forget_cleared();
    db.change_log.flushed(None);
    db.change_log.take();
    turn_until(&mut db, |_| true);
    db.check();
    (0..500).for_each(|i| assert_eq!(text_at(&mut db, &format!("a:{i}")), Some(record(i + 1))));
}

#[test]
fn rules_that_changed_meanwhile_hold_for_databases_that_take_the_place_of_these() {
    let mut db = filled();
    let mut beside = db.empty_beside();
    for i in 0..500 {
        put(&mut beside, &format!("a:{i}"), &record(i));
    }
    set_rules(&mut db, "b:* hash-max-listpack-entries 7 ; a:* compress-values yes");
    db.replace_all(beside, true);
    db.forget_cleared();
    db.change_log.flushed(None);
    db.change_log.take();
    turn_until(&mut db, |_| true);
    assert_eq!(db.compression_figures(1).values, 500);
    put(&mut db, "a:new", &record(7));
    assert!(is_compressed(&db, "a:new"));
    db.check();
}

#[test]
fn databases_exchanged_during_a_walk_are_visited_whole() {
    let mut db = filled();
    set_rules(&mut db, "b:* compress-values yes");
    db.begin(Turn::new(1, NOW_MS));
    (0..2000).for_each(|i| put(&mut db, &format!("a:{i}"), &record(i)));
    db.begin(Turn::new(0, NOW_MS));
    set_rules(&mut db, "a:* compress-values yes");
    while db.compression_figures(0).version == 0 {
        db.step_compression(true);
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..4).for_each(|_| assert!(db.step_compression(true), "the walk has begun"));
    db.swap(0, 1);
    settle(&mut db, b"a:1");
    turn_until(&mut db, |_| true);
    assert_eq!(db.compression_figures(0).values, 4000);
    db.check();
}

#[test]
fn a_short_string_that_has_been_changed_is_of_the_same_encoding_when_it_is_copied() {
    let mut db = filled();
    for len in [128, 129] {
        db.edit_string(db.key(b"a:changed"), |text| *text = vec![b'x'; len]).unwrap();
        settle(&mut db, b"a:changed");
        let copy = db.read(db.key(b"a:changed")).unwrap().to_owned_entry();
        db.put_owned(db.key(b"a:copy"), copy);
        settle(&mut db, b"a:copy");
        assert_eq!(is_compressed(&db, "a:copy"), len > 128);
        set_rules(&mut db, "a:* compress-values yes");
        turn_until(&mut db, |_| true);
        assert_eq!(db.find(db.key(b"a:copy")).unwrap().encoding_name(), "raw");
    }
    db.check();
}

#[test]
fn rules_that_compress_nothing_have_no_key_visited() {
    let mut db = ruled("");
    (0..2000).for_each(|i| put(&mut db, &format!("a:{i}"), &record(i)));
    set_rules(&mut db, "a:* hash-max-listpack-entries 7");
    assert!(!db.step_compression(true));
}

#[test]
fn a_rule_that_comes_back_finds_the_dictionary_that_values_kept_meanwhile() {
    let mut db = filled();
    let before = db.compression_figures(0);
    for rules in ["", "b:* compress-values yes", "a:* compress-values no"] {
        set_rules(&mut db, rules);
        turn_until(&mut db, |_| true);
        set_rules(&mut db, "b:* zset-index skiplist ; a:* compress-values yes");
        assert_eq!(db.compression_figures(1), before, "after '{rules}'");
        put(&mut db, "a:1", &record(1));
        assert!(is_compressed(&db, "a:1"));
        turn_until(&mut db, |_| true);
        db.check();
    }
    // The family is dropped with its last value.
    set_rules(&mut db, "b:* compress-values yes");
    for i in 0..2000 {
        put(&mut db, &format!("a:{i}"), b"short");
    }
    turn_until(&mut db, |_| true);
    assert_eq!((db.dictionaries_bytes(), db.compression.former.len()), (0, 0));
    set_rules(&mut db, "a:* compress-values yes");
    (0..2000).for_each(|i| put(&mut db, &format!("a:{i}"), &record(i)));
    turn_until(&mut db, has_version(0, 1));
    assert_eq!(db.compression_figures(0).values, 2000);
    db.check();
}

#[test]
fn a_rule_that_goes_and_comes_back_amid_training_gets_a_dictionary() {
    let mut db = ruled("a:* compress-values yes");
    for turn in 0..4 {
        (0..2000).for_each(|i| put(&mut db, &format!("a:{i}"), &record(i)));
        db.step_compression(true);
        assert!(turn > 0 || db.compression.training.is_some());
        set_rules(&mut db, ["", "a:* compress-values no", "b:* compress-values yes", ""][turn]);
        if turn % 2 == 0 {
            turn_until(&mut db, |_| true);
        }
        set_rules(&mut db, "a:* compress-values yes");
    }
    (0..2000).for_each(|i| put(&mut db, &format!("a:{i}"), &record(i)));
    turn_until(&mut db, |db| db.compression_figures(0).values == 2000);
    db.check();
}

#[test]
fn values_that_walks_find_again_and_again_do_not_stop_others_from_being_compressed() {
    let mut db = filled();
    for i in 0..50 {
        let digits: Vec<u8> =
            (0..100u64).map(|n| b'0' + ((n + i) * (n + 7919) * (i + 31) / 13 % 75) as u8).collect();
        put(&mut db, &format!("a:plain{i}"), &digits);
        put(&mut db, "a:1", &record(1));
    }
    let plain = (0..50).filter(|i| !is_compressed(&db, &format!("a:plain{i}"))).count();
    assert!(plain > 20, "{plain}");
    let before = db.compression_figures(0);
    for n in 0..4 {
        set_rules(&mut db, &format!("a:* compress-values yes ; b{n}:* compress-values yes"));
        turn_until(&mut db, |_| true);
    }
    assert_eq!(db.compression_figures(0), before);
    put(&mut db, "a:new", &record(77));
    assert!(is_compressed(&db, "a:new"));
    db.check();
}

#[test]
fn a_family_whose_dictionary_has_gone_learns_from_the_values_that_are_there() {
    let mut db = filled();
    db.compression.families[0].replace_skips(u32::MAX);
    (0..2000).for_each(|i| put(&mut db, &format!("a:{i}"), &record(i)));
    assert_eq!(db.compression_figures(0).values, 0);
    turn_until(&mut db, has_version(0, 2));
    assert_eq!(db.compression_figures(0).values, 2000);
    db.check();
}

/// Random operations, compared with a model of each key.
#[test]
fn whatever_is_done_with_compressed_values_they_read_as_they_were_put() {
    for seed in 0..3 {
        let (mut db, mut model) = (filled(), HashMap::<(usize, String), Vec<u8>>::new());
        db.clear(false);
        db.forget_cleared();
        db.change_log.flushed(None);
        db.change_log.take();
        let mut random = Random::new(seed);
        for step in 0..20_000 {
            let index = random.below(3) as usize;
            let name = |random: &mut Random| {
                format!("{}:{}", if random.below(4) > 0 { 'a' } else { 'b' }, random.below(60))
            };
            let (key, other) = (name(&mut random), name(&mut random));
            db.begin(Turn::new(index, NOW_MS));
            let text = match random.below(4) {
                0 => other_record(random.below(1000) as usize),
                1 => (0..random.below(300)).map(|_| random.next_u64() as u8).collect(),
                _ => record(random.below(5000) as usize),
            };
            match random.below(10) {
                0..4 => {
                    let expiry_ms = (random.below(3) == 0).then_some(NOW_MS + 5000);
                    db.put_string(db.key(key.as_bytes()), &text, expiry_ms);
                    model.insert((index, key.clone()), text);
                }
                4 => {
                    db.edit_string(db.key(key.as_bytes()), |own| own.extend_from_slice(&text)).unwrap();
                    model.entry((index, key.clone())).or_default().extend_from_slice(&text);
                }
                5 => {
                    assert_eq!(
                        db.remove(db.key(key.as_bytes())),
                        model.remove(&(index, key.clone())).is_some()
                    );
                }
                6 => {
                    let copy = db.find(db.key(key.as_bytes())).map(|value| value.to_owned_entry());
                    move_to(&mut db, copy, &other);
                    if let Some(text) = model.get(&(index, key.clone())).cloned() {
                        model.insert((index, other.clone()), text);
                    }
                }
                7 => {
                    let taken = db.take(db.key(key.as_bytes()));
                    move_to(&mut db, taken, &other);
                    if let Some(text) = model.remove(&(index, key.clone())) {
                        model.insert((index, other.clone()), text);
                    }
                }
                8 => {
                    let expiry_ms = (random.below(2) == 0).then_some(NOW_MS + 9000);
                    let there = model.contains_key(&(index, key.clone()));
                    assert_eq!(db.set_expiry(db.key(key.as_bytes()), expiry_ms), there);
                }
                _ if step % 50 == 0 => {
                    db.swap(0, index);
                    let swapped = |at| {
                        if at == 0 {
                            index
                        } else if at == index {
                            0
                        } else {
                            at
                        }
                    };
                    model = model.into_iter().map(|((at, key), text)| ((swapped(at), key), text)).collect();
                }
                _ => {
                    db.step_compression(random.below(2) == 0);
                }
            }
            settle(&mut db, key.as_bytes());
            settle(&mut db, other.as_bytes());
            for index in 0..3 {
                db.change_log.audit.database_recorded(Some(index));
                db.begin(Turn::new(index, NOW_MS));
                assert_eq!(
                    text_at(&mut db, &key),
                    model.get(&(index, key.clone())).cloned(),
                    "seed {seed}, step {step}"
                );
            }
            if step % 500 == 0 {
                db.check();
            }
        }
        assert!(db.compression_figures(0).values > 0);
    }
}

fn move_to(db: &mut Db, entry: Option<OwnedEntry>, key: &str) {
    if let Some(entry) = entry {
        db.put_owned(db.key(key.as_bytes()), entry);
    }
}
