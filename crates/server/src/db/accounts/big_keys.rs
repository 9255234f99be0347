//! The largest keys of a database (MEMORY BIGKEYS): kept as keys grow, of each type apart.
//!
//! Whoever makes a value that is an object or changes one says how large it has become ([`BigKeys::is_big`], one
//! comparison); a value inside its key's entry is never large. Of each type [`KEPT_MAX`] keys are kept, those that were
//! largest when they changed last, and a table that is full takes what is larger than its least.
//!
//! Nothing is done when keys shrink or go: what is kept is measured again from time to time ([`BigKeys::measure`]) and whenever
//! somebody asks. So a key is missing only if it has not changed since it was smaller than so many others of its type that have
//! gone or shrunk since.

use crate::db::object::{kind_of, memory_bytes_of};
use crate::db::{Kind, Object};
use structures::key_table::EntryRef;

/// Smaller values are not kept: more than any string that lies in its entry takes.
const BYTES_MIN: usize = 4096;
/// Of each type.
const KEPT_MAX: usize = 64;

#[derive(Clone, Debug)]
struct Kept {
    key: Box<[u8]>,
    kind: Kind,
    /// When it was noted or measured last.
    bytes: usize,
}

#[derive(Debug)]
pub struct BigKeys {
    /// Of each type, what is worth a look.
    minimum: [usize; Kind::ALL.len()],
    kept: Vec<Kept>,
    /// Where the key noted last is: one that grows does so often.
    last: usize,
}

impl Default for BigKeys {
    fn default() -> Self {
        BigKeys { minimum: [BYTES_MIN; Kind::ALL.len()], kept: Vec::new(), last: 0 }
    }
}

impl BigKeys {
    /// Whether a value of this size is to be noted.
    #[inline]
    pub fn is_big(&self, kind: Kind, bytes: usize) -> bool {
        bytes >= self.minimum[kind as usize]
    }

    #[inline(never)]
    pub fn note(&mut self, key: &[u8], kind: Kind, bytes: usize) {
        let is_it = |kept: &Kept| kept.kind == kind && *kept.key == *key;
        let found = match self.kept.get(self.last).is_some_and(is_it) {
            true => Some(self.last),
            false => self.kept.iter().position(is_it),
        };
        if let Some(at) = found {
            self.last = at;
            self.kept[at].bytes = bytes;
            return;
        }
        let of_kind = |(_, kept): &(usize, &Kept)| kept.kind == kind;
        let least = self.kept.iter().enumerate().filter(of_kind).min_by_key(|(_, kept)| kept.bytes);
        let kept = Kept { key: key.into(), kind, bytes };
        match least.map(|(at, least)| (at, least.bytes)) {
            Some((at, least)) if self.count(kind) >= KEPT_MAX => {
                if bytes > least {
                    self.kept[at] = kept;
                }
            }
            _ => self.kept.push(kept),
        }
        self.raise_minimum(kind);
    }

    fn count(&self, kind: Kind) -> usize {
        self.kept.iter().filter(|kept| kept.kind == kind).count()
    }

    /// What is no larger than the least of a full table is not worth a look.
    fn raise_minimum(&mut self, kind: Kind) {
        let least = self.kept.iter().filter(|kept| kept.kind == kind).map(|kept| kept.bytes).min();
        let is_full = self.count(kind) >= KEPT_MAX;
        self.minimum[kind as usize] = least.filter(|_| is_full).map_or(BYTES_MIN, |least| least + 1);
    }

    /// Forgets what is gone or small, and finds out how large the others are.
    pub fn measure<'a>(&mut self, find: impl Fn(&[u8]) -> Option<EntryRef<'a, Object>>) {
        if self.kept.is_empty() {
            return;
        }
        self.kept.retain_mut(|kept| {
            let Some(entry) = find(&kept.key).filter(|&entry| kind_of(entry) == kept.kind) else {
                return false;
            };
            kept.bytes = memory_bytes_of(entry);
            kept.bytes >= BYTES_MIN
        });
        Kind::ALL.iter().for_each(|&kind| self.raise_minimum(kind));
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().map(|kept| &*kept.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{ChangeLog, Db, Set};
    use structures::hash::HashSeed;
    use structures::random::Random;

    fn told(db: &mut Db) -> Vec<(Vec<u8>, usize)> {
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
                    0 => db.put_string(&key, &vec![b'v'; random.below(9000) as usize], None),
                    1 => {
                        _ = db.edit_string(&key, |text| text.resize(random.below(20_000) as usize, b'v'));
                    }
                    2 => {
                        let many = random.below(2000);
                        _ = db.change_or_create(&key, |set: &mut Set, context| {
                            (0..many).for_each(|n| _ = set.add(format!("member {n}").as_bytes(), &context));
                        });
                        db.touched(&key);
                    }
                    _ => _ = db.remove(&key),
                }
                if random.below(100) == 0 {
                    let mut expected: Vec<(Vec<u8>, usize)> = db
                        .database(0)
                        .iter()
                        .map(|entry| (entry.key().to_vec(), memory_bytes_of(entry)))
                        .filter(|(_, bytes)| *bytes >= BYTES_MIN)
                        .collect();
                    expected.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
                    // The tables are full: what was smaller than the others before they went may be missing.
                    let sure = expected.len().min(KEPT_MAX / 4);
                    let told = told(&mut db);
                    assert_eq!(told[..sure.min(told.len())], expected[..sure.min(told.len())]);
                    assert!(told.len() >= sure);
                }
            }
        }
    }

    #[test]
    fn what_shrinks_or_goes_makes_room() {
        let mut db = Db::new(2, HashSeed::new(1, 2), 1);
        for number in 0..2 * KEPT_MAX {
            let len = if number < KEPT_MAX { 10_000 } else { 100_000 };
            db.put_string(format!("key {number}").as_bytes(), &vec![b'v'; len], None);
        }
        let large = told(&mut db);
        assert!(large.len() == KEPT_MAX && large.iter().all(|(_, bytes)| *bytes > 100_000), "{large:?}");
        for number in KEPT_MAX..2 * KEPT_MAX {
            db.remove(format!("key {number}").as_bytes());
        }
        assert_eq!(told(&mut db), [], "those that were smaller have not changed since");
        _ = db.edit_string(b"key 3", |text| text.push(b'v'));
        assert_eq!(told(&mut db)[0].0, b"key 3");
        db.put_string(b"key 3", b"small", None);
        assert_eq!(told(&mut db), []);
        db.put_string(b"key 3", &[b'v'; 5000], None);
        db.swap(0, 1);
        assert_eq!(db.big_keys(1)[0].db_index, 1);
        db.with_database(1, |db| db.clear(false));
        assert_eq!(told(&mut db), []);
    }
}
