//! Hashes: fields with values. A compact list while small, packed pages beyond.

use super::collection::{Collection, EncodingLimits, Means};
use super::object::{Kind, Object, Text};
use structures::hash::HashSeed;
use structures::listpack::{Element, Listpack, Position};
use structures::packed_map::{Expiry, Insertion, PackedMap};
use structures::random::Random;

/// A field's value, or a field: as its bytes or as the integer they spell.
pub type Cell<'a> = Text<'a>;

#[derive(Clone, Debug)]
pub struct Hash {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Field, value, field, value... in order of insertion.
    Compact(Listpack),
    Packed(Box<PackedMap>),
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
}

fn cell(element: Element<'_>) -> Cell<'_> {
    match element {
        Element::Integer(n) => Text::Integer(n),
        Element::Bytes(bytes) => Text::Bytes(bytes),
    }
}

impl Hash {
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Compact(list) => list.len() / 2,
            Form::Packed(map) => map.len(),
        }
    }

    /// Bytes held from the allocator, this value itself left out.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Compact(list) => list.memory_bytes(),
            Form::Packed(map) => size_of::<PackedMap>() + map.memory_bytes(),
        }
    }

    pub fn encoding_name(&self) -> &'static str {
        match &self.form {
            Form::Compact(_) => "listpack",
            Form::Packed(_) => "hashtable",
        }
    }

    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<Cell<'_>> {
        match &self.form {
            Form::Compact(list) => find(list, field).map(|(_, value)| cell(list.get(value))),
            Form::Packed(map) => map.get(field).map(Text::Bytes),
        }
    }

    pub fn contains(&self, field: &[u8]) -> bool {
        self.get(field).is_some()
    }

    /// Adds the field or replaces its value; whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], means: &Means<'_>) -> bool {
        let limit = means.limits.hash_listpack_value_bytes_max;
        if field.len() > limit || value.len() > limit {
            self.unpack(means.seed);
        }
        match &mut self.form {
            Form::Packed(map) => map.insert(field, value, Expiry::Clear) == Insertion::Added,
            Form::Compact(list) => {
                if let Some((_, at)) = find(list, field) {
                    list.replace(at, value);
                    return false;
                }
                list.push_back(field);
                list.push_back(value);
                if list.len() / 2 > means.limits.hash_listpack_entries_max || !list.fits(0, 0) {
                    self.unpack(means.seed);
                }
                true
            }
        }
    }

    /// Whether the field was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
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

    fn unpack(&mut self, seed: HashSeed) {
        let Form::Compact(list) = &self.form else { return };
        let mut map = PackedMap::new(seed);
        let mut elements = list.iter();
        while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
            map.insert(&field.to_vec(), &value.to_vec(), Expiry::Clear);
        }
        self.form = Form::Packed(Box::new(map));
    }

    /// All fields with their values.
    pub fn for_each(&self, visit: &mut dyn FnMut(Cell<'_>, Cell<'_>)) {
        match &self.form {
            Form::Packed(map) => map.iter().for_each(|(f, v)| visit(Text::Bytes(f), Text::Bytes(v))),
            Form::Compact(list) => {
                let mut elements = list.iter();
                while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
                    visit(cell(field), cell(value));
                }
            }
        }
    }

    /// Visits some fields and returns the next cursor, 0 at the end; a compact hash is visited whole.
    pub fn scan(&self, cursor: u64, visit: &mut dyn FnMut(Cell<'_>, Cell<'_>)) -> u64 {
        match &self.form {
            Form::Packed(map) => map.scan(cursor, &mut |f, v| visit(Text::Bytes(f), Text::Bytes(v))),
            Form::Compact(_) => {
                self.for_each(visit);
                0
            }
        }
    }

    /// One field, each as likely as any other.
    pub fn random(&self, random: &mut Random) -> Option<(Cell<'_>, Cell<'_>)> {
        match &self.form {
            Form::Packed(map) => map.random(random).map(|(f, v)| (Text::Bytes(f), Text::Bytes(v))),
            Form::Compact(list) if list.is_empty() => None,
            Form::Compact(list) => {
                let field = list.at(2 * random.below(self.len() as u64) as i64)?;
                Some((cell(list.get(field)), cell(list.get(list.next(field)?))))
            }
        }
    }
}

/// Where the field and its value are.
fn find(list: &Listpack, field: &[u8]) -> Option<(Position, Position)> {
    let at = list.find(list.first()?, field, 1)?;
    Some((at, list.next(at).expect("a field is followed by its value")))
}
