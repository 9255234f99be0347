//! The keys of slots, over all databases of a node of a cluster.

use super::keyspace::Database;
use super::{Db, EventClasses, Key, cursor_of_slot, slot_of_cursor};
use wire::cluster_bus::SlotSet;

/// Keys that a removal copies at a time, and at most as many more as share a place in the table.
const KEYS_AT_A_TIME: usize = 1024;

/// Hides these slots too: their keys are found by name and counted by slot, but no list, number or choice of keys has them,
/// and they are neither evicted nor searched for expired ones. Has no effect without a cluster.
pub fn hide(db: &mut Db, slots: &SlotSet) {
    let mut all = hidden(db);
    all.insert_all(slots);
    db.keyspace.hide(all);
}

/// Ends [`hide`] for these slots.
pub fn show(db: &mut Db, slots: &SlotSet) {
    let mut all = hidden(db);
    all.remove_all(slots);
    db.keyspace.hide(all);
}

/// Ends [`hide`] for all slots.
pub fn show_all(db: &mut Db) {
    db.keyspace.hide(SlotSet::new());
}

/// The hidden slots.
pub fn hidden(db: &Db) -> SlotSet {
    db.keyspace.hidden().cloned().unwrap_or_default()
}

/// Whether the slot is hidden.
pub fn is_hidden(db: &Db, slot: u16) -> bool {
    db.keyspace.hidden().is_some_and(|slots| slots.contains(slot))
}

/// Returns whether no database has keys, expired ones included and those of hidden slots not.
pub fn has_no_keys(db: &Db) -> bool {
    db.keyspace.iter().all(|(_, database)| database.shown_len() == 0)
}

/// Number of keys of a slot in all databases.
pub fn keys_in(db: &Db, slot: u16) -> usize {
    db.keyspace.iter().map(|(_, database)| database.keys_in_slot(slot)).sum()
}

/// Number of keys of these slots in all databases.
pub fn keys_in_all(db: &Db, slots: &SlotSet) -> usize {
    let in_database = |index: usize| {
        let database = db.database(index);
        slots.iter().map(|slot| database.keys_in_slot(slot)).sum::<usize>()
    };
    db.databases_in_use().map(in_database).sum()
}

/// The slots that have keys in some database and are not hidden, in order.
pub fn with_keys(db: &Db) -> impl Iterator<Item = u16> {
    let databases: Vec<&Database> = db.databases_in_use().map(|index| db.database(index)).collect();
    let mut from = 0;
    std::iter::from_fn(move || {
        let slot = databases.iter().filter_map(|database| database.next_slot(from)).min()?;
        from = slot + 1;
        Some(slot)
    })
}

/// Removes the keys of a slot from all databases for a command, which is propagated itself.
pub fn clear(db: &mut Db, slot: u16, in_background: bool) {
    let mut removal = Removal::of(db, slot);
    while removal.remove_some(db, |db, key| {
        if db.remove_stored(key, in_background) {
            db.changed(EventClasses::GENERIC, "del", key);
            db.change_log.audit.propagated_without_name(db.turn.database, key.bytes());
        }
    }) {}
}

/// A removal of all keys of a slot from all databases, some keys at a time: their names are copied before.
pub struct Removal {
    slot: u16,
    /// Databases that have keys of the slot and have not been visited.
    databases: Vec<usize>,
    /// The position in the last of them.
    cursor: u64,
}

impl Removal {
    /// Begins the removal of the keys that the slot has now.
    pub fn of(db: &Db, slot: u16) -> Removal {
        let has_keys = |index: &usize| db.database(*index).keys_in_slot(slot) > 0;
        let databases = db.databases_in_use().filter(has_keys).collect();
        Removal { slot, databases, cursor: cursor_of_slot(slot) }
    }

    /// Removes some keys of a slot that has gone to another node, with one DEL for each in the replication stream;
    /// `false`: there are none left.
    pub fn give_up_some(&mut self, db: &mut Db) -> bool {
        self.remove_some(db, |db, key| {
            if db.remove_stored(key, true) {
                db.propagate_removal(&[b"DEL", key.bytes()], std::iter::empty());
                db.touched_by_expiry(key);
            }
        })
    }

    fn remove_some(&mut self, db: &mut Db, mut remove: impl FnMut(&mut Db, Key<'_>)) -> bool {
        let Some(&index) = self.databases.last() else { return false };
        let keys = self.next_keys(db.database(index));
        db.with_database(index, |db| {
            for key in &keys {
                let key = db.key(key);
                remove(db, key);
            }
        });
        true
    }

    /// Copies the next keys of a database; leaves the database behind with its last ones.
    fn next_keys(&mut self, database: &Database) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        let mut goes_on = database.keys_in_slot(self.slot) > 0;
        while goes_on && keys.len() < KEYS_AT_A_TIME {
            self.cursor = database.scan(self.cursor, &mut |entry| keys.push(entry.key().into()));
            goes_on = self.cursor != 0 && slot_of_cursor(self.cursor) == self.slot;
        }
        if !goes_on {
            self.databases.pop();
            self.cursor = cursor_of_slot(self.slot);
        }
        keys
    }
}

#[cfg(test)]
mod tests;
