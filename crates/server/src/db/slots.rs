//! The keys of slots, over all databases of a node of a cluster.

use super::{Db, EventClasses, Key};
use structures::key_slot::SLOTS_END;

/// Returns whether no database has keys, expired ones included.
pub fn has_no_keys(db: &Db) -> bool {
    db.keyspace.iter().all(|(_, database)| database.is_empty())
}

/// Number of keys of a slot in all databases.
pub fn keys_in(db: &Db, slot: u16) -> usize {
    db.keyspace.iter().map(|(_, database)| database.keys_in_slot(slot)).sum()
}

/// The slots that have keys in some database, in order.
pub fn with_keys(db: &Db) -> impl Iterator<Item = u16> {
    (0..SLOTS_END).filter(|slot| keys_in(db, *slot) > 0)
}

/// Removes the keys of a slot from all databases for a command, which is propagated itself.
pub fn clear(db: &mut Db, slot: u16, in_background: bool) {
    for_each_key(db, slot, |db, key| {
        if db.remove_stored(key, in_background) {
            db.changed(EventClasses::GENERIC, "del", key);
        }
    });
}

/// Removes the keys of a slot that has gone to another node, with one DEL for each in the replication stream.
pub fn give_up(db: &mut Db, slot: u16) {
    for_each_key(db, slot, |db, key| {
        if db.remove_stored(key, true) {
            db.propagate_removal(&[b"DEL", key.bytes()], std::iter::empty());
            db.touched_by_expiry(key);
        }
    });
}

fn for_each_key(db: &mut Db, slot: u16, mut visit: impl FnMut(&mut Db, Key<'_>)) {
    for index in db.databases_in_use() {
        let keys: Vec<Box<[u8]>> =
            db.database(index).iter_slot(slot).map(|entry| entry.key().into()).collect();
        db.with_database(index, |db| {
            for key in &keys {
                let key = db.key(key);
                visit(db, key);
            }
        });
    }
}
