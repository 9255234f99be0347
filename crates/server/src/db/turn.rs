//! The database, time and modes under which a command, or an activity of the server, uses the data. One value holds all
//! of them; it is created in one place ([`crate::engine`]) before the work begins, and not kept afterwards.

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the database in which keys are looked up.
    pub database: usize,
    /// Time of the work, in milliseconds since the epoch: keys and fields that expire by then are expired.
    pub now_ms: i64,
    /// Treatment of expired keys and fields that are still stored.
    pub expired: ExpiredKeys,
    /// Look-ups do not update access times (CLIENT NO-TOUCH).
    pub no_touch: bool,
}

/// Treatment of expired keys and fields that are still stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredKeys {
    /// Removes it, and records the removal.
    Removed,
    /// Treats it as absent, but keeps it: the server is paused, or a primary or another source decides.
    Hidden,
    /// Finds it like any other, for a client that imports data.
    Shown,
}

impl Turn {
    /// Work in `database` at `now_ms` that removes expired keys.
    pub const fn new(database: usize, now_ms: i64) -> Self {
        Turn { database, now_ms, expired: ExpiredKeys::Removed, no_touch: false }
    }
}
