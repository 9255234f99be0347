//! What follows from a change: the only reader of the journal. Watchers are broken, trackers told, waiting
//! clients found, and keyspace events published, in that order for each change.

use super::Executor;
use crate::config::EventClasses;
use crate::db::Change;
use crate::server::Server;
use crate::session::ClientSlot;

impl Executor {
    /// Reads what the last command (or expiry, or eviction: `by` is then `None`) has said.
    #[inline]
    pub(super) fn apply_effects(&mut self, by: Option<ClientSlot>) {
        for change in self.db.journal.take() {
            apply(&mut self.server, &change, by);
            if let Change::Flushed { db_index } = change {
                self.break_watches_of_flushed(db_index);
            }
        }
    }

    fn break_watches_of_flushed(&mut self, db_index: Option<usize>) {
        let server = &mut self.server;
        server
            .watch
            .touch_where(&mut server.clients, |index, _| db_index.is_none_or(|flushed| flushed == index));
    }
}

fn apply(server: &mut Server, change: &Change, by: Option<ClientSlot>) {
    match change {
        Change::Key { db_index, class, event, key } => {
            touched(server, *db_index, key, by);
            publish_event(server, *db_index, *class, event, key);
        }
        Change::Touched { db_index, key } => touched(server, *db_index, key, by),
        Change::Event { db_index, class, event, key } => publish_event(server, *db_index, *class, event, key),
        Change::Flushed { .. } => server.tracking.all_changed(&mut server.clients),
        Change::Swapped { a, b } => {
            server.watch.touch_where(&mut server.clients, |index, _| index == *a || index == *b);
            server.blocked.database_changed(*a);
            server.blocked.database_changed(*b);
        }
    }
}

fn touched(server: &mut Server, db_index: usize, key: &[u8], by: Option<ClientSlot>) {
    server.watch.touch(&mut server.clients, db_index, key);
    server.tracking.key_changed(&mut server.clients, key, by);
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
