//! The database, time and modes ([`Turn`]) under which commands and the server's own work use the data; determined here
//! alone.

use super::Executor;
use super::call::Call;
use crate::command::flag;
use crate::db::{ExpiredKeys, Turn};
use crate::session::Client;

impl Executor {
    /// Begins a turn that is not a client's.
    pub(super) fn begin_turn(&mut self, turn: Turn) {
        self.db.begin(turn);
        self.gate.close();
    }

    /// Returns the turn of a client's commands: of those that write, or of the others. `replayed`: they come from the
    /// append-only file.
    #[inline(always)]
    pub(super) fn turn_of(&self, client: &Client, replayed: bool, writes: bool) -> Turn {
        let is_source = client.import_source || client.is_primary;
        let expired = if replayed || self.db.importing && is_source || client.is_slot_source() {
            ExpiredKeys::Shown
        } else if writes {
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

    /// Returns the turn of one command.
    pub(super) fn turn_of_call(&self, call: &Call<'_>) -> Turn {
        self.turn_of(&self.server.clients[call.client], call.origin.replayed, call.row.is(flag::WRITE))
    }

    /// Returns the turn of the server's own work, which begins with the first database.
    pub(super) fn own_turn(&self) -> Turn {
        Turn { expired: self.expired_keys(), ..Turn::new(0, self.server.now.unix_ms()) }
    }

    /// Returns the treatment of expired keys by a read-only look-up.
    #[inline(always)]
    fn expired_keys(&self) -> ExpiredKeys {
        match self.server.pauses.are_any() || self.db.importing {
            true => ExpiredKeys::Hidden,
            false => ExpiredKeys::Removed,
        }
    }
}
