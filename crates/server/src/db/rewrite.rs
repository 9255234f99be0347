//! Values as the fewest commands that make them: what an append-only file begins with where that is not an RDB file.

use super::object::{Value, by_type};
use super::value_type::ValueType;
use std::io;

/// Takes a command: its name and its arguments.
pub type CommandSink<'a> = dyn FnMut(&[&[u8]]) -> io::Result<()> + 'a;

/// Elements in one command.
const ELEMENTS_MAX: usize = 64;

impl Value<'_> {
    /// Hands over the commands that make the value at its key, all but the key's expiry.
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
    arguments_max: usize,
    outcome: io::Result<()>,
}

impl<'a> Batch<'a> {
    pub fn new(sink: &'a mut CommandSink<'_>, name: &'a [u8], key: &'a [u8], per_element: usize) -> Self {
        let arguments_max = ELEMENTS_MAX * per_element;
        Batch { sink, head: [name, key], arguments: Vec::new(), arguments_max, outcome: Ok(()) }
    }

    pub fn add(&mut self, argument: Vec<u8>) {
        if self.arguments.len() == self.arguments_max {
            self.send();
        }
        self.arguments.push(argument);
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

    pub fn finish(mut self) -> io::Result<()> {
        self.send();
        self.outcome
    }
}
