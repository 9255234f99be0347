//! The circumstances under which a command, or an activity of the server, uses the data. One value holds all of them; it is made
//! in one place ([`crate::engine`]) before the work begins, and nothing of it outlives the work.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The index of the database in which keys are looked up.
    pub database: usize,
    /// The instant of the work, in milliseconds since the epoch: keys and fields that expire by then have expired.
    pub now_ms: i64,
    pub expired: ExpiredKeys,
    /// Look-ups leave no access times (CLIENT NO-TOUCH).
    pub no_touch: bool,
}

/// What a look-up does with a key or field that has expired and is still stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredKeys {
    /// Removes it, and records the removal.
    Removed,
    /// Answers as if it were absent, and leaves it: the server is paused, or a primary or another source decides.
    Hidden,
    /// Finds it like any other, for a client that writes data which it has brought from elsewhere.
    Shown,
}

impl Turn {
    /// Work in `database` at `now_ms` that removes what has expired.
    pub const fn new(database: usize, now_ms: i64) -> Self {
        Turn { database, now_ms, expired: ExpiredKeys::Removed, no_touch: false }
    }
}
