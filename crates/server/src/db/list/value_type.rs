//! What all types answer, of lists.

use super::List;
use crate::db::layout::Layout;
use crate::db::value_type::ValueType;
use structures::packed_list::PackedList;
use structures::size_class::usable_size;

impl ValueType for List {
    const NAME: &'static str = "list";

    fn memory_bytes(&self) -> usize {
        usable_size(size_of::<PackedList>()) + self.packed.memory_bytes()
    }

    fn elements(&self) -> Option<usize> {
        Some(self.len())
    }

    fn encoding_name(&self) -> &'static str {
        if self.outgrown { "quicklist" } else { "listpack" }
    }

    fn layout(&self) -> Layout {
        let (plain, compressed) = self.packed.plain_and_compressed_nodes();
        let parts =
            vec![("nodes", self.packed.node_count()), ("large-elements", plain), ("compressed", compressed)];
        Layout::new("packed list", parts).packed(self.packed.used_bytes(), self.packed.node_bytes())
    }

    fn check(&self) {
        self.packed.check_with_any_limits();
    }
}
