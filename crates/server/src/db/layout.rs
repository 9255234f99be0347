//! How a value truly lies in memory: what OBJECT LAYOUT tells, where OBJECT ENCODING says what a reference server
//! would do.

use super::object::{Value, by_type};
use super::value_type::ValueType;
use structures::key_table::Value as Stored;
use structures::listpack::Listpack;

/// Each type answers for its values. Counting may visit every page or node.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    pub structure: &'static str,
    /// What it is made of, and how many there are or how many bytes they take.
    pub parts: Vec<(&'static str, usize)>,
    /// Where contents are packed into buffers: the bytes in use, and those that the buffers have.
    pub packed: Option<Packed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    pub used_bytes: usize,
    pub held_bytes: usize,
}

impl Packed {
    /// The share of the buffers that is in use; all of nothing.
    pub fn fill(&self) -> f64 {
        if self.held_bytes == 0 { 1.0 } else { self.used_bytes as f64 / self.held_bytes as f64 }
    }
}

impl Layout {
    pub fn new(structure: &'static str, parts: Vec<(&'static str, usize)>) -> Self {
        Layout { structure, parts, packed: None }
    }

    pub fn packed(self, used_bytes: usize, held_bytes: usize) -> Self {
        Layout { packed: Some(Packed { used_bytes, held_bytes }), ..self }
    }

    /// Of what is one listpack.
    pub fn of_listpack(list: &Listpack) -> Self {
        Layout::new("listpack", vec![("pages", 1)]).packed(list.total_bytes(), list.memory_bytes())
    }
}

impl Value<'_> {
    pub fn layout(&self) -> Layout {
        match self.entry().value() {
            Stored::Integer(_) => Layout::new("integer in the entry", Vec::new()),
            Stored::Compressed(stored) => {
                Layout::new("compressed bytes in the entry", vec![("bytes", stored.len())])
            }
            Stored::Inline(_) => Layout::new("bytes in the entry", Vec::new()),
            Stored::Embedded(bytes) => {
                Layout::new("small packed list in the entry", vec![("bytes", bytes.len())])
            }
            Stored::Object(object) => by_type!(object, value => ValueType::layout(value)),
        }
    }
}
