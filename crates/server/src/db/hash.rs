//! Hashes: fields with values. A compact list while small, packed pages beyond or as soon as a field expires.
//!
//! A field whose time has come stays until the search for due fields or a write to it removes it, and until then no
//! reader sees it: readers say which fields count as gone, those that expire before `now_ms`. `len` counts them.
//! Whatever writes to a field removes it first if it is due ([`Hash::expire_if_due`]) and tells of that: a command that
//! is repeated later, when no field counts as gone, then finds what it has found the first time.

mod rdb;

use super::collection::{Collection, EncodingLimits, Means};
use super::layout::Layout;
use super::object::{Kind, Object, Text};
use std::collections::HashSet;
use structures::hash::HashSeed;
use structures::listpack::{Element, Listpack, Position};
use structures::packed_map::{Expiry, PackedMap, Probe};
use structures::prefetch::prefetch_object;
use structures::random::Random;
use structures::size_class::usable_size;
use structures::unaligned_box::UnalignedBox;

/// A field's value, or a field: as its bytes or as the integer they spell.
pub type Cell<'a> = Text<'a>;

#[derive(Clone, Debug)]
pub struct Hash {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Field, value, field, value... in order of insertion. None expires.
    Compact(Listpack),
    Packed(UnalignedBox<PackedMap>),
}

/// What becomes of the expiry of a field that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiry {
    /// As it was.
    Keep,
    /// None.
    Clear,
    /// Milliseconds since the epoch.
    At(i64),
}

/// What writing a field did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Also in place of one that was due.
    Added,
    Replaced,
}

impl Collection for Hash {
    const KIND: Kind = Kind::Hash;

    fn new(_limits: &EncodingLimits, _seed: HashSeed) -> Self {
        Hash { form: Form::Compact(Listpack::new()) }
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }

    fn into_object(self) -> Object {
        Object::Hash(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn earliest_expiry_ms(&self) -> Option<i64> {
        match &self.form {
            Form::Compact(_) => None,
            Form::Packed(map) => map.next_expiry_hint(),
        }
    }
}

fn cell(element: Element<'_>) -> Cell<'_> {
    match element {
        Element::Integer(n) => Text::Integer(n),
        Element::Bytes(bytes) => Text::Bytes(bytes),
    }
}

/// Whether a field that expires then is gone now.
#[inline]
fn is_gone(expiry_ms: Option<i64>, now_ms: i64) -> bool {
    expiry_ms.is_some_and(|expiry_ms| expiry_ms < now_ms)
}

impl Hash {
    /// Fields, those included that are due and not yet removed.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Compact(list) => list.len() / 2,
            Form::Packed(map) => map.len(),
        }
    }

    pub(super) fn check(&self) {
        match &self.form {
            Form::Compact(list) => super::check::check_unique(list, 2),
            Form::Packed(map) => map.check(),
        }
    }

    /// Whether any field expires.
    pub fn has_expiring(&self) -> bool {
        matches!(&self.form, Form::Packed(map) if map.expiring_len() > 0)
    }

    /// Bytes held from the allocator, this value itself left out.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Compact(list) => list.memory_bytes(),
            Form::Packed(map) => usable_size(size_of::<PackedMap>()) + map.memory_bytes(),
        }
    }

    pub fn layout(&self) -> Layout {
        match &self.form {
            Form::Compact(list) => Layout::of_listpack(list),
            Form::Packed(map) => {
                Layout::new("packed map", vec![("pages", map.pages_len()), ("expiring", map.expiring_len())])
                    .packed(map.used_bytes(), map.page_bytes())
            }
        }
    }

    /// Asks for what the value points at; whether more can be fetched once that has come.
    #[inline]
    pub fn prefetch_head(&self) -> bool {
        match &self.form {
            Form::Compact(list) => {
                list.prefetch();
                false
            }
            Form::Packed(map) => {
                prefetch_object(&**map);
                true
            }
        }
    }

    /// A lookup of the field in steps; none where the head is all there is to fetch.
    #[inline]
    pub fn probe(&self, field: &[u8]) -> Option<Probe<'_>> {
        match &self.form {
            Form::Compact(_) => None,
            Form::Packed(map) => Some(map.probe(map.hash(field))),
        }
    }

    pub fn encoding_name(&self) -> &'static str {
        match &self.form {
            Form::Compact(_) => "listpack",
            Form::Packed(_) => "hashtable",
        }
    }

    #[inline]
    pub fn get(&self, field: &[u8], now_ms: i64) -> Option<Cell<'_>> {
        match &self.form {
            Form::Compact(list) => find(list, field).map(|(_, value)| cell(list.get(value))),
            Form::Packed(map) if map.expiring_len() == 0 => map.get(field).map(Text::Bytes),
            Form::Packed(_) => self.get_with_expiry(field, now_ms).map(|(value, _)| value),
        }
    }

    /// The value, and when the field expires.
    pub fn get_with_expiry(&self, field: &[u8], now_ms: i64) -> Option<(Cell<'_>, Option<i64>)> {
        match &self.form {
            Form::Compact(_) => self.get(field, now_ms).map(|value| (value, None)),
            Form::Packed(map) => map
                .get_with_expiry(field)
                .filter(|&(_, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .map(|(value, expiry_ms)| (Text::Bytes(value), expiry_ms)),
        }
    }

    pub fn contains(&self, field: &[u8], now_ms: i64) -> bool {
        self.get(field, now_ms).is_some()
    }

    /// So many fields are about to be written, all new as far as is known.
    pub fn expect_fields(&mut self, fields: usize, means: &Means<'_>) {
        if fields > means.limits.hash_listpack_entries_max {
            self.unpack(means.seed);
        }
    }

    /// Adds the field or replaces its value.
    pub fn set(&mut self, field: &[u8], value: &[u8], expiry: FieldExpiry, means: &mut Means<'_>) -> Written {
        self.expire_if_due(field, means);
        let limit = means.limits.hash_listpack_value_bytes_max;
        let expires = matches!(expiry, FieldExpiry::At(_));
        let fits = |list: &Listpack| list.fits(field.len() + value.len(), 2);
        if expires || field.len() > limit || value.len() > limit || !self.compact().is_none_or(fits) {
            self.unpack(means.seed);
        }
        match &mut self.form {
            Form::Packed(map) => set_packed(map, field, value, expiry),
            Form::Compact(list) => {
                if let Some((_, at)) = find(list, field) {
                    list.replace(at, value);
                    return Written::Replaced;
                }
                list.push_back(field);
                list.push_back(value);
                if list.len() / 2 > means.limits.hash_listpack_entries_max {
                    self.unpack(means.seed);
                }
                Written::Added
            }
        }
    }

    /// Removes the field if it is due, as if the search for such had come by before; whether it was.
    pub fn expire_if_due(&mut self, field: &[u8], means: &mut Means<'_>) -> bool {
        let Form::Packed(map) = &mut self.form else { return false };
        let Some(due) = &mut means.due_fields else { return false };
        if map.expiring_len() == 0 || !is_gone(map.expiry(field), due.before_ms) {
            return false;
        }
        map.remove(field);
        due.removed.push(field.to_vec());
        due.emptied |= map.is_empty();
        true
    }

    /// Whether the field was there; one that was due was not.
    pub fn remove(&mut self, field: &[u8], means: &mut Means<'_>) -> bool {
        !self.expire_if_due(field, means) && self.remove_even_due(field)
    }

    /// Whether the field is there, though it counts as absent.
    pub fn is_due(&self, field: &[u8], now_ms: i64) -> bool {
        let Form::Packed(map) = &self.form else { return false };
        map.expiring_len() > 0 && is_gone(map.expiry(field), now_ms)
    }

    /// Whether the field was there, due or not.
    pub fn remove_even_due(&mut self, field: &[u8]) -> bool {
        match &mut self.form {
            Form::Packed(map) => map.remove(field),
            Form::Compact(list) => match find(list, field) {
                Some((at, _)) => {
                    list.remove_from(at, 2);
                    true
                }
                None => false,
            },
        }
    }

    /// Sets or clears when a field that is there expires.
    pub fn set_expiry(&mut self, field: &[u8], expiry_ms: Option<i64>, means: &Means<'_>) {
        if expiry_ms.is_some() {
            self.unpack(means.seed);
        }
        if let Form::Packed(map) = &mut self.form {
            map.set_expiry(field, expiry_ms);
        }
    }

    /// Removes up to `limit` fields that are gone, handing each to `removed`; returns how many.
    pub fn remove_due(&mut self, limit: usize, now_ms: i64, removed: &mut dyn FnMut(&[u8])) -> usize {
        match &mut self.form {
            Form::Compact(_) => 0,
            Form::Packed(map) => map.expire_due(now_ms, limit, &mut |field, _| removed(field)),
        }
    }

    #[inline]
    fn compact(&self) -> Option<&Listpack> {
        if let Form::Compact(list) = &self.form { Some(list) } else { None }
    }

    fn unpack(&mut self, seed: HashSeed) {
        let Form::Compact(list) = &self.form else { return };
        let mut map = PackedMap::new(seed);
        let mut elements = list.iter();
        while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
            map.insert(&field.to_vec(), &value.to_vec(), Expiry::Clear);
        }
        self.form = Form::Packed(UnalignedBox::new(map));
    }

    /// All fields with their values.
    pub fn for_each(&self, now_ms: i64, visit: &mut dyn FnMut(Cell<'_>, Cell<'_>)) {
        match &self.form {
            Form::Packed(map) if map.expiring_len() == 0 => {
                map.iter().for_each(|(field, value)| visit(Text::Bytes(field), Text::Bytes(value)));
            }
            Form::Packed(map) => map
                .iter_with_expiry()
                .filter(|&(_, _, expiry_ms)| !is_gone(expiry_ms, now_ms))
                .for_each(|(field, value, _)| visit(Text::Bytes(field), Text::Bytes(value))),
            Form::Compact(list) => {
                let mut elements = list.iter();
                while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
                    visit(cell(field), cell(value));
                }
            }
        }
    }

    /// Visits some fields and returns the next cursor, 0 at the end; a compact hash is visited whole.
    pub fn scan(
        &self,
        cursor: u64,
        wanted: usize,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) -> u64 {
        match &self.form {
            Form::Packed(map) => map.scan_with_expiry(cursor, wanted, &mut |field, value, expiry_ms| {
                if !is_gone(expiry_ms, now_ms) {
                    visit(Text::Bytes(field), Text::Bytes(value));
                }
            }),
            Form::Compact(_) => {
                self.for_each(now_ms, visit);
                0
            }
        }
    }

    /// One field, each as likely as any other; none if so many are due that no other is met soon.
    pub fn random(&self, random: &mut Random, now_ms: i64) -> Option<(Cell<'_>, Cell<'_>)> {
        match &self.form {
            Form::Packed(map) => {
                let mut tries = (0..RANDOM_TRIES_MAX).filter_map(|_| map.random(random));
                let found =
                    tries.find(|(field, _)| map.expiring_len() == 0 || !is_gone(map.expiry(field), now_ms));
                found.map(|(field, value)| (Text::Bytes(field), Text::Bytes(value)))
            }
            Form::Compact(list) if list.is_empty() => None,
            Form::Compact(list) => {
                let field = list.at(2 * random.below(self.len() as u64) as i64)?;
                Some((cell(list.get(field)), cell(list.get(list.next(field)?))))
            }
        }
    }

    /// `wanted` different fields, every choice equally likely; all if there are no more.
    pub fn random_distinct(
        &self,
        wanted: usize,
        random: &mut Random,
        now_ms: i64,
        visit: &mut dyn FnMut(Cell<'_>, Cell<'_>),
    ) {
        match &self.form {
            _ if wanted >= self.len() => self.for_each(now_ms, visit),
            Form::Packed(map) if map.expiring_len() == 0 => {
                map.random_distinct(wanted, random, &mut |field, value| {
                    visit(Text::Bytes(field), Text::Bytes(value));
                });
            }
            Form::Packed(_) if wanted < self.len() / TRIED_SHARE => {
                self.random_by_trying(wanted, random, now_ms, visit);
            }
            _ => self.random_by_walking(wanted, random, now_ms, visit),
        }
    }

    /// Draws fields until enough different ones have come up.
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

    /// Walks all fields once, taking each with the chance that makes all choices alike.
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

/// Draws before a random field is given up on because all that came up were due.
const RANDOM_TRIES_MAX: usize = 100;
/// Fewer than this share of a hash whose fields expire are drawn one by one; for more the hash is walked.
const TRIED_SHARE: usize = 3;
/// Draws for each field wanted.
const TRIES_FOR_EACH: usize = 10;

fn set_packed(map: &mut PackedMap, field: &[u8], value: &[u8], expiry: FieldExpiry) -> Written {
    let expiry = match expiry {
        FieldExpiry::Keep => Expiry::Keep,
        FieldExpiry::Clear => Expiry::Clear,
        FieldExpiry::At(at_ms) => Expiry::AtMs(at_ms),
    };
    match map.insert(field, value, expiry) {
        structures::packed_map::Insertion::Added => Written::Added,
        structures::packed_map::Insertion::Replaced => Written::Replaced,
    }
}

/// Where the field and its value are.
fn find(list: &Listpack, field: &[u8]) -> Option<(Position, Position)> {
    let at = list.find(list.first()?, field, 1)?;
    Some((at, list.next(at).expect("a field is followed by its value")))
}
