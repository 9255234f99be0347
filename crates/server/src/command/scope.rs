//! The channels and databases that a command's arguments name.

use super::Args;

/// Which arguments are channels that the command subscribes to or publishes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// The first argument only.
    First,
    /// All arguments.
    All,
    /// All arguments, as patterns.
    Patterns,
}

impl Channels {
    /// Positions of the channels among `args`.
    pub fn positions(self, args: Args<'_>) -> std::ops::Range<usize> {
        match self {
            Channels::First => 1..args.len().min(2),
            Channels::All | Channels::Patterns => 1..args.len().max(1),
        }
    }
}

/// The databases that a command accesses.
#[derive(Clone, Copy, Debug)]
pub enum Databases {
    /// The client's selected database.
    Own,
    /// The databases whose numbers are the arguments at these positions; none if the arguments are invalid. Plus the
    /// client's database, if the command has keys.
    Named(fn(Args<'_>) -> Vec<usize>),
    /// All databases.
    All,
}
