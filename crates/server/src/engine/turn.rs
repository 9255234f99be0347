//! The circumstances ([`Turn`]) under which commands and the server's own work use the data, determined here alone.

use super::Executor;
use super::call::Call;
use crate::command::flag;
use crate::db::{ExpiredKeys, Turn};

impl Executor {
    /// Returns the turn of a client's command.
    #[inline(always)]
    pub(super) fn turn_of(&self, call: &Call<'_>) -> Turn {
        let client = &self.server.clients[call.client];
        let is_source = client.import_source || client.is_primary;
        let expired = if call.origin.replayed || self.db.importing && is_source {
            ExpiredKeys::Shown
        } else if call.row.is(flag::WRITE) {
            // A write removes expired keys it finds, and the removal is propagated: a copy of the data expires nothing
            // itself.
            ExpiredKeys::Removed
        } else {
            self.expired_keys()
        };
        Turn {
            database: client.db_index,
            now_ms: self.server.now.unix_ms(),
            expired,
            no_touch: client.no_touch,
        }
    }

    /// Returns the turn of the server's own work, which begins with the first database.
    pub(super) fn own_turn(&self) -> Turn {
        Turn { expired: self.expired_keys(), ..Turn::new(0, self.server.now.unix_ms()) }
    }

    /// Returns how a look-up that writes nothing treats expired keys.
    #[inline(always)]
    fn expired_keys(&self) -> ExpiredKeys {
        match self.server.pauses.are_any() || self.db.importing {
            true => ExpiredKeys::Hidden,
            false => ExpiredKeys::Removed,
        }
    }
}
