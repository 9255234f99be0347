//! Names of nodes and of shards.

use std::fmt;

/// A node's or a shard's id: 40 characters of `[0-9a-z]`, of which servers choose hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; NodeId::LEN]);

impl NodeId {
    /// Length in bytes, as text and in frames.
    pub const LEN: usize = 40;

    /// Reads an id, unless the text has another length or other characters.
    pub fn parse(text: &[u8]) -> Option<NodeId> {
        let bytes = <[u8; NodeId::LEN]>::try_from(text).ok()?;
        bytes.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()).then_some(NodeId(bytes))
    }

    /// Returns the id that has these bytes as hexadecimal digits, for new ids from a random generator.
    pub fn from_random(bytes: [u8; NodeId::LEN / 2]) -> NodeId {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut id = [0; NodeId::LEN];
        for (pair, byte) in id.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        NodeId(id)
    }

    /// Returns the id's characters.
    pub fn as_bytes(&self) -> &[u8; NodeId::LEN] {
        &self.0
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        // Only ASCII gets in.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_forty_digits_and_lower_case_letters() {
        let text = b"0123456789abcdefghijklmnopqrstuvwxyz0123";
        let id = NodeId::parse(text).unwrap();
        assert_eq!((id.as_bytes(), id.to_string().as_bytes()), (text, &text[..]));
        for wrong in ["", "a", &"a".repeat(39), &"a".repeat(41), &"A".repeat(40), &"é".repeat(20)] {
            assert_eq!(NodeId::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(NodeId::parse(&[0; 40]), None);
    }

    #[test]
    fn random_bytes_become_hexadecimal_digits() {
        let mut bytes = [0; 20];
        (bytes[0], bytes[19]) = (0x0f, 0xa9);
        assert_eq!(NodeId::from_random(bytes).to_string(), format!("0f{}a9", "0".repeat(36)));
    }
}
