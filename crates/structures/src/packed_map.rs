//! Packed hash maps and sets of byte strings: linear hashing over pages, without an allocation per element. Unlike the
//! textbook structure, a page has columns of tags and lengths in front of the records, searched by vector compares.
//!
//! ```text
//!  directory, 16 B a page, found by the lowest bits of the hash
//!  | address, sizes, count | address, sizes, count | ...
//!        |
//!        v  page, 64 B .. some KB, in the allocator's own size classes
//!        | tags, 1 B each | [lengths, 1 B each] | [expiries, 8 B each] | free | .. records |
//!
//!  record of a map: field length (1 B), field, value        of a set: the member
//!  of more than 253 bytes, either: 16 B pointing at its own allocation, with 24 bits of the hash; there a map's
//!  record is field length (8 B), field, value
//! ```
//!
//! A lookup fetches the directory's entry, the page's columns and the record, each once: one vector compare
//! of the tags, one vector sum of the lengths before the match unless all are equal, one comparison of bytes.
//!
//! Invariants (of a page: see [`page`]; of the directory: see [`directory`]):
//! 1. An element is in the page that its hash selects, with its hash's tag.
//! 2. A record has exactly the length its format gives it. It is out of line if it is too long for a page, or if its
//!    page was crowded when it was added.
//! 3. No key occurs twice.
//! 4. The sums (`len`, bytes used, bytes allocated, expiring elements) equal those of the pages.
//! 5. No page holds more elements than the bound of its kind: split in this round of growth or not yet.
//! 6. An empty table has no page.
//! 7. The tree of earliest expiries exists exactly while some element expires, and agrees with the pages.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#packed-maps-and-sets).

mod directory;
mod expiry;
mod page;
mod probe;
mod sampling;
mod scan;
mod set;
mod table;

#[cfg(test)]
mod tests;

pub use probe::Probe;
pub use scan::CURSORS_END;
pub use set::PackedSet;
pub use table::{Expiry, Insertion};

use crate::hash::HashSeed;
use crate::random::Random;
use crate::short_bytes::{copy_bytes, same_bytes};
use page::Record;
use table::{Format, Table, expiry_column, expiry_ms};

/// Takes a field, its value and its expiry in milliseconds since the epoch.
pub type VisitExpiring<'a> = dyn FnMut(&[u8], &[u8], Option<i64>) + 'a;

/// The record is the field's length, the field, the value.
struct FieldValue;

const LARGE_HEADER_BYTES: usize = 8;

impl Format for FieldValue {
    fn record_len(key: &[u8], value: &[u8], large: bool) -> usize {
        key.len() + value.len() + if large { LARGE_HEADER_BYTES } else { 1 }
    }

    fn write(key: &[u8], value: &[u8], large: bool, record: &mut [u8]) {
        let header = if large {
            record[..LARGE_HEADER_BYTES].copy_from_slice(&(key.len() as u64).to_le_bytes());
            LARGE_HEADER_BYTES
        } else {
            record[0] = key.len() as u8;
            1
        };
        let (field, rest) = record[header..].split_at_mut(key.len());
        copy_bytes(key, field);
        copy_bytes(value, rest);
    }

    #[inline(always)]
    fn read(record: Record<'_>) -> (&[u8], &[u8]) {
        if record.large {
            let (header, rest) = record.bytes.split_first_chunk().expect("invariant 2: a header of 8 bytes");
            return rest.split_at(u64::from_le_bytes(*header) as usize);
        }
        let (&field_len, rest) = record.bytes.split_first().expect("invariant 2: a header of 1 byte");
        rest.split_at(usize::from(field_len))
    }

    #[inline(always)]
    fn value_of<'a>(record: Record<'a>, key: &[u8]) -> Option<&'a [u8]> {
        if record.large {
            let (field, value) = Self::read(record);
            return (field == key).then_some(value);
        }
        let (&length, rest) = record.bytes.split_first().expect("invariant 2: a header of 1 byte");
        if usize::from(length) != key.len() {
            return None;
        }
        let (field, value) = rest.split_at_checked(key.len())?;
        same_bytes(field, key).then_some(value)
    }
}

/// A map of byte strings to byte strings in packed pages, each field with an optional expiry.
#[derive(Clone)]
pub struct PackedMap {
    table: Table<FieldValue>,
}

impl std::fmt::Debug for PackedMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl PackedMap {
    /// Creates an empty map, which allocates nothing.
    pub const fn new(seed: HashSeed) -> PackedMap {
        PackedMap { table: Table::new(seed) }
    }

    /// The number of fields, expired ones included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether the map has no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The field's hash, for the `_hashed` forms and [`PackedMap::probe`].
    #[inline]
    pub fn hash(&self, field: &[u8]) -> u64 {
        self.table.hash(field)
    }

    /// The field's value, even if it is expired.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.get_hashed(self.hash(field), field)
    }

    /// As [`PackedMap::get`], with the field's hash.
    #[inline]
    pub fn get_hashed(&self, hash: u64, field: &[u8]) -> Option<&[u8]> {
        self.table.get(hash, field)
    }

    /// The field's value and its expiry in milliseconds since the epoch. A field is expired once that time lies before
    /// the present; the caller must skip expired fields.
    #[inline]
    pub fn get_with_expiry(&self, field: &[u8]) -> Option<(&[u8], Option<i64>)> {
        self.get_with_expiry_hashed(self.hash(field), field)
    }

    /// As [`PackedMap::get_with_expiry`], with the field's hash.
    #[inline]
    pub fn get_with_expiry_hashed(&self, hash: u64, field: &[u8]) -> Option<(&[u8], Option<i64>)> {
        let (index, slot) = self.table.find(hash, field)?;
        let expiry = self.table.directory.page(index).expiry(slot.index);
        Some((self.table.read(index, slot).1, expiry_ms(expiry)))
    }

    /// Returns whether the map has the field, even if it is expired.
    #[inline]
    pub fn contains(&self, field: &[u8]) -> bool {
        self.get(field).is_some()
    }

    /// Adds the field or replaces its value; `expiry` determines its new expiry.
    pub fn insert(&mut self, field: &[u8], value: &[u8], expiry: Expiry) -> Insertion {
        self.table.insert(self.hash(field), field, value, expiry)
    }

    /// As [`PackedMap::insert`], with the field's hash.
    pub fn insert_hashed(&mut self, hash: u64, field: &[u8], value: &[u8], expiry: Expiry) -> Insertion {
        self.table.insert(hash, field, value, expiry)
    }

    /// Announces that the map will have this number of fields: makes room for them ahead. To be repeated between
    /// insertions.
    #[inline(always)]
    pub fn expect(&mut self, fields: u64) {
        self.table.expect(fields);
    }

    /// Adds fields or replaces their values, and removes their expiries; returns the number of new fields.
    pub fn insert_all<'a>(&mut self, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> usize {
        self.table.insert_all(pairs, |table, hash, field, value| {
            table.insert(hash, field, value, Expiry::Clear) == Insertion::Added
        })
    }

    /// Removes the field; returns whether it was in the map.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.take(field, |_| ()).is_some()
    }

    /// Removes the field and passes its value to `taken`.
    pub fn take<R>(&mut self, field: &[u8], taken: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.table.take(self.hash(field), field, taken)
    }

    /// Iterates over all fields and values in an arbitrary order, which stays the same until the map changes.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + '_ {
        self.table.iter()
    }

    /// As [`PackedMap::iter`], with each field's expiry.
    pub fn iter_with_expiry(&self) -> impl Iterator<Item = (&[u8], &[u8], Option<i64>)> + '_ {
        self.table.iter_with_expiry().map(|(field, value, expiry)| (field, value, expiry_ms(expiry)))
    }

    /// Visits some fields and returns the next cursor, 0 when done; start with 0. A field present from the first call to
    /// the last is visited at least once, whatever is inserted and removed between the calls. A call visits `wanted`
    /// fields, or the rest of a page, and a few more: those with the last one's tag byte. Cursors stay below
    /// [`CURSORS_END`]; any number is accepted.
    pub fn scan(&self, cursor: u64, wanted: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> u64 {
        self.table.scan(cursor, wanted, &mut |field, value, _| visit(field, value))
    }

    /// As [`PackedMap::scan`], with each field's expiry.
    pub fn scan_with_expiry(&self, cursor: u64, wanted: usize, visit: &mut VisitExpiring<'_>) -> u64 {
        self.table.scan(cursor, wanted, &mut |field, value, expiry| visit(field, value, expiry_ms(expiry)))
    }

    /// A field drawn uniformly, with its value; none if the map is empty.
    pub fn random(&self, random: &mut Random) -> Option<(&[u8], &[u8])> {
        let (index, slot) = self.table.random(random)?;
        Some(self.table.read(index, slot))
    }

    /// Visits `wanted` different fields, every choice equally likely; all fields if there are no more.
    pub fn random_distinct(&self, wanted: usize, random: &mut Random, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.table.random_distinct(wanted, random, visit);
    }

    // ---- expiry ----

    /// Sets or clears the field's expiry, in milliseconds since the epoch; returns `false` if there is no such field.
    /// Negative times count as 0.
    pub fn set_expiry(&mut self, field: &[u8], at_ms: Option<i64>) -> bool {
        let hash = self.hash(field);
        let Some(at) = self.table.find(hash, field) else { return false };
        self.table.set_expiry(at, hash, field, expiry_column(at_ms));
        self.table.split_if_full();
        true
    }

    /// The field's expiry; none if it has none or is not in the map.
    pub fn expiry(&self, field: &[u8]) -> Option<i64> {
        self.get_with_expiry(field)?.1
    }

    /// The number of fields with an expiry.
    pub fn expiring_len(&self) -> usize {
        self.table.expiring_len
    }

    /// The earliest expiry in the map, exactly.
    pub fn next_expiry_hint(&self) -> Option<i64> {
        expiry_ms(self.table.earliest.as_ref()?.earliest())
    }

    /// Removes up to `limit` fields whose expiry lies before `now_ms`, passing each with its value to `visit`; returns
    /// their number. Costs nothing while none is expired.
    pub fn remove_expired(
        &mut self,
        now_ms: i64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> usize {
        self.table.remove_expired(now_ms.max(0) as u64, limit, visit)
    }

    // ---- memory ----

    /// Starts a lookup in steps, one fetch each.
    pub fn probe(&self, hash: u64) -> Probe<'_> {
        Probe::new(&self.table.directory, hash)
    }

    /// Bytes allocated for the map, without the size of this value.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// The number of pages, for OBJECT LAYOUT.
    pub fn pages_len(&self) -> usize {
        self.table.pages_len()
    }

    /// Bytes of the pages used by columns and records, for OBJECT LAYOUT.
    pub fn used_bytes(&self) -> usize {
        self.table.used_bytes()
    }

    /// Bytes of the pages, for OBJECT LAYOUT.
    pub fn page_bytes(&self) -> usize {
        self.table.page_bytes()
    }

    /// Verifies every documented invariant; panics naming the one that fails. For tests.
    pub fn check(&self) {
        self.table.check();
    }
}
