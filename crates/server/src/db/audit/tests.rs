use crate::config::EventClasses;
use crate::db::Db;
use crate::db::encoded_commands::Receivers;
use crate::db::list::{End, List};
use crate::db::stream::{Stream, StreamId};
use structures::hash::HashSeed;

fn db() -> Db {
    let mut db = Db::new(2, HashSeed::new(1, 2), 3);
    db.change_log.begin(false, true);
    push(&mut db, b"list");
    db.changed(EventClasses::LIST, "rpush", db.key(b"list"));
    settle(&mut db);
    db
}

/// A handler's change that is not recorded.
fn push(db: &mut Db, key: &[u8]) {
    db.change_or_create(db.key(key), |list: &mut List, means| {
        list.push(End::Right, b"element", means.limits);
    })
    .unwrap();
}

fn settle(db: &mut Db) {
    db.change_log.take();
    db.change_log.audit.forget_unpropagated();
}

fn check_propagated(db: &mut Db, arguments: &[&[u8]]) {
    if !arguments.is_empty() {
        db.propagate_as(arguments);
    }
    db.change_log.end_command(Receivers::ALL);
}

#[test]
#[should_panic(expected = "the value of 'list' in database 0 was changed, but the change is not recorded")]
fn a_value_changed_in_place_must_be_recorded() {
    let mut db = db();
    push(&mut db, b"list");
    db.change_log.take();
}

#[test]
#[should_panic(expected = "the value of 'list' in database 0 was changed, but the change is not recorded")]
fn another_key_that_is_recorded_does_not_stand_for_it() {
    let mut db = db();
    push(&mut db, b"list");
    db.changed(EventClasses::LIST, "rpush", db.key(b"lists"));
    db.with_database(1, |db| db.changed(EventClasses::LIST, "rpush", db.key(b"list")));
    db.change_log.take();
}

#[test]
#[should_panic(expected = "the change is not recorded")]
fn a_string_edited_in_place_must_be_recorded_whatever_the_edit_answers() {
    let mut db = db();
    db.put_buffer(db.key(b"text"), b"before".to_vec(), None);
    db.changed(EventClasses::STRING, "set", db.key(b"text"));
    settle(&mut db);
    db.edit_text_if(db.key(b"text"), |text| (text.push(b'!'), false)).unwrap();
    db.change_log.take();
}

#[test]
#[should_panic(expected = "the change is not recorded")]
fn a_key_that_gets_an_expiry_must_be_recorded() {
    let mut db = db();
    db.set_expiry(db.key(b"list"), Some(i64::MAX));
    db.change_log.take();
}

#[test]
#[should_panic(expected = "database 1 was changed, but the change is not recorded")]
fn both_databases_that_are_exchanged_must_be_recorded() {
    let mut db = db();
    db.swap(0, 1);
    db.change_log.flushed(Some(0));
    db.change_log.take();
}

#[test]
fn what_has_not_changed_may_be_recorded_or_not() {
    let mut db = db();
    db.change(db.key(b"list"), |list: &mut List, _| list.len()).unwrap();
    db.edit_text_if(db.key(b"text"), |text| (text.push(b'!'), false)).unwrap();
    db.change_log.take();
    check_propagated(&mut db, &[]);
    db.changed(EventClasses::LIST, "rpush", db.key(b"list"));
    db.change_log.take();
}

#[test]
#[should_panic(expected = "the value of 'list' in database 0 was changed, and what is propagated is [")]
fn what_was_recorded_must_be_propagated() {
    let mut db = db();
    push(&mut db, b"list");
    db.changed(EventClasses::LIST, "rpush", db.key(b"list"));
    check_propagated(&mut db, &[b"RPUSH", b"lists", b"element"]);
}

#[test]
fn an_effect_names_what_has_changed() {
    let mut db = db();
    push(&mut db, b"list");
    db.changed(EventClasses::LIST, "rpush", db.key(b"list"));
    db.swap(0, 1);
    db.change_log.swapped(0, 1);
    check_propagated(&mut db, &[b"RPUSH", b"list", b"element"]);
}

#[test]
#[should_panic(expected = "what is propagated is []")]
fn an_exchange_must_be_propagated() {
    let mut db = db();
    db.swap(0, 1);
    db.change_log.swapped(0, 1);
    check_propagated(&mut db, &[]);
}

/// WATCH does not report this change of the stream, but a copy needs it.
#[test]
#[should_panic(expected = "the value of 'stream' in database 0 was changed, and what is propagated is []")]
fn groups_must_be_propagated() {
    let mut db = db();
    db.change_or_create(db.key(b"stream"), |_: &mut Stream, _| ()).unwrap();
    db.changed(EventClasses::STREAM, "xadd", db.key(b"stream"));
    settle(&mut db);
    db.change(db.key(b"stream"), |stream: &mut Stream, _| stream.create_group(b"group", StreamId::MIN, None))
        .unwrap();
    db.change_log.take();
    check_propagated(&mut db, &[]);
}
