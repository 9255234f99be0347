//! Commands that do to a copy of the data what has been done here, encoded once, as those who keep a copy take them.
//!
//! ```text
//!  bytes     *3 $3 SET $3 key $5 value | *2 $3 DEL $3 key |        as clients send them, one behind the other
//!  commands                        end ^              end ^        each with the database that it is about
//! ```
//!
//! 1. `commands` is in the order of `end`, and the last `end` is how long `bytes` is.
//! 2. A command's database is not among its bytes: whoever takes them selects it, in terms of what it took before.
//!
//! Both buffers are used again for what follows. Rejected: a vector for each argument, encoded on the way to the file. The
//! file then cost a SET five allocations and 2,500 instructions, where it is none and 500 (callgrind, 16 in a pipeline).

use wire::aof::{write_argument, write_count};

/// More is not kept of empty buffers.
const BYTES_KEPT: usize = 1 << 16;
const COMMANDS_KEPT: usize = 1 << 10;

#[derive(Default)]
pub struct EncodedCommands {
    bytes: Vec<u8>,
    commands: Vec<Encoded>,
}

#[derive(Clone, Copy)]
struct Encoded {
    db_index: u32,
    of_its_own: bool,
    /// In `bytes`.
    end: usize,
}

impl EncodedCommands {
    /// Appends a command: the arguments `head`, then `rest`. `of_its_own`: expiry or eviction has done it.
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
        self.commands.push(Encoded { db_index: db_index as u32, of_its_own, end: self.bytes.len() });
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Where the command's bytes begin, and so where those of the ones before it end.
    #[inline]
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.commands[before].end)
    }

    /// The commands from the one at `first` on, each with its database.
    #[inline]
    pub fn from(&self, first: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = self.start(first);
        self.commands[first..].iter().map(move |command| {
            let bytes = &self.bytes[start..command.end];
            start = command.end;
            (command.db_index as usize, bytes)
        })
    }

    /// Leaves out all from the one at `first` on that expiry and eviction have not done.
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

    /// Leaves out the commands from the one at `first` on.
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
