//! Patterns of keys, as a user's rules give them and as keys are checked against them.
//!
//! Most patterns are a name or a prefix. These are compared as such, and only what is a real glob goes through the
//! matcher.

use crate::command::{Access, access};

/// What a pattern lets a command do with the keys that match it: a set of [`READ`] and [`WRITE`].
pub type Rights = u8;

pub const READ: Rights = 1;
pub const WRITE: Rights = 1 << 1;
pub const READ_WRITE: Rights = READ | WRITE;

/// What a command needs that does this with a key; 0 for one that only asks whether there is one.
pub fn needed(access: Access) -> Rights {
    let reads = access & access::ACCESS != 0;
    let writes = access & (access::INSERT | access::DELETE | access::UPDATE) != 0;
    u8::from(reads) * READ | u8::from(writes) * WRITE
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    pub text: Vec<u8>,
    pub rights: Rights,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Only the text itself.
    Literal,
    /// What begins with the text without its last byte, a star.
    Prefix,
    Glob,
}

impl Shape {
    fn of(text: &[u8]) -> Self {
        let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        match text.iter().position(is_special) {
            None => Shape::Literal,
            Some(at) if at + 1 == text.len() && text[at] == b'*' => Shape::Prefix,
            Some(_) => Shape::Glob,
        }
    }
}

impl KeyPattern {
    pub fn new(text: &[u8], rights: Rights) -> Self {
        KeyPattern { text: text.to_vec(), rights, shape: Shape::of(text) }
    }

    #[inline]
    fn matches(&self, key: &[u8]) -> bool {
        match self.shape {
            Shape::Literal => self.text == key,
            // Not even a star matches the empty key.
            Shape::Prefix => key.starts_with(&self.text[..self.text.len() - 1]) && !key.is_empty(),
            Shape::Glob => wire::glob::matches(&self.text, key),
        }
    }

    /// As rules spell it.
    fn rule(&self, is_alone: bool) -> Vec<u8> {
        let rights: &[u8] = match self.rights {
            READ => b"%R~",
            WRITE => b"%W~",
            // `~*` would be a rule of its own, which no other pattern may stand beside.
            _ if self.text == b"*" && !is_alone => b"%RW~",
            _ => b"~",
        };
        [rights, &self.text].concat()
    }
}

/// The patterns of a selector, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPatterns(Vec<KeyPattern>);

impl KeyPatterns {
    /// As rules spell them, separated by spaces.
    pub fn rules(&self) -> Vec<u8> {
        let is_alone = self.0.len() == 1;
        self.0.iter().map(|pattern| pattern.rule(is_alone)).collect::<Vec<_>>().join(&b' ')
    }

    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds rights to a pattern, which may be a new one.
    pub fn add(&mut self, text: &[u8], rights: Rights) {
        match self.0.iter_mut().find(|pattern| pattern.text == text) {
            Some(pattern) => pattern.rights |= rights,
            None => self.0.push(KeyPattern::new(text, rights)),
        }
    }

    /// Whether one of the patterns matches the key and has all of these rights.
    #[inline]
    pub fn permit(&self, key: &[u8], needed: Rights) -> bool {
        self.0.iter().any(|pattern| pattern.rights & needed == needed && pattern.matches(key))
    }

    /// Whether one of them has all of these rights to any key.
    pub fn permit_any(&self, needed: Rights) -> bool {
        self.0.iter().any(|pattern| pattern.rights & needed == needed && pattern.text == b"*")
    }
}
