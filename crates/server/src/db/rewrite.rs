//! Values as the fewest commands that create them: the beginning of an append-only file whose base is not an RDB file.

use super::object::{Value, by_type};
use super::value_type::ValueType;
use std::io;
use wire::aof::Part;

/// Receives a command: its name and its arguments.
pub type CommandSink<'a> = dyn FnMut(&[&[u8]]) -> io::Result<()> + 'a;

/// Elements in one command.
const ELEMENTS_MAX: usize = 64;

impl Value<'_> {
    /// Passes the commands that create the value at its key to `sink`, without the key's expiry.
    pub fn rewrite(&self, sink: &mut CommandSink<'_>) -> io::Result<()> {
        let key = self.entry().key();
        if let Some(text) = self.text() {
            return text.with_bytes(|bytes| sink(&[b"SET", key, bytes]));
        }
        let rewritten =
            self.with_object(|object| by_type!(object, value => ValueType::rewrite(value, key, sink)));
        rewritten.unwrap_or(Ok(()))
    }
}

/// Gathers elements into commands of bounded length.
pub(super) struct Batch<'a> {
    sink: &'a mut CommandSink<'a>,
    head: [&'a [u8]; 2],
    arguments: Vec<Vec<u8>>,
    part: Part,
    outcome: io::Result<()>,
}

impl<'a> Batch<'a> {
    /// Starts a batch of commands `name key ...`.
    pub fn new(sink: &'a mut CommandSink<'_>, name: &'a [u8], key: &'a [u8]) -> Self {
        let part = Part::new(ELEMENTS_MAX);
        Batch { sink, head: [name, key], arguments: Vec::new(), part, outcome: Ok(()) }
    }

    /// Adds the arguments of an element.
    pub fn add<const N: usize>(&mut self, element: [Vec<u8>; N]) {
        if self.part.add(element.iter().map(Vec::len).sum()) {
            self.send();
        }
        self.arguments.extend(element);
    }

    fn send(&mut self) {
        if self.arguments.is_empty() || self.outcome.is_err() {
            return;
        }
        let arguments: Vec<&[u8]> =
            self.head.into_iter().chain(self.arguments.iter().map(Vec::as_slice)).collect();
        self.outcome = (self.sink)(&arguments);
        self.arguments.clear();
    }

    /// Sends the last command.
    pub fn finish(mut self) -> io::Result<()> {
        self.send();
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::aof::PART_BYTES;

    fn sent(elements: impl Iterator<Item = [Vec<u8>; 2]>) -> Vec<usize> {
        let mut lens = Vec::new();
        let mut sink = |command: &[&[u8]]| {
            assert_eq!(command[..2], [&b"HMSET"[..], b"key"]);
            lens.push(command.len() - 2);
            Ok(())
        };
        let mut batch = Batch::new(&mut sink, b"HMSET", b"key");
        elements.for_each(|element| batch.add(element));
        batch.finish().unwrap();
        lens
    }

    #[test]
    fn a_command_is_bounded_by_elements_and_by_bytes() {
        assert_eq!(sent((0..ELEMENTS_MAX + 1).map(|_| [vec![1], vec![2]])), [2 * ELEMENTS_MAX, 2]);
        let long = |_| [vec![1], vec![0; PART_BYTES / 2]];
        assert_eq!(sent((0..3).map(long)), [4, 2], "elements of half a part");
    }
}
