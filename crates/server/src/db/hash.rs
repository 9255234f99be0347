//! Hashes: fields with values. A record in the key's entry while it fits there, then a compact list; a list with expiries
//! once a field expires; packed pages beyond.
//!
//! An expired field stays until the search for expired fields or a write to it removes it, and until then it is hidden
//! from reads: they pass `now_ms`, and fields that expire before it count as absent. `len` counts them. A write to a
//! field removes it first if it is expired ([`Hash::remove_if_expired`]) and records that: a command repeated later, when
//! no field counts as absent, then finds what it found the first time.

mod rdb;
#[cfg(test)]
mod tests;
mod value_type;
mod view;

pub use view::HashView;

use super::collection::{Collection, CollectionContext, EncodingLimits};
use super::interned::Interned;
use super::object::StringValue;
use std::hash::BuildHasher;
use structures::decimal::TEXT_BYTES_MAX;
use structures::expiring_list::ExpiringList;
use structures::hash::HashSeed;
use structures::listpack::{Builder, Element, Listpack, Position};
use structures::packed_map::{Expiry, Insertion, PackedMap};
use structures::record::shape::Shapes;
use structures::record::value::TextBuffer;
use structures::record::{FIELDS_MAX, Record, RecordView};
use structures::unaligned_box::UnalignedBox;
use view::is_gone;
use wire::convert::usize_of;

/// A field or its value: bytes, or the integer that they spell.
pub type Cell<'a> = StringValue<'a>;

/// The value of a hash key.
#[derive(Clone, Debug)]
pub struct Hash {
    encoding: Encoding,
}

#[derive(Clone, Debug)]
enum Encoding {
    /// In order of insertion, without expiries. Only while it is created or changed: it is embedded, or becomes a list,
    /// when it is stored.
    Record(UnalignedBox<Record>),
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
    type View<'a> = HashView<'a>;

    #[inline]
    fn view(&self) -> HashView<'_> {
        let encoding = match &self.encoding {
            Encoding::Record(record) => view::Encoding::Record(record.view()),
            Encoding::Compact(list) => view::Encoding::Compact(list),
            Encoding::Expiring(list) => view::Encoding::Expiring(list),
            Encoding::Packed(map) => view::Encoding::Packed(map),
        };
        HashView { encoding }
    }

    #[inline]
    fn view_embedded<'a>(bytes: &'a [u8], interned: &'a Interned) -> Option<HashView<'a>> {
        let record = RecordView::of_embedded(bytes, &interned.shapes);
        Some(HashView { encoding: view::Encoding::Record(record) })
    }

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        Hash::of_record(Record::default())
    }

    fn conform(&mut self, context: &CollectionContext<'_>) {
        self.expect_fields(self.len(), context);
    }
}

impl Hash {
    fn of_record(record: Record) -> Hash {
        Hash { encoding: Encoding::Record(UnalignedBox::new(record)) }
    }

    /// Number of fields, including expired ones not yet removed.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// See [`HashView::has_expiring`].
    #[inline]
    pub fn has_expiring(&self) -> bool {
        self.view().has_expiring()
    }

    /// See [`HashView::get`].
    pub fn get(&self, field: &[u8], now_ms: i64) -> Option<Cell<'_>> {
        self.view().get(field, now_ms)
    }

    /// See [`HashView::get_with_expiry`].
    pub fn get_with_expiry(&self, field: &[u8], now_ms: i64) -> Option<(Cell<'_>, Option<i64>)> {
        self.view().get_with_expiry(field, now_ms)
    }

    /// See [`HashView::contains`].
    pub fn contains(&self, field: &[u8], now_ms: i64) -> bool {
        self.view().contains(field, now_ms)
    }

    /// See [`HashView::for_each`].
    pub fn for_each<'a>(&'a self, now_ms: i64, visit: &mut dyn FnMut(Cell<'a>, Cell<'a>)) {
        self.view().for_each(now_ms, visit);
    }

    /// Prepares for writing `fields` fields, assumed to be new.
    pub fn expect_fields(&mut self, fields: usize, context: &CollectionContext<'_>) {
        if fields > self.listed_max(context.limits) {
            self.unpack(context.seed);
        } else if fields > FIELDS_MAX {
            self.leave_record();
        }
    }

    /// Maximum number of fields kept in a list.
    fn listed_max(&self, limits: &EncodingLimits) -> usize {
        match &self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => limits.hash_listpack_entries_max,
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

    /// As [`Hash::set`]; a field known to be new is not searched for in a record or a compact list.
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
        if let Encoding::Record(record) = &self.encoding
            && !record.fits(field, value)
        {
            self.leave_record();
        }
        let fits = match &self.encoding {
            Encoding::Compact(list) => list.fits(field.len() + value.len(), 2),
            Encoding::Expiring(list) => {
                list.used_bytes() + field.len() + value.len() <= EXPIRING_LISTED_BYTES_MAX
            }
            Encoding::Record(_) | Encoding::Packed(_) => true,
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
            Encoding::Record(record) => {
                let is_added = record.set(field, value, is_new, context.shapes);
                if record.len() > context.limits.hash_listpack_entries_max {
                    self.unpack(context.seed);
                }
                if is_added { Written::Added } else { Written::Replaced }
            }
            Encoding::Compact(list) => {
                let found = if is_new { None } else { find(list, field) };
                match found {
                    Some((_, at)) => list.replace(at, value),
                    None => {
                        list.push_back(field);
                        list.push_back(value);
                    }
                }
                if list.len() / 2 > context.limits.hash_listpack_entries_max {
                    self.unpack(context.seed);
                }
                if found.is_none() { Written::Added } else { Written::Replaced }
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
            if let (None, Encoding::Record(_) | Encoding::Compact(_)) = (&filter, &self.encoding)
                && added_in_a_row >= UNFILTERED
                && pairs.len() >= FILTERED_MIN
            {
                filter = Some(FieldFilter::of(self.view()));
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
        self.remove_stored(field, context.shapes);
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
        !self.remove_if_expired(field, context) && self.remove_stored(field, context.shapes)
    }

    /// Whether the field is stored but expired.
    pub fn is_expired(&self, field: &[u8], now_ms: i64) -> bool {
        match &self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => false,
            Encoding::Expiring(list) => {
                is_gone(list.earliest_ms(), now_ms) && is_gone(list.expiry(field), now_ms)
            }
            Encoding::Packed(map) => map.expiring_len() > 0 && is_gone(map.expiry(field), now_ms),
        }
    }

    /// Removes the field. Returns whether it existed, expired or not.
    pub fn remove_even_expired(&mut self, field: &[u8], context: &mut CollectionContext<'_>) -> bool {
        self.remove_stored(field, context.shapes)
    }

    fn remove_stored(&mut self, field: &[u8], shapes: &Shapes) -> bool {
        match &mut self.encoding {
            Encoding::Record(record) => record.remove(field, shapes),
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
            Encoding::Record(_) | Encoding::Compact(_) => {}
            Encoding::Expiring(list) => list.set_expiry(field, expiry_ms),
            Encoding::Packed(map) => _ = map.set_expiry(field, expiry_ms),
        }
    }

    /// Removes up to `limit` expired fields, passing each to `removed`; returns how many.
    pub fn remove_expired(&mut self, limit: usize, now_ms: i64, removed: &mut dyn FnMut(&[u8])) -> usize {
        match &mut self.encoding {
            Encoding::Record(_) | Encoding::Compact(_) => 0,
            Encoding::Expiring(list) => list.remove_expired(now_ms, limit, removed),
            Encoding::Packed(map) => map.remove_expired(now_ms, limit, &mut |field, _| removed(field)),
        }
    }

    /// Converts to an encoding whose fields can expire, with room for `added_bytes` more bytes.
    fn prepare_to_expire(&mut self, added_bytes: usize, context: &CollectionContext<'_>) {
        self.leave_record();
        let Encoding::Compact(list) = &self.encoding else { return };
        if list.len() / 2 > context.limits.hash_listpack_entries_max.min(EXPIRING_LISTED_MAX)
            || list.total_bytes() + added_bytes > EXPIRING_LISTED_BYTES_MAX
        {
            return self.unpack(context.seed);
        }
        self.encoding = Encoding::Expiring(ExpiringList::new(list));
    }

    /// Converts a record to a list.
    fn leave_record(&mut self) {
        let Encoding::Record(record) = &self.encoding else { return };
        self.encoding = Encoding::Compact(listpack_of(record.view()));
    }

    fn unpack(&mut self, seed: HashSeed) {
        let mut map = PackedMap::new(seed);
        match &self.encoding {
            Encoding::Record(record) => record.view().iter().for_each(|(field, value)| {
                let (mut name, mut text) = (TextBuffer::default(), TextBuffer::default());
                map.insert(field.text(&mut name), value.text(&mut text), Expiry::Clear);
            }),
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
}

/// A list of expiring fields is searched from its start, where packed pages find a field at once.
const EXPIRING_LISTED_MAX: usize = 32;
/// A list is rewritten as a whole when its first field gets an expiry. Expiries come on top of this size: a restored
/// listpack may already have the maximum length of one, without room for them.
const EXPIRING_LISTED_BYTES_MAX: usize = 64 * 1024;
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
    fn of(hash: HashView<'_>) -> Self {
        let mut filter = FieldFilter { hasher: Default::default(), bits: [0; FILTER_WORDS] };
        hash.for_each(i64::MIN, &mut |field, _| {
            match field {
                StringValue::Integer(value) => filter.add(filter.hasher.hash_one(value)),
                text => text.with_bytes(|bytes| filter.add_bytes(bytes)),
            };
        });
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

/// The record as a list.
fn listpack_of(record: RecordView<'_>) -> Listpack {
    let mut list = Builder::with_room(2 * record.used_bytes());
    for (field, value) in record.iter() {
        for cell in [field, value] {
            match cell.integer() {
                Some(value) => list.push(Element::Integer(value)),
                None => list.push(Element::Bytes(cell.text(&mut TextBuffer::default()))),
            }
        }
    }
    list.finish()
}

/// The list as a record, if it is short enough.
fn record_of(list: &Listpack) -> Option<Record> {
    let (mut record, mut elements, no_shapes) = (Record::default(), list.iter(), Shapes::default());
    while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
        let (mut name, mut text) = ([0; TEXT_BYTES_MAX], [0; TEXT_BYTES_MAX]);
        let (field, value) = (field.text(&mut name), value.text(&mut text));
        if !record.fits(field, value) {
            return None;
        }
        record.set(field, value, true, &no_shapes);
    }
    Some(record)
}

/// Positions of the field and its value.
fn find(list: &Listpack, field: &[u8]) -> Option<(Position, Position)> {
    let at = list.find(list.first()?, field, 1)?;
    Some((at, list.next(at).expect("a field is followed by its value")))
}
