//! Many leaves renamed or removed at once: all entries are scanned, and no member is hashed.

use super::{GROWTH, MemberIndex, bits_of};
use crate::work;

/// The new id of a removed leaf.
pub(in super::super) const GONE: u32 = u32::MAX;

impl MemberIndex {
    /// Replaces each leaf's id by the one at its index in `new_ids`, which is not higher, and drops the entries of
    /// removed leaves. The caller then calls [`MemberIndex::balance`] and [`MemberIndex::trim`].
    pub fn rename_leaves(&mut self, new_ids: &[u32]) {
        self.len = 0;
        for segment in self.chunks.iter_mut().flatten() {
            work::visited(1);
            let id_mask = !(u32::MAX << segment.id_bits);
            let mut kept = 0;
            for at in 0..segment.entries.len() {
                let entry = segment.entries[at];
                let id = new_ids[(entry & id_mask) as usize];
                // A dropped entry is written, too, and then overwritten: a branch would be mispredicted half the time.
                segment.entries[kept] = entry & !id_mask | id & id_mask;
                kept += usize::from(id != GONE);
            }
            segment.entries.truncate(kept);
            self.len += kept;
        }
    }

    /// Gives a leaf another id, which is not in use.
    pub fn rename_leaf(&mut self, from: u32, to: u32) {
        for segment in self.chunks.iter_mut().flatten() {
            work::visited(1);
            if segment.id_bits < bits_of(to) {
                if (0..segment.entries.len()).all(|at| segment.id_at(at) != from) {
                    continue;
                }
                segment.widen_ids(bits_of(to));
            }
            let (id_mask, changed) = (!(u32::MAX << segment.id_bits), from ^ to);
            for entry in &mut segment.entries {
                *entry ^= if *entry & id_mask == from { changed } else { 0 };
            }
        }
    }

    /// Frees the capacity of segments beyond what single removals would have left.
    pub fn trim(&mut self) {
        for segment in self.chunks.iter_mut().flatten() {
            let bytes = segment.bytes();
            if segment.entries.capacity() > segment.entries.len() + 3 * GROWTH {
                segment.entries.shrink_to(segment.entries.len() + GROWTH);
            }
            self.entries_bytes = self.entries_bytes + segment.bytes() - bytes;
        }
    }
}
