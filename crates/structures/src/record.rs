//! Records: small hashes as one sequence of values, each in the shortest form that prints the same text again, short enough
//! to be stored in their keys' entries.
//!
//! ```text
//!  plain   | 0x80 + fields | name | value | name | value | ...        1 to 63 fields
//!  shaped  | 0x80 | shape u16 | value | value | ...                   the names are the shape's
//! ```
//! Names and values are the forms of `record/value.rs`; the order is that of insertion. A *shape* (`record/shape.rs`) is a
//! list of names that many records share.
//!
//! Invariants:
//! 1. The bytes are a head and exactly the values that it announces; a shaped record holds the shape of its head.
//! 2. The names of a record are distinct.
//! 3. An empty record is `[0x80]`, plain.
//!
//! Measurements and rejected designs: [docs/structures.md](../../../docs/structures.md#records).

pub mod members;
pub mod ranking;
mod room;
pub mod shape;
#[cfg(test)]
mod tests;
pub mod value;

use shape::{NameList, Shape, Shapes};
use std::ops::Range;
use std::sync::Arc;
use value::{Encoded, Needle, TextBuffer, Value, end, is_data};

/// The first byte of a record is this one plus at most [`FIELDS_MAX`].
pub const FIRST_BYTE: u8 = 0x80;
/// Most fields of a record.
pub const FIELDS_MAX: usize = 63;
/// Most bytes of a record that is stored in an entry.
pub const EMBEDDED_BYTES_MAX: usize = 255;
/// Most bytes of a record while it is changed.
const BYTES_MAX: usize = 1024;
/// Most bytes that a form adds to its text.
const HEAD_BYTES_MAX: usize = 5;
const SHAPED_HEAD_BYTES: usize = 3;

/// A hash of few fields, outside of its key's entry.
#[derive(Clone, Debug)]
pub struct Record {
    bytes: Vec<u8>,
    /// `None` in a plain record.
    shape: Option<Arc<Shape>>,
    /// Whether names were added or removed since a shape was last looked for.
    is_new_list: bool,
}

/// A record for reading.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    fields: usize,
    /// Values, and names if there is no shape.
    forms: &'a [u8],
    shape: Option<&'a Shape>,
}

impl Default for Record {
    fn default() -> Self {
        // Most records grow no further.
        let mut bytes = Vec::with_capacity(EMBEDDED_BYTES_MAX + 1);
        bytes.push(FIRST_BYTE);
        Record { bytes, shape: None, is_new_list: false }
    }
}

impl<'a> RecordView<'a> {
    /// The record with these [embedded bytes](Record::embedded), made with these shapes.
    #[inline]
    pub fn of_embedded(bytes: &'a [u8], shapes: &'a Shapes) -> Self {
        match shape_id(bytes) {
            None => RecordView::plain(bytes),
            Some(id) => RecordView::shaped(bytes, shapes.shape(id)),
        }
    }

    #[inline]
    fn plain(bytes: &'a [u8]) -> Self {
        RecordView { fields: (bytes[0] - FIRST_BYTE).into(), forms: &bytes[1..], shape: None }
    }

    #[inline]
    fn shaped(bytes: &'a [u8], shape: &'a Shape) -> Self {
        RecordView { fields: shape.len(), forms: &bytes[SHAPED_HEAD_BYTES..], shape: Some(shape) }
    }

    /// Number of fields.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        self.fields
    }

    /// The record's shape.
    pub fn shape(&self) -> Option<&'a Shape> {
        self.shape
    }

    /// Bytes of the values, and of the names if they are not the shape's.
    pub fn used_bytes(&self) -> usize {
        self.forms.len()
    }

    /// The value of a field.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Value<'a>> {
        self.place(name).map(|place| Value::at(self.forms, place.value).0)
    }

    /// Places of a field in the forms.
    #[inline]
    fn place(&self, name: &[u8]) -> Option<Place> {
        let Some(shape) = self.shape else { return self.plain_place(name) };
        let index = shape.position(name)?;
        let value = (0..index).fold(0, |at, _| end(self.forms, at));
        Some(Place { index, start: value, value })
    }

    fn plain_place(&self, name: &[u8]) -> Option<Place> {
        if name.len() > BYTES_MAX {
            return None;
        }
        let (name, mut at) = (Needle::of(name), 0);
        for index in 0..self.fields {
            let value = end(self.forms, at);
            if name.is_at(self.forms, at) {
                return Some(Place { index, start: at, value });
            }
            at = end(self.forms, value);
        }
        None
    }

    /// The field at an index, which must be below their number, in the order of insertion.
    pub fn at(&self, index: usize) -> (Value<'a>, Value<'a>) {
        self.iter().nth(index).expect("the record has as many fields")
    }

    /// Whether a name of a plain record looks like data: integers and UUIDs do.
    fn has_data_names(&self) -> bool {
        let mut at = 0;
        (0..self.fields).any(|_| {
            let is_data = is_data(self.forms[at]);
            at = end(self.forms, end(self.forms, at));
            is_data
        })
    }

    /// All fields with their values, in the order of insertion.
    #[inline]
    pub fn iter(&self) -> Fields<'a> {
        Fields { record: *self, index: 0, at: 0 }
    }
}

impl NameList for RecordView<'_> {
    fn for_each(&self, visit: &mut dyn FnMut(&[u8])) {
        if let Some(shape) = self.shape {
            return (0..self.fields).for_each(|index| visit(shape.name(index)));
        }
        let mut at = 0;
        for _ in 0..self.fields {
            let (name, value) = Value::at(self.forms, at);
            match name {
                Value::Bytes(text) => visit(text),
                typed => visit(typed.text(&mut TextBuffer::default())),
            }
            at = end(self.forms, value);
        }
    }
}

/// Iterates over the fields of a record.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    record: RecordView<'a>,
    index: usize,
    at: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Value<'a>, Value<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.record.fields {
            return None;
        }
        let name = match self.record.shape {
            Some(shape) => Value::Bytes(shape.name(self.index)),
            None => {
                let (name, behind) = Value::at(self.record.forms, self.at);
                self.at = behind;
                name
            }
        };
        let (value, behind) = Value::at(self.record.forms, self.at);
        (self.index, self.at) = (self.index + 1, behind);
        Some((name, value))
    }
}

/// Where a field is.
#[derive(Clone, Copy, Debug)]
struct Place {
    index: usize,
    /// Index in the forms of the first byte of the field: of its name, or of its value in a shaped record.
    start: usize,
    value: usize,
}

/// The shape's number in embedded bytes; `None` in those of a plain record.
#[inline]
fn shape_id(bytes: &[u8]) -> Option<u16> {
    match *bytes {
        [FIRST_BYTE, low, high, ..] => Some(u16::from_le_bytes([low, high])),
        _ => None,
    }
}

impl Record {
    /// The record with these [embedded bytes](Record::embedded), made with these shapes.
    pub fn of_embedded(bytes: &[u8], shapes: &Shapes) -> Self {
        let shape = shape_id(bytes).map(|id| Arc::clone(shapes.shared(id)));
        Record { bytes: bytes.to_vec(), shape, is_new_list: false }
    }

    /// Replaces the record by the one with these [embedded bytes](Record::embedded).
    pub fn assign_embedded(&mut self, bytes: &[u8], shapes: &Shapes) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.is_new_list = false;
        let id = shape_id(bytes);
        let same = self.shape.as_ref().filter(|shape| shapes.contains(shape)).map(|shape| shape.id());
        if id.is_none() || id != same {
            self.shape = id.map(|id| Arc::clone(shapes.shared(id)));
        }
    }

    /// The bytes that represent the record in an entry, if they are few enough. Valid with the shapes with which the record
    /// was last [settled](Record::settle).
    #[inline]
    pub fn embedded(&self) -> Option<&[u8]> {
        (self.bytes.len() <= EMBEDDED_BYTES_MAX).then_some(&self.bytes)
    }

    /// The record, for reading.
    #[inline]
    pub fn view(&self) -> RecordView<'_> {
        match &self.shape {
            None => RecordView::plain(&self.bytes),
            Some(shape) => RecordView::shaped(&self.bytes, shape),
        }
    }

    /// Number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Allocated bytes, without the shape's.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether it stays a record when a field of this name gets this value. Names of a shape are not counted, so the plain
    /// form may be longer than [`BYTES_MAX`] for the rest of the change.
    #[inline]
    pub fn fits(&self, name: &[u8], value: &[u8]) -> bool {
        let text_bytes = name.len().saturating_add(value.len());
        (self.len() < FIELDS_MAX || self.view().get(name).is_some())
            && self.bytes.len().saturating_add(text_bytes).saturating_add(2 * HEAD_BYTES_MAX) <= BYTES_MAX
    }

    /// Adds a field or replaces its value; returns whether it was added. A field that `is_new` is not searched for.
    ///
    /// The record must [fit](Record::fits) the field.
    pub fn set(&mut self, name: &[u8], value: &[u8], is_new: bool, shapes: &Shapes) -> bool {
        let place = if is_new { None } else { self.view().place(name) };
        let encoded = Encoded::of(value);
        if let Some(place) = place {
            let at = self.head_bytes() + place.value;
            let behind = end(&self.bytes, at);
            splice(&mut self.bytes, at..behind, &encoded);
            return false;
        }
        if let Some(shape) = self.shape.as_deref()
            && let Some(next) = shapes.with_field(shape, name)
        {
            self.take_shape(next);
        } else {
            self.make_plain();
            self.is_new_list = true;
            self.bytes[0] += 1;
            Encoded::of(name).write(&mut self.bytes);
        }
        encoded.write(&mut self.bytes);
        true
    }

    /// Removes a field; returns whether it existed.
    pub fn remove(&mut self, name: &[u8], shapes: &Shapes) -> bool {
        let Some(place) = self.view().place(name) else { return false };
        if self.len() == 1 {
            *self = Record::default();
            return true;
        }
        let head = self.head_bytes();
        if let Some(shape) = self.shape.as_deref()
            && let Some(next) = shapes.without_field(shape, place.index)
        {
            let at = head + place.value;
            let behind = end(&self.bytes, at);
            self.bytes.drain(at..behind);
            self.take_shape(next);
            return true;
        }
        self.make_plain();
        let place = self.view().place(name).expect("the field was just found");
        let (from, value) = (1 + place.start, 1 + place.value);
        let behind = end(&self.bytes, value);
        self.bytes.drain(from..behind);
        self.bytes[0] -= 1;
        self.is_new_list = true;
        true
    }

    /// Looks for the shape of its names, once it is complete; called before its [bytes](Record::embedded) are stored.
    pub fn settle(&mut self, shapes: &mut Shapes) {
        match &self.shape {
            Some(shape) if shapes.contains(shape) => return shapes.note_use(shape),
            Some(_) => {
                self.make_plain();
                self.is_new_list = true;
            }
            None => {}
        }
        if std::mem::take(&mut self.is_new_list)
            && !self.is_empty()
            && !self.view().has_data_names()
            && let Some(shape) = shapes.of_names(&self.view())
        {
            self.make_shaped(shape);
        }
    }

    #[inline]
    fn head_bytes(&self) -> usize {
        if self.shape.is_some() { SHAPED_HEAD_BYTES } else { 1 }
    }

    fn take_shape(&mut self, shape: Arc<Shape>) {
        self.bytes[1..SHAPED_HEAD_BYTES].copy_from_slice(&shape.id().to_le_bytes());
        self.shape = Some(shape);
    }

    /// Replaces the names of a plain record by a shape of the same names.
    fn make_shaped(&mut self, shape: Arc<Shape>) {
        let (mut kept, mut at) = (SHAPED_HEAD_BYTES, 1);
        // The first name has at least one byte, and the head grows by two.
        let first = end(&self.bytes, at);
        if first < SHAPED_HEAD_BYTES {
            let missing = SHAPED_HEAD_BYTES - first;
            self.bytes.splice(at..at, std::iter::repeat_n(0, missing));
            at += missing;
        }
        for _ in 0..shape.len() {
            let value = end(&self.bytes, at);
            let behind = end(&self.bytes, value);
            self.bytes.copy_within(value..behind, kept);
            kept += behind - value;
            at = behind;
        }
        self.bytes.truncate(kept);
        self.bytes[0] = FIRST_BYTE;
        self.take_shape(shape);
    }

    /// Writes the shape's names into the record.
    fn make_plain(&mut self) {
        let Some(shape) = self.shape.take() else { return };
        let mut plain = Vec::with_capacity(self.bytes.len() + shape.text_bytes() + shape.len());
        plain.push(FIRST_BYTE + shape.len() as u8);
        let mut at = SHAPED_HEAD_BYTES;
        for index in 0..shape.len() {
            Encoded::of(shape.name(index)).write(&mut plain);
            let behind = end(&self.bytes, at);
            plain.extend_from_slice(&self.bytes[at..behind]);
            at = behind;
        }
        self.bytes = plain;
    }

    /// Panics unless the invariants of this file hold.
    pub fn check(&self) {
        let view = self.view();
        assert_eq!(shape_id(&self.bytes), self.shape.as_ref().map(|shape| shape.id()));
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut fields = view.iter();
        for (name, _) in fields.by_ref() {
            names.push(name.text(&mut TextBuffer::default()).to_vec());
        }
        assert_eq!(fields.at, view.forms.len(), "bytes behind the last value");
        assert_eq!(names.len(), view.len());
        names.sort();
        assert!(names.is_sorted_by(|a, b| a < b), "a name occurs twice");
    }
}

/// Replaces a range of the bytes by a form.
#[inline]
fn splice(bytes: &mut Vec<u8>, replaced: Range<usize>, form: &Encoded<'_>) {
    let (old, added) = (bytes.len(), form.len());
    if added == replaced.len() {
        return form.write_to(&mut bytes[replaced]);
    }
    let new = old - replaced.len() + added;
    if new > old {
        bytes.resize(new, 0);
    }
    bytes.copy_within(replaced.end..old, replaced.start + added);
    bytes.truncate(new);
    form.write_to(&mut bytes[replaced.start..]);
}
