//! Hashes: fields with values. A compact list while small, one with expiries once a field expires, packed pages beyond.
//!
//! An expired field stays until the search for expired fields or a write to it removes it, and until then it is hidden
//! from reads: they pass `now_ms`, and fields that expire before it count as absent. `len` counts them. A write to a
//! field removes it first if it is expired ([`Hash::remove_if_expired`]) and records that: a command repeated later, when
//! no field counts as absent, then finds what it found the first time.

mod rdb;
#[cfg(test)]
mod tests;
mod value_type;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::object::StringValue;
use std::collections::HashSet;
use std::hash::BuildHasher;
use structures::expiring_list::ExpiringList;
use structures::hash::HashSeed;
use structures::listpack::{Element, Listpack, Position};
use structures::packed_map::{Expiry, Insertion, PackedMap};
use structures::random::Random;
use structures::unaligned_box::UnalignedBox;
use wire::convert::{signed_len, usize_of};

/// A field or its value: bytes, or the integer that they spell.
pub type Cell<'a> = StringValue<'a>;

/// The value of a hash key.
#[derive(Clone, Debug)]
pub struct Hash {
    encoding: Encoding,
}

#[derive(Clone, Debug)]
enum Encoding {
    /// Field, value, field, value... in order of insertion, without expiries.
    Compact(Listpack),
    /// Few fields, some of which have an expiry or had one.
    Expiring(ExpiringList),
    Packed(UnalignedBox<PackedMap>),
}

/// What a write does to the field's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiry {
    /// Keeps it.
    Keep,
    /// Removes it.
    Clear,
    /// Sets it, in milliseconds since the epoch.
    At(i64),
}

/// Result of writing a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Also where an expired field was replaced.
    Added,
    /// The field existed; its value was replaced.
    Replaced,
}

impl Collection for Hash {
    type View<'a> = &'a Hash;

    #[inline]
    fn view(&self) -> &Hash {
        self
    }

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        Hash { encoding: Encoding::Compact(Listpack::new()) }
    }

    fn conform(&mut self, context: &CollectionContext<'_>) {
        self.expect_fields(self.len(), context);
    }
}

/// Whether a field with this expiry is expired now.
#[inline]
fn is_gone(expiry_ms: Option<i64>, now_ms: i64) -> bool {
    expiry_ms.is_some_and(|expiry_ms| expiry_ms < now_ms)
}

impl Hash {
    /// Number of fields, including expired ones not yet removed.
    pub fn len(&self) -> usize {
        match &self.encoding {
            Encoding::Compact(list) => list.len() / 2,
            Encoding::Expiring(list) => list.len(),
            Encoding::Packed(map) => map.len(),
        }
    }

    /// Whether any field has an expiry.
    pub fn has_expiring(&self) -> bool {
        match &self.encoding {
            Encoding::Compact(_) => false,
            Encoding::Expiring(list) => list.earliest_ms().is_some(),
            Encoding::Packed(map) => map.expiring_len() > 0,
        }
    }

    /// The field's value.
    #[inline]
    pub fn get(&self, field: &[u8], now_ms: i64) -> Option<Cell<'_>> {
        match &self.encoding {
            Encoding::Compact(list) => find(list, field).map(|(_, value)| list.get(value).into()),
            Encoding::Packed(map) if map.expiring_len() == 0 => map.get(field).map(StringValue::Bytes),
            Encoding::Expiring(_) | Encoding::Packed(_) => {
                self.get_with_expiry(field, now_ms).map(|(value, _)| value)
            }
        }
    }

    /// The value and the field's expiry.
    pub fn get_with_expiry(&self, field: &[u8], now_ms: i64) -> Option<(Cell<'_>, Option<i64>)> {
        match &self.encoding {
            Encoding::Compact(_) => self.get(field, now_ms).map(|value| (value, None)),
            Encoding::Expiring(list) => list
                .get(field)
                .filter(|&(_, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .map(|(value, expiry_ms)| (value.into(), expiry_ms)),
            Encoding::Packed(map) => map
                .get_with_expiry(field)
                .filter(|&(_, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .map(|(value, expiry_ms)| (StringValue::Bytes(value), expiry_ms)),
        }
    }

    /// Whether the field exists.
    pub fn contains(&self, field: &[u8], now_ms: i64) -> bool {
        self.get(field, now_ms).is_some()
    }

    /// Prepares for writing `fields` fields, assumed to be new.
    pub fn expect_fields(&mut self, fields: usize, context: &CollectionContext<'_>) {
        if fields > self.listed_max(context.limits) {
            self.unpack(context.seed);
        }
    }

    /// Maximum number of fields kept in a list.
    fn listed_max(&self, limits: &EncodingLimits) -> usize {
        match &self.encoding {
            Encoding::Compact(_) => limits.hash_listpack_entries_max,
            _ => limits.hash_listpack_entries_max.min(EXPIRING_LISTED_MAX),
        }
    }

    /// Adds the field or replaces its value.
    pub fn set(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry: FieldExpiry,
        context: &mut CollectionContext<'_>,
    ) -> Written {
        self.write(field, value, expiry, false, context)
    }

    /// As [`Hash::set`]; a field known to be new is not searched for in a compact list.
    fn write(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry: FieldExpiry,
        is_new: bool,
        context: &mut CollectionContext<'_>,
    ) -> Written {
        self.remove_if_expired(field, context);
        let limit = context.limits.hash_listpack_value_bytes_max;
        let fits = match &self.encoding {
            Encoding::Compact(list) => list.fits(field.len() + value.len(), 2),
            Encoding::Expiring(list) => {
                list.used_bytes() + field.len() + value.len() <= EXPIRING_LISTED_BYTES_MAX
            }
            Encoding::Packed(_) => true,
        };
        if field.len() > limit || value.len() > limit || !fits {
            self.unpack(context.seed);
        } else if matches!(expiry, FieldExpiry::At(_)) {
            self.prepare_to_expire(field.len() + value.len(), context);
        }
        match &mut self.encoding {
            Encoding::Packed(map) => written(map.insert(field, value, expiry.into())),
            Encoding::Expiring(list) => {
                let written = written(list.insert(field, value, expiry.into()));
                if self.len() > self.listed_max(context.limits) {
                    self.unpack(context.seed);
                }
                written
            }
            Encoding::Compact(list) => {
                if !is_new && let Some((_, at)) = find(list, field) {
                    list.replace(at, value);
                    return Written::Replaced;
                }
                list.push_back(field);
                list.push_back(value);
                if list.len() / 2 > context.limits.hash_listpack_entries_max {
                    self.unpack(context.seed);
                }
                Written::Added
            }
        }
    }

    /// Adds fields or replaces their values, without expiries; returns the number of new ones.
    pub fn set_all<'a>(
        &mut self,
        mut pairs: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>,
        context: &mut CollectionContext<'_>,
    ) -> usize {
        let (mut added, mut added_in_a_row, mut filter) = (0, 0, None);
        while let Some((field, value)) = pairs.next() {
            if let Encoding::Packed(map) = &mut self.encoding
                && map.expiring_len() == 0
                && pairs.len() > 0
            {
                return added + map.insert_all(std::iter::once((field, value)).chain(pairs));
            }
            if let (None, Encoding::Compact(list)) = (&filter, &self.encoding)
                && added_in_a_row >= UNFILTERED
                && pairs.len() >= FILTERED_MIN
            {
                filter = Some(FieldFilter::of(list));
            }
            let is_new = filter.as_mut().is_some_and(|filter| filter.add_bytes(field));
            match self.write(field, value, FieldExpiry::Clear, is_new, context) {
                Written::Added => (added, added_in_a_row) = (added + 1, added_in_a_row + 1),
                Written::Replaced => added_in_a_row = 0,
            }
        }
        added
    }

    /// Removes the field if it is expired, as the search for expired fields would have; returns whether it did.
    pub fn remove_if_expired(&mut self, field: &[u8], context: &mut CollectionContext<'_>) -> bool {
        let Some(expired) = &mut context.expired_fields else { return false };
        if !self.is_expired(field, expired.before_ms) {
            return false;
        }
        self.remove_even_expired(field);
        expired.removed.push(field.to_vec());
        expired.emptied |= self.len() == 0;
        true
    }

    /// As [`Hash::remove_if_expired`], for all fields about to be written: only before the first write can it be seen
    /// that no field is left and the key, with its own expiry, is gone.
    pub fn remove_expired_of<'a>(
        &mut self,
        fields: impl Iterator<Item = &'a [u8]>,
        context: &mut CollectionContext<'_>,
    ) {
        if self.has_expiring() {
            fields.for_each(|field| _ = self.remove_if_expired(field, context));
        }
    }

    /// Removes the field. Returns whether it existed; an expired one did not.
    pub fn remove(&mut self, field: &[u8], context: &mut CollectionContext<'_>) -> bool {
        !self.remove_if_expired(field, context) && self.remove_even_expired(field)
    }

    /// Whether the field is stored but expired.
    pub fn is_expired(&self, field: &[u8], now_ms: i64) -> bool {
        match &self.encoding {
            Encoding::Compact(_) => false,
            Encoding::Expiring(list) => {
                is_gone(list.earliest_ms(), now_ms) && is_gone(list.expiry(field), now_ms)
            }
            Encoding::Packed(map) => map.expiring_len() > 0 && is_gone(map.expiry(field), now_ms),
        }
    }

    /// Removes the field. Returns whether it existed, expired or not.
    pub fn remove_even_expired(&mut self, field: &[u8]) -> bool {
        match &mut self.encoding {
            Encoding::Packed(map) => map.remove(field),
            Encoding::Expiring(list) => list.remove(field),
            Encoding::Compact(list) => match find(list, field) {
                Some((at, _)) => {
                    list.remove_from(at, 2);
                    true
                }
                None => false,
            },
        }
    }

    /// Sets or clears the expiry of an existing field.
    pub fn set_expiry(&mut self, field: &[u8], expiry_ms: Option<i64>, context: &CollectionContext<'_>) {
        if expiry_ms.is_some() {
            self.prepare_to_expire(0, context);
        }
        match &mut self.encoding {
            Encoding::Compact(_) => {}
            Encoding::Expiring(list) => list.set_expiry(field, expiry_ms),
            Encoding::Packed(map) => _ = map.set_expiry(field, expiry_ms),
        }
    }

    /// Removes up to `limit` expired fields, passing each to `removed`; returns how many.
    pub fn remove_expired(&mut self, limit: usize, now_ms: i64, removed: &mut dyn FnMut(&[u8])) -> usize {
        match &mut self.encoding {
            Encoding::Compact(_) => 0,
            Encoding::Expiring(list) => list.remove_expired(now_ms, limit, removed),
            Encoding::Packed(map) => map.remove_expired(now_ms, limit, &mut |field, _| removed(field)),
        }
    }

    /// Converts to an encoding whose fields can expire, with room for `added_bytes` more bytes.
    fn prepare_to_expire(&mut self, added_bytes: usize, context: &CollectionContext<'_>) {
        let Encoding::Compact(list) = &self.encoding else { return };
        if list.len() / 2 > context.limits.hash_listpack_entries_max.min(EXPIRING_LISTED_MAX)
            || list.total_bytes() + added_bytes > EXPIRING_LISTED_BYTES_MAX
        {
            return self.unpack(context.seed);
        }
        self.encoding = Encoding::Expiring(ExpiringList::new(list));
    }

    fn unpack(&mut self, seed: HashSeed) {
        let mut map = PackedMap::new(seed);
        match &self.encoding {
            Encoding::Compact(list) => {
                let mut elements = list.iter();
                while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
                    map.insert(&field.to_vec(), &value.to_vec(), Expiry::Clear);
                }
            }
            Encoding::Expiring(list) => list.iter().for_each(|(field, value, expiry_ms)| {
                let expiry = expiry_ms.map_or(Expiry::Clear, Expiry::AtMs);
                map.insert(&field.to_vec(), &value.to_vec(), expiry);
            }),
            Encoding::Packed(_) => return,
        }
        self.encoding = Encoding::Packed(UnalignedBox::new(map));
    }

    /// All fields with their values.
    pub fn for_each<'a>(&'a self, now_ms: i64, visit: &mut dyn FnMut(Cell<'a>, Cell<'a>)) {
        match &self.encoding {
            Encoding::Packed(map) if map.expiring_len() == 0 => {
                map.iter()
                    .for_each(|(field, value)| visit(StringValue::Bytes(field), StringValue::Bytes(value)));
            }
            Encoding::Packed(map) => map
                .iter_with_expiry()
                .filter(|&(_, _, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .for_each(|(field, value, _)| visit(StringValue::Bytes(field), StringValue::Bytes(value))),
            Encoding::Expiring(list) => list
                .iter()
                .filter(|&(.., expiry_ms)| !is_gone(expiry_ms, now_ms))
                .for_each(|(field, value, _)| visit(field.into(), value.into())),
            Encoding::Compact(list) => {
                let mut elements = list.iter();
                while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
                    visit(field.into(), value.into());
                }
            }
        }
    }

    /// Visits some fields and returns the next cursor, 0 at the end; a hash in a list is visited whole.
    pub fn scan(
        &self,
        cursor: u64,
        wanted: usize,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) -> u64 {
        match &self.encoding {
            Encoding::Packed(map) => map.scan_with_expiry(cursor, wanted, &mut |field, value, expiry_ms| {
                if !is_gone(expiry_ms, now_ms) {
                    visit(StringValue::Bytes(field), StringValue::Bytes(value));
                }
            }),
            Encoding::Compact(_) | Encoding::Expiring(_) => {
                self.for_each(now_ms, visit);
                0
            }
        }
    }

    /// A uniformly random field; `None` if most fields are expired and no other is found soon.
    pub fn random(&self, random: &mut Random, now_ms: i64) -> Option<(Cell<'_>, Cell<'_>)> {
        match &self.encoding {
            Encoding::Packed(map) => {
                let mut tries = (0..RANDOM_TRIES_MAX).filter_map(|_| map.random(random));
                let found =
                    tries.find(|(field, _)| map.expiring_len() == 0 || !is_gone(map.expiry(field), now_ms));
                found.map(|(field, value)| (StringValue::Bytes(field), StringValue::Bytes(value)))
            }
            Encoding::Expiring(list) if list.is_empty() => None,
            Encoding::Expiring(list) => {
                let mut tries = (0..RANDOM_TRIES_MAX).map_while(|_| list.at(random.index(list.len())));
                let found = tries.find(|&(.., expiry_ms)| !is_gone(expiry_ms, now_ms));
                found.map(|(field, value, _)| (field.into(), value.into()))
            }
            Encoding::Compact(list) if list.is_empty() => None,
            Encoding::Compact(list) => {
                let field = list.at(signed_len(2 * random.index(self.len())))?;
                Some((list.get(field).into(), list.get(list.next(field)?).into()))
            }
        }
    }

    /// `wanted` distinct fields, every choice equally likely; all if there are no more.
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) {
        match &self.encoding {
            _ if wanted >= self.len() => self.for_each(now_ms, &mut |field, value| visit(field, value)),
            Encoding::Packed(map) if map.expiring_len() == 0 => {
                map.random_distinct(wanted, random, &mut |field, value| {
                    visit(StringValue::Bytes(field), StringValue::Bytes(value));
                });
            }
            Encoding::Packed(_) if wanted < self.len() / TRIED_SHARE => {
                self.random_by_trying(wanted, random, now_ms, visit);
            }
            _ => self.random_by_walking(wanted, random, now_ms, visit),
        }
    }

    /// Draws fields until there are enough distinct ones.
    fn random_by_trying(
        &self,
        wanted: usize,
        random: &mut Random,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) {
        let mut drawn = HashSet::with_capacity(wanted);
        for _ in 0..wanted * TRIES_FOR_EACH {
            let Some((field, value)) = self.random(random, now_ms) else { break };
            if drawn.insert(field.to_vec()) {
                visit(field, value);
            }
            if drawn.len() == wanted {
                break;
            }
        }
    }

    /// Scans all fields once, taking each with the probability that makes all choices equally likely.
    fn random_by_walking(
        &self,
        wanted: usize,
        random: &mut Random,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) {
        let mut left = 0;
        self.for_each(now_ms, &mut |_, _| left += 1);
        let mut wanted = wanted.min(left) as u64;
        let mut left = left as u64;
        self.for_each(now_ms, &mut |field, value| {
            if wanted > 0 && random.below(left) < wanted {
                visit(field, value);
                wanted -= 1;
            }
            left -= 1;
        });
    }
}

/// A list of expiring fields is searched from its start, where packed pages find a field at once.
const EXPIRING_LISTED_MAX: usize = 32;
/// A list is rewritten as a whole when its first field gets an expiry. Expiries come on top of this size: a restored
/// listpack may already have the maximum length of one, without room for them.
const EXPIRING_LISTED_BYTES_MAX: usize = 64 * 1024;
/// Draws of a random field that may all be expired before giving up.
const RANDOM_TRIES_MAX: usize = 100;
/// Less than this share of a large hash is drawn field by field; for more the hash is scanned.
const TRIED_SHARE: usize = 3;
/// Draws for each field wanted.
const TRIES_FOR_EACH: usize = 10;

impl From<FieldExpiry> for Expiry {
    fn from(expiry: FieldExpiry) -> Expiry {
        match expiry {
            FieldExpiry::Keep => Expiry::Keep,
            FieldExpiry::Clear => Expiry::Clear,
            FieldExpiry::At(at_ms) => Expiry::AtMs(at_ms),
        }
    }
}

fn written(insertion: Insertion) -> Written {
    match insertion {
        Insertion::Added => Written::Added,
        Insertion::Replaced => Written::Replaced,
    }
}

/// Fields added to a compact list by one command before a filter is worth creating.
const UNFILTERED: usize = 3;
/// Minimum number of further fields for which the filter is created.
const FILTERED_MIN: usize = 8;
const FILTER_WORDS: usize = 64;

/// A filter that shows of most new fields that they are not in a compact list. Without it each of many new fields is
/// compared with all existing ones.
struct FieldFilter {
    hasher: foldhash::fast::RandomState,
    /// One bit for each remainder of a hash.
    bits: [u64; FILTER_WORDS],
}

impl FieldFilter {
    fn of(list: &Listpack) -> Self {
        let mut filter = FieldFilter { hasher: Default::default(), bits: [0; FILTER_WORDS] };
        for field in list.iter().step_by(2) {
            match field {
                Element::Integer(value) => filter.add(filter.hasher.hash_one(value)),
                Element::Bytes(bytes) => filter.add_bytes(bytes),
            };
        }
        filter
    }

    /// Adds a field; returns true if it was certainly absent. Texts that spell integers are hashed as integers, as lists
    /// may hold them either way.
    fn add_bytes(&mut self, field: &[u8]) -> bool {
        self.add(match wire::number::parse_i64(field) {
            Some(value) => self.hasher.hash_one(value),
            None => self.hasher.hash_one(field),
        })
    }

    fn add(&mut self, hash: u64) -> bool {
        let (word, bit) = (usize_of(hash / 64) % FILTER_WORDS, 1 << (hash % 64));
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }
}

/// Positions of the field and its value.
fn find(list: &Listpack, field: &[u8]) -> Option<(Position, Position)> {
    let at = list.find(list.first()?, field, 1)?;
    Some((at, list.next(at).expect("a field is followed by its value")))
}
