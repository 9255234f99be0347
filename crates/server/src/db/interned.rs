//! What values in entries refer to by number instead of containing it: dictionaries of compressed strings, and shapes of
//! records. One for all databases of a server.

use super::Db;
use super::compression::dictionary::Dictionaries;
use structures::record::shape::Shapes;

/// Dictionaries and shapes; see the head of this file.
#[derive(Default)]
pub struct Interned {
    pub(super) dictionaries: Dictionaries,
    pub(super) shapes: Shapes,
}

impl Interned {
    /// State for new databases that are loaded with values of the same keys.
    pub(super) fn beside(&self) -> Interned {
        Interned { dictionaries: self.dictionaries.share(), shapes: Shapes::default() }
    }
}

/// Figures of the shapes of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeFigures {
    /// Number of shapes.
    pub shapes: usize,
    /// Their memory, with that of lists that may become shapes.
    pub memory_bytes: usize,
}

impl Db {
    /// Figures of the shapes of records.
    pub fn shape_figures(&self) -> ShapeFigures {
        let shapes = &self.interned.shapes;
        ShapeFigures { shapes: shapes.len(), memory_bytes: shapes.memory_bytes() }
    }
}
