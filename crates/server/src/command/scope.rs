//! What a command's arguments name beside keys: channels and databases.

use super::Args;

/// Arguments that are channels which the command makes its client listen or send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// The first argument only.
    First,
    /// All arguments.
    All,
    /// All arguments, and they are patterns.
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

/// The databases that a command is about.
#[derive(Clone, Copy, Debug)]
pub enum Databases {
    /// That of its client.
    Own,
    /// Those whose numbers are arguments, at these positions; none if the arguments make no sense. And that of its
    /// client, if the command has keys.
    Named(fn(Args<'_>) -> Vec<usize>),
    All,
}
