//! The actual memory layout of a value, as OBJECT LAYOUT answers it; OBJECT ENCODING answers the reference's encoding of
//! such a value.

use super::object::{Value, by_embedded, by_type};
use super::value_type::ValueType;
use structures::key_table::Value as Stored;
use structures::listpack::Listpack;

/// Layout of a value, computed by its type. Counting may visit every page or node.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Name of the structure.
    pub structure: &'static str,
    /// Its parts with their numbers or bytes.
    pub parts: Vec<(&'static str, usize)>,
    /// For contents packed into buffers: the bytes in use, and the buffers' sizes.
    pub packed: Option<Packed>,
}

/// Sizes of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Bytes in use.
    pub used_bytes: usize,
    /// Size of the buffers.
    pub held_bytes: usize,
}

impl Packed {
    /// The used share of the buffers; 1 without buffers.
    pub fn fill(&self) -> f64 {
        if self.held_bytes == 0 { 1.0 } else { self.used_bytes as f64 / self.held_bytes as f64 }
    }
}

impl Layout {
    /// A layout without packed contents.
    pub fn new(structure: &'static str, parts: Vec<(&'static str, usize)>) -> Self {
        Layout { structure, parts, packed: None }
    }

    /// The same layout with packed contents.
    pub fn packed(self, used_bytes: usize, held_bytes: usize) -> Self {
        Layout { packed: Some(Packed { used_bytes, held_bytes }), ..self }
    }

    /// Layout of a value that is one listpack.
    pub fn of_listpack(list: &Listpack) -> Self {
        Layout::new("listpack", vec![("pages", 1)]).packed(list.total_bytes(), list.memory_bytes())
    }
}

impl Value<'_> {
    /// The value's layout.
    pub fn layout(&self) -> Layout {
        match self.entry().value() {
            Stored::Integer(_) => Layout::new("integer in the entry", Vec::new()),
            Stored::Compressed(stored) => {
                Layout::new("compressed bytes in the entry", vec![("bytes", stored.len())])
            }
            Stored::Inline(_) => Layout::new("bytes in the entry", Vec::new()),
            Stored::Embedded(bytes) => {
                by_embedded!(bytes, Type => Type::embedded_layout(bytes, self.interned()))
            }
            Stored::Object(object) => by_type!(object, value => ValueType::layout(value)),
        }
    }
}
