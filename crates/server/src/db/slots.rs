//! The keys of slots, over all databases of a node of a cluster.

use super::{Db, EventClasses};
use structures::key_slot::SLOTS_END;

impl Db {
    /// Returns whether no database has keys, expired ones included.
    pub fn has_no_keys(&self) -> bool {
        self.keyspace.iter().all(|(_, database)| database.is_empty())
    }

    /// Number of keys of a slot in all databases.
    pub fn keys_in_slot(&self, slot: u16) -> usize {
        self.keyspace.iter().map(|(_, database)| database.keys_in_slot(slot)).sum()
    }

    /// The slots that have keys in some database, in order.
    pub fn slots_with_keys(&self) -> impl Iterator<Item = u16> {
        (0..SLOTS_END).filter(|slot| self.keys_in_slot(*slot) > 0)
    }

    /// Removes the keys of a slot from all databases for a command, which is propagated itself.
    pub fn clear_slot(&mut self, slot: u16, in_background: bool) {
        self.for_each_key_of(slot, |db, key| {
            if db.remove_stored(key, in_background) {
                db.changed(EventClasses::GENERIC, "del", key);
            }
        });
    }

    /// Removes the keys of a slot that has gone to another node, with one DEL for each in the replication stream.
    pub fn give_up_slot(&mut self, slot: u16) {
        self.for_each_key_of(slot, |db, key| {
            if db.remove_stored(key, true) {
                db.propagate_removal(&[b"DEL", key.bytes()], std::iter::empty());
                db.touched_by_expiry(key);
            }
        });
    }

    fn for_each_key_of(&mut self, slot: u16, mut visit: impl FnMut(&mut Db, super::Key<'_>)) {
        for index in self.databases_in_use() {
            let keys: Vec<Box<[u8]>> =
                self.database(index).iter_slot(slot).map(|entry| entry.key().into()).collect();
            self.with_database(index, |db| {
                for key in &keys {
                    let key = db.key(key);
                    visit(db, key);
                }
            });
        }
    }
}
