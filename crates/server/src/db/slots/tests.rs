use super::*;
use crate::db::Turn;
use crate::db::encoded_commands::Receivers;
use structures::hash::HashSeed;
use structures::key_slot::{KeySeed, SLOTS_END, key_slot};

/// Two databases with keys of many slots, and one slot of more keys than a removal copies at a time.
fn filled() -> (Db, u16) {
    let mut db = Db::new(4, KeySeed::new(HashSeed::new(1, 2), true), 3);
    db.begin(Turn::new(0, 1000));
    for index in [1, 3] {
        db.with_database(index, |db| {
            let of_one_slot = (0..5 * KEYS_AT_A_TIME).map(|number| format!("{{many}}{number}"));
            let of_several = (0..100).map(|number| format!("{index}:{number}"));
            for name in of_one_slot.chain(of_several) {
                let key = db.key(name.as_bytes());
                db.put_string(key, b"v", None);
                db.changed(EventClasses::STRING, "set", key);
            }
        });
    }
    db.change_log.audit.forget_unpropagated();
    (db, key_slot(b"many"))
}

fn keys(db: &Db) -> usize {
    (0..4).map(|index| db.database(index).len()).sum()
}

#[test]
fn the_slots_with_keys_are_those_that_have_keys_in_some_database() {
    let (db, many) = filled();
    let expected: Vec<u16> = (0..SLOTS_END).filter(|slot| keys_in(&db, *slot) > 0).collect();
    assert_eq!(with_keys(&db).collect::<Vec<_>>(), expected);
    assert!(expected.contains(&many) && expected.len() > 150);
}

#[test]
fn a_slot_is_given_up_some_keys_at_a_time() {
    let (mut db, many) = filled();
    let (before, of_slot) = (keys(&db), keys_in(&db, many));
    db.change_log.begin(true, true);
    let mut removal = Removal::of(&db, many);
    let (mut steps, mut left) = (0, of_slot);
    while removal.give_up_some(&mut db) {
        let removed = left - keys_in(&db, many);
        assert!(removed <= 2 * KEYS_AT_A_TIME, "{removed}");
        assert_eq!((db.change_log.removals().count(), db.change_log.take().len()), (removed, removed));
        db.change_log.end_removals();
        (steps, left) = (steps + 1, left - removed);
    }
    assert!(steps > 9, "{steps}");
    assert_eq!((left, keys(&db)), (0, before - of_slot));
}

#[test]
fn clearing_a_slot_leaves_other_slots_alone() {
    let (mut db, many) = filled();
    let (before, of_slot) = (keys(&db), keys_in(&db, many));
    let dirty = db.change_log.dirty;
    clear(&mut db, many, false);
    assert_eq!(db.change_log.dirty - dirty, of_slot as u64);
    assert_eq!((keys_in(&db, many), keys(&db)), (0, before - of_slot));
    db.change_log.audit.forget_unpropagated();
}

/// The command names the slot and not its keys.
#[test]
fn the_command_that_clears_a_slot_is_propagated() {
    let (mut db, many) = filled();
    db.change_log.begin(true, true);
    clear(&mut db, many, false);
    db.change_log.take();
    db.propagate_as(&[b"CLUSTER", b"FLUSHSLOT", many.to_string().as_bytes()]);
    db.change_log.end_command(Receivers::ALL);
}

#[test]
#[should_panic(expected = "was changed, and what is propagated is []")]
fn clearing_a_slot_must_be_propagated() {
    let (mut db, many) = filled();
    db.change_log.begin(true, true);
    clear(&mut db, many, false);
    db.change_log.take();
    db.change_log.end_command(Receivers::ALL);
}
