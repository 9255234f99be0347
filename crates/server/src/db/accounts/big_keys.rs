//! The largest keys of a database (MEMORY BIGKEYS), recorded as keys grow, for each type separately.
//!
//! Code that creates or changes a value that is an object or compressed reports its new size ([`BigKeys::is_big`], one
//! comparison); other values inside their keys' entries are never large. For each type [`KEPT_MAX`] keys are recorded,
//! those that were largest when last changed; a full table replaces its smallest by a larger one.
//!
//! Shrinking and removal of keys are not recorded: the recorded keys are measured again from time to time
//! ([`BigKeys::measure`]) and for each request. So a key is missing only if it has not changed since it was smaller than
//! [`KEPT_MAX`] others of its type that have been removed or have shrunk since.
//!
//! Many large keys may change in turn, so a key is found by its hash; the hashes of a type lie in four adjacent cache
//! lines.

use crate::db::object::{kind_of, memory_bytes_of};
use crate::db::{Key, Kind, Object};
use structures::key_table::EntryRef;
use wire::convert::low_u32;

/// Smaller values are not recorded: larger than any string that lies in its entry.
const BYTES_MIN: usize = 4096;
/// Recorded keys of each type.
const KEPT_MAX: usize = 64;
/// Longer keys are not recorded.
pub const KEY_LEN_MAX: usize = 512;

#[derive(Clone, Debug)]
struct Kept {
    key: Box<[u8]>,
    /// Size when last noted or measured.
    bytes: usize,
}

/// The recorded keys of one type: `hashes[at]` is the lower half of the hash of `kept[at]`.
#[derive(Debug)]
struct Largest {
    /// Sizes from which a value is considered.
    bytes_min: usize,
    hashes: Vec<u32>,
    kept: Vec<Kept>,
}

impl Largest {
    fn note(&mut self, key: Key<'_>, bytes: usize) {
        let hash = low_u32(key.hash());
        let mut same = self.hashes.iter().enumerate().filter(|&(_, &other)| other == hash);
        if let Some((at, _)) = same.find(|&(at, _)| *self.kept[at].key == *key.bytes()) {
            self.kept[at].bytes = bytes;
            return;
        }
        let kept = Kept { key: key.bytes().into(), bytes };
        if self.kept.len() < KEPT_MAX {
            self.hashes.push(hash);
            self.kept.push(kept);
        } else {
            let least = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.bytes);
            if let Some((at, _)) = least.filter(|(_, least)| least.bytes < bytes) {
                self.hashes[at] = hash;
                self.kept[at] = kept;
            }
        }
        self.raise_minimum();
    }

    /// Values no larger than the smallest of a full table are not considered.
    fn raise_minimum(&mut self) {
        let least = self.kept.iter().map(|kept| kept.bytes).min();
        let is_full = self.kept.len() == KEPT_MAX;
        self.bytes_min = least.filter(|_| is_full).map_or(BYTES_MIN, |least| least + 1);
    }

    fn measure(&mut self, bytes_of: impl Fn(&[u8]) -> Option<usize>) {
        if self.kept.is_empty() {
            return;
        }
        for at in (0..self.kept.len()).rev() {
            match bytes_of(&self.kept[at].key) {
                Some(bytes) if bytes >= BYTES_MIN => self.kept[at].bytes = bytes,
                _ => {
                    self.hashes.swap_remove(at);
                    self.kept.swap_remove(at);
                }
            }
        }
        self.raise_minimum();
    }
}

/// The recorded keys of a database.
#[derive(Debug)]
pub struct BigKeys {
    /// Of each type.
    largest: [Largest; Kind::ALL.len()],
}

impl Default for BigKeys {
    fn default() -> Self {
        let none = |_| Largest { bytes_min: BYTES_MIN, hashes: Vec::new(), kept: Vec::new() };
        BigKeys { largest: std::array::from_fn(none) }
    }
}

impl BigKeys {
    /// Whether a value of this size has to be noted.
    #[inline]
    pub fn is_big(&self, kind: Kind, bytes: usize) -> bool {
        bytes >= self.largest[kind as usize].bytes_min
    }

    /// Records a large key, or its new size.
    #[inline(never)]
    pub fn note(&mut self, key: Key<'_>, kind: Kind, bytes: usize) {
        if key.bytes().len() <= KEY_LEN_MAX {
            self.largest[kind as usize].note(key, bytes);
        }
    }

    /// Drops removed and small keys, and measures the others.
    pub fn measure<'a>(&mut self, find: impl Fn(&[u8]) -> Option<EntryRef<'a, Object>>) {
        for &kind in Kind::ALL {
            self.largest[kind as usize]
                .measure(|key| find(key).filter(|&entry| kind_of(entry) == kind).map(memory_bytes_of));
        }
    }

    /// The recorded keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.largest.iter().flat_map(|largest| largest.kept.iter().map(|kept| &*kept.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{ChangeLog, Db, Set};
    use structures::hash::HashSeed;
    use structures::random::Random;

    fn listed(db: &mut Db) -> Vec<(Vec<u8>, usize)> {
        db.big_keys(KEPT_MAX).into_iter().map(|big| (big.key, big.bytes)).collect()
    }

    #[test]
    fn the_largest_are_those_of_a_scan() {
        for seed in 0..20 {
            println!("seed {seed}");
            let (mut db, mut random) = (Db::new(1, HashSeed::new(1, 2), seed), Random::new(seed));
            for _ in 0..3000 {
                let key = random.below(200).to_string().into_bytes();
                db.change_log = ChangeLog::default();
                match random.below(4) {
                    0 => db.put_string(db.key(&key), &vec![b'v'; random.below(9000) as usize], None),
                    1 => {
                        _ = db.edit_string(db.key(&key), |text| {
                            text.resize(random.below(20_000) as usize, b'v')
                        });
                    }
                    2 => {
                        let many = random.below(2000);
                        _ = db.change_or_create(db.key(&key), |set: &mut Set, context| {
                            (0..many).for_each(|n| _ = set.add(format!("member {n}").as_bytes(), &context));
                        });
                        db.touched(db.key(&key));
                    }
                    _ => _ = db.remove(db.key(&key)),
                }
                if random.below(100) == 0 {
                    let mut expected: Vec<(Vec<u8>, usize)> = db
                        .database(0)
                        .iter()
                        .map(|entry| (entry.key().to_vec(), memory_bytes_of(entry)))
                        .filter(|(_, bytes)| *bytes >= BYTES_MIN)
                        .collect();
                    expected.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
                    // The tables are full: keys smaller than the others before those were removed may be missing.
                    let sure = expected.len().min(KEPT_MAX / 4);
                    let told = listed(&mut db);
                    assert_eq!(told[..sure.min(told.len())], expected[..sure.min(told.len())]);
                    assert!(told.len() >= sure);
                }
            }
        }
    }

    #[test]
    fn keys_of_one_hash_are_told_apart_and_long_ones_are_not_kept() {
        let mut keys = BigKeys::default();
        let (longest, too_long) = (vec![b'k'; KEY_LEN_MAX], vec![b'k'; KEY_LEN_MAX + 1]);
        for (key, bytes) in
            [(&b"a"[..], 5000), (b"b", 6000), (b"a", 7000), (&longest, BYTES_MIN), (&too_long, 9000)]
        {
            assert!(keys.is_big(Kind::String, bytes));
            keys.note(Key::hashed(key, 1 << 40 | 7), Kind::String, bytes);
        }
        assert_eq!(keys.keys().collect::<Vec<_>>(), [b"a", b"b", &longest[..]]);
        assert_eq!(keys.largest[Kind::String as usize].kept[0].bytes, 7000);
    }

    #[test]
    fn what_shrinks_or_goes_makes_room() {
        let mut db = Db::new(2, HashSeed::new(1, 2), 1);
        for number in 0..2 * KEPT_MAX {
            let len = if number < KEPT_MAX { 10_000 } else { 100_000 };
            db.put_string(db.key(format!("key {number}").as_bytes()), &vec![b'v'; len], None);
        }
        let large = listed(&mut db);
        assert!(large.len() == KEPT_MAX && large.iter().all(|(_, bytes)| *bytes > 100_000), "{large:?}");
        for number in KEPT_MAX..2 * KEPT_MAX {
            db.remove(db.key(format!("key {number}").as_bytes()));
        }
        assert_eq!(listed(&mut db), [], "smaller keys have not changed since");
        _ = db.edit_string(db.key(b"key 3"), |text| text.push(b'v'));
        assert_eq!(listed(&mut db)[0].0, b"key 3");
        db.put_string(db.key(b"key 5"), &[b'w'; 10_000], None);
        assert_eq!(listed(&mut db)[1].0, b"key 5", "another string in the same buffer");
        db.remove(db.key(b"key 5"));
        db.put_string(db.key(b"key 3"), b"small", None);
        assert_eq!(listed(&mut db), []);
        db.put_string(db.key(b"key 3"), &[b'v'; 5000], None);
        db.swap(0, 1);
        assert_eq!(db.big_keys(1)[0].db_index, 1);
        db.with_database(1, |db| db.clear(false));
        assert_eq!(listed(&mut db), []);
    }
}
