//! Shapes: lists of field names that many records share, so that each record stores a number instead (hidden classes, as
//! in JavaScript engines, without a tree of transitions: a list with one name more or less is found by its hash).
//!
//! ```text
//!  by_hash     hash of the names -> number
//!  slots       number -> Shape { names | signatures }, and how it is used
//!  candidates  4,096 x | fingerprint u16 | met u8 |        lists that are not shapes yet
//! ```
//! A list is met when a record that was created, or that got or lost a field, is stored with it; it becomes a shape when it
//! has been met [`MET_MIN`] times. Candidates share places, and a list that meets another at its place lowers its count by
//! one: lists that do not repeat never become shapes.
//!
//! Records do not count the users of shapes: a *walk* over all keys does, now and then ([`Shapes::begin_walk`]). At its end
//! a shape without users is removed, and one with few is *dissolved*: no record gets it any more, and the next walk stores
//! its records plain.
//!
//! Invariants:
//! 1. The shape in slot `n` has number `n`; `by_hash` has exactly those that are not dissolved.
//! 2. The names of a shape are distinct; there are 1 to 63 of them, of together at most [`TEXT_BYTES_MAX`].
//! 3. A shape that a stored record has is in its slot: it is removed only after a walk that has met no user, if no record
//!    got it since the walk began.

use super::FIELDS_MAX;
use crate::byte_compare::{Group, LANES};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Times that a list of names is met until it becomes a shape.
pub const MET_MIN: u8 = 16;
/// Most shapes.
pub const SHAPES_MAX: usize = 4096;
/// A shape with fewer users at the end of a walk is dissolved.
pub const USERS_MIN: u32 = 16;
/// Most bytes of the names of a shape.
pub const TEXT_BYTES_MAX: usize = 1024;
/// New shapes that are worth a walk.
const BIRTHS_PER_WALK: usize = 64;
/// Lists that found no number left that are worth a walk.
const REFUSALS_PER_WALK: usize = 1024;
const CANDIDATES: usize = 4096;

/// A list of names with its hash, which grows by one name at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Names {
    hash: u64,
    /// The names, one after another.
    texts: Vec<u8>,
    /// The end of each.
    ends: Vec<u16>,
    /// The hash of the names before each.
    hashes: Vec<u64>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.hashes.push(self.hash);
        self.hash = hash_with(self.hash, name);
        self.texts.extend_from_slice(name);
        self.ends.push(self.texts.len() as u16);
    }

    #[inline]
    fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    fn at(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].into());
        &self.texts[start..self.ends[index].into()]
    }

    /// The hash of the list without the name at an index.
    fn hash_without(&self, index: usize) -> u64 {
        (index + 1..self.len()).fold(self.hashes[index], |hash, other| hash_with(hash, self.at(other)))
    }

    /// Whether it is `longer` without the name at an index.
    fn is_without(&self, longer: &Names, index: usize) -> bool {
        let removed = longer.at(index).len();
        let end = usize::from(longer.ends[index]);
        let start = end - removed;
        let (ends, longer_ends) = (self.ends.split_at_checked(index), longer.ends.split_at(index));
        self.texts.len() + removed == longer.texts.len()
            && self.len() + 1 == longer.len()
            && self.texts[..start] == longer.texts[..start]
            && self.texts[start..] == longer.texts[end..]
            && ends.is_some_and(|(before, behind)| {
                let mut behind = behind.iter().zip(&longer_ends.1[1..]);
                before == longer_ends.0
                    && behind.all(|(own, other)| usize::from(*own) + removed == usize::from(*other))
            })
    }

    /// Whether it is `shorter` with `name` behind it.
    fn is_extended(&self, shorter: &Names, name: &[u8]) -> bool {
        self.len() == shorter.len() + 1
            && self.texts.strip_prefix(&*shorter.texts) == Some(name)
            && self.ends.starts_with(&shorter.ends)
    }
}

/// The hash of a list with one name more.
#[inline]
fn hash_with(hash: u64, name: &[u8]) -> u64 {
    let mut hash = mix(hash ^ name.len() as u64);
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    let last = rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    if rest.is_empty() { hash } else { mix(hash ^ last) }
}

fn hash_of(names: &dyn NameList) -> u64 {
    let mut hash = 0;
    names.for_each(&mut |name| hash = hash_with(hash, name));
    hash
}

#[inline]
fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
    (product >> 64) as u64 ^ product as u64
}

/// A byte of a name, by which few others are mistaken for it.
#[inline]
fn signature(name: &[u8]) -> u8 {
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return 0 };
    let middle = name[name.len() / 2];
    first.wrapping_mul(3) ^ last.rotate_left(3) ^ middle.rotate_left(5) ^ (name.len() as u8)
}

/// A list of names that records share.
#[derive(Debug)]
pub struct Shape {
    id: u16,
    names: Names,
    /// One of each name; 0 behind the last.
    signatures: [u8; LANES],
}

impl Shape {
    fn new(id: u16, mut names: Names) -> Shape {
        names.texts.shrink_to_fit();
        names.ends.shrink_to_fit();
        names.hashes.shrink_to_fit();
        let mut signatures = [0; LANES];
        (0..names.len()).for_each(|index| signatures[index] = signature(names.at(index)));
        Shape { id, names, signatures }
    }

    /// Its number.
    #[inline]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Number of names.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The name at an index, which must be below their number.
    #[inline]
    pub fn name(&self, index: usize) -> &[u8] {
        self.names.at(index)
    }

    /// The index of a name.
    #[inline]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        let mut matching = Group::of(&self.signatures).matching(signature(name));
        matching.find(|&index| index < self.len() && self.name(index) == name)
    }

    /// Bytes of all names.
    pub fn text_bytes(&self) -> usize {
        self.names.texts.len()
    }

    fn memory_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        let names = &self.names;
        let lists = names.texts.capacity() + names.ends.capacity() * 2 + names.hashes.capacity() * 8;
        counts + size_of::<Shape>() + lists
    }
}

/// Names in their order.
pub(super) trait NameList {
    /// Passes each to `visit`.
    fn for_each(&self, visit: &mut dyn FnMut(&[u8]));
}

#[derive(Debug)]
struct Slot {
    shape: Arc<Shape>,
    /// Whether a record got it since the last walk began.
    is_fresh: bool,
    is_dissolved: bool,
    /// Records with it that the walk has met.
    users: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    fingerprint: u16,
    met: u8,
}

/// Hashes of lists of names are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl BuildHasher for AsItIs {
    type Hasher = AsItIs;

    #[inline]
    fn build_hasher(&self) -> AsItIs {
        *self
    }
}

impl Hasher for AsItIs {
    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = mix(self.0 ^ u64::from(byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// All shapes of a server's data.
#[derive(Debug, Default)]
pub struct Shapes {
    slots: Vec<Option<Slot>>,
    by_hash: HashMap<u64, u16, AsItIs>,
    /// Empty until the first list is met.
    candidates: Vec<Candidate>,
    /// New shapes since the last walk began, and lists that found no number left.
    births: usize,
    refusals: usize,
    dissolved: usize,
    shapes_bytes: usize,
}

impl Shapes {
    /// The shape with this number, which a stored record has.
    #[inline]
    pub fn shape(&self, id: u16) -> &Shape {
        self.shared(id)
    }

    /// As [`Shapes::shape`], to be kept.
    #[inline]
    pub(super) fn shared(&self, id: u16) -> &Arc<Shape> {
        let slot = self.slots[usize::from(id)].as_ref();
        &slot.expect("a shape stays while records have it").shape
    }

    /// Whether records may get this very shape.
    #[inline]
    pub(super) fn contains(&self, shape: &Arc<Shape>) -> bool {
        let slot = self.slots.get(usize::from(shape.id)).and_then(Option::as_ref);
        slot.is_some_and(|slot| Arc::ptr_eq(&slot.shape, shape) && !slot.is_dissolved)
    }

    /// Number of shapes.
    pub fn len(&self) -> usize {
        self.by_hash.len() + self.dissolved
    }

    /// Whether there are no shapes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All shapes.
    pub fn iter(&self) -> impl Iterator<Item = &Shape> {
        self.slots.iter().flatten().map(|slot| &*slot.shape)
    }

    /// Bytes that shapes and candidates take.
    pub fn memory_bytes(&self) -> usize {
        let table = self.by_hash.capacity() * (size_of::<(u64, u16)>() + 1);
        let slots = self.slots.capacity() * size_of::<Option<Slot>>();
        self.shapes_bytes + table + slots + self.candidates.capacity() * size_of::<Candidate>()
    }

    /// Notes that a record is stored with this shape.
    #[inline]
    pub(super) fn note_use(&mut self, shape: &Shape) {
        if let Some(slot) = &mut self.slots[usize::from(shape.id)] {
            slot.is_fresh = true;
        }
    }

    /// The shape of a record with these names, if there is one; the record counts as met.
    pub(super) fn of_names(&mut self, names: &dyn NameList) -> Option<Arc<Shape>> {
        let hash = hash_of(names);
        if let Some(id) = self.known(hash, names) {
            return Some(self.used(id));
        }
        if !self.is_met_often(hash) {
            return None;
        }
        let mut wanted = Names::default();
        names.for_each(&mut |name| wanted.push(name));
        self.add(wanted)
    }

    /// The number of the shape with these names, whose hash is given.
    fn known(&self, hash: u64, names: &dyn NameList) -> Option<u16> {
        let id = *self.by_hash.get(&hash)?;
        let (known, mut index, mut is_same) = (&self.shape(id).names, 0, true);
        names.for_each(&mut |name| {
            is_same &= index < known.len() && known.at(index) == name;
            index += 1;
        });
        (is_same && index == known.len()).then_some(id)
    }

    /// The shape of a record of this shape that gets a further field, if there is one.
    pub(super) fn with_field(&self, shape: &Shape, name: &[u8]) -> Option<Arc<Shape>> {
        let id = *self.by_hash.get(&hash_with(shape.names.hash, name))?;
        let known = self.shared(id);
        known.names.is_extended(&shape.names, name).then(|| Arc::clone(known))
    }

    /// The shape of a record of this shape that loses a field, if there is one.
    pub(super) fn without_field(&self, shape: &Shape, index: usize) -> Option<Arc<Shape>> {
        let id = *self.by_hash.get(&shape.names.hash_without(index))?;
        let known = self.shared(id);
        known.names.is_without(&shape.names, index).then(|| Arc::clone(known))
    }

    fn used(&mut self, id: u16) -> Arc<Shape> {
        let slot = self.slots[usize::from(id)].as_mut().expect("`by_hash` has numbers of shapes");
        slot.is_fresh = true;
        Arc::clone(&slot.shape)
    }

    /// Counts a meeting of a list that has no shape; returns whether it should get one.
    fn is_met_often(&mut self, hash: u64) -> bool {
        if self.candidates.is_empty() {
            self.candidates = vec![Candidate::default(); CANDIDATES];
        }
        let fingerprint = (hash >> 48) as u16;
        let candidate = &mut self.candidates[hash as usize % CANDIDATES];
        if candidate.met == 0 {
            *candidate = Candidate { fingerprint, met: 1 };
        } else if candidate.fingerprint == fingerprint {
            candidate.met += 1;
        } else {
            candidate.met -= 1;
        }
        let is_due = candidate.fingerprint == fingerprint && candidate.met >= MET_MIN;
        if is_due {
            *candidate = Candidate::default();
        }
        is_due
    }

    /// Adds a list, if it may be a shape and there is a number left.
    fn add(&mut self, names: Names) -> Option<Arc<Shape>> {
        if !(1..=FIELDS_MAX).contains(&names.len()) || names.texts.len() > TEXT_BYTES_MAX {
            return None;
        }
        let free = self.slots.iter().position(Option::is_none);
        let id = free.unwrap_or(self.slots.len());
        if id >= SHAPES_MAX {
            self.refusals += 1;
            return None;
        }
        if self.by_hash.contains_key(&names.hash) {
            // Another list has this hash.
            return None;
        }
        let hash = names.hash;
        let shape = Arc::new(Shape::new(id as u16, names));
        let slot = Slot { shape: Arc::clone(&shape), is_fresh: true, is_dissolved: false, users: 0 };
        match self.slots.get_mut(id) {
            Some(place) => *place = Some(slot),
            None => self.slots.push(Some(slot)),
        }
        self.by_hash.insert(hash, id as u16);
        self.births += 1;
        self.shapes_bytes += shape.memory_bytes();
        Some(shape)
    }

    /// Whether a walk is due: there are many new shapes, shapes being dissolved, or many lists for which there was no number.
    pub fn is_walk_due(&self) -> bool {
        self.births >= BIRTHS_PER_WALK || self.dissolved > 0 || self.refusals >= REFUSALS_PER_WALK
    }

    /// Makes a walk due, if there are shapes: after many records were removed, or a walk was abandoned.
    pub fn request_walk(&mut self) {
        if !self.is_empty() {
            self.births = BIRTHS_PER_WALK;
        }
    }

    /// Begins counting users.
    pub fn begin_walk(&mut self) {
        (self.births, self.refusals) = (0, 0);
        self.slots.iter_mut().flatten().for_each(|slot| (slot.is_fresh, slot.users) = (false, 0));
    }

    /// Counts a stored record with these embedded bytes as met by the walk; returns whether its shape is being dissolved,
    /// so that it should be stored again.
    pub fn note_met(&mut self, embedded: &[u8]) -> bool {
        let slot = super::shape_id(embedded).and_then(|id| self.slots[usize::from(id)].as_mut());
        let Some(slot) = slot else { return false };
        slot.users = slot.users.saturating_add(1);
        slot.is_dissolved
    }

    /// Ends a walk that has met all stored records.
    pub fn end_walk(&mut self) {
        for place in &mut self.slots {
            let Some(slot) = place else { continue };
            if slot.is_fresh || slot.users >= USERS_MIN && !slot.is_dissolved {
                continue;
            }
            if !slot.is_dissolved {
                self.by_hash.remove(&slot.shape.names.hash);
                slot.is_dissolved = true;
                self.dissolved += 1;
            }
            if slot.users == 0 {
                self.shapes_bytes -= slot.shape.memory_bytes();
                *place = None;
                self.dissolved -= 1;
            }
        }
    }

    /// Panics unless the invariants of this file hold.
    pub fn check(&self) {
        let mut dissolved = 0;
        for (id, slot) in self.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let names = &slot.shape.names;
            assert_eq!(usize::from(slot.shape.id), id);
            assert!((1..=FIELDS_MAX).contains(&names.len()) && names.texts.len() <= TEXT_BYTES_MAX);
            let by_hash = self.by_hash.get(&names.hash);
            assert_eq!(by_hash == Some(&slot.shape.id), !slot.is_dissolved);
            for index in 0..names.len() {
                assert_eq!(slot.shape.position(names.at(index)), Some(index));
            }
            dissolved += usize::from(slot.is_dissolved);
        }
        assert_eq!(dissolved, self.dissolved);
        assert_eq!(self.iter().map(Shape::memory_bytes).sum::<usize>(), self.shapes_bytes);
        assert_eq!(self.slots.iter().flatten().count(), self.len());
    }
}
