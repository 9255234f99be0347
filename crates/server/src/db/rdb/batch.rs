//! Strings on their way from a file into the keyspace. Each key's place in a large table is a line of memory that is
//! not in the cache: it is asked for when the key has been read, and used some keys later. Loading 5 million short
//! strings one by one, a third of the time was waiting for these lines.

use super::{Loaded, LoadedKey};
use crate::db::Db;
use crate::db::strings::bytes_value;
use structures::key_table::NewValue;
use wire::rdb::StringRef;

/// So many lines are on their way at a time: more than memory takes to answer, fewer than a core can wait for.
const KEYS_MAX: usize = 16;
/// Longer strings are not worth the copy.
const BYTES_MAX: usize = 256;

enum Kept {
    Integer(i64),
    /// So many bytes, which follow the key.
    Bytes(usize),
}

struct Item {
    hash: u64,
    key_len: usize,
    value: Kept,
    about: LoadedKey,
}

/// Keys of one database with short values, read but not put into it.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

impl Batch {
    pub fn takes(key: &[u8], value: &StringRef<'_>) -> bool {
        let value_len = match value {
            StringRef::Integer(_) => 0,
            StringRef::Bytes(bytes) => bytes.len(),
        };
        key.len() + value_len <= BYTES_MAX
    }

    pub fn is_full(&self) -> bool {
        self.items.len() >= KEYS_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Db {
    /// Adds a string of the selected database to the batch.
    pub fn gather(&self, batch: &mut Batch, key: &[u8], value: &StringRef<'_>, about: LoadedKey) {
        let hash = self.key_hash(key);
        self.selected_database().probe(hash);
        batch.bytes.extend_from_slice(key);
        let value = match value {
            StringRef::Integer(n) => Kept::Integer(*n),
            StringRef::Bytes(bytes) => match wire::number::parse_i64(bytes) {
                Some(n) => Kept::Integer(n),
                None => {
                    batch.bytes.extend_from_slice(bytes);
                    Kept::Bytes(bytes.len())
                }
            },
        };
        batch.items.push(Item { hash, key_len: key.len(), value, about });
    }

    /// Puts all of the batch into the selected database; `refused` hears of keys that are there already. Says nothing.
    pub fn load_batch(&mut self, batch: &mut Batch, mut refused: impl FnMut(&[u8])) {
        let mut rest = &batch.bytes[..];
        for item in &batch.items {
            let (key, after) = rest.split_at(item.key_len);
            let (value, after) = match item.value {
                Kept::Integer(n) => (NewValue::Integer(n), after),
                Kept::Bytes(len) => (bytes_value(key, &after[..len], item.about.expiry_ms), &after[len..]),
            };
            rest = after;
            if self.load_hashed(item.hash, key, value, item.about) == Loaded::Duplicate {
                refused(key);
            }
        }
        batch.bytes.clear();
        batch.items.clear();
    }
}
