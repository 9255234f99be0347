//! Effects of changes: the only reader of the change log. For each change, in this order: breaks watches, notifies
//! trackers, finds blocked clients, publishes keyspace events.

use super::Executor;
use crate::config::EventClasses;
use crate::db::{Change, Db, Key};
use crate::engine::client_limits::check_much_output;
use crate::server::Server;
use crate::session::ClientHandle;
use crate::session::watch::{Replaced, Touch};
use std::collections::BTreeSet;

fn apply(db: &Db, server: &mut Server, change: &Change, by: Option<ClientHandle>) {
    match change {
        Change::Key { db_index, class, event, key } => {
            touched(server, db, *db_index, key, by, *class);
            publish_event(server, *db_index, *class, event, key);
        }
        Change::Touched { db_index, key } => touched(server, db, *db_index, key, by, EventClasses::NONE),
        Change::Event { db_index, class, event, key } => {
            publish_event(server, *db_index, *class, event, key);
        }
        Change::Ready { db_index, key } => server.blocked.key_changed(*db_index, key),
        Change::Pending { db_index, key, group, may_be_due_earlier } => {
            let now_us = server.now.monotonic_us;
            server.blocked.claims().became_pending((*db_index, key), group, *may_be_due_earlier, now_us);
        }
        Change::Flushed { db_index } => flushed(db, server, *db_index),
        Change::Swapped { a, b } => swapped(db, server, *a, *b),
    }
}

/// A key of a database whose content was replaced.
fn replaced(db: &Db, index: usize, key: Key<'_>, existed: bool) -> Replaced {
    Replaced { existed, exists: db.is_stored(index, key), is_stale: db.is_stored_expired(index, key) }
}

fn flushed(db: &Db, server: &mut Server, db_index: Option<usize>) {
    let indexes = db_index.map_or_else(|| db.databases_replaced(), |index| BTreeSet::from([index]));
    if !server.watch.is_empty() {
        for &index in &indexes {
            // The replacing data may already be in place.
            let replaced = |key: &[u8]| {
                let key = db.key(key);
                replaced(db, index, key, db.was_cleared(index, key))
            };
            server.watch.database_replaced(&mut server.clients, index, replaced);
        }
    }
    server.tracking.all_changed(&mut server.clients);
    indexes.iter().for_each(|&index| server.blocked.database_changed(index));
}

fn swapped(db: &Db, server: &mut Server, a: usize, b: usize) {
    // Each database now has the other's former content.
    for (index, other) in [(a, b), (b, a)] {
        let replaced = |key: &[u8]| {
            let key = db.key(key);
            replaced(db, index, key, db.is_stored(other, key))
        };
        server.watch.database_replaced(&mut server.clients, index, replaced);
        server.blocked.database_changed(index);
    }
}

impl Executor {
    /// Reads the records of the last command (or of expiry or eviction, for which `by` is `None`).
    #[inline(always)]
    pub(super) fn apply_effects(&mut self, by: Option<ClientHandle>) {
        if self.db.change_log.has_changes() {
            self.apply_changes(by);
        }
        self.db.forget_cleared();
        if !self.server.clients.with_much_output.is_empty() {
            check_much_output(&mut self.server, &self.clock);
        }
    }

    #[inline(never)]
    fn apply_changes(&mut self, by: Option<ClientHandle>) {
        for change in self.db.change_log.take() {
            apply(&self.db, &mut self.server, &change, by);
        }
    }
}

fn touched(
    server: &mut Server,
    db: &Db,
    db_index: usize,
    key: &[u8],
    by: Option<ClientHandle>,
    class: EventClasses,
) {
    if !server.watch.is_empty() {
        let touch = if db.is_stored(db_index, db.key(key)) { Touch::Changed } else { Touch::Removed };
        server.watch.touch(&mut server.clients, db_index, key, touch);
    }
    let by_itself = class == EventClasses::EXPIRED || class == EventClasses::EVICTED;
    server.tracking.key_changed(&mut server.clients, key, by, by_itself);
    server.blocked.key_changed(db_index, key);
}

fn publish_event(server: &mut Server, db_index: usize, class: EventClasses, event: &str, key: &[u8]) {
    let wanted = server.config.notify_keyspace_events;
    if !wanted.intersects(class) {
        return;
    }
    if wanted.has(EventClasses::KEYSPACE) {
        let channel = [format!("__keyspace@{db_index}__:").as_bytes(), key].concat();
        server.pubsub.publish(&mut server.clients, &channel, event.as_bytes());
    }
    if wanted.has(EventClasses::KEYEVENT) {
        let channel = format!("__keyevent@{db_index}__:{event}");
        server.pubsub.publish(&mut server.clients, channel.as_bytes(), key);
    }
}
