use super::*;
use crate::db::Turn;
use crate::db::change_log::Change;
use structures::hash::HashSeed;

/// A database at 1000 ms that holds `k`, which expired at 500 ms.
fn with_expired() -> Db {
    let mut db = Db::new(1, HashSeed::new(1, 2), 1);
    begin(&mut db, 0);
    db.put_string(db.key(b"k"), b"old", Some(500));
    db.changed(EventClasses::STRING, "set", db.key(b"k"));
    begin(&mut db, 1000);
    db
}

fn begin(db: &mut Db, now_ms: i64) {
    db.change_log.end_unpropagated();
    db.change_log.end_unit();
    db.change_log.take();
    db.begin(Turn::new(0, now_ms));
    db.change_log.begin(true, true);
}

fn events(db: &mut Db) -> Vec<&'static str> {
    let changes = db.change_log.take();
    let event = |change: &Change| match change {
        Change::Key { event, .. } | Change::Event { event, .. } => Some(*event),
        _ => None,
    };
    changes.iter().filter_map(event).collect()
}

/// Counts and events of the current command, and whether it has to be propagated itself.
fn told(db: &mut Db, dirty_before: u64) -> (u64, u64, bool, Vec<&'static str>) {
    let is_to_be_propagated = db.change_log.is_to_be_propagated();
    (db.figures.expired_keys, db.change_log.dirty - dirty_before, is_to_be_propagated, events(db))
}

#[test]
fn a_key_that_is_met_expired_is_no_change_of_the_command() {
    let mut db = with_expired();
    let dirty = db.change_log.dirty;
    assert!(db.read(db.key(b"k")).is_none());
    assert_eq!(told(&mut db, dirty), (1, 0, false, vec!["expired"]));
    assert_eq!(db.change_log.unit().len(), 1, "its removal is propagated");
}

#[test]
fn what_replaces_an_expired_key_says_that_it_has_expired() {
    let mut db = with_expired();
    let dirty = db.change_log.dirty;
    db.put_string(db.key(b"k"), b"new", None);
    db.changed(EventClasses::STRING, "set", db.key(b"k"));
    assert_eq!(told(&mut db, dirty), (1, 1, true, vec!["expired", "new", "set"]));
    assert_eq!(db.change_log.unit().len(), 0, "the command stands for the removal");
}

#[test]
fn what_replaces_an_expired_key_that_is_kept_only_says_that_it_is_new() {
    let mut db = with_expired();
    db.begin(Turn { expired: ExpiredKeys::Hidden, ..db.turn });
    let dirty = db.change_log.dirty;
    db.put_string(db.key(b"k"), b"new", None);
    db.changed(EventClasses::STRING, "set", db.key(b"k"));
    assert_eq!(told(&mut db, dirty), (0, 1, true, vec!["new", "set"]));
}

#[test]
fn a_command_whose_expiry_has_passed_is_told_as_a_removal() {
    let mut db = with_expired();
    let dirty = db.change_log.dirty;
    db.remove_as_expired(db.key(b"k"));
    assert_eq!(told(&mut db, dirty), (1, 0, false, vec!["expired"]), "it was expired before");
    db.remove_as_expired(db.key(b"k"));
    assert_eq!(told(&mut db, dirty), (1, 0, false, vec![]), "the key did not exist");

    db.put_string(db.key(b"k"), b"live", None);
    db.changed(EventClasses::STRING, "set", db.key(b"k"));
    begin(&mut db, 1000);
    let dirty = db.change_log.dirty;
    db.remove_as_expired(db.key(b"k"));
    assert_eq!(told(&mut db, dirty), (2, 1, false, vec!["expired"]));
    assert_eq!(db.change_log.unit().len(), 1);
    db.change_log.end_unpropagated();
    assert_eq!(
        db.change_log.unit().len(),
        0,
        "a script that propagates nothing does not propagate this either"
    );
}

#[test]
fn an_expired_key_is_removed_where_nothing_takes_its_place() {
    let mut db = with_expired();
    assert!(db.remove_replaced(db.key(b"k")), "it is stored");
    assert!(!db.remove_replaced(db.key(b"k")));
    db.changed(EventClasses::GENERIC, "del", db.key(b"k"));
    assert_eq!((db.figures.expired_keys, events(&mut db)), (0, vec!["del"]), "only the command records it");
}

#[test]
fn a_look_from_outside_counts_and_announces_no_miss() {
    let mut db = with_expired();
    db.change_log.listening_to_misses = true;
    assert!(db.describe(db.key(b"k")).is_none());
    db.put_string(db.key(b"live"), b"value", None);
    db.changed(EventClasses::STRING, "set", db.key(b"live"));
    assert!(db.describe(db.key(b"live")).is_some());
    assert_eq!((db.figures.hits, db.figures.misses), (1, 1));
    assert_eq!(events(&mut db), ["expired", "new", "set"]);
}
