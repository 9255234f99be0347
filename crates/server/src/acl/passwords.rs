//! Passwords; only their digests are stored.

use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

const DIGEST_BYTES: usize = 32;

/// SHA-256 of a password; `Display` writes lower-case hexadecimal digits, as in rules.
#[derive(Clone, PartialEq, Eq)]
pub struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    /// The digest of a password.
    pub fn of(password: &[u8]) -> Self {
        Digest(Sha256::digest(password).into())
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; DIGEST_BYTES];
        if text.len() != 2 * DIGEST_BYTES {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Digest(bytes))
    }

    /// Compares in constant time.
    pub fn is(&self, other: &Digest) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(digest)")
    }
}

/// Generates passwords from a secret of this process.
pub struct PasswordGenerator {
    secret: [u8; DIGEST_BYTES],
    /// The number of generated digests.
    count: u64,
}

impl PasswordGenerator {
    /// A generator with this secret.
    pub fn new(secret: [u8; DIGEST_BYTES]) -> Self {
        PasswordGenerator { secret, count: 0 }
    }

    /// `count` hexadecimal digits, which reveal nothing about earlier or later ones.
    pub fn digits(&mut self, count: usize) -> String {
        let mut digits = String::with_capacity(count.next_multiple_of(2 * DIGEST_BYTES));
        while digits.len() < count {
            let block = Sha256::new().chain_update(self.secret).chain_update(self.count.to_le_bytes());
            digits += &Digest(block.finalize().into()).to_string();
            self.count += 1;
        }
        digits.truncate(count);
        digits
    }
}

impl fmt::Debug for PasswordGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordGenerator")
    }
}
