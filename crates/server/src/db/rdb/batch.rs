//! Short strings loaded from a file into the keyspace in batches. Each key's bucket in a large table is a cache miss: its
//! line is prefetched when the key has been read, and used some keys later. When 5 million short strings were loaded one
//! by one, a third of the time was waiting for these lines.

use super::{Loaded, LoadedKey};
use crate::db::strings::bytes_value;
use crate::db::{Db, Key};
use structures::key_table::NewValue;
use wire::rdb::StringRef;

/// Number of lines fetched at a time: enough to cover the memory's latency, fewer than a core can have outstanding.
const KEYS_MAX: usize = 16;
/// Longer strings are not worth copying.
const BYTES_MAX: usize = 256;

enum Kept {
    Integer(i64),
    /// A string of this length, which follows the key.
    Bytes(usize),
}

struct Item {
    hash: u64,
    key_len: usize,
    value: Kept,
    about: LoadedKey,
}

/// Keys of one database with short values, read but not stored yet.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

impl Batch {
    /// Whether the batch takes this key and value.
    pub fn takes(key: &[u8], value: &StringRef<'_>) -> bool {
        let value_len = match value {
            StringRef::Integer(_) => 0,
            StringRef::Bytes(bytes) => bytes.len(),
        };
        key.len() + value_len <= BYTES_MAX
    }

    /// Whether the batch has to be loaded before the next key.
    pub fn is_full(&self) -> bool {
        self.items.len() >= KEYS_MAX
    }

    /// Whether the batch has no keys.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Db {
    /// Adds a string of the selected database to the batch.
    pub fn gather(&self, batch: &mut Batch, key: Key<'_>, value: &StringRef<'_>, about: LoadedKey) {
        self.selected_database().probe(key.hash());
        batch.bytes.extend_from_slice(key.bytes());
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
        batch.items.push(Item { hash: key.hash(), key_len: key.bytes().len(), value, about });
    }

    /// Stores the batch in the selected database; calls `refused` with keys that exist already. Records no events.
    pub fn load_batch(&mut self, batch: &mut Batch, mut refused: impl FnMut(&[u8])) {
        let mut rest = &batch.bytes[..];
        for item in &batch.items {
            let (key, after) = rest.split_at(item.key_len);
            let (value, after) = match item.value {
                Kept::Integer(n) => (NewValue::Integer(n), after),
                Kept::Bytes(len) => (bytes_value(key, &after[..len], item.about.expiry_ms), &after[len..]),
            };
            rest = after;
            if self.load(Key::hashed(key, item.hash), value, item.about) == Loaded::Duplicate {
                refused(key);
            }
        }
        batch.bytes.clear();
        batch.items.clear();
    }
}
