//! Commands that repeat this server's changes on a copy of the data, encoded once, for replicas and the append-only file.
//!
//! ```text
//!  bytes     *3 $3 SET $3 key $5 value | *2 $3 DEL $3 key |        as clients send them, back to back
//!  commands                        end ^              end ^        each with its database
//! ```
//!
//! 1. `commands` is in the order of `end`, and the last `end` is the length of `bytes`.
//! 2. A command's database is not among its bytes: each receiver adds a SELECT where the database differs from the one
//!    before.
//!
//! Both buffers are reused. Rejected: a vector for each argument, encoded on the way to the file: the file then cost a
//! SET five allocations and 2,500 instructions, against none and 500 (callgrind, 16 in a pipeline). A command that is a
//! unit of its own and already has its encoded form in the query buffer does not pass through here: it is fed from there.

use wire::aof::{write_argument, write_count};
use wire::convert::short_len;

/// Capacity kept of empty buffers.
const BYTES_KEPT: usize = 1 << 16;
const COMMANDS_KEPT: usize = 1 << 10;

/// The set of receivers of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receivers(u8);

impl Receivers {
    /// The append-only file.
    pub const FILE: Receivers = Receivers(1);
    /// All replicas.
    pub const REPLICAS: Receivers = Receivers(2);
    /// File and replicas.
    pub const ALL: Receivers = Receivers(3);

    /// From a script's bits: 1 for the append-only file and 2 for replicas.
    pub fn of_script(bits: u8) -> Self {
        Receivers(bits & Self::ALL.0)
    }

    /// Whether there is no receiver.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any of `other` is among these.
    #[inline]
    pub fn include(self, other: Receivers) -> bool {
        self.0 & other.0 != 0
    }
}

/// Encoded commands with their databases and receivers.
#[derive(Default)]
pub struct EncodedCommands {
    bytes: Vec<u8>,
    commands: Vec<Encoded>,
}

#[derive(Clone, Copy)]
struct Encoded {
    db_index: u32,
    of_its_own: bool,
    receivers: Receivers,
    /// Offset in `bytes`.
    end: usize,
}

impl EncodedCommands {
    /// Appends a command with the arguments `head`, then `rest`. `of_its_own`: made by expiry or eviction.
    #[inline]
    pub(super) fn push<'a>(
        &mut self,
        db_index: usize,
        of_its_own: bool,
        head: &[&[u8]],
        rest: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        const TAKEN: &str = "memory takes all that is written";
        write_count(&mut self.bytes, head.len() + rest.len()).expect(TAKEN);
        for argument in head {
            write_argument(&mut self.bytes, argument).expect(TAKEN);
        }
        for argument in rest {
            write_argument(&mut self.bytes, argument).expect(TAKEN);
        }
        let (receivers, end) = (Receivers::ALL, self.bytes.len());
        self.commands.push(Encoded { db_index: short_len(db_index), of_its_own, receivers, end });
    }

    /// Number of commands.
    #[inline]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are no commands.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Offset where the command's bytes begin, and those of the one before end.
    #[inline]
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.commands[before].end)
    }

    /// The commands from `first` on, each with its database.
    #[inline]
    pub fn from(&self, first: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = self.start(first);
        self.commands[first..].iter().map(move |command| {
            let bytes = &self.bytes[start..command.end];
            start = command.end;
            (command.db_index as usize, bytes)
        })
    }

    /// Number of commands for a receiver.
    #[inline]
    pub fn count_for(&self, receiver: Receivers) -> usize {
        self.commands.iter().filter(|command| command.receivers.include(receiver)).count()
    }

    /// As [`Self::from`], for all commands of a receiver.
    #[inline]
    pub fn all_for(&self, receiver: Receivers) -> impl Iterator<Item = (usize, &[u8])> {
        let is_for = self.commands.iter().map(move |command| command.receivers.include(receiver));
        self.from(0).zip(is_for).filter_map(|(command, is_for)| is_for.then_some(command))
    }

    /// Restricts the commands from `first` on to `receivers`, except those of expiry and eviction.
    #[cold]
    pub(super) fn restrict(&mut self, first: usize, receivers: Receivers) {
        for command in self.commands[first..].iter_mut().filter(|command| !command.of_its_own) {
            command.receivers.0 &= receivers.0;
        }
    }

    /// Restricts all commands to replicas, including those of expiry and eviction.
    #[cold]
    pub(super) fn leave_to_replicas(&mut self) {
        for command in &mut self.commands {
            command.receivers.0 &= Receivers::REPLICAS.0;
        }
    }

    /// Drops the commands from `first` on that are not of expiry and eviction.
    pub(super) fn keep_of_its_own(&mut self, first: usize) {
        let (mut kept, mut end, mut start) = (first, self.start(first), self.start(first));
        for index in first..self.commands.len() {
            let command = self.commands[index];
            if command.of_its_own {
                self.bytes.copy_within(start..command.end, end);
                end += command.end - start;
                self.commands[kept] = Encoded { end, ..command };
                kept += 1;
            }
            start = command.end;
        }
        self.truncate(kept);
    }

    /// Drops the commands from `first` on.
    #[inline]
    pub(super) fn truncate(&mut self, first: usize) {
        self.bytes.truncate(self.start(first));
        self.commands.truncate(first);
        if self.commands.is_empty()
            && (self.bytes.capacity() > BYTES_KEPT || self.commands.capacity() > COMMANDS_KEPT)
        {
            self.bytes.shrink_to(BYTES_KEPT);
            self.commands.shrink_to(COMMANDS_KEPT);
        }
    }
}

#[cfg(test)]
mod tests;
