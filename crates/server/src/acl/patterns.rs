//! Patterns of keys, as a user's rules give them and as keys are checked against them.
//!
//! Most patterns are a name or a prefix. These are compared as such, and only what is a real glob goes through the
//! matcher. A prefix's first eight bytes are compared as one number: by a call to compare bytes, a user with one pattern
//! made a GET 4.5 % longer in instructions.

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
    Prefix(Head),
    Glob,
}

/// The first bytes of a prefix, eight at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// The first byte lowest; 0 where the prefix is shorter.
    bytes: u64,
    /// Ones where the prefix has bytes.
    mask: u64,
}

const HEAD_BYTES: usize = size_of::<u64>();

impl Head {
    fn of(prefix: &[u8]) -> Self {
        let mut bytes = [0; HEAD_BYTES];
        let mut mask = [0; HEAD_BYTES];
        for (at, &byte) in prefix.iter().take(HEAD_BYTES).enumerate() {
            (bytes[at], mask[at]) = (byte, u8::MAX);
        }
        Head { bytes: u64::from_le_bytes(bytes), mask: u64::from_le_bytes(mask) }
    }

    /// Whether what begins with `prefix`, of which this is the head, is this key; a star stands for something, so an
    /// empty key is none.
    #[inline]
    fn begins(self, key: &[u8], prefix: &[u8]) -> bool {
        if key.len() < HEAD_BYTES {
            return key.starts_with(prefix) && !key.is_empty();
        }
        self.begins_whole(key) && (prefix.len() <= HEAD_BYTES || key.starts_with(prefix))
    }

    /// Whether a key of as many bytes at least begins with the head; none that is shorter does, as far as this can tell.
    #[inline(always)]
    fn begins_whole(self, key: &[u8]) -> bool {
        let same = |first: &[u8; HEAD_BYTES]| (u64::from_le_bytes(*first) ^ self.bytes) & self.mask == 0;
        key.first_chunk().is_some_and(same)
    }
}

impl Shape {
    fn of(text: &[u8]) -> Self {
        let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        match text.iter().position(is_special) {
            None => Shape::Literal,
            Some(at) if at + 1 == text.len() && text[at] == b'*' => Shape::Prefix(Head::of(&text[..at])),
            Some(_) => Shape::Glob,
        }
    }
}

impl KeyPattern {
    pub fn new(text: &[u8], rights: Rights) -> Self {
        KeyPattern { text: text.to_vec(), rights, shape: Shape::of(text) }
    }

    #[inline(always)]
    fn matches(&self, key: &[u8]) -> bool {
        match self.shape {
            Shape::Literal => self.text == key,
            Shape::Prefix(head) => head.begins(key, &self.text[..self.text.len() - 1]),
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

    /// Whether the first pattern is a short prefix that the key begins with and has all of these rights: what most users
    /// have, found without comparing more than a number.
    #[inline(always)]
    pub fn permit_by_first(&self, key: &[u8], needed: Rights) -> bool {
        let Some(pattern) = self.0.first() else { return false };
        let Shape::Prefix(head) = pattern.shape else { return false };
        let is_short = pattern.text.len() - 1 <= HEAD_BYTES;
        pattern.rights & needed == needed && is_short && head.begins_whole(key)
    }

    /// Whether one of the patterns matches the key and has all of these rights.
    #[inline(never)]
    pub fn permit(&self, key: &[u8], needed: Rights) -> bool {
        // A loop, for a closure would be called.
        for pattern in &self.0 {
            if pattern.rights & needed == needed && pattern.matches(key) {
                return true;
            }
        }
        false
    }

    /// Whether one of them has all of these rights to any key.
    pub fn permit_any(&self, needed: Rights) -> bool {
        self.0.iter().any(|pattern| pattern.rights & needed == needed && pattern.text == b"*")
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, KeyPattern, KeyPatterns, READ_WRITE};

    /// Prefixes and keys of all lengths around a head's, the same but for one byte at most.
    #[test]
    fn prefixes_match_what_the_glob_matches() {
        let text = b"abcdefghijklmnopqrst";
        for prefix_len in 0..=text.len() {
            let glob = [&text[..prefix_len], b"*"].concat();
            let pattern = KeyPattern::new(&glob, READ_WRITE);
            for key_len in 0..=text.len() {
                for changed in 0..=key_len {
                    let mut key = text[..key_len].to_vec();
                    if let Some(byte) = key.get_mut(changed) {
                        *byte = b'*';
                    }
                    let expected = wire::glob::matches(&glob, &key) && !key.is_empty();
                    assert_eq!(pattern.matches(&key), expected, "{glob:?} {key:?}");
                    let patterns = KeyPatterns(vec![pattern.clone()]);
                    assert_eq!(patterns.permit(&key, READ_WRITE), expected);
                    let is_found_by_number = expected && prefix_len <= HEAD_BYTES && key_len >= HEAD_BYTES;
                    assert_eq!(patterns.permit_by_first(&key, READ_WRITE), is_found_by_number);
                }
            }
        }
    }
}
