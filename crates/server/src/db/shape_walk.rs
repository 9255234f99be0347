//! The walk over all keys that counts the users of shapes, a few keys at a time: shapes without users go, and records
//! of shapes with few users are stored plain (`structures::record::shape`). It begins when many shapes are new.

use super::hash::Hash;
use super::object::{Kind, kind_of_embedded};
use super::{Db, ExpiredKeys, Key};
use structures::key_table::Value as Stored;

/// Calls of a table's scan per step.
const SCANS_PER_STEP: usize = 64;

/// Position of the walk.
#[derive(Debug, Default)]
pub(super) struct ShapeWalk {
    /// Database and cursor; `None` while there is no walk.
    place: Option<(usize, u64)>,
}

impl Db {
    /// Restarts the walk, if there is one: databases that it has visited have other indexes.
    pub(super) fn restart_shape_walk(&mut self) {
        if self.shape_walk.place.take().is_some() {
            self.interned.shapes.request_walk();
        }
    }

    /// Begins or continues the walk, if one is due; returns whether it is unfinished.
    pub fn step_shapes(&mut self, may_walk: bool) -> bool {
        if !may_walk || self.shape_walk.place.is_none() && !self.interned.shapes.is_walk_due() {
            return false;
        }
        let (mut index, mut cursor) = self.shape_walk.place.unwrap_or_else(|| {
            self.interned.shapes.begin_walk();
            (0, 0)
        });
        for _ in 0..SCANS_PER_STEP {
            let Some(in_use) = self.keyspace.next_in_use_from(index) else {
                self.interned.shapes.end_walk();
                self.shape_walk.place = None;
                return self.interned.shapes.is_walk_due();
            };
            if in_use != index {
                (index, cursor) = (in_use, 0);
            }
            cursor = self.count_users(index, cursor);
            if cursor == 0 {
                index += 1;
            }
        }
        self.shape_walk.place = Some((index, cursor));
        true
    }

    /// Counts the shapes of some keys, and stores those anew whose shape is being dissolved; returns the next cursor.
    fn count_users(&mut self, index: usize, cursor: u64) -> u64 {
        let (shapes, mut dissolved) = (&mut self.interned.shapes, Vec::<Box<[u8]>>::new());
        let next = self.keyspace.database(index).scan(cursor, &mut |entry| {
            if let Stored::Embedded(bytes) = entry.value()
                && kind_of_embedded(bytes) == Kind::Hash
                && shapes.note_met(bytes)
            {
                dissolved.push(entry.key().into());
            }
        });
        for key in dissolved {
            self.with_database(index, |db| store_again(db, db.key(&key)));
        }
        next
    }
}

/// Stores a hash again as it is now, expired or not: clients see no difference, so no change is recorded.
fn store_again(db: &mut Db, key: Key<'_>) {
    let expired = std::mem::replace(&mut db.turn.expired, ExpiredKeys::Shown);
    let stored = db.change_unasked(key, |_: &mut Hash, _| ());
    debug_assert_eq!(stored, Ok(Some(())), "the walk has found a hash");
    db.turn.expired = expired;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, EventClasses, SetOrigin};
    use crate::db::Turn;
    use crate::db::policy::Policies;
    use structures::hash::HashSeed;

    fn forget(db: &mut Db) {
        db.change_log.flushed(None);
        db.change_log.take();
        db.change_log.audit.forget_unpropagated();
    }

    const SEED: HashSeed = HashSeed::new(5, 6);

    fn set(db: &mut Db, key: &str, field: &str) {
        let stored = db.key(key.as_bytes());
        db.change_or_create(stored, |hash: &mut Hash, mut context| {
            hash.set_all([(field.as_bytes(), &b"value"[..])].into_iter(), &mut context)
        })
        .expect("the key is a hash or free");
        db.changed(EventClasses::HASH, "hset", stored);
        db.change_log.take();
        db.change_log.audit.forget_unpropagated();
    }

    fn walk(db: &mut Db) {
        while db.step_shapes(true) {
            db.check();
        }
    }

    #[test]
    fn shapes_of_removed_and_of_few_hashes_go_and_others_stay() {
        let mut db = Db::new(2, SEED, 1);
        db.begin(db.turn());
        for shape in 0..100 {
            for record in 0..40 {
                db.with_database(record % 2, |db| {
                    set(db, &format!("{shape}:{record}"), &format!("field {shape}"));
                });
            }
        }
        assert_eq!(db.shape_figures().shapes, 100);
        for shape in 0..100 {
            for record in 0..40 {
                let is_kept = match shape {
                    0..20 => true,
                    20..60 => record < 18,
                    _ => false,
                };
                if !is_kept {
                    db.with_database(record % 2, |db| {
                        db.take(db.key(format!("{shape}:{record}").as_bytes()));
                    });
                }
            }
        }
        db.change_log.audit.forget_unpropagated();
        walk(&mut db);
        // Of the second kind 16 or more records were shaped, or fewer.
        assert_eq!(db.shape_figures().shapes, 20);
        db.check();
        for shape in 20..60 {
            for record in 0..18 {
                db.with_database(record % 2, |db| {
                    let hash = db.read_collection::<Hash>(db.key(format!("{shape}:{record}").as_bytes()));
                    let hash = hash.expect("it is a hash").expect("it was not removed");
                    assert!(hash.contains(format!("field {shape}").as_bytes(), 0));
                });
            }
        }
    }

    #[test]
    fn a_walk_begins_again_when_databases_are_swapped() {
        let mut db = Db::new(2, SEED, 1);
        db.begin(db.turn());
        for shape in 0..100 {
            (0..40).for_each(|record| set(&mut db, &format!("{shape}:{record}"), &format!("field {shape}")));
        }
        for key in (70..100).flat_map(|shape| (0..40).map(move |record| format!("{shape}:{record}"))) {
            db.take(db.key(key.as_bytes()));
        }
        db.change_log.audit.forget_unpropagated();
        assert!(db.step_shapes(true), "the walk has begun");
        db.swap(0, 1);
        db.change_log.swapped(0, 1);
        db.change_log.take();
        db.change_log.audit.forget_unpropagated();
        walk(&mut db);
        assert_eq!(db.shape_figures().shapes, 70);
        db.check();
    }

    #[test]
    fn the_walk_leaves_encodings_to_the_next_write() {
        let mut db = Db::new(1, SEED, 1);
        db.begin(db.turn());
        for shape in 0..70 {
            (0..20).for_each(|record| set(&mut db, &format!("{shape}:{record}"), &format!("field {shape}")));
        }
        let mut config = Config::default();
        config.set(&[(b"key-policy", b"* hash-max-listpack-entries 0")], SetOrigin::default()).unwrap();
        db.policies = Policies::of(&config);
        walk(&mut db);
        let encoding = db.find(db.key(b"3:19")).map(|value| value.encoding_name());
        assert_eq!((encoding, db.shape_figures().shapes), (Some("listpack"), 0));
    }

    #[test]
    fn shapes_go_with_the_last_keys_and_expired_hashes_are_stored_as_others() {
        let mut db = Db::new(2, SEED, 1);
        db.begin(Turn::new(0, 1000));
        for shape in 0..70 {
            (0..20).for_each(|record| set(&mut db, &format!("{shape}:{record}"), &format!("field {shape}")));
            (0..17).for_each(|record| _ = db.take(db.key(format!("{shape}:{record}").as_bytes())));
            (17..20).for_each(|record| {
                _ = db.set_expiry(db.key(format!("{shape}:{record}").as_bytes()), Some(5))
            });
            forget(&mut db);
        }
        db.begin(Turn { expired: ExpiredKeys::Hidden, ..Turn::new(0, 1000) });
        walk(&mut db);
        assert_eq!((db.shape_figures().shapes, db.len()), (0, 210));
        (0..40).for_each(|record| set(&mut db, &format!("{record}"), "field"));
        db.clear_all(false);
        db.change_log.flushed(None);
        forget(&mut db);
        walk(&mut db);
        assert_eq!(db.shape_figures().shapes, 0);
    }
}
