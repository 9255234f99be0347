//! Key patterns of a user's rules, and the check of keys against them.
//!
//! Most patterns are a name or a prefix, and are compared as such; only other globs use the glob matcher. A prefix's first
//! eight bytes are compared as one integer: with a call that compares bytes, a user with one pattern made a GET 4.5 %
//! longer in instructions.

use crate::command::{Access, access};

/// The permissions of a pattern for the keys that match it: a set of [`READ`] and [`WRITE`].
pub type Rights = u8;

/// Reading the key's value.
pub const READ: Rights = 1;
/// Changing the key's value.
pub const WRITE: Rights = 1 << 1;
/// Both rights.
pub const READ_WRITE: Rights = READ | WRITE;

/// The rights that a command with this access to a key needs; 0 if it only tests for existence.
pub fn needed(access: Access) -> Rights {
    let reads = access & access::ACCESS != 0;
    let writes = access & (access::INSERT | access::DELETE | access::UPDATE) != 0;
    u8::from(reads) * READ | u8::from(writes) * WRITE
}

/// A pattern with its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    /// The glob.
    pub text: Vec<u8>,
    /// The rights on matching keys.
    pub rights: Rights,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Matches only the text itself.
    Literal,
    /// The text without its last byte, a star, is a prefix.
    Prefix(Head),
    Glob,
}

/// The first bytes of a prefix, eight at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// The first byte is the lowest; 0 after the end of the prefix.
    bytes: u64,
    /// Ones at the bytes of the prefix.
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

    /// Whether the key begins with `prefix`, whose head this is; an empty key does not match, because a star needs at least
    /// one byte.
    #[inline]
    fn begins(self, key: &[u8], prefix: &[u8]) -> bool {
        if key.len() < HEAD_BYTES {
            return key.starts_with(prefix) && !key.is_empty();
        }
        self.begins_whole(key) && (prefix.len() <= HEAD_BYTES || key.starts_with(prefix))
    }

    /// Whether a key of at least [`HEAD_BYTES`] bytes begins with the head; `false` for a shorter key.
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
    /// A pattern; its shape is determined here, once.
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

    /// The pattern as a rule.
    fn rule(&self, is_alone: bool) -> Vec<u8> {
        let rights: &[u8] = match self.rights {
            READ => b"%R~",
            WRITE => b"%W~",
            // `~*` would be the rule for all keys, which excludes other patterns.
            _ if self.text == b"*" && !is_alone => b"%RW~",
            _ => b"~",
        };
        [rights, &self.text].concat()
    }
}

/// The patterns of a selector, in the order of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPatterns(Vec<KeyPattern>);

impl KeyPatterns {
    /// The patterns as rules, separated by spaces.
    pub fn rules(&self) -> Vec<u8> {
        let is_alone = self.0.len() == 1;
        self.0.iter().map(|pattern| pattern.rule(is_alone)).collect::<Vec<_>>().join(&b' ')
    }

    /// Removes all patterns.
    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// The number of patterns.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds rights to a pattern; creates the pattern if it is new.
    pub fn add(&mut self, text: &[u8], rights: Rights) {
        match self.0.iter_mut().find(|pattern| pattern.text == text) {
            Some(pattern) => pattern.rights |= rights,
            None => self.0.push(KeyPattern::new(text, rights)),
        }
    }

    /// Whether the first pattern is a short prefix of the key with all of these rights. This is the most common rule, and the
    /// check compares a single integer.
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
        // A loop, because a closure would not be inlined.
        for pattern in &self.0 {
            if pattern.rights & needed == needed && pattern.matches(key) {
                return true;
            }
        }
        false
    }

    /// Whether one of the patterns has all of these rights for every key.
    pub fn permit_any(&self, needed: Rights) -> bool {
        self.0.iter().any(|pattern| pattern.rights & needed == needed && pattern.text == b"*")
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, KeyPattern, KeyPatterns, READ_WRITE};

    /// Tests prefixes and keys of all lengths around a head's, which differ in at most one byte.
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
